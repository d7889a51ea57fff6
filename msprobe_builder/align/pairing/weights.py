"""Modules known by their weights, wherever they stand.

Equal weights are the strongest sign there is: where a layer was taken out the indexes behind it
shift, and names lie. Weights that more than one module has, such as ones and zeros, say nothing.
Those that a module holds speak for it as its own do: a module and what it holds must not go to
different places.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.scores import Known
from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.pairing.across import around
from msprobe_builder.align.pairing.inside import pair_lists
from msprobe_builder.align.pairing.pairs import Pairs, note
from msprobe_builder.base.codes import Evidence
from msprobe_builder.dump.names import Kind
from msprobe_builder.match.hashing import mixed

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Keys = NDArray[np.uint64]

_DIGITS = 1e5  # equal weights are read from the same numbers


def twins_by_weights(npu: Traits, bench: Traits, known: Known) -> tuple[Int, Int]:
    """By node of each side, a number for modules that alone have equal weights, else -1."""
    return _twins(npu, bench, known, _own_weights)


def hosts_by_weights(npu: Traits, bench: Traits, known: Known) -> tuple[Int, Int]:
    """The same for modules without weights, by those that they hold."""
    return _twins(npu, bench, known, _held_weights)


def both_kinds(own: tuple[Int, Int], held: tuple[Int, Int]) -> list[Int]:
    """By side, numbers of modules known by their own weights or by those that they hold."""
    return [
        np.where(mine >= 0, 2 * mine, np.where(below >= 0, 2 * below + 1, -1))
        for mine, below in zip(own, held, strict=True)
    ]


def _twins(
    npu: Traits, bench: Traits, known: Known, weights: Callable[[Traits], tuple[Int, Keys]]
) -> tuple[Int, Int]:
    debug = _stems_by_key(*weights(npu), known.stem)
    reference = _stems_by_key(*weights(bench), known.other_stem)
    both = [key for key, stem in debug.items() if stem >= 0 and reference.get(key, -1) >= 0]
    number = {debug[key]: place for place, key in enumerate(both)}
    other_number = {reference[key]: place for place, key in enumerate(both)}
    return _numbers(npu, known.stem, number), _numbers(bench, known.other_stem, other_number)


def _numbers(side: Traits, stems: Int, number: dict[int, int]) -> Int:
    of_stem = np.full(int(stems.max(initial=0)) + 1, -1, dtype=np.int64)
    of_stem[list(number)] = list(number.values())
    is_module = side.forward & (side.outline.kind == Kind.MODULE)
    return np.where(is_module, of_stem[stems], -1)


def _stems_by_key(nodes: Int, keys: Keys, stems: Int) -> dict[int, int]:
    """The stem that has the weights of a key; -1 where several have."""
    result: dict[int, int] = {}
    for key, stem in zip(keys.tolist(), stems[nodes].tolist(), strict=True):
        if result.setdefault(key, stem) != stem:
            result[key] = -1
    return result


def _own_weights(side: Traits) -> tuple[Int, Keys]:
    """Modules that have weights of their own, and keys of these."""
    nodes = np.flatnonzero(
        side.forward & (side.outline.kind == Kind.MODULE) & (side.parameters.count > 0)
    )
    keys, usable = _keys(side, nodes)
    return nodes[usable], keys[usable]


def _held_weights(side: Traits) -> tuple[Int, Keys]:
    """Modules that have no weights of their own, and keys of those below, in any order."""
    nodes, keys = _own_weights(side)
    own, count = np.zeros(len(side) + 1, dtype=np.uint64), np.zeros(len(side) + 1, dtype=np.int64)
    own[nodes + 1], count[nodes + 1] = mixed(keys.view(np.int64)), 1
    sums, counts = np.cumsum(own, dtype=np.uint64), np.cumsum(count)  # these wrap around
    hosts = np.flatnonzero(
        side.forward & (side.outline.kind == Kind.MODULE) & (side.parameters.count == 0)
    )
    end = side.outline.tree.subtree_end[hosts] + 1
    hold = counts[end] > counts[hosts]
    hosts, end = hosts[hold], end[hold]
    return hosts, sums[end] - sums[hosts]


def _keys(side: Traits, nodes: Int) -> tuple[Keys, Bool]:
    values = side.parameters.values[:, nodes]
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.round(np.log(np.abs(values)) * _DIGITS)
    usable: Bool = np.asarray(np.isfinite(size).all(axis=0))
    coarse = np.where(np.isfinite(size), size, 0).astype(np.int64)
    columns = [side.parameters.shapes[nodes], *coarse, *np.sign(np.nan_to_num(values))]
    return mixed(*(np.asarray(column, dtype=np.int64) for column in columns)), usable


def _places(npu: Traits, bench: Traits, twin: Int, other_twin: Int) -> tuple[Int, Int]:
    """Modules known by their weights, and the first call of each on the other side."""
    others = np.flatnonzero(other_twin >= 0)
    first: dict[tuple[int, int], int] = {}
    for key, node in zip(_keyed(bench, others, other_twin), others.tolist(), strict=True):
        first.setdefault(key, node)
    told = np.flatnonzero(twin >= 0)
    place = np.array([first.get(key, -1) for key in _keyed(npu, told, twin)], dtype=np.int64)
    return told[place >= 0], place[place >= 0]


def contradicted(npu: Traits, bench: Traits, partner: Int, twin: Int, other_twin: Int) -> Bool:
    """Pairs of modules of equal names most of whose weights another module has.

    Nothing is contradicted unless all weights come in the same order on both sides: where they
    do not, weights may have been loaded into the wrong layers, and names are right.
    """
    result = np.zeros(len(npu), dtype=bool)
    told = np.flatnonzero((twin >= 0) & (partner > 0))
    if (twin[told] == other_twin[partner[told]]).all():
        return result
    tree = bench.outline.tree
    told, place = _places(npu, bench, twin, other_twin)
    if not (np.diff(place) > 0).all():
        return result
    is_module = npu.forward & (npu.outline.kind == Kind.MODULE)
    for node in np.flatnonzero(is_module & (partner > 0)).tolist():
        below = slice(*np.searchsorted(told, [node, npu.outline.tree.subtree_end[node] + 1]))
        other = int(partner[node])
        inside = (other <= place[below]) & (place[below] <= tree.subtree_end[other])
        # What has no weights goes with the module that holds it.
        host = int(npu.outline.tree.parent[node])
        result[node] = (~inside).sum() > inside.sum() if len(inside) else result[host]
    return result


def _keyed(side: Traits, nodes: Int, twin: Int) -> list[tuple[int, int]]:
    steps = side.outline.tree.micro_step[nodes]
    return list(zip(steps.tolist(), twin[nodes].tolist(), strict=True))


def pair_by_weights(pairs: Pairs, twin: Int, other_twin: Int) -> None:
    """Match what is still alone and has equal weights, and the calls inside.

    Nothing is matched across a pair of modules: the host of one must be the partner of one that
    holds the other.
    """
    free: dict[tuple[int, int], list[int]] = {}
    others = np.flatnonzero((other_twin >= 0) & (pairs.back < 0))
    for key, node in zip(_keyed(pairs.bench, others, other_twin), others.tolist(), strict=True):
        free.setdefault(key, []).append(node)
    nodes = np.flatnonzero((twin >= 0) & (pairs.partner < 0))
    for key, node in zip(_keyed(pairs.npu, nodes, twin), nodes.tolist(), strict=True):
        places = [one for one in free.get(key, ()) if pairs.back[one] < 0]
        if not places:
            continue
        other = places[0]
        if around(pairs, np.array([node]), np.array([other])).all():
            pairs.add(node, other, Evidence.INSIDE, 5.0)
            note(pairs, node, other)
            held, other_held = _held(pairs.npu, node), _held(pairs.bench, other)
            pair_lists(pairs, held, other_held, np.zeros_like(held), np.zeros_like(other_held))


def _held(side: Traits, module: int) -> Int:
    inside = np.arange(module + 1, int(side.outline.tree.subtree_end[module]) + 1)
    return np.asarray(inside[side.forward[inside] & (side.outline.host[inside] == module)])
