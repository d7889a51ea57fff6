"""Twins: networks of one shape that two authors call in another order.

What is inside of two such networks agrees with either of the other side, and its calls speak for
each other; who takes in their results, and what they are given, tells which is which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from msprobe_builder.align.edges import Edges, Kinds, makers
from msprobe_builder.align.flow import is_leaf
from msprobe_builder.align.pairs import Pairs
from msprobe_builder.base.codes import Evidence
from msprobe_builder.dump.names import Kind

_ROUNDS = 8  # of trades, each of which may show another one
_LARGEST = 4096  # calls of a network
_WEIGHT = 3.0

Both = tuple[Edges, Edges]


def trade_twins(pairs: Pairs, edges: Both, kinds: Kinds) -> int:
    """Give networks the partners that their surroundings ask for; how many calls got another.

    A call whose maker belongs to another one than the maker of its partner asks for these two.
    With them all goes that hangs together with them, and what had these partners gets theirs.
    Only where more neighbours agree than before.
    """
    total = 0
    for _ in range(_ROUNDS):
        traded = 0
        tried: set[tuple[int, int]] = set()
        for i, j in list(_claims(pairs, edges, kinds)):
            if (i, j) in tried or pairs.partner[i] == j or not _alike(pairs, i, j):
                continue
            block = _hanging_together(pairs, edges, i, j)
            tried.update(block.items())
            new = _traded(pairs, block)
            if new and _gains(pairs, edges, kinds, new):
                _set(pairs, new, new)
                for one in new:
                    pairs.evidence[one], pairs.weight[one] = Evidence.INSIDE, _WEIGHT
                traded += len(new)
        total += traded
        if not traded:
            break
    return total


def doubt_twins(pairs: Pairs, edges: Both, kinds: Kinds) -> None:
    """Leave grey what would get other partners if calls took in what they seem to.

    Where only shapes are known, what a call takes in is known too little to give it another one.
    """
    doubted: dict[int, set[int]] = {}
    tried: set[tuple[int, int]] = set()
    for i, j in list(_claims(pairs, edges, kinds)):
        if (i, j) in tried or pairs.partner[i] == j or not _alike(pairs, i, j):
            continue
        block = _hanging_together(pairs, edges, i, j)
        tried.update(block.items())
        new = _traded(pairs, block)
        if new and _gains(pairs, edges, kinds, new):
            for one, other in new.items():
                doubted.setdefault(one, set()).add(other)
    calls = {one for one in doubted if pairs.take_back(one)}
    leaves = np.flatnonzero(is_leaf(pairs.npu))
    ends = pairs.npu.outline.tree.subtree_end
    modules = pairs.npu.forward & (pairs.npu.outline.kind == Kind.MODULE) & (pairs.evidence > 0)
    for node in np.flatnonzero(modules & (pairs.partner > 0)).tolist():
        begin, stop = np.searchsorted(leaves, [node, int(ends[node]) + 1])
        held = leaves[begin:stop].tolist()
        if held and calls.issuperset(held):
            pairs.take_back(node)


def _claims(pairs: Pairs, edges: Both, kinds: Kinds) -> Iterator[tuple[int, int]]:
    """Calls that would be pairs if those that they hand tensors to, or get them from, are."""
    for i in list(edges[0].given):
        j = int(pairs.partner[i])
        if j < 0:
            continue
        mine, theirs = edges[0].given[i], edges[1].given.get(j, {})
        if int(pairs.npu.operator[i]) in kinds.commuting:
            continue
        for place in mine.keys() & theirs.keys():
            (maker, out), (its, its_out) = mine[place], theirs[place]
            if out != its_out or pairs.partner[maker] == its:
                continue
            yield maker, its
            known = int(pairs.partner[maker])
            if known < 0:
                continue
            operator = int(pairs.npu.operator[i])
            others = [
                node
                for node, where in edges[1].taken.get(known, ())
                if where == place and int(pairs.bench.operator[node]) == operator
            ]
            if len(others) == 1:
                yield i, others[0]


def _alike(pairs: Pairs, i: int, j: int) -> bool:
    npu, bench, extent = pairs.npu, pairs.bench, pairs.known.trust.extent
    return (
        not pairs.asked[i]
        and int(npu.operator[i]) == int(bench.operator[j])
        and bool(extent(npu.outputs)[i] == extent(bench.outputs)[j])
        and bool(extent(npu.parameters)[i] == extent(bench.parameters)[j])
        and bool(extent(npu.inputs)[i] == extent(bench.inputs)[j])
    )


def _hanging_together(pairs: Pairs, edges: Both, i: int, j: int) -> dict[int, int]:
    """What would be pairs with ``i`` and ``j``: who they get from and hand to at the same places.

    Up to what is a pair already, and to what is not alike.
    """
    block = {i: j}
    taken = {j}
    pending = [(i, j)]
    while pending and len(block) < _LARGEST:
        one, other = pending.pop()
        mine, theirs = edges[0].given.get(one, {}), edges[1].given.get(other, {})
        near = [
            (mine[place][0], theirs[place][0])
            for place in mine.keys() & theirs.keys()
            if mine[place][1] == theirs[place][1]
        ]
        near += _one_taker(pairs, edges, one, other)
        for node, partner in near:
            if node in block or partner in taken or pairs.partner[node] == partner:
                continue
            if _alike(pairs, node, partner):
                block[node] = partner
                taken.add(partner)
                pending.append((node, partner))
    return block


def _one_taker(pairs: Pairs, edges: Both, one: int, other: int) -> list[tuple[int, int]]:
    """What takes in a tensor at one place, if no other call of that kind does."""
    sides = []
    for side, edge, node in ((pairs.npu, edges[0], one), (pairs.bench, edges[1], other)):
        found: dict[tuple[int, int], int] = {}
        for taker, place in edge.taken.get(node, ()):
            key = int(side.operator[taker]), place
            found[key] = -1 if key in found else taker
        sides.append(found)
    return [
        (sides[0][key], sides[1][key])
        for key in sides[0].keys() & sides[1].keys()
        if sides[0][key] >= 0 and sides[1][key] >= 0
    ]


def _traded(pairs: Pairs, block: dict[int, int]) -> dict[int, int]:
    """The pairs of a block with those of what loses its partners by them, -1 for none.

    Nothing where that is impossible.
    """
    new = dict(block)
    for i, j in block.items():
        owner, lost = int(pairs.back[j]), int(pairs.partner[i])
        if owner >= 0 and owner not in new:
            if pairs.asked[owner]:
                return {}
            keeps = lost >= 0 and lost not in block.values() and _alike(pairs, owner, lost)
            new[owner] = lost if keeps else -1
    partners = [j for j in new.values() if j >= 0]
    return new if len(set(partners)) == len(partners) else {}


def _gains(pairs: Pairs, edges: Both, kinds: Kinds, new: dict[int, int]) -> bool:
    """Whether more neighbours agree with some new pairs than with the old ones."""
    old = {i: int(pairs.partner[i]) for i in new}
    concerned = set(new)
    for i in new:
        concerned.update(taker for taker, _ in edges[0].taken.get(i, ()))
    before = _agreeing(pairs, edges, kinds, concerned)
    _set(pairs, old, new)
    after = _agreeing(pairs, edges, kinds, concerned)
    _set(pairs, new, old)
    return after > before


def _set(pairs: Pairs, old: Mapping[int, int], new: Mapping[int, int]) -> None:
    for i in old:
        if pairs.partner[i] >= 0:
            pairs.back[pairs.partner[i]] = -1
        pairs.partner[i] = -1
    for i, j in new.items():
        if j >= 0:
            pairs.partner[i], pairs.back[j] = j, i


def _agreeing(pairs: Pairs, edges: Both, kinds: Kinds, nodes: set[int]) -> int:
    """How many neighbours of some calls are those of their partners, less those that are not."""
    result = 0
    for i in nodes:
        j = int(pairs.partner[i])
        if j < 0:
            continue
        if int(pairs.npu.operator[i]) not in kinds.commuting:
            result += sum(
                1 if agrees else -1 for _, agrees in makers(pairs, edges, i, j, kinds)
            )
            continue
        mine = {maker for maker, _ in edges[0].given.get(i, {}).values()}
        theirs = {maker for maker, _ in edges[1].given.get(j, {}).values()}
        known = [int(pairs.partner[maker]) for maker in mine]
        result += sum(1 if its in theirs else -1 for its in known if its >= 0)
    return result


def modules_apart(pairs: Pairs) -> list[int]:
    """Automatic pairs of modules most of whose calls have their partners outside of each other."""
    leaf = is_leaf(pairs.npu) & (pairs.partner > 0)
    held = np.flatnonzero(leaf)
    its = pairs.partner[held]
    ends, others = (side.outline.tree.subtree_end for side in (pairs.npu, pairs.bench))
    modules = pairs.npu.forward & (pairs.npu.outline.kind == Kind.MODULE) & (pairs.partner > 0)
    result = []
    for node in np.flatnonzero(modules & (pairs.evidence > 0)).tolist():
        other = int(pairs.partner[node])
        begin, stop = np.searchsorted(held, [node + 1, int(ends[node]) + 1])
        inside = (its[begin:stop] > other) & (its[begin:stop] <= others[other])
        if 2 * int(inside.sum()) < len(inside):
            result.append(node)
    return result
