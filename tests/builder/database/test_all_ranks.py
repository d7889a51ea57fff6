"""What other ranks have to say of a suspect, against the same in plain values."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given

from msprobe_builder.base.codes import CallRole, Role, Section
from msprobe_builder.database.read.all_ranks import read_all_ranks
from msprobe_builder.facts.fact import encode
from msprobe_builder.verdict.ruling.all_ranks import Witness
from tests.small_graphs import RANDOMS, Node, Pair, random_pair, written

CAUSES = ("operator", "weight", "external")


def told_of(pairs: list[Pair], node: int) -> tuple[int, int | None]:
    """The rank of a node, and its role as far as a verdict says."""
    [pair] = [one for one in pairs if node in one.sides[0]]
    return pair.rank, pair.roles.get(node)


def namesakes(one: Node, other: Node) -> bool:
    return (one.stem, one.direction, one.call) == (other.stem, other.direction, other.call)


def put_out(node: Node) -> tuple[object, ...]:
    """The outputs by their statistics; nothing where each has one value all over."""
    found = [one for one in node.parameters if one.section == Section.OUTPUT and one.shape]
    known = tuple((one.extremes, one.norm) for one in found)
    return known if any(one.extremes and len({*one.extremes}) > 1 for one in found) else ()


@given(RANDOMS)
def test_partners_and_namesakes_are_told_with_rank_and_role(random: Random) -> None:
    pairs = [random_pair(random, rank) for rank in range(random.choice((2, 3)))]
    nodes = {node.node: node for pair in pairs for node in pair.sides[0].values()}
    for call in nodes.values():  # much of what ranks put out is the same to the last digit
        if random.random() < 0.5:
            alike = [one for one in nodes.values() if namesakes(one, call)]
            call.parameters = list(random.choice(alike).parameters)
        elif random.random() < 0.5:  # one value all over
            call.parameters = [
                replace(one, extremes=one.extremes and (one.extremes[0],) * 2)
                for one in call.parameters
            ]
    suspects = {
        number: (node, random.choice(CAUSES), random.choice((0, 1, 2)))
        for number, node in enumerate(random.sample(list(nodes), min(3, len(nodes))), start=1)
    }
    inherits = {
        node: random.choice(list(suspects))
        for pair in pairs
        for node in pair.roles
        if random.random() < 0.5
    }
    talks = {
        (node, other): random.choice(list(Role))
        for node, _, _ in suspects.values()
        for other in random.sample(list(nodes), min(2, len(nodes)))
    }
    with written(pairs) as connection:
        connection.executemany(
            "INSERT INTO verdict (step, rank, conclusion, sentence, compared)"
            " VALUES (0, ?, 'clean', '', 7)",
            [(pair.rank,) for pair in pairs],
        )
        connection.executemany(
            "INSERT INTO suspect (suspect_id, node_id, place, strength, cause, followers, evidence)"
            " VALUES (?, ?, ?, ?, ?, 0, ?)",
            [
                (number, node, number, strength, cause, encode(()))
                for number, (node, cause, strength) in suspects.items()
            ],
        )
        connection.executemany(
            "UPDATE role SET suspect_id = ? WHERE node_id = ?",
            [(suspect, node) for node, suspect in inherits.items()],
        )
        connection.executemany(
            "INSERT INTO communication VALUES (?, ?, ?, NULL)",
            [(*both, int(role)) for both, role in talks.items()],
        )
        found = read_all_ranks(connection)
    assert [(one.step, one.rank, one.compared) for one in found.places] == [
        (0, pair.rank, 7) for pair in pairs
    ]
    assert {
        one.suspect_id: (one.node_id, one.cause, one.strength) for one in found.accused
    } == suspects
    for number, (node, cause, strength) in suspects.items():
        partners = []
        for (one, other), role in talks.items():
            if one != node:
                continue
            rank, part = told_of(pairs, other)
            is_alike = role == Role.SEND_RECEIVE and any(
                (accused, why) == (other, cause) for accused, why, _ in suspects.values()
            )
            partners.append(
                Witness(rank, part, inherits=other in inherits, is_accused_alike=is_alike)
            )
        assert sorted(found.partners[number], key=repr) == sorted(partners, key=repr)
        rank, _ = told_of(pairs, node)
        others = [
            Witness(
                *told_of(pairs, one),
                None,
                put_out(other) == put_out(nodes[node]) != (),
                one in inherits,
            )
            for one, other in nodes.items()
            if strength and told_of(pairs, one)[0] != rank and namesakes(other, nodes[node])
        ]
        heard = found.namesakes.get(number, [])
        assert sorted(heard, key=repr) == sorted(others, key=repr)


def test_all_roles_are_there() -> None:
    assert set(map(int, CallRole)) == set(range(5)), "small_graphs draws from these"
