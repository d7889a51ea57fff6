"""Finding nodes in all steps and ranks of a file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from msprobe_builder.base.codes import Source
from msprobe_builder.database.read.cells import integer, number, optional_integer, text
from msprobe_builder.database.read.fitting import (
    FindNames,
    fitting,
    packed_nodes,
    stored_nodes,
)
from msprobe_builder.database.read.graphs import Graph, read_graphs
from msprobe_builder.database.read.names import NAME_SQL, read_names

MAX_PAGE = 10_000

EXECUTION, SEVERITY = "execution", "severity"
ORDERS = {
    EXECUTION: "graph.step, graph.rank, graph.side, node.node_id",
    # Unmatched nodes come after all grades: nothing is known of them.
    SEVERITY: "node.grade = 6, node.grade DESC, ifnull(node.error, -1) DESC,"
    " graph.step, graph.rank, graph.side, node.node_id",
}


def _lower(value: str) -> str:
    """Lower case as SQLite makes it: of ASCII letters alone."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in value)


def _path(value: str) -> str:
    return _lower(value).removeprefix("module.")


def _compact(value: str) -> str:
    return value.replace(" ", "")


# The name of a module ends in its class, which a path may leave out. CROSS JOIN: modules first, or
# SQLite would look at every module for every node.
_BELOW = """node.node_id IN (
    SELECT inner.node_id FROM node AS module JOIN text AS name ON module.stem_id = name.text_id
    CROSS JOIN node AS inner ON inner.node_id BETWEEN module.node_id AND module.subtree_end
    WHERE module.kind = 0 AND lower(name.value) IN (:value, 'module.' || :value)
    OR module.kind = 0
        AND lower(substr(name.value, 1, length(:value) + 8)) = 'module.' || :value || '.'
        AND instr(substr(name.value, length(:value) + 9), '.') = 0)"""

_OPERATOR = (
    "stem_id IN (SELECT text_id FROM text WHERE lower(value) = :value"
    " OR lower(substr(value, -length(:value) - 1)) = '.' || :value)"
)
_OF_TENSORS = (
    "node.node_id IN (SELECT tensor.node_id FROM tensor WHERE {} IN"
    " (SELECT text_id FROM text WHERE replace(value, ' ', '') IN"
    " (:value, 'torch.' || :value, '[' || :value || ']')))"
)


# Of any frame of the stack: a file by the end of its path, with or without the line.
_CODE = """node.stack_id IN (
    SELECT stack_id FROM stack JOIN frame USING (frame_id) JOIN text ON text_id = file_id
    WHERE lower(value || ':' || line) = :value OR lower(value) = :value
    OR substr(lower(value || ':' || line), -length(:value) - 1) = '/' || :value
    OR substr(lower(value), -length(:value) - 1) = '/' || :value)"""


@dataclass(frozen=True)
class TextCondition:
    """A test in SQL of what stands at ``:value``, and how that is written there."""

    sql: str
    clean: Callable[[str], str]


# What can be asked for as a text of its own, by the name that requests give it.
TEXT_CONDITIONS = {
    "operator": TextCondition(_OPERATOR, _lower),
    "dtype": TextCondition(_OF_TENSORS.format("dtype_id"), _compact),
    "input_dtype": TextCondition(_OF_TENSORS.format("section IN (0, 2) AND dtype_id"), _compact),
    "output_dtype": TextCondition(_OF_TENSORS.format("section IN (1, 3) AND dtype_id"), _compact),
    "shape": TextCondition(_OF_TENSORS.format("shape_id"), _compact),
    "code": TextCondition(_CODE, _lower),  # model.py:193, or model.py for all of its lines
    "below": TextCondition(_BELOW, _path),  # path of a module: itself and everything below it
}


@dataclass(frozen=True)
class Search:
    """What to look for; None and empty mean anything."""

    name: str = ""
    regex: bool = False
    texts: Mapping[str, str] = field(default_factory=dict)  # by name of TEXT_CONDITIONS
    direction: int | None = None
    grades: tuple[int, ...] = ()
    overflows: tuple[int, ...] = ()
    reasons: tuple[str, ...] = ()
    sources: tuple[int, ...] = ()
    side: int | None = None
    step: int | None = None
    rank: int | None = None
    order: str = EXECUTION
    offset: int = 0
    limit: int = 200


@dataclass(frozen=True)
class Hit:
    """A node that was found."""

    step: int
    rank: int
    side: int
    index: int
    name: str
    grade: int
    error: float | None
    overflow: int
    unmatched_reason: str
    module: str  # name stem of the module around it, empty for the root
    source: int | None = None  # Source of its match
    certainty: float | None = None


def search(
    connection: sqlite3.Connection, wanted: Search, find: FindNames, changes: int | None = None
) -> tuple[list[Hit], int]:
    """One page of hits, and how many there are on all pages; ``find`` knows the expressions.

    ``changes`` is what SQLite has counted in the header of the file; without it no column that the
    file keeps packed is believed.
    """
    tests, bound = _tests(wanted)
    # With the graphs in order the nodes come in order too: nothing is left to sort.
    tables = (
        "graph CROSS JOIN node ON node_id BETWEEN first_node AND first_node + node_count - 1"
        " JOIN text ON text_id = stem_id"
    )
    if wanted.reasons:
        tables += " JOIN unmatched USING (node_id) JOIN unmatched_reason USING (reason)"
    query = f"FROM {tables} WHERE {' AND '.join(tests) or '1'} ORDER BY "
    if wanted.name and wanted.regex:
        named = None
        if changes is not None and all(test.startswith("graph.") for test in tests):
            named = packed_nodes(connection, _graphs(connection, wanted), changes)
        if named is None:
            named = stored_nodes(connection, query + ORDERS[EXECUTION], bound)
        nodes = named.ids[fitting(connection, named, wanted.name, find)].tolist()
        if wanted.order != EXECUTION:
            nodes = _ordered(connection, nodes, ORDERS[wanted.order])
    else:
        rows = connection.execute(f"SELECT node_id {query} {ORDERS[wanted.order]}", bound)
        nodes = [node for (node,) in rows]
    page = nodes[wanted.offset : wanted.offset + wanted.limit]
    return _read_hits(connection, page), len(nodes)


def _graphs(connection: sqlite3.Connection, wanted: Search) -> list[Graph]:
    """Those that are searched, in the order of execution."""
    return [
        graph
        for graph in read_graphs(connection)
        if wanted.step in (None, graph.step)
        and wanted.rank in (None, graph.rank)
        and wanted.side in (None, graph.side)
    ]


def _ordered(connection: sqlite3.Connection, nodes: list[int], order: str) -> list[int]:
    rows = connection.execute(
        "SELECT node_id FROM json_each(?) AS found JOIN node ON node_id = found.value"
        f" JOIN graph USING (graph_id) ORDER BY {order}",
        (json.dumps(nodes),),
    )
    return [node for (node,) in rows]


def _tests(wanted: Search) -> tuple[list[str], dict[str, object]]:
    """Conditions in SQL, and the values that they are bound to."""
    tests: list[str] = []
    bound: dict[str, object] = {}
    for column, place in (("side", wanted.side), ("step", wanted.step), ("rank", wanted.rank)):
        if place is not None:
            tests.append(f"graph.{column} = :{column}")
            bound[column] = place
    if wanted.grades:
        tests.append("node.grade IN (SELECT value FROM json_each(:grades))")
        bound["grades"] = json.dumps(wanted.grades)
    if wanted.overflows:
        tests.append(
            "node.overflow IS NOT NULL AND node.overflow IN (SELECT value FROM json_each(:levels))"
        )
        bound["levels"] = json.dumps(wanted.overflows)
    if wanted.reasons:
        tests.append("unmatched_reason.name IN (SELECT value FROM json_each(:reasons))")
        bound["reasons"] = json.dumps(wanted.reasons)
    if wanted.sources:
        tests.append(
            "node.node_id IN (SELECT iif(graph.side = 0, npu_node, bench_node) FROM match"
            " WHERE source IN (SELECT value FROM json_each(:sources)))"
        )
        bound["sources"] = json.dumps(wanted.sources)
    for name, value in wanted.texts.items():
        if value:
            condition = TEXT_CONDITIONS[name]
            tests.append(condition.sql.replace(":value", f":{name}"))
            bound[name] = condition.clean(value)
    if wanted.direction is not None:
        tests.append("node.direction = :direction")
        bound["direction"] = wanted.direction
    words = [] if wanted.regex else _lower(wanted.name).split()
    if len(words) == 1 or wanted.name.strip() != wanted.name:
        tests.append(f"instr(lower({NAME_SQL}), :name)")
        bound["name"] = _lower(wanted.name)
    elif words:
        own = [f"lower({NAME_SQL}) || '.' GLOB :word{at}" for at in range(len(words))]
        around = [f"lower({_AROUND}) || '.' GLOB :word{at}" for at in range(len(words))]
        tests += [f"({one} OR {other})" for one, other in zip(own, around, strict=True)]
        tests.append(f"({' OR '.join(own)})")  # not all that lies in a module of such a name
        bound |= {f"word{at}": _held(word) for at, word in enumerate(words)}
    return tests, bound


# Stem of the module that a node lies in.
_AROUND = """ifnull((SELECT value FROM node AS above
    LEFT JOIN node AS outer ON outer.node_id = above.parent_id
    JOIN text ON text_id = iif(above.kind = 0, above.stem_id, outer.stem_id)
    WHERE above.node_id = node.parent_id), '')"""


def _held(word: str) -> str:
    """What a text with a word in it matches; ``layers.1`` is not in ``layers.10``."""
    escaped = "".join(f"[{letter}]" if letter in "*?[" else letter for letter in word)
    return f"*{escaped}[^0-9]*" if word[-1].isdigit() else f"*{escaped}*"


def _read_hits(connection: sqlite3.Connection, nodes: list[int]) -> list[Hit]:
    names = read_names(connection, nodes)
    rows = connection.execute(
        "SELECT node.node_id, step, rank, side, node.node_id - first_node, grade, error, overflow,"
        " unmatched_reason.name, (SELECT value FROM node AS above"
        " LEFT JOIN node AS outer ON outer.node_id = above.parent_id"
        " JOIN text ON text_id = iif(above.kind = 0, above.stem_id, outer.stem_id)"
        " WHERE above.node_id = node.parent_id), match.source, match.certainty"
        " FROM json_each(?) AS wanted JOIN node ON node.node_id = wanted.value"
        " JOIN graph USING (graph_id) LEFT JOIN unmatched ON unmatched.node_id = node.node_id"
        " LEFT JOIN unmatched_reason USING (reason) LEFT JOIN match ON match.npu_node ="
        " iif(side = 0, node.node_id,"
        "  (SELECT npu_node FROM match AS back WHERE back.bench_node = node.node_id))"
        " ORDER BY wanted.key",
        (json.dumps(nodes),),
    )
    return [
        Hit(
            step=integer(step),
            rank=integer(rank),
            side=integer(side, 0, 1),
            index=integer(index),
            name=names[node],
            grade=integer(grade, 0, 6),
            error=number(error),
            overflow=optional_integer(overflow, 1, 3) or 0,
            unmatched_reason=text(reason),
            module=text(module),
            source=optional_integer(source, 0, len(Source) - 1),
            certainty=number(certainty),
        )
        for (
            node,
            step,
            rank,
            side,
            index,
            grade,
            error,
            overflow,
            reason,
            module,
            source,
            certainty,
        ) in rows
    ]
