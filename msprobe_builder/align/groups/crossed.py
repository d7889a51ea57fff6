"""Pairs that are exchanged: what the one puts out a call takes in where its pair takes the other's.

Query and key are made by calls that are alike, by one author in this order and by another one in
another. A product takes the query in first, whoever writes it.
"""

from __future__ import annotations

import numpy as np

from msprobe_builder.align.evidence.flow import inputs_of
from msprobe_builder.align.groups.ways import Side, Token
from msprobe_builder.align.pairing.pairs import Pairs

Behind = frozenset[Token]

_MOST = 64  # calls behind one place


def take_back_crossed(pairs: Pairs, sides: tuple[Side, Side], commuting: frozenset[int]) -> None:
    """Take back pairs that two calls take in at each other's places, and what is behind them.

    All pairs that are behind one of the places alone, up to what both come of.
    """
    debug, reference = (_first_two(side, commuting) for side in sides)
    for (first, second), node in debug.items():
        other = reference.get((second, first), -1)
        if first != second and other >= 0 and (first, second) not in reference:
            _take_back(pairs, sides, (node, other))


def _first_two(side: Side, commuting: frozenset[int]) -> dict[tuple[Behind, Behind], int]:
    """Calls whose places matter, by what is known behind the first two tensors they take in."""
    flow, found = side.flow, dict[tuple[Behind, Behind], int]()
    made = flow.table.node[flow.producer >= 0]
    calls = flow.is_leaf & (np.bincount(made, minlength=len(flow.is_leaf)) > 1)
    calls &= ~np.isin(side.traits.operator, list(commuting))
    for node in np.flatnonzero(calls).tolist():
        ways = [side.way(side.source(row)) for row in inputs_of(flow, node)[:2]]
        first, second = (frozenset(way.tokens if way else ()) for way in ways)
        if first and second:
            found.setdefault((first, second), node)
    return found


def _take_back(pairs: Pairs, sides: tuple[Side, Side], nodes: tuple[int, int]) -> None:
    alone = []
    for side, node in zip(sides, nodes, strict=True):
        rows = [side.source(row) for row in inputs_of(side.flow, node)[:2]]
        first, second = (_all_behind(side, row) for row in rows)
        alone.append(first ^ second)
    for node in alone[0]:
        other = int(pairs.partner[node])
        if other in alone[1] and pairs.take_back(node):
            for side, one in zip(sides, (node, other), strict=True):
                side.know([one], -1, [])


def _all_behind(side: Side, row: int) -> set[int]:
    """The nearest calls behind a tensor, whatever is known of them."""
    found: set[int] = set()
    pending = [row]
    while pending and len(found) < _MOST:
        row = pending.pop(0)
        if row >= 0 and (node := side.node(row)) not in found:
            found.add(node)
            pending += side.made(node)
    return found
