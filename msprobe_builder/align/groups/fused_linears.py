"""One linear against several: query, key and value are projected at once, or one by one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from msprobe_builder.align.evidence.flow import inputs_of, outputs_of
from msprobe_builder.align.evidence.tolerances import EQUAL
from msprobe_builder.align.groups.ways import Side, Token
from msprobe_builder.match.matching import Group

_BY_SHAPES = 0.75
_BY_WEIGHTS = 0.95
_MOST = 4  # linears that are written as one

Behind = frozenset[Token]


def find_linears(
    side: Side, other: Side, maps: frozenset[int], *, weights_tell: bool
) -> Iterator[Group]:
    """Groups of one linear of a side and several of the other that come of the same.

    What goes in is the same, weights and outputs add up; where ``weights_tell`` norms do, too.
    """
    behind, others = _linears(side, maps), _linears(other, maps)
    taken: set[int] = set()
    for tokens, ones in behind.items():
        many = others.get(tokens, [])
        for node in ones:
            runs = [
                many[begin:end]
                for begin in range(len(many))
                for end in range(begin + 2, min(begin + _MOST, len(many)) + 1)
                if not taken & set(many[begin:end])
                if _adds_up(side, other, node, many[begin:end], weights_tell)
            ]
            if len(runs) != 1:
                continue
            [run] = runs
            taken |= set(run)
            members, others_members, rows = _with_cuts(side, node, other, run)
            rows.insert(0, (inputs_of(side.flow, node)[0], inputs_of(other.flow, run[0])[0]))
            is_known = weights_tell and not np.isnan(_norms(side, [node])).any()
            certainty = _BY_WEIGHTS if is_known else _BY_SHAPES
            yield Group("linear", tuple(members), tuple(others_members), tuple(rows), certainty)


def exchanged(group: Group) -> Group:
    """The same seen from the other side."""
    rows = tuple((other, row) for row, other in group.rows)
    return Group(group.operation, group.bench, group.npu, rows, group.certainty)


def _linears(side: Side, maps: frozenset[int]) -> dict[Behind, list[int]]:
    """Free linear maps, and modules with weights, by what they come of."""
    traits = side.traits
    linear = np.isin(traits.operator, list(maps))
    linear |= (traits.operator < 0) & (traits.parameters.count > 0)
    found: dict[Behind, list[int]] = {}
    for node in np.flatnonzero(linear & side.flow.is_leaf & (side.known < 0)).tolist():
        given, put_out = inputs_of(side.flow, node), outputs_of(side.flow, node)
        if put_out and _matrix(side, node) >= 0:
            way = side.way(side.source(given[0]))
            if way is not None and way.tokens:
                found.setdefault(frozenset(way.tokens), []).append(node)
    return found


def _matrix(side: Side, node: int) -> int:
    """The largest row that nobody puts out, as linears take in a matrix, -1 for none."""
    rows = [row for row in inputs_of(side.flow, node)[1:] if side.flow.producer[row] < 0]
    return max(rows, key=side.numel, default=-1)


def _with_cuts(
    side: Side, node: int, other: Side, run: list[int]
) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """The members of both sides, with the calls that cut what is put out, and equal parts of it."""
    results = [outputs_of(other.flow, one)[0] for one in run]
    cuts, parts = _cut(side, outputs_of(side.flow, node)[0])
    its_cuts, its_parts = list[int](), list[int]()
    for result in results:
        calls, pieces = _cut(other, result)
        its_cuts += calls
        its_parts += pieces
    for more, places in (([], results), (its_cuts, its_parts)):
        if list(map(side.numel, parts)) == list(map(other.numel, places)):
            return [node, *cuts], [*run, *more], list(zip(parts, places, strict=True))
    return [node], run, []


def _cut(side: Side, row: int) -> tuple[list[int], list[int]]:
    """The free calls that cut a tensor, with those that move it before, and its parts."""
    members: list[int] = []
    while True:
        takers = sorted({one for one in side.takers(row) if side.known[one] < 0})
        if len(takers) != 1 or not side.only_moves(takers[0]):
            break
        members.append(takers[0])
        [row] = outputs_of(side.flow, takers[0])
    cuts = [one for one in takers if int(side.traits.operator[one]) in side.moving]
    return [*members, *cuts], [part for one in cuts for part in outputs_of(side.flow, one)]


def _adds_up(side: Side, other: Side, node: int, run: list[int], weights_tell: bool) -> bool:
    given = [inputs_of(other.flow, one)[0] for one in run]
    numel = side.numel(inputs_of(side.flow, node)[0])
    if any(other.numel(row) != numel for row in given):
        return False
    if len({int(other.flow.key[row]) for row in given}) > 1:
        return False
    results = [outputs_of(other.flow, one)[0] for one in run]
    if side.numel(outputs_of(side.flow, node)[0]) != sum(map(other.numel, results)):
        return False
    matrices = [_matrix(other, one) for one in run]
    if side.numel(_matrix(side, node)) != sum(map(other.numel, matrices)):
        return False
    square, squares = (
        float(np.square(_norms(one, nodes)).sum()) for one, nodes in ((side, [node]), (other, run))
    )
    is_unknown = not weights_tell or np.isnan(square) or np.isnan(squares)
    return bool(is_unknown or abs(square - squares) <= 10 * EQUAL * max(square, squares))


def _norms(side: Side, nodes: list[int]) -> np.ndarray:
    return side.flow.table.statistics[3, [_matrix(side, node) for node in nodes]]
