"""A linear map that takes in its bias, against one to which the other side adds it by a call."""

from __future__ import annotations

from dataclasses import replace

from msprobe_builder.align.evidence.flow import inputs_of, outputs_of
from msprobe_builder.align.groups.ways import Side
from msprobe_builder.align.pairing.edges import Kinds
from msprobe_builder.match.matching import Group


def linear_of(sides: tuple[Side, Side], node: int, other: int, certainty: float) -> Group:
    """Two linear maps as a group, with what they take in and put out first."""
    given = (inputs_of(sides[0].flow, node), inputs_of(sides[1].flow, other))
    made = (outputs_of(sides[0].flow, node), outputs_of(sides[1].flow, other))
    rows = [list(zip(*both, strict=False))[:1] for both in (given, made)]
    return Group("linear", (node,), (other,), tuple(rows[0] + rows[1]), certainty)


def with_biases(sides: tuple[Side, Side], group: Group, kinds: Kinds) -> Group | None:
    """The group with the sums that add what its linear maps of the other side take in.

    None where they add nothing, or not as much.
    """
    members = group.npu, group.bench
    sizes = [
        sum(side.bias(node) for node in nodes if side.traits.operator[node] in kinds.maps)
        for side, nodes in zip(sides, members, strict=True)
    ]
    if sizes[0] == sizes[1]:
        return None
    at = int(sizes[0] > sizes[1])
    side, own, ends = sides[at], set(members[at]), dict[int, int]()
    added = 0.0
    for row in (rows[at] for rows in group.rows):
        if side.node(row) in own and row in outputs_of(side.flow, side.node(row)):
            calls, size = _bias(side, row, kinds.commuting)
            if calls:
                added += size
                own |= set(calls)
                ends[row] = outputs_of(side.flow, calls[-1])[0]
    if not added or added != abs(sizes[0] - sizes[1]):
        return None
    rows = tuple(
        (ends.get(row, row), place) if at == 0 else (row, ends.get(place, place))
        for row, place in group.rows
    )
    npu, bench = (own, group.bench) if at == 0 else (group.npu, own)
    return replace(group, npu=tuple(sorted(npu)), bench=tuple(sorted(bench)), rows=rows)


def _bias(side: Side, row: int, commuting: frozenset[int]) -> tuple[list[int], float]:
    """The call that adds a given tensor to another one, with what moves this, and its size."""
    found: list[int] = []
    while len(takers := side.takers(row)) == 1 and side.known[takers[0]] < 0:
        [node] = takers
        found.append(node)
        if not side.only_moves(node):
            is_sum = int(side.traits.operator[node]) in commuting
            return (found, sum(map(side.numel, side.given(node)))) if is_sum else ([], 0.0)
        [row] = outputs_of(side.flow, node)[:1]
    return [], 0.0
