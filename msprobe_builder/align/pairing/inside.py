"""Pairing what the partners of a pair of modules hold, from the root down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.scores import IMPOSSIBLE, THRESHOLD, scores
from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.evidence.trust import levels
from msprobe_builder.align.pairing.alike import pair_alike
from msprobe_builder.align.pairing.anchors import align_leaves
from msprobe_builder.align.pairing.fused_projections import pair_last
from msprobe_builder.align.pairing.lists import Items, Lists
from msprobe_builder.align.pairing.pairs import Pairs, note
from msprobe_builder.align.pairing.repeated_calls import (
    LOOP,
    exchangeable,
    order_tells,
)
from msprobe_builder.align.pairing.sequences import clear, decide
from msprobe_builder.align.pairing.unordered import (
    named_apart,
    told_by_words,
    without_order,
)
from msprobe_builder.base.codes import Evidence
from msprobe_builder.base.sequence import longest_increasing
from msprobe_builder.dump.names import Kind

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_LARGEST = 1_000_000  # cells of a table of evidence; longer lists are aligned by equal calls
_MOST_LIKELY = 5  # candidates of a node that stays open
_PATIENCE = 8  # lists are aligned that often before all unmatched modules are dissolved
_FAR_MORE = 1.5  # times the parameters that another module has
_BY_ORDER = 0.5  # weight of an order that decides nothing for the candidates of what stays open
_ALIKE = 5.0  # weight of pairs about which nothing is open
_BLOCK, _MOST = 4, 0.75  # modules with weights that trade places as one, and least share of them
_FAST = 4.0  # weight that each of these needs


def pair_inside(
    pairs: Pairs, npu: Lists, bench: Lists, dissolved: Bool, other_dissolved: Bool
) -> None:
    """Match what matched modules hold, from the root down, level by level.

    A module without a partner is dissolved: what it holds counts as made by its host. Those in
    ``dissolved`` are from the beginning, others when nothing is found for them.
    """
    busy, other_busy = _has_work(npu, pairs.partner), _has_work(bench, pairs.back)
    marks = dissolved, other_dissolved
    a, b = npu.tops(), bench.tops()
    while len(a.nodes) and len(b.nodes):
        a = npu.opened(a, pairs.partner, dissolved)
        b = bench.opened(b, pairs.back, other_dissolved)
        pair_alike(pairs, a, b)
        reached = [a.nodes]
        for own, other in _with_open(pairs, a, b):
            reached.append(_pair_list(pairs, npu, bench, own, other, marks))
        nodes = np.unique(np.concatenate(reached))
        is_host = (npu.side.outline.kind[nodes] == Kind.MODULE) & (pairs.partner[nodes] >= 0)
        hosts = nodes[is_host & busy[nodes]]
        hosts = hosts[other_busy[pairs.partner[hosts]]]
        a, b = npu.inside(hosts), bench.inside(pairs.partner[hosts])


def _with_open(pairs: Pairs, a: Items, b: Items) -> Iterator[tuple[Items, Items]]:
    """The lists of which both sides have some items, and in which something is left to do."""
    size = min(a.number, b.number)
    sides = (pairs.npu, a, pairs.partner), (pairs.bench, b, pairs.back)
    has, free, modules = np.zeros((3, 2, size), dtype=bool)
    for place, (side, items, partner) in enumerate(sides):
        is_free = partner[items.nodes] < 0
        is_module = side.outline.kind[items.nodes] == Kind.MODULE
        for found, which in ((has, ...), (free, is_free), (modules, is_free & is_module)):
            found[place] = np.bincount(items.of[which], minlength=size)[:size]
    for one in np.flatnonzero(has.all(axis=0) & (free.all(axis=0) | modules.any(axis=0))).tolist():
        yield a.of_list(one), b.of_list(one)


def _pair_list(
    pairs: Pairs, npu: Lists, bench: Lists, a: Items, b: Items, marks: tuple[Bool, Bool]
) -> Int:
    """Match the items of two lists, which are opened as long as modules are left; all items."""
    for attempt in count():
        while _open_unequalled(pairs, a.nodes, b.nodes, *marks):
            a = npu.opened(a, pairs.partner, marks[0])
            b = bench.opened(b, pairs.back, marks[1])
        lists = a.nodes, b.nodes, a.depth, b.depth
        pair_lists(pairs, *lists)
        if (pairs.partner[a.nodes] < 0).any() and (pairs.back[b.nodes] < 0).any():
            if attempt == 0:
                _pair_traded(pairs, *lists, other_calls=True)
            _pair_equal(pairs, a.nodes, b.nodes)
            _pair_moved(pairs, *lists)
        left = _unmatched(npu.side, a.nodes, pairs.partner)
        other_left = _unmatched(bench.side, b.nodes, pairs.back)
        if not len(left) and not len(other_left):
            break
        _open_largest(npu, bench, left, other_left, *marks, attempt >= _PATIENCE)
        a = npu.opened(a, pairs.partner, marks[0])
        b = bench.opened(b, pairs.back, marks[1])
    _pair_traded(pairs, a.nodes, b.nodes, a.depth, b.depth)
    return a.nodes


def _has_work(lists: Lists, partner: Int) -> Bool:
    """Modules that hold a node without a partner, at any depth."""
    free = np.zeros(len(partner) + 1, dtype=np.int64)
    free[lists.nodes[partner[lists.nodes] < 0] + 1] = 1
    sums = np.cumsum(free)
    return np.asarray(sums[lists.side.outline.tree.subtree_end + 1] > sums[:-1])


def _open_unequalled(pairs: Pairs, a: Int, b: Int, dissolved: Bool, other_dissolved: Bool) -> bool:
    """Dissolve modules with far more parameters than any of the other list; whether there are any.

    Such a module has no counterpart there; what it holds may have.
    """
    npu, bench = pairs.npu, pairs.bench
    totals = npu.parameters_below[1, 0], bench.parameters_below[1, 0]
    if max(totals) > _FAR_MORE * min(totals):
        return False  # models of other sizes
    a = a[(npu.operator[a] < 0) & (pairs.partner[a] < 0)]
    b = b[(bench.operator[b] < 0) & (pairs.back[b] < 0)]
    size, other_size = npu.parameters_below[1, a], bench.parameters_below[1, b]
    alone = (size > _FAR_MORE * other_size.max(initial=0)) & (npu.parameters.count[a] == 0)
    other_alone = (other_size > _FAR_MORE * size.max(initial=0)) & (bench.parameters.count[b] == 0)
    dissolved[a[alone]], other_dissolved[b[other_alone]] = True, True
    return bool(alone.any() or other_alone.any())


def _unmatched(side: Traits, a: Int, partner: Int) -> Int:
    """The modules that found no partner."""
    is_module = side.outline.kind[a] == Kind.MODULE
    return np.asarray(a[is_module & (partner[a] < 0)])


def _open_largest(
    npu: Lists,
    bench: Lists,
    a: Int,
    b: Int,
    dissolved: Bool,
    other_dissolved: Bool,
    everything: bool,
) -> None:
    """Dissolve the unmatched modules with most parameters, or of those without any, most calls.

    The counterparts of the smaller may stand inside the larger of the other side.
    """
    size, other_size = _sizes(npu.side, a), _sizes(bench.side, b)
    largest = max(size.max(initial=0), other_size.max(initial=0))
    least = 0 if everything else largest if largest >= 1 else 0.5 * largest
    dissolved[a[size >= least]] = True
    other_dissolved[b[other_size >= least]] = True


def _sizes(side: Traits, nodes: Int) -> NDArray[np.float64]:
    """Numbers of parameters; where there are none, of nodes, as a fraction."""
    calls = (side.outline.tree.subtree_end[nodes] - nodes) / (len(side) + 1)
    parameters = side.parameters_below[1, nodes]
    return np.asarray(np.where(parameters > 0, parameters, calls))


def pair_lists(pairs: Pairs, a: Int, b: Int, depth: Int, other_depth: Int) -> None:
    """Match the items of two lists where the evidence decides, between those that are matched."""
    for last in pair_last(pairs, a, b):
        note(pairs, last, int(pairs.partner[last]))
    place = {node: index for index, node in enumerate(b.tolist())}
    partner = pairs.partner[a]
    at = np.array([place.get(node, -1) for node in partner.tolist()], dtype=np.int64)
    x = np.flatnonzero(at >= 0)
    x = x[longest_increasing(at[x])]
    y = at[x]
    bounds = np.stack([np.r_[-1, x], np.r_[x, len(a)], np.r_[-1, y], np.r_[y, len(b)]])
    bounds = bounds[:, (bounds[1] - bounds[0] > 1) & (bounds[3] - bounds[2] > 1)]
    in_order = not bounds.size or order_tells(pairs, a, b)
    for begin, end, other_begin, other_end in bounds.T.tolist():
        i = np.arange(begin + 1, end)
        j = np.arange(other_begin + 1, other_end)
        i, j = i[pairs.partner[a[i]] < 0], j[pairs.back[b[j]] < 0]
        if len(i) and len(j):
            pair_gap(pairs, a[i], b[j], depth[i], other_depth[j], in_order=in_order)


def pair_gap(
    pairs: Pairs,
    a: Int,
    b: Int,
    depth: Int,
    other_depth: Int,
    possible: Bool | None = None,
    *,
    in_order: bool = True,
    chosen: Bool | None = None,
) -> None:
    """Match the items between two pairs; all are free. ``possible`` tells which pairs may be.

    Equal calls in a row are matched ``in_order`` or not at all. ``chosen`` are the pairs to make
    of those that may be.
    """
    if len(a) * len(b) > _LARGEST:
        found = align_leaves(pairs.npu, pairs.bench, a, b)
        for node, other in zip(found.npu.tolist(), found.bench.tolist(), strict=True):
            if pairs.npu.operator[node] >= 0:
                pairs.add(node, other, Evidence.INSIDE, _ALIKE)
        return
    score = scores(pairs.npu, pairs.bench, a, b, depth, other_depth, pairs.known)
    if possible is not None:
        score[~possible] = IMPOSSIBLE
    rows, columns, _ = decide(score if chosen is None else np.where(chosen, score, IMPOSSIBLE))
    if not in_order or not pairs.known.one_code:
        is_module = pairs.npu.operator[a] < 0
        fast = np.ones(len(rows), dtype=bool)
        if not in_order:
            fast = is_module[rows]
            fast &= ~(_parallel(pairs.npu, a[rows]) & _parallel(pairs.bench, b[columns]))
        named = without_order(pairs, pairs.npu, a), without_order(pairs, pairs.bench, b)
        loops = named_apart(pairs.npu, a, around=True), named_apart(pairs.bench, b, around=True)
        told = ~exchangeable(score, rows, columns, fast, named, loops, told_by_words(pairs, a, b))
        score[rows[~told], columns[~told]] += _BY_ORDER
        rows, columns = rows[told], columns[told]
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        node, other = int(a[row]), int(b[column])
        pairs.add(node, other, Evidence.INSIDE, float(score[row, column]))
        note(pairs, node, other)
    score[rows], score[:, columns] = IMPOSSIBLE, IMPOSSIBLE
    for side, own, other_nodes, table in ((0, a, b, score), (1, b, a, score.T)):
        for place in np.flatnonzero((table > THRESHOLD).any(axis=1)).tolist():
            best = np.argsort(-table[place], kind="stable")[:_MOST_LIKELY]
            best = best[table[place, best] > THRESHOLD]
            choices = zip(other_nodes[best].tolist(), table[place, best].tolist(), strict=True)
            pairs.open[side][int(own[place])] = list(choices)


def _parallel(side: Traits, nodes: Int) -> Bool:
    """Which of some nodes are given the very tensor of another: neither needs the other first.

    Without statistics, which may be: those with the weights of one module between which nothing
    puts out a tensor of that shape, and that are no steps of a loop.
    """
    same = levels(side.inputs, side.inputs, nodes[:, None], nodes[None, :]) == 2
    result = np.asarray(same.sum(axis=1) > 1)
    if not np.isnan(side.inputs.values[0, nodes]).all():
        return result
    sizes, ends = side.parameters.numel, side.outline.tree.subtree_end
    last: dict[tuple[int, int], int] = {}  # place of the last node that does the same, by shapes
    keys = list(zip(side.operator[nodes].tolist(), side.inputs.shapes[nodes].tolist(), strict=True))
    number = Counter(keys)
    for place, (node, key) in enumerate(zip(nodes.tolist(), keys, strict=True)):
        inside = slice(node, int(ends[node]) + 1)
        if number[key] >= LOOP or side.parameters_below[1, node] > sizes[inside].max():
            continue
        before = last.get(key)
        if before is not None:
            between = np.arange(int(ends[nodes[before]]) + 1, node)
            between = between[ends[between] < node]  # what is around the node comes of it
            if key[1] not in side.outputs.shapes[between]:
                result[[before, place]] = True
        last[key] = place
    return result


def _pair_traded(
    pairs: Pairs, a: Int, b: Int, depth: Int, other_depth: Int, *, other_calls: bool = False
) -> None:
    """Match what is left of two lists across pairs, where it is far better than every other choice.

    Modules are dissolved one after the other: what exchanged places with the content of one could
    not be seen before. With ``other_calls`` only calls of modules that have the same name.
    """
    i, j = np.flatnonzero(pairs.partner[a] < 0), np.flatnonzero(pairs.back[b] < 0)
    if other_calls and len(i) and len(j):
        stem, other_stem = pairs.known.stem[a[i]], pairs.known.other_stem[b[j]]
        i = i[(pairs.npu.operator[a[i]] < 0) & np.isin(stem, other_stem)]
        j = j[(pairs.bench.operator[b[j]] < 0) & np.isin(other_stem, stem)]
    if not len(i) or not len(j) or len(i) * len(b) + len(a) * len(j) > _LARGEST:
        return
    sides = pairs.npu, pairs.bench
    rows = scores(*sides, a[i], b, depth[i], other_depth, pairs.known)
    columns = scores(*sides, a, b[j], depth, other_depth[j], pairs.known)
    x, y = clear(rows)
    in_columns = set(zip(*(place.tolist() for place in clear(columns)), strict=True))
    place = {int(column): number for number, column in enumerate(j)}
    for row, column in zip(x.tolist(), y.tolist(), strict=True):
        if (int(i[row]), place.get(column, -1)) in in_columns:
            if other_calls and pairs.known.stem[a[i[row]]] != pairs.known.other_stem[b[column]]:
                continue
            node, other = int(a[i[row]]), int(b[column])
            pairs.add(node, other, Evidence.INSIDE, float(rows[row, column]))
            note(pairs, node, other)


def _pair_moved(pairs: Pairs, a: Int, b: Int, depth: Int, other_depth: Int) -> None:
    """Match what is left of two lists as one sequence, if most of it goes together.

    One author calls the encoder of images first, another one that of texts: what belongs to one
    of them stands before what belongs to the other, and in no gap with its own.
    """
    i, j = np.flatnonzero(pairs.partner[a] < 0), np.flatnonzero(pairs.back[b] < 0)
    if len(i) < _BLOCK or len(j) < _BLOCK:
        return
    weights = pairs.npu.parameters_below[1, a[i]] > 0, pairs.bench.parameters_below[1, b[j]] > 0
    least = min(int(weights[0].sum()), int(weights[1].sum()))
    if least < _BLOCK or len(i) * len(j) > _LARGEST:
        return
    score = scores(pairs.npu, pairs.bench, a[i], b[j], depth[i], other_depth[j], pairs.known)
    rows, columns, _ = decide(np.where(score >= _FAST, score, IMPOSSIBLE))
    if weights[0][rows].sum() >= _MOST * least:
        chosen = np.zeros(score.shape, dtype=bool)
        chosen[rows, columns] = True
        places = a[i], b[j], depth[i], other_depth[j]
        possible = chosen if pairs.known.one_code else None
        pair_gap(pairs, *places, possible, in_order=order_tells(pairs, a[i], b[j]), chosen=chosen)


def _pair_equal(pairs: Pairs, a: Int, b: Int) -> None:
    """Match modules left in two lists that alone take in and put out the same tensors.

    Before they are dissolved: beside what exchanged places they stand in no gap together.
    """
    if not pairs.known.trust.equal:
        return
    a, b = _unmatched(pairs.npu, a, pairs.partner), _unmatched(pairs.bench, b, pairs.back)
    if len(a) * len(b) > _LARGEST:
        return
    grid = a[:, None], b[None, :]
    same = levels(pairs.npu.inputs, pairs.bench.inputs, *grid) == 2
    same &= levels(pairs.npu.outputs, pairs.bench.outputs, *grid) == 2
    rows, columns = np.nonzero(same & (same.sum(axis=1) == 1)[:, None] & (same.sum(axis=0) == 1))
    level = np.zeros(1, np.int64)
    for node, other in zip(a[rows].tolist(), b[columns].tolist(), strict=True):
        one, two = np.array([node]), np.array([other])
        weight = float(scores(pairs.npu, pairs.bench, one, two, level, level, pairs.known)[0, 0])
        if weight > THRESHOLD and pairs.add(node, other, Evidence.INSIDE, weight):
            note(pairs, node, other)
