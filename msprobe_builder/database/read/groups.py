"""Groups of calls that do together what calls of the other side do."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from msprobe_builder.base.codes import Grade, words
from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.cells import MAX_NODE, integer, number, text
from msprobe_builder.database.read.names import read_names
from msprobe_builder.database.read.parameters import (
    COMPARISON_COLUMNS,
    ParameterRow,
    comparisons_of,
    read_parameters_of,
)


@dataclass(frozen=True)
class GroupRow:
    """A tensor that goes into or comes out of a group, on both sides, and whose it is."""

    npu: int  # id of the node; so below
    bench: int
    npu_name: str
    bench_name: str
    row: ParameterRow


@dataclass(frozen=True)
class CallGroup:
    """Members by id in the order of execution; ``first`` are the roots of their graphs."""

    operation: str
    npu: tuple[int, ...]
    bench: tuple[int, ...]
    first: tuple[int, int]
    grade: int
    error: float | None
    certainty: float
    rows: tuple[GroupRow, ...] = ()


@dataclass(frozen=True)
class NamedGroup:
    """A group as it is told: the calls of each side by name, separated by commas; of many the
    first, and how many more there are."""

    operation: str
    npu: str
    bench: str
    grade: str
    error: float | None


@dataclass(frozen=True)
class PlacedGroup:
    """A group, and the step and rank that it belongs to."""

    step: int
    rank: int
    group: NamedGroup


# A group stands as long as nobody has matched one of its calls by hand or rejected it. Members
# have no automatic match, so that what was rejected of a member is its group.
STANDING = (
    "call_group_id NOT IN (SELECT call_group_id FROM group_member JOIN match ON npu_node = node_id"
    " UNION SELECT call_group_id FROM group_member JOIN match ON bench_node = node_id"
    " UNION SELECT call_group_id FROM group_member JOIN edit ON npu_node = node_id"
    " WHERE action = 'reject' AND NOT undone)"
)

_NAMED = 20  # calls of a side
_GRADES = words(Grade)
_LACKING = "a group lacks the nodes of one side"
_GROUPS = (
    "SELECT call_group_id, operation, certainty, error, grade, graph.first_node, other.first_node"
    " FROM call_group JOIN graph USING (graph_id) JOIN graph AS other ON"
    " other.step = graph.step AND other.rank = graph.rank AND other.side = 1"
)
_MEMBERS = (
    "SELECT call_group_id, node_id, graph.side FROM group_member JOIN node USING (node_id)"
    f" JOIN graph USING (graph_id) WHERE {STANDING}"
)


def read_members(
    connection: sqlite3.Connection, step: int, rank: int
) -> dict[int, tuple[list[int], list[int]]]:
    """Node ids of both sides of each group of a step and rank, in the order of execution."""
    rows = connection.execute(
        f"{_MEMBERS} AND step = ? AND rank = ? ORDER BY node_id", (step, rank)
    ).fetchall()
    found: dict[int, tuple[list[int], list[int]]] = {}
    for group, node, side in rows:
        found.setdefault(integer(group, 0, MAX_NODE), ([], []))[side].append(node)
    if any(not npu or not bench for npu, bench in found.values()):
        raise DamagedError(_LACKING)
    return dict(sorted(found.items(), key=lambda item: item[1][0]))


def read_groups(connection: sqlite3.Connection, step: int, rank: int) -> list[CallGroup]:
    """The groups of a step and rank in the order of their first npu nodes, without rows."""
    members = read_members(connection, step, rank)
    if not members:
        return []
    rows = connection.execute(f"{_GROUPS} WHERE graph.step = ? AND graph.rank = ?", (step, rank))
    found = {row[0]: row[1:] for row in rows}
    return [_group(found, group, *nodes) for group, nodes in members.items()]


def read_group_of(connection: sqlite3.Connection, node: int) -> CallGroup | None:
    """The group that a node belongs to, with its outer inputs and outputs."""
    found = connection.execute(
        f"SELECT call_group_id FROM group_member WHERE node_id = ? AND {STANDING}", (node,)
    ).fetchone()
    if found is None:
        return None
    group = _read_group(connection, found[0])
    return replace(group, rows=_rows(connection, found[0], [*group.npu, *group.bench]))


def group_of_both(
    connection: sqlite3.Connection, npu: int, bench: int, *, standing: bool = True
) -> int | None:
    """Number of the group that two nodes are in together, as long as it stands if asked so."""
    found = connection.execute(
        "SELECT call_group_id FROM group_member AS own JOIN group_member AS other"
        " USING (call_group_id) WHERE own.node_id = ? AND other.node_id = ?"
        + (f" AND {STANDING}" if standing else ""),
        (npu, bench),
    ).fetchone()
    return None if found is None else integer(found[0], 0, MAX_NODE)


def groups_below(
    connection: sqlite3.Connection, npu: int, bench: int
) -> list[tuple[int, int, int]]:
    """Groups with all members below one npu node and one bench node: number and first members."""
    rows = connection.execute(
        "SELECT call_group_id, min(CASE side WHEN 0 THEN member.node_id END),"
        " min(CASE side WHEN 1 THEN member.node_id END)"
        " FROM node AS own, node AS other, group_member AS member"
        " JOIN node AS one ON one.node_id = member.node_id"
        " JOIN graph ON graph.graph_id = one.graph_id"
        " WHERE own.node_id = ? AND other.node_id = ?"
        f" AND graph.graph_id IN (own.graph_id, other.graph_id) AND {STANDING}"
        " GROUP BY call_group_id HAVING min(CASE side"
        " WHEN 0 THEN member.node_id BETWEEN own.node_id AND own.subtree_end"
        " ELSE member.node_id BETWEEN other.node_id AND other.subtree_end END) ORDER BY 2",
        (npu, bench),
    ).fetchall()
    if any(None in row for row in rows):
        raise DamagedError(_LACKING)
    return [(integer(group), integer(one), integer(other)) for group, one, other in rows]


def members_with(connection: sqlite3.Connection, nodes: Iterable[int]) -> set[int]:
    """All members of the groups that some of the nodes are in, whether the groups stand or not."""
    rows = connection.execute(
        "SELECT node_id FROM group_member WHERE call_group_id IN (SELECT call_group_id"
        " FROM group_member WHERE node_id IN (SELECT value FROM json_each(?)))",
        (json.dumps(sorted(nodes)),),
    )
    return {integer(node, 0, MAX_NODE) for (node,) in rows}


def name_group(connection: sqlite3.Connection, group: CallGroup) -> NamedGroup:
    """A group by the names of its calls."""
    return _named(group, read_names(connection, _first_nodes(group)))


def groups_of_nodes(connection: sqlite3.Connection, step: int, rank: int) -> dict[int, NamedGroup]:
    """The group of each node of a step and rank that is in one, by the id of the node."""
    groups = read_groups(connection, step, rank)
    names = read_names(connection, [node for group in groups for node in _first_nodes(group)])
    found: dict[int, NamedGroup] = {}
    for group in groups:
        found |= dict.fromkeys((*group.npu, *group.bench), _named(group, names))
    return found


def count_groups(connection: sqlite3.Connection) -> tuple[int, int]:
    """How many groups there are in all steps and ranks, and how many npu nodes are in them."""
    [[groups]] = connection.execute(f"SELECT count(*) FROM call_group WHERE {STANDING}")
    [[members]] = connection.execute(f"SELECT count(*) FROM ({_MEMBERS} AND graph.side = 0)")
    return groups, members


def worst_groups(connection: sqlite3.Connection, limit: int) -> list[PlacedGroup]:
    """The groups with the largest errors of all steps and ranks, the largest first."""
    rows = connection.execute(
        f"SELECT call_group_id, step, rank FROM call_group JOIN graph USING (graph_id)"
        f" WHERE {STANDING} ORDER BY error DESC, call_group_id LIMIT ?",
        (limit,),
    ).fetchall()
    return [
        PlacedGroup(
            integer(step), integer(rank), name_group(connection, _read_group(connection, group))
        )
        for group, step, rank in rows
    ]


def _read_group(connection: sqlite3.Connection, group: int) -> CallGroup:
    """A group without rows."""
    nodes: tuple[list[int], list[int]] = ([], [])
    for _, member, side in connection.execute(
        f"{_MEMBERS} AND call_group_id = ? ORDER BY 2", (group,)
    ):
        nodes[integer(side, 0, 1)].append(member)
    if not nodes[0] or not nodes[1]:
        raise DamagedError(_LACKING)
    rows = connection.execute(f"{_GROUPS} WHERE call_group_id = ?", (group,))
    return _group({row[0]: row[1:] for row in rows}, group, *nodes)


def _first_nodes(group: CallGroup) -> tuple[int, ...]:
    return group.npu[:_NAMED] + group.bench[:_NAMED]


def _named(group: CallGroup, names: dict[int, str]) -> NamedGroup:
    return NamedGroup(
        group.operation,
        _listed(group.npu, names),
        _listed(group.bench, names),
        _GRADES[group.grade],
        group.error,
    )


def _listed(nodes: Sequence[int], names: dict[int, str]) -> str:
    more = f" and {len(nodes) - _NAMED:,} more" if len(nodes) > _NAMED else ""
    return ", ".join(names[node] for node in nodes[:_NAMED]) + more


def _group(
    found: dict[int, Sequence[object]], group: int, npu: list[int], bench: list[int]
) -> CallGroup:
    if group not in found:
        raise DamagedError(f"group {group} is missing")
    operation, certainty, error, grade, *first = found[group]
    return CallGroup(
        operation=text(operation),
        npu=tuple(npu),
        bench=tuple(bench),
        first=(integer(first[0], 0, MAX_NODE), integer(first[1], 0, MAX_NODE)),
        grade=integer(grade, 0, 6),
        error=number(error),
        certainty=number(certainty) or 0.0,
    )


def _rows(connection: sqlite3.Connection, group: int, members: list[int]) -> tuple[GroupRow, ...]:
    rows = connection.execute(
        f"SELECT npu_node, bench_node, {COMPARISON_COLUMNS} FROM group_comparison"
        " LEFT JOIN text AS note ON note.text_id = note_id"
        " WHERE call_group_id = ? AND npu_node IN (SELECT value FROM json_each(?))",
        (group, json.dumps(members)),
    ).fetchall()
    nodes = {node for row in rows for node in row[:2]}
    names = read_names(connection, nodes)
    parameters = {
        (node, one.ordinal): one
        for node, of_node in read_parameters_of(connection, sorted(nodes)).items()
        for one in of_node
    }
    found = []
    comparisons = comparisons_of([row[2:] for row in rows])
    for (npu, bench, *_), comparison in zip(rows, comparisons, strict=True):
        row = ParameterRow(
            parameters.get((npu, comparison.npu_ordinal)),
            parameters.get((bench, comparison.bench_ordinal)),
            comparison,
        )
        found.append(GroupRow(npu, bench, names[npu], names[bench], row))
    return tuple(sorted(found, key=_order))


def _order(row: GroupRow) -> tuple[int, int, int]:
    """Inputs before outputs, by where they are."""
    own = row.row.npu
    return (0 if own is None else own.section), row.npu, 0 if own is None else own.ordinal
