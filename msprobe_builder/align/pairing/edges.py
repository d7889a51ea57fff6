"""Who made what a call takes in, and what it comes from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.flow import Flow
from msprobe_builder.align.evidence.operators import (
    is_linear_map,
    maybe_hands_on,
    numbers_of,
)
from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.dump.parameters import Section
from msprobe_builder.operators.questions import commutes

Int = NDArray[np.int64]

FAR = 12  # calls without a partner between two that have one

Edge = tuple[int, int]  # a node and the position of a tensor that it takes in or puts out


@dataclass(frozen=True)
class Kinds:
    """Operators whose terms trade places, that hand on what they get, and those with weights."""

    commuting: frozenset[int]
    forms: frozenset[int]
    maps: frozenset[int]

    @staticmethod
    def of(operators: dict[str, int]) -> Kinds:
        """The ids of these operators."""
        return Kinds(
            *(
                frozenset(numbers_of(operators, question).tolist())
                for question in (commutes, maybe_hands_on, is_linear_map)
            )
        )


@dataclass(frozen=True)
class Edges:
    """By node, in both directions, what flows: ``given`` by place, ``taken`` by whom and where."""

    given: dict[int, dict[int, Edge]]
    taken: dict[int, list[Edge]]

    @staticmethod
    def of(flow: Flow, side: Traits, commuting: frozenset[int]) -> Edges:
        """Follow tensors beyond the calls that hand them on; where terms commute is no place."""
        table = flow.table
        rows = np.flatnonzero(
            (table.section == Section.INPUT) & (flow.source >= 0) & flow.is_leaf[table.node]
        )
        given: dict[int, dict[int, Edge]] = defaultdict(dict)
        taken: dict[int, list[Edge]] = defaultdict(list)
        sources = flow.source[rows]
        columns = (
            table.node[rows],
            table.position[rows],
            table.node[sources],
            table.position[sources],
        )
        for node, place, maker, output in zip(*(one.tolist() for one in columns), strict=True):
            if node == maker:
                continue
            given[node][place] = maker, output
            where = -1 if int(side.operator[node]) in commuting else place
            taken[maker].append((node, where))
        return Edges(given, taken)


def origins(
    pairs: Pairs, edges: tuple[Edges, Edges], i: int, j: int, kinds: Kinds
) -> Iterator[tuple[set[int], set[int]]]:
    """Of each tensor that a pair takes in the nearest calls that it comes from.

    The very calls that put it out if these are alike; else those before them that have a partner,
    or weights. Of all tensors together where terms trade places. Nothing where that is not known.
    """
    debug, reference = edges[0].given.get(i, {}), edges[1].given.get(j, {})
    commutes = int(pairs.npu.operator[i]) in kinds.commuting
    if commutes and len(debug) != len(reference):
        return
    places = debug.keys() & reference.keys()
    left, right = ([given[place][0] for place in sorted(given)] for given in (debug, reference))
    apart = [([debug[one][0]], [reference[one][0]]) for one in sorted(places)]
    for several in [(left, right)] if commutes else apart:
        if len(several[0]) == 1 and pairs.alike(several[0][0], several[1][0]):
            yield {several[0][0]}, {several[1][0]}
            continue
        found = [
            [behind(edge, side, partner, node, kinds.maps) for node in nodes]
            for edge, side, partner, nodes in (
                (edges[0], pairs.npu, pairs.partner, several[0]),
                (edges[1], pairs.bench, pairs.back, several[1]),
            )
        ]
        first, second = (set().union(*side) for side in found)
        yield first, second


def behind(edges: Edges, side: Traits, partner: Int, node: int, maps: frozenset[int]) -> set[int]:
    """The nearest calls that a tensor comes from which have a partner, or weights, or are ``maps``.

    What is made of nothing, as zeros are, comes from none. Without any ``maps`` modules alone are
    known: then those with weights are seen through, and all must be known.
    """
    found: set[int] = set()
    seen: set[int] = set()
    pending = [(node, 0)]
    while pending:
        one, far = pending.pop()
        if one in seen:
            continue
        seen.add(one)
        is_map = int(side.operator[one]) in maps or side.parameters.count[one] > 0
        if partner[one] >= 0 or (maps and is_map):
            found.add(one)
        elif far < FAR and one in edges.given:
            pending += [(maker, far + 1) for maker, _ in edges.given[one].values()]
        elif not maps:
            return set()
    return found
