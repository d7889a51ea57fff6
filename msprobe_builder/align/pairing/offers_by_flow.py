"""Free calls that come of the same pairs, and whose results the same pairs take in."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.flow import Flow
from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.pairing.anchors import by_micro_step
from msprobe_builder.align.pairing.edges import Edges
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.match.matching import Group

Int = NDArray[np.int64]

_FAR = 8  # free calls between one and a pair
_AS_FAR = 0.25  # of a pair that is as many calls away
_PUT_OUT = 1.2  # more tells who takes in what a call puts out: that is what is compared
_IN_ORDER = 0.25
_MANY = 64  # calls on the way, and free calls beside one pair: more tell nothing


@dataclass(frozen=True)
class _Around:
    """Of each free call the pairs that it comes of, and those that take in what comes of it."""

    nodes: list[int]
    behind: dict[int, dict[int, int]]  # and how far these are
    ahead: dict[int, dict[int, int]]
    number: dict[int, int]  # among those of one kind with the same around them


def offered_by_flow(
    pairs: Pairs, flows: tuple[Flow, Flow], groups: Sequence[Group]
) -> Iterator[tuple[int, int, float]]:
    """Free calls of both sides, and how much they have in common: 0 to 5.

    The pairs behind and ahead of them, what they do, and how much they put out; of several that
    are alike, their order. Groups count as pairs.
    """
    npu, bench = pairs.npu, pairs.bench
    size = len(npu)
    known = np.where(pairs.partner >= 0, np.arange(size), -1)
    other_known = pairs.back.copy()
    for place, group in enumerate(groups):
        known[list(group.npu)] = other_known[list(group.bench)] = size + place
    moves = [np.isin(side.operator, pairs.known.moving) for side in (npu, bench)]
    steps = npu.outline.tree.micro_step, bench.outline.tree.micro_step
    debug, reference = _around(npu, flows[0], known), _around(bench, flows[1], other_known)
    beside: dict[tuple[bool, int], list[int]] = defaultdict(list)
    for j in reference.nodes:
        for is_ahead, one in ((False, reference.behind[j]), (True, reference.ahead[j])):
            for pair in one:
                beside[is_ahead, pair].append(j)
    for i in debug.nodes:
        near = Counter[int]()
        for is_ahead, one in ((False, debug.behind[i]), (True, debug.ahead[i])):
            for pair in one:
                others = beside.get((is_ahead, pair), [])
                near.update(others if len(others) <= _MANY else [])
        for j in near:
            same = npu.operator[i] == bench.operator[j]
            as_much = npu.outputs.numel[i] == bench.outputs.numel[j]
            if not (same or as_much) or steps[0][i] != steps[1][j] or moves[0][i] != moves[1][j]:
                continue
            weight = _shared(debug.behind[i], reference.behind[j])
            weight += _PUT_OUT * _shared(debug.ahead[i], reference.ahead[j])
            weight += 1.0 * same + 1.0 * (npu.outputs.shapes[i] == bench.outputs.shapes[j])
            yield i, j, float(weight + _IN_ORDER * (debug.number[i] == reference.number[j]))


def _shared(own: dict[int, int], other: dict[int, int]) -> float:
    """The share of pairs that both sides have, as far from both."""
    every = own.keys() | other.keys()
    shared = own.keys() & other.keys()
    as_far = sum(own[one] == other[one] for one in shared)
    return (len(shared) + _AS_FAR * as_far) / len(every) if every else 0.0


def _around(side: Traits, flow: Flow, known: Int) -> _Around:
    """``known`` numbers what both sides have; -1 is free."""
    edges = Edges.of(flow, side, frozenset())
    before = {node: {maker for maker, _ in given.values()} for node, given in edges.given.items()}
    after = {node: {taker for taker, _ in taken} for node, taken in edges.taken.items()}
    free = np.flatnonzero(flow.is_leaf & side.forward & (known < 0))
    nodes = [int(one) for step in by_micro_step(side, free) for one in step.tolist()]
    behind = {one: _nearest(before, known, one) for one in nodes}
    ahead = {one: _nearest(after, known, one) for one in nodes}
    number, seen = dict[int, int](), Counter[object]()
    for one in nodes:
        kind = int(side.operator[one]), *map(frozenset, (behind[one], ahead[one]))
        number[one] = seen[kind]
        seen[kind] += 1
    return _Around(nodes, behind, ahead, number)


def _nearest(edges: dict[int, set[int]], known: Int, node: int) -> dict[int, int]:
    """The numbers of the nearest nodes that have one, along the edges, and how far they are."""
    found, seen, pending = dict[int, int](), {node}, [node]
    for far in range(_FAR):
        further = []
        for one in pending:
            for other in edges.get(one, ()):
                if known[other] >= 0:
                    found.setdefault(int(known[other]), far)
                elif other not in seen and len(seen) < _MANY:
                    seen.add(other)
                    further.append(other)
        pending = further
    return found
