"""What readers find in small random graphs, against the same looked up in plain values."""

from __future__ import annotations

from itertools import pairwise, product
from math import isnan
from random import Random

import numpy as np
import pytest
from hypothesis import given

from msprobe_builder.base.codes import CallRole, Kind, Section
from msprobe_builder.database.read.across import read_across
from msprobe_builder.database.read.around import read_around
from msprobe_builder.database.read.candidates import nodes_alike, read_stored_node
from msprobe_builder.database.read.edits import ACTIONS, read_edit_state, read_history
from msprobe_builder.database.read.graphs import last_inside, other_side
from msprobe_builder.database.read.matches import (
    matches_below,
    matches_between,
    partner_of,
    partners_of,
)
from msprobe_builder.database.read.not_finite import StoredBeginning, read_beginnings
from msprobe_builder.database.read.skeleton import read_skeleton
from msprobe_builder.database.read.tree import (
    of_micro_step,
    read_ancestors,
    read_collections,
    read_subtree,
    read_twins,
)
from msprobe_builder.database.read.values import read_norms
from msprobe_builder.facts.fact import fact
from msprobe_builder.metrics.beginning import Part
from tb_graph_ascend.problems import ProblemError
from tb_graph_ascend.query.wanted import wanted_graph, wanted_node, wanted_places
from tests.small_graphs import RANDOMS, Node, Pair, Seeded, graph_of, random_pair, written


@given(RANDOMS)
def test_the_hierarchy(random: Random) -> None:
    pair = random_pair(random)
    with written([pair]) as connection:
        for side in (0, 1):
            nodes, graph = pair.sides[side], graph_of(connection, pair, side)
            some = random.sample(list(nodes), random.randint(0, len(nodes)))
            parents: dict[int, int] = {}
            for one in some:
                line = [one, *ancestors(nodes, one)]
                parents |= dict(pairwise(line))
            assert read_ancestors(connection, some) == parents
            for node in nodes.values():
                inside = list(range(node.node, node.end + 1))
                assert list(read_subtree(connection, node.node)) == inside
                assert last_inside(connection, graph, node.node) == node.end
            micro = {one for one in some if nodes[one].micro_step == 1}
            assert of_micro_step(connection, some, 1) == micro
            collections = {
                one: nodes[one].end
                for one in some
                if nodes[one].kind == Kind.COLLECTION and side == 0
            }
            assert read_collections(connection, some) == collections
            twins = read_twins(connection, graph, some)
            calls = {one: twins_of(nodes, nodes[one]) for one in some}
            assert twins.keys() == {one for one, found in calls.items() if found}
            assert all(twin in calls[one] for one, twin in twins.items())


def ancestors(nodes: dict[int, Node], node: int) -> list[int]:
    """The innermost first."""
    parent = nodes[node].parent
    return [] if parent is None else [parent, *ancestors(nodes, parent)]


def twins_of(nodes: dict[int, Node], own: Node) -> set[int]:
    """Calls of the same stem and number in the other direction."""
    return {
        one.node
        for one in nodes.values()
        if (one.stem, one.kind, one.call) == (own.stem, own.kind, own.call)
        and {one.direction, own.direction} == {1, 2}
    }


@given(RANDOMS)
def test_a_place_shows_what_is_around_and_four_nodes_on_either_side(random: Random) -> None:
    pair = random_pair(random)
    beside = random.randint(1, 4)
    nodes = pair.sides[0]
    with written([pair]) as connection:
        for node in nodes.values():
            around = ancestors(nodes, node.node)[::-1]
            row = [one for one in nodes.values() if one.parent == node.parent]
            at = row.index(node)
            row = [one for place, one in enumerate(row) if abs(place - at) <= beside]
            shown = [(depth, nodes[one]) for depth, one in enumerate(around)]
            shown += [(len(around), one) for one in row]
            found = read_around(connection, node.node, beside)
            assert [(one.depth, one.name, one.grade, one.error, one.is_it) for one in found] == [
                (depth, one.name, one.grade, one.error, one is node) for depth, one in shown
            ]


@given(RANDOMS)
def test_matches(random: Random) -> None:
    pair = random_pair(random)
    npu, bench = pair.sides
    with written([pair]) as connection:
        for side in (0, 1):
            partner = pair.partners(side)
            some = random.sample(list(pair.sides[side]), random.randint(0, len(pair.sides[side])))
            assert partners_of(connection, side, some) == {
                one: partner[one] for one in some if one in partner
            }
            assert {one: partner_of(connection, side, one) for one in some} == {
                one: partner.get(one) for one in some
            }
            first, last = sorted(random.choices(list(pair.sides[side]), k=2))
            assert matches_between(connection, side, first, last) == sorted(
                (own, other)
                for own, other in pair.matches.items()
                if first <= (own, other)[side] <= last
            )
        for one, other in product(npu.values(), bench.values()):
            below = sorted(
                (own, partner)
                for own, partner in pair.matches.items()
                if one.node < own <= one.end and other.node < partner <= other.end
            )
            assert matches_below(connection, one.node, other.node) == below


@given(RANDOMS)
def test_of_many_nodes_alike_the_first_few_are_known(random: Random) -> None:
    """Those of the same path, then those in the partner of the parent, then the nearest."""
    pair = random_pair(random)
    with written([pair]) as connection:
        other = graph_of(connection, pair, 1)
        for own in list(pair.sides[0].values())[1:]:
            assert own.parent is not None
            host = pair.matches.get(own.parent)
            expected, limit = random.randrange(other.first, other.last + 1), random.randint(1, 4)
            stored = read_stored_node(connection, own.node)
            assert (stored.path, stored.operator) == (own.path, own.operator)
            keys = {
                one.node: (not is_path, not is_sibling, abs(one.node - expected))
                for one in pair.sides[1].values()
                if (one.kind, one.direction) == (own.kind, own.direction)
                for is_path in [own.path != "" and one.path == own.path]
                for is_sibling in [host is not None and one.parent == host]
                if is_path or is_sibling or one.operator == own.operator
            }
            found = nodes_alike(connection, stored, host, other, expected, limit)
            assert [keys[node] for node in found] == sorted(keys.values())[:limit]


@given(RANDOMS)
def test_norms_are_those_of_the_first_output_that_has_one(random: Random) -> None:
    pair = random_pair(random)
    with written([pair]) as connection:
        for side in (0, 1):
            norms = []
            for node in pair.sides[side].values():
                outputs = [one for one in node.parameters if one.section == Section.OUTPUT]
                known = [
                    np.nan if one.is_nan else one.norm
                    for one in outputs
                    if one.is_nan or one.norm is not None
                ]
                norms.append(known[0] if known else -1.0)
            found = read_norms(connection, graph_of(connection, pair, side))
            wanted = norms if any(norm != -1 for norm in norms) else []
            np.testing.assert_array_equal(found, np.array(wanted, dtype=np.float64))


def test_where_nothing_has_a_norm_there_are_no_norms() -> None:
    pair = random_pair(Seeded(1))
    for node in pair.sides[0].values():
        node.parameters.clear()
    with written([pair]) as connection:
        assert read_norms(connection, graph_of(connection, pair, 0)).shape == (0,)


@given(RANDOMS)
def test_where_bad_values_began(random: Random) -> None:
    """In order of execution; a call inside of which no API call was recorded is closed."""
    pairs = [random_pair(random, rank) for rank in range(2)]
    nodes = {one: (pair, side) for pair in pairs for side in (0, 1) for one in pair.sides[side]}
    chosen = sorted(random.sample(list(nodes), random.randint(1, len(nodes))))
    parts = {one: random.choice(list(Part)) for one in chosen}
    givers = {one: random.choice([None, *nodes]) for one in chosen}
    with written(pairs) as connection:
        connection.executemany(
            "INSERT INTO not_finite VALUES (?, ?, ?, 'as in an older file')",
            [(one, int(parts[one]), givers[one]) for one in chosen],
        )
        found = read_beginnings(connection)
    why, wanted = (fact("text", text="as in an older file"),), []
    for one in sorted(chosen, key=lambda one: (nodes[one][1], one)):
        pair, side = nodes[one]
        own, all_nodes = pair.sides[side][one], pair.sides[side]
        inside = [all_nodes[node].kind for node in range(one + 1, own.end + 1)]
        is_closed = Kind.API not in (own.kind, *inside)
        wanted.append(
            StoredBeginning(
                one, side, 0, pair.rank, one - min(all_nodes), parts[one], givers[one], why,
                own.kind, own.name, is_closed,
            )
        )  # fmt: skip
    assert found == wanted


@given(RANDOMS)
def test_columns_of_a_graph(random: Random) -> None:
    pair = random_pair(random)
    with written([pair]) as connection:
        for side in (0, 1):
            graph = graph_of(connection, pair, side)
            other = other_side(connection, graph)
            assert other is not None
            assert (other.side, other.first) == (1 - side, min(pair.sides[1 - side]))
            found = read_skeleton(connection, graph, other)
            nodes, partner = list(pair.sides[side].values()), pair.partners(side)
            assert [found.stems[stem] for stem in found.stem] == [one.stem for one in nodes]
            assert found.subtree_size.tolist() == [one.end - one.node + 1 for one in nodes]
            assert found.grade.tolist() == [one.grade for one in nodes]
            assert found.error.tolist() == [-1 if one.error is None else one.error for one in nodes]
            assert found.micro_step.tolist() == [one.micro_step for one in nodes]
            if found.overflow.size or any(one.overflow for one in nodes):
                assert found.overflow.tolist() == [one.overflow or 0 for one in nodes]
            places = [
                partner[one.node] - other.first - (one.node - graph.first)
                for one in nodes
                if one.node in partner
            ]
            assert found.partner_offset.tolist() == places
            assert found.role.tolist() == roles_of(pair, side)
            reasons = [pair.reasons.get(one.node) for one in nodes]
            if any(reasons):
                words = [None, *found.unmatched_reasons]
                assert [words[place] for place in found.unmatched_reason] == reasons
            else:
                assert not found.unmatched_reason.size


def roles_of(pair: Pair, side: int) -> list[int]:
    """Of what has no role of its own, what is matched is clean, the root aside."""
    if side == 1 or not pair.roles:
        return []
    root = min(pair.sides[0])
    usual = {
        node: CallRole.CLEAN if node in pair.matches and node != root else CallRole.UNKNOWN
        for node in pair.sides[0]
    }
    return [pair.roles.get(node, int(role)) for node, role in usual.items()]


@given(RANDOMS)
def test_one_name_in_all_ranks(random: Random) -> None:
    pairs = [random_pair(random, rank) for rank in range(3)]
    with written(pairs) as connection:
        for side in (0, 1):
            for name in {one.name for pair in pairs for one in pair.sides[side].values()}:
                found = read_across(connection, name, side)
                assert [
                    (one.step, one.rank, one.index, one.grade, one.error, one.overflow)
                    for one in found
                ] == [
                    (0, pair.rank, one.node - min(pair.sides[side]), one.grade, one.error,
                     one.overflow or 0)
                    for pair in pairs
                    for one in pair.sides[side].values()
                    if one.name == name
                ]  # fmt: skip
                assert all(worst is None or isnan(worst) for one in found for worst in one.worst)
                assert wanted_places(connection, name, side) == found


@given(RANDOMS)
def test_nodes_are_numbered_from_zero_to_the_last(random: Random) -> None:
    pair = random_pair(random)
    with written([pair]) as connection:
        for side in (0, 1):
            graph = wanted_graph(connection, 0, 0, side)
            nodes = [wanted_node(graph, index) for index in range(len(pair.sides[side]))]
            assert nodes == list(pair.sides[side])
            with pytest.raises(ProblemError) as caught:
                wanted_node(graph, len(nodes))
            assert caught.value.problem.code == "unknown_node"
        for step, rank in ((1, 0), (0, 1)):
            with pytest.raises(ProblemError) as caught:
                wanted_graph(connection, step, rank, 0)
            assert caught.value.problem.code == "unknown_graph"
        with pytest.raises(ProblemError) as caught:
            wanted_places(connection, "Torch.nothing.0.forward", 0)
        assert caught.value.problem.code == "unknown_name"


def test_what_was_changed_by_hand_is_counted_and_told_by_its_first_match() -> None:
    pair = next(
        one
        for one in (random_pair(Seeded(seed)) for seed in range(100))
        if min(map(len, one.sides)) > 3
    )
    npu, bench = (list(side) for side in pair.sides)
    edits = [
        (1, "unmatch", npu[1], bench[1], 2),  # of the pair that was judged
        (1, "match", npu[1], bench[2], 2),
        (2, "confirm", npu[1], bench[2], 2),  # changes nothing
        (3, "unmatch", npu[1], bench[2], 1),  # as it was before
    ]
    with written([pair]) as connection:
        for batch, action, own, other, changed in edits:
            connection.execute(
                "INSERT INTO edit (batch, edited_at, action, npu_node, bench_node, source)"
                " VALUES (?, '', ?, ?, ?, 3)",
                (batch, action, own, other),
            )
            state = read_edit_state(connection)
            assert state.undo is not None
            assert (state.undo.batch, state.redo) == (batch, None)
            if (batch, action) != (1, "unmatch"):
                assert state.changed == changed
            if (batch, action) == (1, "match"):
                assert (state.undo.action, state.undo.pairs) == (ACTIONS["match"], 2)
        connection.execute("UPDATE edit SET undone = 1 WHERE batch >= 2")
        state = read_edit_state(connection)
        assert state.undo is not None
        assert state.redo is not None
        assert (state.undo.batch, state.redo.batch, state.redo.undone) == (1, 2, True)
        history = read_history(connection, (npu[1], bench[2]))
        assert [one.batch for one in history] == [1, 1, 2, 3]
        assert [one.undone for one in history] == [False, False, True, True]
