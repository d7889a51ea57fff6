"""What readers of groups find in small random graphs, against the same in plain values."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from random import Random

import pytest
from hypothesis import given

from msprobe_builder.base.codes import Grade
from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.graphs import find_graph
from msprobe_builder.database.read.groups import (
    CallGroup,
    NamedGroup,
    PlacedGroup,
    count_groups,
    group_of_both,
    groups_below,
    groups_of_nodes,
    members_with,
    read_group_of,
    read_groups,
    read_members,
    worst_groups,
)
from msprobe_builder.database.read.nodes import read_node
from tests.small_graphs import RANDOMS, Pair, Seeded, random_pair, written

RANKS = 3


@dataclass(frozen=True)
class Group:
    """A group by its number, its place, and its members of both sides in order."""

    number: int
    step: int
    rank: int
    sides: tuple[list[int], list[int]]
    operation: str
    certainty: float
    error: float | None
    grade: Grade
    stands: bool


@dataclass(frozen=True)
class Written:
    """Graphs with groups, and the same as a database."""

    connection: sqlite3.Connection
    pairs: Sequence[Pair]
    groups: Sequence[Group]

    @property
    def standing(self) -> list[Group]:
        return [one for one in self.groups if one.stands]

    def names(self) -> dict[int, str]:
        sides = [side for pair in self.pairs for side in pair.sides]
        return {node: one.name for side in sides for node, one in side.items()}

    def ends(self) -> dict[int, int]:
        sides = [side for pair in self.pairs for side in pair.sides]
        return {node: one.end for side in sides for node, one in side.items()}


def step_of(rank: int) -> int:
    """No two ranks are of one step, and none is of the step of its own number."""
    return RANKS + rank


@contextmanager
def with_groups(random: Random) -> Iterator[Written]:
    """Groups of what has no match; some have ended by a match or a rejection since."""
    pairs = [random_pair(random, rank) for rank in range(RANKS)]
    groups: list[Group] = []
    with written(pairs) as connection:
        connection.execute("UPDATE graph SET step = ? + rank", (RANKS,))
        numbers = [*random.sample(range(1, 90), 60), 0]
        for pair in pairs:
            alone = [
                [node for node in side if node not in pair.partners(place)]
                for place, side in enumerate(pair.sides)
            ]
            for nodes in alone:
                random.shuffle(nodes)
            while all(alone) and random.random() < 0.8:
                sides = [
                    sorted(nodes.pop() for _ in nodes[: random.randint(1, 3)]) for nodes in alone
                ]
                groups.append(write(connection, random, numbers.pop(), pair, (sides[0], sides[1])))
        yield Written(connection, pairs, groups)


def write(
    connection: sqlite3.Connection,
    random: Random,
    number: int,
    pair: Pair,
    sides: tuple[list[int], list[int]],
) -> Group:
    """One group, as it is told."""
    ended = random.choice((None, None, None, "npu", "bench", "rejected", "undone", "unmatched"))
    one = Group(
        number,
        step_of(pair.rank),
        pair.rank,
        sides,
        random.choice(("attention", "norm")),
        random.choice((0.5, 0.75, 1.0)),
        random.choice((None, 0.0, 0.25, 0.5)),
        random.choice([*Grade]),
        ended in (None, "undone", "unmatched"),
    )
    connection.execute(
        "INSERT INTO call_group VALUES (?, ?, ?, ?, ?, ?)",
        (number, 2 * pair.rank, one.operation, one.certainty, one.error, int(one.grade)),
    )
    members = [(node, number) for side in sides for node in side]
    connection.executemany("INSERT INTO group_member VALUES (?, ?)", members)
    if ended in ("npu", "bench"):  # matched by hand with what is in no group and stands elsewhere
        own, other = random.choice(sides[0]), random.choice(sides[1])
        match = (own, -own) if ended == "npu" else (-other, other)
        connection.execute(
            "INSERT INTO match (npu_node, bench_node, source) VALUES (?, ?, 3)", match
        )
    elif ended is not None:
        action = "unmatch" if ended == "unmatched" else "reject"
        connection.execute(
            "INSERT INTO edit (batch, edited_at, action, npu_node, bench_node, source, undone)"
            " VALUES (1, '', ?, ?, ?, 5, ?)",
            (action, random.choice(sides[0]), random.choice(sides[1]), ended == "undone"),
        )
    return one


def as_read(one: Group, pairs: Sequence[Pair]) -> CallGroup:
    first = [min(side) for side in pairs[one.rank].sides]
    return CallGroup(
        one.operation,
        tuple(one.sides[0]),
        tuple(one.sides[1]),
        (first[0], first[1]),
        int(one.grade),
        one.error,
        one.certainty,
    )


def as_named(one: Group, names: dict[int, str]) -> NamedGroup:
    npu, bench = (", ".join(names[node] for node in side) for side in one.sides)
    return NamedGroup(one.operation, npu, bench, one.grade.name.lower(), one.error)


@given(RANDOMS)
def test_groups_of_a_step_and_rank(random: Random) -> None:
    with with_groups(random) as given_:
        names = given_.names()
        for step, rank in product((0, *map(step_of, range(RANKS))), range(RANKS)):
            here = [one for one in given_.standing if (one.step, one.rank) == (step, rank)]
            here.sort(key=lambda one: one.sides[0][0])
            members = read_members(given_.connection, step, rank)
            assert [*members.items()] == [(one.number, one.sides) for one in here]
            found = read_groups(given_.connection, step, rank)
            assert found == [as_read(one, given_.pairs) for one in here]
            assert groups_of_nodes(given_.connection, step, rank) == {
                node: as_named(one, names) for one in here for side in one.sides for node in side
            }


@given(RANDOMS)
def test_the_group_of_a_node(random: Random) -> None:
    with with_groups(random) as given_:
        group_of = {node: one for one in given_.groups for side in one.sides for node in side}
        for node in given_.names():
            one = group_of.get(node)
            found = read_group_of(given_.connection, node)
            assert found == (as_read(one, given_.pairs) if one and one.stands else None)
        for pair in given_.pairs:
            for npu, bench in product(*pair.sides):
                one, other = group_of.get(npu), group_of.get(bench)
                both = one if one is other else None
                number = None if both is None else both.number
                assert group_of_both(given_.connection, npu, bench, standing=False) == number
                number = number if both and both.stands else None
                assert group_of_both(given_.connection, npu, bench) == number
        some = random.sample([*given_.names()], 5)
        assert members_with(given_.connection, some) == {
            node
            for one in given_.groups
            if any(member in some for side in one.sides for member in side)
            for side in one.sides
            for node in side
        }


@given(RANDOMS)
def test_groups_below_two_nodes(random: Random) -> None:
    with with_groups(random) as given_:
        ends = given_.ends()
        for pair in given_.pairs:
            here = [one for one in given_.standing if one.rank == pair.rank]
            for nodes in product(*pair.sides):
                inside = [
                    (one.number, one.sides[0][0], one.sides[1][0])
                    for one in here
                    if all(
                        around <= node <= ends[around]
                        for around, side in zip(nodes, one.sides, strict=True)
                        for node in side
                    )
                ]
                inside.sort(key=lambda one: one[1])
                assert groups_below(given_.connection, *nodes) == inside


@given(RANDOMS)
def test_groups_of_all_steps_and_ranks(random: Random) -> None:
    with with_groups(random) as given_:
        standing, names = given_.standing, given_.names()
        members = sum(len(one.sides[0]) for one in standing)
        assert count_groups(given_.connection) == (len(standing), members)
        errors = {one.number: -1.0 if one.error is None else one.error for one in standing}
        worst = sorted(standing, key=lambda one: (-errors[one.number], one.number))
        for limit in (0, 1, 2, 99):
            assert worst_groups(given_.connection, limit) == [
                PlacedGroup(one.step, one.rank, as_named(one, names)) for one in worst[:limit]
            ]


def test_of_many_members_the_first_are_named() -> None:
    with with_groups(Seeded(1)) as given_:
        count = 22
        connection, pair = given_.connection, given_.pairs[0]
        first = min(pair.sides[0])
        connection.execute("INSERT INTO call_group VALUES (99, 0, 'norm', 1, 9, 1)")
        connection.executemany(
            "INSERT INTO node VALUES (?, 0, ?, ?, 1, 1, 1, ?, 0, 0, NULL, NULL, 0, NULL)",
            [(200 + place, first, 200 + place, place) for place in range(count)],
        )
        connection.executemany(
            "INSERT INTO group_member VALUES (?, 99)", [(200 + place,) for place in range(count)]
        )
        connection.execute(
            "INSERT INTO node VALUES (700, 1, 500, 700, 1, 1, 1, 7, 0, 0, NULL, NULL, 0, NULL)"
        )
        connection.execute("INSERT INTO group_member VALUES (700, 99)")
        [worst] = worst_groups(connection, 1)
        assert worst.group.npu.count(", ") == 19
        assert worst.group.npu.endswith(".19.forward and 2 more")


def test_what_is_missing_is_damage() -> None:
    """A group without one of its sides, and a node that a match speaks of."""
    with with_groups(Seeded(3)) as given_:
        connection, pair = given_.connection, given_.pairs[0]
        own = next(one for one in pair.matches if one not in pair.likely)
        other = pair.matches[own]
        graphs = [find_graph(connection, step_of(0), 0, side) for side in (0, 1)]
        assert graphs[0] is not None
        connection.execute("DELETE FROM node WHERE node_id = ?", (other,))
        with pytest.raises(DamagedError, match=f"node {other} is missing"):
            read_node(connection, graphs[0], graphs[1], own)
        one = given_.standing[-1]
        for side in (0, 1):
            connection.executemany(
                "DELETE FROM group_member WHERE node_id = ?", [(node,) for node in one.sides[side]]
            )
            with pytest.raises(DamagedError, match="a group lacks the nodes of one side"):
                read_members(connection, one.step, one.rank)
            with pytest.raises(DamagedError, match="a group lacks the nodes of one side"):
                worst_groups(connection, 99)
            connection.executemany(
                "INSERT INTO group_member VALUES (?, ?)",
                [(node, one.number) for node in one.sides[side]],
            )
        assert len(read_members(connection, one.step, one.rank)) > 0


def test_a_number_that_no_group_has_is_damage() -> None:
    with with_groups(Seeded(3)) as given_:
        one = given_.standing[-1]
        change = "UPDATE group_member SET call_group_id = ? WHERE call_group_id = ?"
        given_.connection.execute(change, (-1, one.number))
        with pytest.raises(DamagedError):
            read_members(given_.connection, one.step, one.rank)
