"""Equal calls in a row: where their order tells them apart, and where nothing does.

Query, key and value are transposed one after the other, by one author in this order and by another
one in another. Two runs of one code make them in one order, however their modules are called.
Statistics tell such calls apart; without any, order counts where the two sides do nearly the same.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.pairing.anchors import leaves
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.base.sequence import align, longest_increasing
from msprobe_builder.dump.names import Kind
from msprobe_builder.match.hashing import mixed, same_ids

Int = NDArray[np.int64]
Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

_SAME_CODE = 0.8  # least share of equal calls, of the longer list
_ONE_CODE = 0.9  # least share of equal leaves
_LIKELY = 0.7  # by which an exchange may be worse and still be likely
_SAID = 0.5  # by which a name must agree better than all others
LOOP = 8  # equal calls in a row, as many on both sides: steps of a loop, whose order is one
_ROUNDS = 8  # of finding what stands fast between what stood fast before


def order_tells(pairs: Pairs, a: Int, b: Int) -> bool:
    """Whether equal calls of two lists may be told apart by their order."""
    trust = pairs.known.trust
    if trust.equal or trust.near:
        return True
    if not pairs.known.same_code:
        return False
    debug, reference = _keys(pairs.npu, pairs, a), _keys(pairs.bench, pairs, b)
    common, _ = align(*same_ids(debug, reference))
    return len(common) >= _SAME_CODE * max(len(a), len(b))


def same_code(pairs: Pairs, core: Int, other_core: Int) -> bool:
    """Whether two sides without calls hold equal modules in an equal hierarchy, as one code does.

    A list of modules looks alike in any two models; where one author makes a module of what the
    other one writes out, order tells nothing anywhere. Modules that only pass through do not count.
    """
    debug, reference = (
        _hierarchy(pairs.npu, pairs, core),
        _hierarchy(pairs.bench, pairs, other_core),
    )
    common, _ = align(*same_ids(debug, reference))
    return len(common) >= _SAME_CODE * min(len(debug), len(reference))


def one_code(pairs: Pairs) -> bool:
    """Whether the leaves of two sides are those of one code, where no values tell.

    A call may be missing, or a layer; two authors make others. Without calls in the dumps there is
    less to differ in, so all of the longer side counts.
    """
    longest = max if not pairs.npu.below[0].any() else min
    for a, b in zip(leaves(pairs.npu), leaves(pairs.bench), strict=False):
        if len(a) and len(b):
            common, _ = align(*same_ids(_keys(pairs.npu, pairs, a), _keys(pairs.bench, pairs, b)))
            if len(common) < _ONE_CODE * longest(len(a), len(b)):
                return False
    return True


def same_calls(pairs: Pairs) -> bool:
    """Whether both sides make the same calls as often, in whatever order: then each has its own."""
    for a, b in zip(leaves(pairs.npu), leaves(pairs.bench), strict=False):
        debug, reference = (
            Counter(_keys(pairs.npu, pairs, a)),
            Counter(_keys(pairs.bench, pairs, b)),
        )
        if (debug & reference).total() < _ONE_CODE * max(len(a), len(b)):
            return False
    return True


def _hierarchy(side: Traits, pairs: Pairs, core: Int) -> NDArray[np.uint64]:
    """Of each leaf what is known of it, and the levels from the one before it up and down to it."""
    nodes = np.flatnonzero(side.forward & (side.outline.kind == Kind.MODULE))
    level = np.zeros(len(side), dtype=np.int64)
    above = np.maximum(side.outline.tree.parent, 0)
    for node in nodes.tolist():
        level[node] = level[above[node]] + (core[node] == node)
    around = level[nodes] - (core[nodes] == nodes)
    is_leaf = side.outline.tree.subtree_end[nodes] == nodes
    place = np.flatnonzero(is_leaf)
    if not len(place):
        return np.empty(0, np.uint64)
    meeting = np.minimum.reduceat(around, np.r_[0, place[:-1] + 1])
    before = np.r_[0, around[place[:-1]]]
    up, down = before - meeting, around[place] - meeting
    return mixed(_keys(side, pairs, nodes[place]).view(np.int64), up, down)


def _keys(side: Traits, pairs: Pairs, nodes: Int) -> NDArray[np.uint64]:
    trust = pairs.known.trust
    tensors = (side.inputs, side.outputs, side.parameters)
    extents = (trust.extent(one)[nodes].astype(np.int64) for one in tensors)
    return mixed(side.operator[nodes], *extents)


def exchangeable(
    score: Float,
    rows: Int,
    columns: Int,
    fast: Bool,
    named: tuple[Bool, Bool],
    loops: tuple[Bool, Bool],
    said: Float,
) -> Bool:
    """Which of the pairs could as well be made with other items of the two lists.

    What could be paired in one way alone stands ``fast``, and so does what only trades partners
    across that. The rest is exchangeable: the calls of query, key and value, or the passes of a
    loop over experts, whole blocks at a time. Of many passes, as many on both sides, each is told
    by its number: time goes forward whoever writes the loop. ``named`` tells for two items of each
    list whether names alone tell them apart: these have no order, even where both stand ``fast``.
    ``loops`` tells the same of modules around two items, which are in no loop then. ``said`` is
    what words say of each row and column.
    """
    chosen = score[rows, columns]
    exchanged = score[np.ix_(rows, columns)]
    swaps = exchanged + exchanged.T > chosen[:, None] + chosen - 2 * _LIKELY
    np.fill_diagonal(swaps, False)
    free_rows = np.setdiff1d(np.arange(score.shape[0]), rows)
    free_columns = np.setdiff1d(np.arange(score.shape[1]), columns)
    by_row = chosen[:, None] - _LIKELY < score[np.ix_(free_rows, columns)].T
    by_column = score[np.ix_(rows, free_columns)] > chosen[:, None] - _LIKELY
    named_rows, named_columns = named[0][np.ix_(rows, rows)], named[1][np.ix_(columns, columns)]
    # A side that counts all of its modules gives an order.
    without_order = (named_rows | named_columns) & (named[0].any() and named[1].any())
    of_others = loops[0][np.ix_(rows, rows)] | loops[1][np.ix_(columns, columns)]
    swaps &= ~fast[:, None] | without_order
    by_row &= ~fast[:, None] | named[0][np.ix_(rows, free_rows)]
    by_column &= ~fast[:, None] | named[1][np.ix_(columns, free_columns)]
    # A word that only the two names share tells what the order does not.
    least = said[rows, columns] - _SAID
    words = said[np.ix_(rows, columns)]
    by_name = ~(swaps & ((words > least[:, None]) | (least[:, None] < words.T))).any(axis=1)
    by_name &= ~(by_row & (least[:, None] < said[np.ix_(free_rows, columns)].T)).any(axis=1)
    by_name &= ~(by_column & (said[np.ix_(rows, free_columns)] > least[:, None])).any(axis=1)
    by_name &= least >= 0
    swaps &= ~(by_name[:, None] | by_name)
    by_row &= ~by_name[:, None]
    by_column &= ~by_name[:, None]
    in_order = np.zeros(len(rows), dtype=bool)
    in_order[longest_increasing(columns)] = True
    told = ~(swaps.any(axis=1) | by_row.any(axis=1) | by_column.any(axis=1))
    is_loop = np.zeros(len(rows), dtype=bool)  # what is one stays one: its steps part each other
    may_be_loop = ~fast & ~(swaps & of_others).any(axis=1)
    for _ in range(_ROUNDS):
        anchors = told & in_order
        apart = _apart(rows[anchors], rows, rows) | _apart(columns[anchors], columns, columns)
        others = (swaps & ~apart).sum(axis=1)
        is_loop |= may_be_loop & (others >= LOOP - 1)
        free = (by_row & ~_apart(rows[anchors], rows, free_rows)).any(axis=1)
        free |= (by_column & ~_apart(columns[anchors], columns, free_columns)).any(axis=1)
        now = ~free & ((others == 0) | is_loop)
        if np.array_equal(now, told):
            break
        told = now
    return np.asarray(~told)


def _apart(anchors: Int, a: Int, b: Int) -> Bool:
    """Where an anchor stands between two places, for each pair of ``a`` × ``b``."""
    anchors = np.sort(anchors)
    low, high = np.minimum(a[:, None], b), np.maximum(a[:, None], b)
    first_behind = np.searchsorted(anchors, low, side="right")
    return np.asarray(np.searchsorted(anchors, high) > first_behind)
