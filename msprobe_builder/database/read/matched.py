"""What one step and rank has paired by evidence, for others that lack it."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from dataclasses import dataclass

from msprobe_builder.base.codes import Source
from msprobe_builder.database.read.cells import integer, number, text
from msprobe_builder.database.read.names import NAME_SQL
from msprobe_builder.match.matching import Told, ToldGroup


@dataclass(frozen=True)
class Matched:
    """How much of one step and rank has a partner; first and last node of both sides."""

    step: int
    rank: int
    npu: tuple[int, int]
    bench: tuple[int, int]
    count: int
    by_evidence: int


def read_matched(connection: sqlite3.Connection) -> list[Matched]:
    """Every step and rank that was compared."""
    rows = connection.execute(
        "SELECT npu.step, npu.rank, npu.first_node, npu.node_count, bench.first_node,"
        " bench.node_count,"
        " (SELECT count(*) FROM match WHERE npu_node BETWEEN npu.first_node"
        "  AND npu.first_node + npu.node_count - 1),"
        " (SELECT count(*) FROM match WHERE source = ? AND npu_node BETWEEN npu.first_node"
        "  AND npu.first_node + npu.node_count - 1)"
        " FROM graph AS npu JOIN graph AS bench USING (step, rank)"
        " WHERE npu.side = 0 AND bench.side = 1 ORDER BY npu.step, npu.rank",
        (int(Source.AUTOMATIC),),
    )
    return [
        Matched(
            step, rank, (first, first + size - 1), (other, other + other_size - 1), matched, found
        )
        for step, rank, first, size, other, other_size, matched, found in (
            [integer(one) for one in row] for row in rows
        )
    ]


def read_told(connection: sqlite3.Connection, one: Matched) -> Told:
    """The pairs and groups that evidence has found there."""
    pairs = connection.execute(
        f"SELECT npu.name, bench.name, certainty FROM match"
        f" JOIN ({_named(one.npu)}) AS npu ON npu.node_id = npu_node"
        f" JOIN ({_named(one.bench)}) AS bench ON bench.node_id = bench_node"
        f" WHERE source = {int(Source.AUTOMATIC)} ORDER BY npu_node"
    )
    return Told(
        tuple((text(own), text(other), number(sure) or 0.0) for own, other, sure in pairs),
        tuple(_groups(connection, one)),
        (_calls(connection, one.npu), _calls(connection, one.bench)),
    )


def count_alone(connection: sqlite3.Connection, one: Matched, told: Told) -> int:
    """How many npu nodes without a partner ``told`` has one for that is alone as well."""
    alone, other_alone = (
        {
            text(name)
            for [name] in connection.execute(
                f"SELECT name FROM ({_named(nodes)})"
                f" WHERE node_id NOT IN (SELECT {column} FROM match)"
                " AND node_id NOT IN (SELECT node_id FROM group_member)"
            )
        }
        for nodes, column in ((one.npu, "npu_node"), (one.bench, "bench_node"))
    )
    found = sum(own in alone and other in other_alone for own, other, _ in told.pairs)
    return found + sum(
        len(group.npu)
        for group in told.groups
        if alone.issuperset(group.npu) and other_alone.issuperset(group.bench)
    )


def _named(nodes: tuple[int, int]) -> str:
    """Nodes with their names, in SQL."""
    return (
        f"SELECT node_id, {NAME_SQL} AS name FROM node JOIN text ON text_id = stem_id"
        f" WHERE node_id BETWEEN {nodes[0]} AND {nodes[1]}"
    )


def _calls(connection: sqlite3.Connection, nodes: tuple[int, int]) -> dict[tuple[str, int], int]:
    rows = connection.execute(
        "SELECT value, direction, count(*) FROM node JOIN text ON text_id = stem_id"
        " WHERE node_id BETWEEN ? AND ? GROUP BY stem_id, direction",
        nodes,
    )
    return {(text(stem), integer(direction)): integer(count) for stem, direction, count in rows}


def _groups(connection: sqlite3.Connection, one: Matched) -> list[ToldGroup]:
    members: dict[int, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for side, nodes in enumerate((one.npu, one.bench)):
        for group, name in connection.execute(
            f"SELECT call_group_id, name FROM group_member JOIN ({_named(nodes)}) USING (node_id)"
            " ORDER BY node_id"
        ):
            members[integer(group)][side].append(text(name))
    rows: dict[int, list[tuple[tuple[str, int], tuple[str, int]]]] = defaultdict(list)
    for group, own, ordinal, other, other_ordinal in connection.execute(
        "SELECT call_group_id, npu.name, npu_ordinal, bench.name, bench_ordinal"
        " FROM group_comparison"
        f" JOIN ({_named(one.npu)}) AS npu ON npu.node_id = npu_node"
        f" JOIN ({_named(one.bench)}) AS bench ON bench.node_id = bench_node"
        " ORDER BY npu_node, npu_ordinal"
    ):
        pair = (text(own), integer(ordinal)), (text(other), integer(other_ordinal))
        rows[integer(group)].append(pair)
    known = connection.execute("SELECT call_group_id, operation, certainty FROM call_group")
    return [
        ToldGroup(
            text(operation),
            tuple(members[number_of][0]),
            tuple(members[number_of][1]),
            tuple(rows[number_of]),
            number(sure) or 0.0,
        )
        for number_of, operation, sure in known
        if number_of in members and all(members[number_of])
    ]
