"""Where tensors come from and go, against the same looked up in plain values."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given

from msprobe_builder.base.codes import CallRole, Section
from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.flow import FlowLink, read_flow
from tests.small_graphs import (
    RANDOMS,
    Node,
    Pair,
    Parameter,
    Seeded,
    graph_of,
    random_pair,
    written,
)

LAST = int(max(CallRole))


def linked(random: Random) -> Pair:
    """A rank where all that has values is one of few tensors."""
    pair = random_pair(random)
    for node in pair.sides[0].values():
        for one in node.parameters:
            if one.shape is not None and not one.is_nan:
                number = random.choice((1.0, 2.0))
                one.extremes, one.norm = (number, 0.0), number
    return pair


def is_one(tensor: Parameter, other: Parameter) -> bool:
    """Whether two recordings may be of one tensor by their extremes and their size."""
    return tensor.extremes == other.extremes and tensor.shape == other.shape


@given(RANDOMS)
def test_ends_are_told_as_they_are_and_give_or_take_that_tensor(random: Random) -> None:
    pair = linked(random)
    nodes = pair.sides[0]
    first = min(nodes)
    with written([pair]) as connection:
        graph = graph_of(connection, pair, 0)
        for node in nodes.values():
            flow = read_flow(connection, graph, node.node)
            tensors = sorted(
                (
                    one
                    for one in node.parameters
                    if one.shape is not None and one.section in (Section.INPUT, Section.OUTPUT)
                ),
                key=lambda one: one.section,
            )
            assert len(flow.tensors) == len(tensors)
            for told, tensor in zip(flow.tensors, tensors, strict=True):
                assert told.section == tensor.section
                for link in [*told.takers, *([told.maker] if told.maker else [])]:
                    other = nodes[link.index + first]
                    assert link.name == other.name
                    assert link.grade == other.grade
                    assert link.role == role_of(pair, other.node)
                    assert other.node != node.node
                if tensor.extremes is None:
                    continue
                if told.maker is not None:
                    check_maker(node, tensor, nodes[told.maker.index + first])
                for link in told.takers:
                    check_taker(node, tensor, nodes[link.index + first])
                if tensor.section == Section.INPUT:
                    made = [
                        one
                        for one in nodes.values()
                        if one.end < node.node and puts_out(one, tensor)
                    ]
                    assert told.maker is not None or not made
                    check_certainty(told.maker, made)


def role_of(pair: Pair, node: int) -> int:
    """As a verdict says; of a matched node that it does not name, clean."""
    is_judged = bool(pair.roles) and node in pair.matches
    return pair.roles.get(node, int(CallRole.CLEAN if is_judged else CallRole.UNKNOWN))


def puts_out(node: Node, tensor: Parameter) -> bool:
    return any(one.section == Section.OUTPUT and is_one(one, tensor) for one in node.parameters)


def is_given(node: Node, tensor: Parameter) -> bool:
    return any(one.section == Section.INPUT and is_one(one, tensor) for one in node.parameters)


def check_maker(node: Node, tensor: Parameter, maker: Node) -> None:
    """It puts the tensor out before, or inside; or is given it, around."""
    if tensor.section == Section.OUTPUT:
        assert puts_out(maker, tensor)
        assert node.node < maker.node
        assert maker.end <= node.end
    elif maker.end < node.node:
        assert puts_out(maker, tensor)
    else:
        assert maker.node < node.node <= maker.end
        assert is_given(maker, tensor)


def check_taker(node: Node, tensor: Parameter, taker: Node) -> None:
    """It is given the tensor later, or inside."""
    assert is_given(taker, tensor)
    if tensor.section == Section.OUTPUT:
        assert taker.node > node.end
    else:
        assert node.node < taker.node <= node.end


def check_certainty(maker: FlowLink | None, made: list[Node]) -> None:
    """Where calls that are not inside of one another put it out, none is sure."""
    last = max(made, key=lambda one: (one.end, -one.node), default=None)
    if maker is None or last is None:
        return
    if any(not last.node <= one.node <= last.end for one in made):
        assert maker.certainty != "sure"


@pytest.mark.parametrize(("role", "is_role"), [(LAST, True), (LAST + 1, False), (-1, False)])
def test_a_role_that_is_none_is_damage(role: int, *, is_role: bool) -> None:
    asked, refused = 0, 0
    for pair in map(linked, map(Seeded, range(10))):
        pair.roles = dict.fromkeys(pair.sides[0], role)
        with written([pair]) as connection:
            graph = graph_of(connection, pair, 0)
            for node in pair.sides[0]:
                try:
                    found = read_flow(connection, graph, node)
                    asked += sum(one.maker is not None for one in found.tensors)
                except DamagedError:
                    refused += 1
    assert (asked > 0, refused > 0) == (is_role, not is_role)
