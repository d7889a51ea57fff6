"""Which pairs of the documented rule stay, and which give way to evidence."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.scores import Known
from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.dump.names import Kind
from msprobe_builder.graph.side import Side

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


def with_content(side: Side, nodes: Bool) -> Bool:
    """The nodes and all below them."""
    change = np.zeros(len(nodes) + 1, dtype=np.int64)
    np.add.at(change, np.flatnonzero(nodes), 1)
    np.add.at(change, side.tree.subtree_end[nodes] + 1, -1)
    return np.asarray(np.cumsum(change)[:-1] > 0)


def stays(npu: Traits, bench: Traits, partner: Int, known: Known) -> Bool:
    """Which pairs of the documented rule nothing contradicts.

    A pair across micro-steps, or of a first call and a recomputed one, only has equal numbers,
    as have the first call of a module and the second one where a host makes both.
    Calls stay where their hosts make the same calls in the same order; elsewhere a counter may
    have shifted, and their names are evidence among other.
    """
    nodes = np.arange(len(partner))
    result = partner >= 0
    tree, other_tree = npu.outline.tree, bench.outline.tree
    result &= tree.micro_step == other_tree.micro_step[partner]
    result &= tree.is_recompute == other_tree.is_recompute[partner]
    host, other_host = npu.outline.host, bench.outline.host
    calls, other_calls = npu.outline.kind == Kind.API, bench.outline.kind == Kind.API
    result &= (npu.outline.kind == Kind.MODULE) | (host == 0) | (partner[host] >= 0)
    same = result & (other_host[partner] == partner[host])
    turn, other_turn = _turns(npu, known.stem), _turns(bench, known.other_stem)
    result &= ~same | calls | (turn == other_turn[partner])
    matched = np.bincount(host[calls & same], minlength=len(host))
    complete = (matched == np.bincount(host[calls], minlength=len(host))) & (
        matched == np.r_[np.bincount(other_host[other_calls], minlength=len(bench)), 0][partner]
    )
    order = nodes[calls & same]
    order = order[np.argsort(host[order], kind="stable")]
    crossing = (host[order[1:]] == host[order[:-1]]) & (partner[order[1:]] < partner[order[:-1]])
    complete[host[order[1:]][crossing]] = False
    result &= ~calls | complete[host]
    return np.asarray(result)


def _turns(side: Traits, stem: Int) -> Int:
    """Which call of its module a call is, from 0, among those that one host makes of it."""
    outline = side.outline
    keys = stem, outline.host, outline.tree.micro_step, outline.tree.is_recompute, side.direction
    order = np.lexsort(keys)
    starts = np.ones(len(order), dtype=bool)
    starts[1:] = np.any([key[order[1:]] != key[order[:-1]] for key in keys], axis=0)
    place = np.arange(len(order))
    result = np.empty(len(order), dtype=np.int64)
    result[order] = place - np.maximum.accumulate(np.where(starts, place, 0))
    return result


def let_go_of_collections(pairs: Pairs) -> None:
    """Drop collections of equal names whose matched calls all belong to others.

    They are only places between modules, and follow from what they hold.
    """
    npu, bench = pairs.npu.outline, pairs.bench.outline
    calls = np.flatnonzero((npu.kind == Kind.API) & (pairs.partner >= 0))
    inside, other = npu.tree.parent[calls], bench.tree.parent[pairs.partner[calls]]
    held = np.bincount(inside, minlength=len(pairs.npu))
    shared = np.bincount(inside[pairs.partner[inside] == other], minlength=len(pairs.npu))
    emptied = (npu.kind == Kind.COLLECTION) & (pairs.partner >= 0) & ~pairs.asked
    for node in np.flatnonzero(emptied & (held > 0) & (shared == 0)).tolist():
        pairs.drop(node)
