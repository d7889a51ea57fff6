"""Twins: networks of one shape that two authors call in another order.

What is inside of two such networks agrees with either of the other side, and its calls speak for
each other; who takes in their results, and what they are given, tells which is which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from msprobe_builder.align.evidence.flow import is_leaf
from msprobe_builder.align.evidence.words import named
from msprobe_builder.align.pairing.edges import Edges, Kinds, origins
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.base.codes import Evidence
from msprobe_builder.dump.names import Kind

_ROUNDS = 8  # of trades, each of which may show another one
_LARGEST = 4096  # calls of a network
_WEIGHT = 3.0
_SAID = 0.5  # by which names must agree better to be believed

Both = tuple[Edges, Edges]


def trade_twins(pairs: Pairs, edges: Both, kinds: Kinds) -> int:
    """Give networks the partners that their surroundings ask for; how many calls got another.

    A call whose maker belongs to another one than the maker of its partner asks for these two.
    With them all goes that hangs together with them, and what had these partners gets theirs.
    Only where more neighbours agree than before.
    """
    total = 0
    for _ in range(_ROUNDS):
        exchanged = 0
        tried: set[tuple[int, int]] = set()
        claims = [*_claims(pairs, edges, kinds), *_told_by_takers(pairs, edges, kinds)]
        for i, j in claims:
            if (i, j) in tried or _is_open(pairs, i, j) or not pairs.alike(i, j):
                continue
            block = _hanging_together(pairs, edges, kinds, i, j)
            tried.update(block.items())
            new = _traded(pairs, block)
            if new and _gains(pairs, edges, kinds, new):
                _set(pairs, new, new)
                for one in new:
                    pairs.evidence[one], pairs.weight[one] = Evidence.INSIDE, _WEIGHT
                exchanged += len(new)
        total += exchanged
        if not exchanged:
            break
    return total


def doubt_twins(pairs: Pairs, edges: Both, kinds: Kinds) -> None:
    """Leave grey what would get other partners if calls took in what they seem to.

    Where only shapes are known, what a call takes in is known too little to give it another one.
    """
    doubted: set[int] = set()
    tried: set[tuple[int, int]] = set()
    for i, j in list(_claims(pairs, edges, kinds)):
        if (i, j) in tried or pairs.partner[i] == j or not pairs.alike(i, j):
            continue
        block = _hanging_together(pairs, edges, kinds, i, j)
        tried.update(block.items())
        new = _traded(pairs, block)
        is_better = _is_network(pairs, new) and _gains(pairs, edges, kinds, new)
        if is_better and not _contradicts_names(pairs, new):
            doubted.update(new)
    calls = {one for one in doubted if pairs.take_back(one)}
    leaves = np.flatnonzero(is_leaf(pairs.npu))
    ends = pairs.npu.outline.tree.subtree_end
    for node in np.flatnonzero(pairs.partner > 0).tolist():
        begin, stop = np.searchsorted(leaves, [node, int(ends[node]) + 1])
        held = leaves[begin:stop].tolist()
        if held and calls.issuperset(held):
            pairs.take_back(node)


def _contradicts_names(pairs: Pairs, new: dict[int, int]) -> bool:
    """Whether the names of modules speak for the partners and against the new ones."""
    old = {i: int(pairs.partner[i]) for i in new}
    said = [_said(pairs, [(i, j) for i, j in one.items() if j >= 0]) for one in (old, new)]
    return said[0] > said[1] + _SAID


def _said(pairs: Pairs, both: list[tuple[int, int]]) -> float:
    """What the names of the modules of some pairs say on the average."""
    words, others = pairs.known.words, pairs.known.other_words
    total = 0.0
    for i, j in both:
        host, other = named(pairs.npu, np.array([i])), named(pairs.bench, np.array([j]))
        total += float(words.said(host, others, other)[0, 0])
    return total / max(len(both), 1)


def _is_network(pairs: Pairs, nodes: Iterable[int]) -> bool:
    """Whether some nodes are more than calls that all do the same, such as raising counters.

    Norms alone are none either: each stands beside what takes its result.
    """
    these = np.array(list(nodes), dtype=np.int64)
    modules = these[pairs.npu.operator[these] < 0]
    if len(modules):
        return bool((~pairs.npu.parameters.are_vectors(modules)).any())
    return len(np.unique(pairs.npu.operator[these])) > 1


def _claims(pairs: Pairs, edges: Both, kinds: Kinds) -> Iterator[tuple[int, int]]:
    """Calls that would be pairs if those that they hand tensors to, or get them from, are."""
    for i in list(edges[0].given):
        j = int(pairs.partner[i])
        if j < 0:
            continue
        yield from _asked_for(pairs, edges, kinds, i, j)
        yield from _other_takers(pairs, edges, i, j)


def _told_by_takers(pairs: Pairs, edges: Both, kinds: Kinds) -> Iterator[tuple[int, int]]:
    """Calls with weights, given one tensor, whose results go where that of another's partner goes.

    One author activates what comes first, another one what comes second: what takes a result in
    has no partner then.
    """
    for i in list(edges[0].given):
        j = int(pairs.partner[i])
        if j < 0 or int(pairs.npu.operator[i]) not in kinds.maps or _go_alike(pairs, edges, i, j):
            continue
        beside = {
            node
            for maker, _ in edges[0].given[i].values()
            for node, _ in edges[0].taken[maker]
            if node != i and pairs.partner[node] >= 0 and pairs.alike(node, j)
        }
        others = [node for node in beside if _go_alike(pairs, edges, node, j)]
        if len(others) == 1 and _go_alike(pairs, edges, i, int(pairs.partner[others[0]])):
            yield i, int(pairs.partner[others[0]])


def _go_alike(pairs: Pairs, edges: Both, i: int, j: int) -> bool:
    """Whether what two calls put out is taken in by the same operators, as often."""
    taken = (
        sorted(int(side.operator[node]) for node, _ in edge.taken.get(one, ()))
        for side, edge, one in ((pairs.npu, edges[0], i), (pairs.bench, edges[1], j))
    )
    first, second = taken
    return bool(first) and first == second


def _asked_for(
    pairs: Pairs, edges: Both, kinds: Kinds, i: int, j: int
) -> Iterator[tuple[int, int]]:
    """What two calls come from, where that is alike and no pair."""
    for debug, reference in origins(pairs, edges, i, j, kinds):
        left, right = _others(pairs, debug, reference)
        alike = [(one, other) for one in left for other in right if pairs.alike(one, other)]
        if len(alike) == 1:
            yield alike[0]


def _is_open(pairs: Pairs, i: int, j: int) -> bool:
    """Whether two calls are a pair, or both without any: then they need no trade."""
    return bool(pairs.partner[i] == j or (pairs.partner[i] < 0 and pairs.back[j] < 0))


def _others(pairs: Pairs, debug: set[int], reference: set[int]) -> tuple[set[int], set[int]]:
    """Those of each side whose partners are not among the others."""
    return (
        {one for one in debug if int(pairs.partner[one]) not in reference},
        {one for one in reference if int(pairs.back[one]) not in debug},
    )


def _other_takers(pairs: Pairs, edges: Both, i: int, j: int) -> Iterator[tuple[int, int]]:
    """A call that is given at one place what ``i`` is given there, by the partner of its maker."""
    operator, reference = int(pairs.npu.operator[i]), edges[1].given.get(j, {})
    for place, (maker, _) in edges[0].given[i].items():
        known = int(pairs.partner[maker])
        if known < 0 or place not in reference or reference[place][0] == known:
            continue
        others = [
            node
            for node, where in edges[1].taken.get(known, ())
            if where == place and int(pairs.bench.operator[node]) == operator
        ]
        if len(others) == 1:
            yield i, others[0]


def _hanging_together(pairs: Pairs, edges: Both, kinds: Kinds, i: int, j: int) -> dict[int, int]:
    """What would be pairs with ``i`` and ``j``: who they get from and hand to at the same places.

    Up to what is a pair already, and to what is not alike.
    """
    block = {i: j}
    taken = {j}
    pending = [(i, j)]
    while pending and len(block) < _LARGEST:
        one, other = pending.pop()
        near = [*_asked_for(pairs, edges, kinds, one, other), *_one_taker(pairs, edges, one, other)]
        for node, partner in near:
            if node in block or partner in taken or pairs.partner[node] == partner:
                continue
            if pairs.alike(node, partner):
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

    Nothing where that is impossible, nor where a call would leave its namesake at the line that
    makes both: one program needs no other partners.
    """
    new = dict(block)
    for i, j in block.items():
        owner, lost = int(pairs.back[j]), int(pairs.partner[i])
        if owner >= 0 and owner not in new:
            if pairs.asked[owner]:
                return {}
            keeps = lost >= 0 and lost not in block.values() and pairs.alike(owner, lost)
            new[owner] = lost if keeps else -1
    if any(_leaves_its_line(pairs, i, j) for i, j in new.items()):
        return {}
    partners = [j for j in new.values() if j >= 0]
    return new if len(set(partners)) == len(partners) else {}


def _leaves_its_line(pairs: Pairs, i: int, j: int) -> bool:
    known, old = pairs.known, int(pairs.partner[i])
    site = known.site[i]
    is_there = old >= 0 and known.exact[i] == old and site > 0 and site == known.other_site[old]
    if not is_there or (j >= 0 and known.other_site[j] == site):
        return False
    # The line of a layer of the library is that of all such layers.
    tree, other = pairs.npu.outline.tree, pairs.bench.outline.tree
    return bool(tree.names[tree.parent[i]] == other.names[other.parent[old]])


def _gains(pairs: Pairs, edges: Both, kinds: Kinds, new: dict[int, int]) -> bool:
    """Whether more neighbours agree with some new pairs than with the old ones."""
    old = {i: int(pairs.partner[i]) for i in new}
    concerned = set(new)
    for i in new:
        concerned.update(taker for taker, _ in edges[0].taken.get(i, ()))
    before = _agreeing(pairs, edges, kinds, concerned) + _alike_behind(pairs, edges, kinds, new)
    _set(pairs, old, new)
    after = _agreeing(pairs, edges, kinds, concerned) + _alike_behind(pairs, edges, kinds, new)
    _set(pairs, new, old)
    return after > before


def _alike_behind(pairs: Pairs, edges: Both, kinds: Kinds, nodes: Iterable[int]) -> int:
    """Of how many calls with weights the result goes where that of the partner goes."""
    of_maps = (one for one in nodes if int(pairs.npu.operator[one]) in kinds.maps)
    return sum(_go_alike(pairs, edges, one, int(pairs.partner[one])) for one in of_maps)


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
        for debug, reference in origins(pairs, edges, i, j, kinds):
            left, right = _others(pairs, debug, reference)
            result += len(debug) - len(left) - min(len(left), len(right))
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
