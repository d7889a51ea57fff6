"""The calls of one step and rank in order of execution, both sides complete."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from msprobe_builder.base.codes import CallRole, Grade, words
from msprobe_builder.database.read.cells import MAX_NODE, integer, number, optional_integer
from msprobe_builder.database.read.graphs import read_graphs
from msprobe_builder.database.read.groups import NamedGroup, groups_of_nodes
from msprobe_builder.database.read.names import read_names, stored_name
from msprobe_builder.database.read.parameters import (
    Comparison,
    Parameter,
    ParameterRow,
    pair_parameters,
    read_comparisons_of,
    read_parameters_of,
)

_GRADES = words(Grade)
_ROLES = words(CallRole)
_AT_ONCE = 1000  # calls that are held
_NODES = (
    "SELECT own.node_id, own.kind, stem.value, own.direction, own.call,"
    " other.kind, other_stem.value, other.direction, other.call,"
    " bench_node, other.subtree_end, own.stack_id, own.grade, role, shown, expected"
    " FROM node AS own JOIN text AS stem ON stem.text_id = own.stem_id"
    " LEFT JOIN match ON npu_node = own.node_id"
    " LEFT JOIN node AS other ON other.node_id = bench_node"
    " LEFT JOIN text AS other_stem ON other_stem.text_id = other.stem_id"
    " LEFT JOIN role ON role.node_id = own.node_id WHERE own.node_id BETWEEN ? AND ?"
    " ORDER BY own.subtree_end, own.node_id DESC"
)
_PARTNER = 9  # its place among these columns
_ALONE = (
    "SELECT subtree_end, -node_id FROM node WHERE node_id BETWEEN ? AND ?"
    " AND node_id NOT IN (SELECT bench_node FROM match) ORDER BY subtree_end, node_id DESC"
)


_ORIGINS = (
    "SELECT node_id, rank FROM json_each(?) AS wanted JOIN origin ON node_id = wanted.value"
    " ORDER BY node_id, rank"
)


@dataclass(frozen=True)
class Place:
    """Both sides of one step and rank as ranges of nodes; an empty range where one is missing."""

    step: int
    rank: int
    npu: range
    bench: range


class Call(NamedTuple):
    """A node that has values, with those of its partner; ``order`` counts nodes from 0."""

    npu_name: str  # empty when only bench has it
    bench_name: str
    rows: list[ParameterRow]
    grade: str
    stack_id: int | None
    order: int
    role: str = ""  # of the verdict; empty where there is none
    times_expected: float | None = None  # its error against what its inputs make normal
    group: NamedGroup | None = None  # that it belongs to; it has no partner of its own then
    npu_ranks: tuple[int, ...] = ()  # that a merged node came from
    bench_ranks: tuple[int, ...] = ()


def read_places(connection: sqlite3.Connection) -> list[Place]:
    """Every step and rank of a file, in order."""
    sides: dict[tuple[int, int], dict[int, range]] = {}
    for graph in read_graphs(connection):
        found = sides.setdefault((graph.step, graph.rank), {})
        found[graph.side] = range(graph.first, graph.last + 1)
    return [
        Place(step, rank, found.get(0, range(0)), found.get(1, range(0)))
        for (step, rank), found in sorted(sides.items())
    ]


def read_calls(
    connection: sqlite3.Connection,
    place: Place,
    only: Container[int] | None = None,
    *,
    metrics: bool = True,
) -> Iterator[Call]:
    """Calls with values in the order in which they ended on the npu side.

    ``only`` restricts them to nodes, of either side, by their ids. Comparisons have no metrics
    where they are not wanted.
    So the first value that is wrong is the first that came out wrong: a module stands behind the
    calls inside it, as in dump.json. What only bench has stands before the first matched call
    that ended later on bench, as in a comparison of two texts line by line.
    """
    alone = connection.execute(_ALONE, _bounds(place.bench)).fetchall()
    if only is not None:
        alone = [(end, node) for end, node in alone if -node in only]
    done = 0
    groups = groups_of_nodes(connection, place.step, place.rank)
    rows = connection.execute(_NODES, _bounds(place.npu))
    while chunk := rows.fetchmany(_AT_ONCE):
        if only is not None:
            chunk = [row for row in chunk if row[0] in only or row[_PARTNER] in only]
        values = _values_of(connection, chunk, metrics=metrics)
        for node, *columns, partner, end, stack, grade, role, shown, expected in chunk:
            order = node - place.npu.start
            before = None if partner is None else (integer(end), -partner)
            while before is not None and done < len(alone) and alone[done] < before:
                yield from _only_bench(connection, -alone[done][1], order, groups)
                done += 1
            pairs = pair_parameters(
                values.parameters[node],
                [] if partner is None else values.parameters[partner],
                [] if partner is None else values.comparisons[node],
            )
            if pairs:
                own, other = columns[:4], columns[4:]
                name = stored_name(*own)
                yield Call(
                    npu_name=name,
                    bench_name=""
                    if partner is None
                    else name
                    if own == other
                    else stored_name(*other),
                    rows=pairs,
                    grade=_GRADES[integer(grade, 0, len(_GRADES) - 1)],
                    stack_id=optional_integer(stack),
                    order=order,
                    role="" if partner is None else _role(role),
                    times_expected=_times(number(shown), number(expected)),
                    group=groups.get(node),
                    npu_ranks=values.ranks.get(node, ()),
                    bench_ranks=values.ranks.get(partner, ()),
                )
    for _, node in alone[done:]:
        yield from _only_bench(connection, -node, len(place.npu), groups)


@dataclass(frozen=True)
class _Values:
    """What some nodes and their partners hold, by node."""

    parameters: dict[int, list[Parameter]]
    comparisons: dict[int, list[Comparison]]
    ranks: dict[int, tuple[int, ...]]  # of merged nodes


def _values_of(
    connection: sqlite3.Connection, rows: list[tuple[Any, ...]], *, metrics: bool
) -> _Values:
    nodes = [row[0] for row in rows]
    partners = [integer(row[_PARTNER], 0, MAX_NODE) for row in rows if row[_PARTNER] is not None]
    return _Values(
        read_parameters_of(connection, [*nodes, *partners], values_only=True),
        read_comparisons_of(connection, nodes, metrics=metrics),
        _origins(connection, [*nodes, *partners]),
    )


def _origins(connection: sqlite3.Connection, nodes: list[int]) -> dict[int, tuple[int, ...]]:
    found: dict[int, tuple[int, ...]] = {}
    for node, rank in connection.execute(_ORIGINS, (json.dumps(nodes),)):
        found[node] = (*found.get(node, ()), integer(rank))
    return found


def _only_bench(
    connection: sqlite3.Connection, node: int, order: int, groups: Mapping[int, NamedGroup]
) -> Iterator[Call]:
    parameters = read_parameters_of(connection, [node], values_only=True)[node]
    rows = [ParameterRow(None, parameter) for parameter in parameters]
    if rows:
        name = read_names(connection, [node])[node]
        yield Call(
            npu_name="",
            bench_name=name,
            rows=rows,
            grade="unmatched",
            stack_id=None,
            order=order,
            group=groups.get(node),
            bench_ranks=_origins(connection, [node]).get(node, ()),
        )


def _role(role: int | None) -> str:
    """A matched node without a row in table ``role`` is clean."""
    return _ROLES[CallRole.CLEAN if role is None else integer(role, 0, len(_ROLES) - 1)]


def _times(shown: float | None, expected: float | None) -> float | None:
    if shown is None or expected is None or expected <= 0:
        return None
    return shown / expected


def _bounds(nodes: range) -> tuple[int, int]:
    return nodes.start, nodes.stop - 1
