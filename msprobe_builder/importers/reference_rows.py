"""The files of the tool this one replaces, read back into dumps: databases, before them JSON.

Such a file holds one row per node with everything it knew as text: the parent, the parameters
with their statistics, and the partner as a path of names. Its own metrics are left aside: they
follow from the statistics and are measured again.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.limits import HIGHEST_NUMBER, LARGEST_JSON, LARGEST_REFERENCE_TEXT
from msprobe_builder.database.open import connected, found
from msprobe_builder.dump.names import ROOT, parse_gradients
from msprobe_builder.dump.source import InMemoryDump
from msprobe_builder.files.regular import read_bytes

Place = tuple[int, int]  # step and rank

_SIDES = {"NPU": 0, "BENCH": 1}
_COLLECTIONS = ("8", "9")  # groups of calls, which every build makes by itself
_TASKS = {"summary": "statistics", "all": "statistics", "md5": "statistics", "": "statistics"}
_TASKS |= {"structure": "structure", "statistics": "statistics", "tensor": "statistics"}
_NO_CHECKSUM = "00000000"  # what stands where none was recorded
_PLACE = re.compile(r"(?:step(\d{1,9}))?[^0-9]*rank(\d{1,9})")
_STATISTICS = ("Max", "Min", "Mean", "Norm")
_NODES = (
    "SELECT step, rank, data_source, node_name, node_type, up_node, matched_node_link, stack_id,"
    " input_data, output_data FROM tb_nodes ORDER BY step, rank, data_source, node_order"
)


@dataclass
class _Graph:
    """What is read of one side of a step and rank."""

    construct: dict[str, str | None] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    stacks: dict[str, Any] = field(default_factory=dict)
    groups: dict[str, str | None] = field(default_factory=dict)  # parents of collections


@dataclass(frozen=True)
class ReferenceFile:
    """Both sides by step and rank, the pairs that were matched, and whether data were real."""

    npu: dict[Place, InMemoryDump]
    bench: dict[Place, InMemoryDump]
    pairs: list[dict[str, object]]  # as in a match file
    had_real_data: bool
    checks_overflow: bool


class UnlikeError(Exception):
    """What stands in a file is not what its builder writes there."""


def read_reference(path: Path) -> ReferenceFile:
    """Read a whole file, changing nothing; UsageError or BuildError in one sentence."""
    try:
        if path.suffix == ".vis":  # of versions before 8
            return _read_text(path)
        with _opened(path) as connection:
            return _read(connection, path.name)
    except UnlikeError as error:
        raise BuildError(
            f"{path} is not as the tool it comes from writes such files: {error}."
            " Build it again from the dumps with msprobe-build."
        ) from error


def _read_text(path: Path) -> ReferenceFile:
    """A file of JSON: both sides of one step and rank, or one side alone."""
    try:
        text = read_bytes(path, LARGEST_JSON).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnlikeError("it is no text") from error
    content = _parse(text, dict, LARGEST_JSON)
    named = _PLACE.search(path.stem)
    step, rank = (int(one or 0) for one in named.groups()) if named else (0, 0)
    place = step, rank
    task = str(content.get("task") or "")
    if task not in _TASKS:
        raise UnlikeError(f"its task is {task[:40]!r}")
    pairs: list[dict[str, object]] = []
    dumps: list[dict[Place, InMemoryDump]] = []
    is_comparison = "Bench" in content
    for key in ("NPU", "Bench") if is_comparison else ("",):
        side = content.get(key) if key else content
        nodes = side.get("node") if isinstance(side, dict) else None
        if not isinstance(nodes, dict):
            raise UnlikeError(f"{key or 'it'} holds no nodes")
        graph = _Graph()
        for name, node in nodes.items():
            if not isinstance(node, dict):
                raise UnlikeError(f"node {name[:80]} is no object")
            link = node.get("matched_node_link")
            cells = (node.get(one) or {} for one in ("input_data", "output_data"))
            inputs, outputs = (one if isinstance(one, dict) else {} for one in cells)
            above = node.get("upnode")
            parent = None if above in (None, "", "None", ROOT) else str(above)
            is_added = _add(
                graph, name, str(node.get("node_type")), parent, inputs, outputs,
                node.get("stack_info"),
            )  # fmt: skip
            if is_added and key == "NPU" and isinstance(link, list) and link:
                pairs.append({"npu": name, "bench": str(link[-1]), "step": step, "rank": rank})
        dumps.append({place: _dump(graph, _TASKS[task], path.name)})
    return ReferenceFile(
        dumps[0],
        dumps[1] if is_comparison else {},
        pairs,
        had_real_data=task in ("all", "tensor"),
        checks_overflow=content.get("OverflowCheck") is True,
    )


def _add(
    graph: _Graph,
    node: str,
    kind: str,
    above: str | None,
    inputs: dict[str, Any],
    outputs: dict[str, Any],
    lines: Any,
) -> bool:
    """Take a node into a graph; whether it is a call or module."""
    if node == ROOT:
        return False
    if kind in _COLLECTIONS:
        graph.groups[node] = above
        return False
    graph.construct[node] = above
    record = _record(node, inputs, outputs)
    if record is not None:
        graph.data[node] = record
    if isinstance(lines, list) and lines and all(isinstance(line, str) for line in lines):
        graph.stacks[node] = lines
    return True


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    with connected(found(path)) as connection:
        connection.execute("BEGIN")
        connection.execute("PRAGMA query_only = ON")
        tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0"
        lacking = {"tb_nodes", "tb_config", "tb_stack"} - {
            name for (name,) in connection.execute(tables)
        }
        if lacking:
            raise UsageError(
                f"{path} has no table {min(lacking)}, so it is no database of the tool that"
                " msprobe-build import reads; give a .vis.db of version 8 or 26."
            )
        yield connection


def _read(connection: sqlite3.Connection, name: str) -> ReferenceFile:
    settings = connection.execute(
        "SELECT task, overflow_check, graph_type FROM tb_config"
    ).fetchall()
    if len(settings) != 1:
        raise UnlikeError(f"it has {len(settings)} rows of settings")
    [(task, overflow, graph_type)] = settings
    if str(task or "") not in _TASKS:
        raise UnlikeError(f"its task is {str(task)[:40]!r}")
    stacks = dict(connection.execute("SELECT id, stack_info FROM tb_stack"))
    sides: tuple[dict[Place, _Graph], dict[Place, _Graph]] = ({}, {})
    pairs: list[dict[str, object]] = []
    for step, rank, source, node, kind, parent, link, stack, inputs, outputs in connection.execute(
        _NODES
    ):
        place = _number(step), _number(rank)
        side = _SIDES.get(str(source).upper())
        if side is None:
            raise UnlikeError(f"{str(source)[:40]!r} is no side")
        graph = sides[side].setdefault(place, _Graph())
        above = None if parent in (None, "", ROOT) else str(parent)
        cells = _parse(inputs, dict), _parse(outputs, dict), _parse(stacks.get(stack), list)
        is_added = _add(graph, str(node), str(kind), above, *cells)
        path = _parse(link, list)
        if side == 0 and path and is_added:
            pair = {"npu": str(node), "bench": str(path[-1])}
            pairs.append({**pair, "step": place[0], "rank": place[1]})
    npu, bench = (
        {place: _dump(graph, _TASKS[str(task or "")], name) for place, graph in graphs.items()}
        for graphs in sides
    )
    if not npu:
        raise UnlikeError("it holds no node of the side under debug")
    is_comparison = graph_type == "compare" and bool(bench)
    return ReferenceFile(
        npu,
        bench if is_comparison else {},
        pairs if is_comparison else [],
        had_real_data=task in ("all", "tensor"),
        checks_overflow=overflow == 1,
    )


def _dump(graph: _Graph, task: str, name: str) -> InMemoryDump:
    def outside(parent: str | None) -> str | None:
        seen: set[str] = set()
        while parent in graph.groups and parent not in seen:
            seen.add(parent)
            parent = graph.groups[parent]
        return None if parent in seen else parent

    construct = {node: outside(parent) for node, parent in graph.construct.items()}
    dump = {"task": task, "level": "mix", "data": graph.data}
    return InMemoryDump(dump, construct, graph.stacks, f"imported from {name}")


def _record(node: str, inputs: dict[str, Any], outputs: dict[str, Any]) -> dict[str, Any] | None:
    """The record of a call as dump.json would have it; None when nothing is known of it."""
    record: dict[str, Any] = {}
    for name, value in [*inputs.items(), *outputs.items()]:
        if not name.startswith(f"{node}."):
            raise UnlikeError(f"{node[:80]} has a parameter {name[:80]}")
        if not isinstance(value, dict):
            raise UnlikeError(f"parameter {name[:80]} is no object")
        section, _, rest = name[len(node) + 1 :].partition(".")
        if parse_gradients(node):
            record[".".join(filter(None, (section, rest)))] = [_leaf(value)]
        elif section in ("input", "output", "parameters"):
            record.setdefault(section, {})[rest] = _leaf(value)
        else:
            raise UnlikeError(f"parameter {name[:80]} is neither input nor output")
    return record or None


def _leaf(value: dict[str, Any]) -> dict[str, Any] | None:
    """A tensor or plain value as dump.json has it; everything was turned into text."""
    kind = value.get("type")
    if kind in (None, "None", "null"):
        return None
    if "value" in value:
        return {"type": str(kind), "value": value["value"]}
    leaf: dict[str, Any] = {
        "type": str(kind),
        "dtype": value.get("dtype"),
        "shape": _shape(value.get("shape")),
    }
    leaf |= {name: _statistic(value.get(name)) for name in _STATISTICS}
    if value.get("requires_grad") in ("True", "False"):
        leaf["requires_grad"] = value["requires_grad"] == "True"
    if isinstance(value.get("md5"), str) and value["md5"] != _NO_CHECKSUM:
        leaf["md5"] = value["md5"]
    return leaf


def _shape(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _statistic(value: Any) -> float | None:
    if value in ("True", "False"):  # of tensors of truth values
        return float(value == "True")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= HIGHEST_NUMBER:
        raise UnlikeError(f"{str(value)[:40]!r} is no step or rank")
    return value


def _parse(text: Any, kind: type[Any], most: int = LARGEST_REFERENCE_TEXT) -> Any:
    """A value of JSON in a text cell; empty where there is none."""
    if text in (None, ""):
        return kind()
    if not isinstance(text, str) or len(text) > most:
        raise UnlikeError("a cell that should hold JSON does not")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnlikeError("a cell that should hold JSON does not") from error
    if not isinstance(found, kind):
        raise UnlikeError(f"a cell that should hold a {kind.__name__} holds another value")
    return found
