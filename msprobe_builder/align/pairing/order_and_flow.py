"""What the order of all calls and their depth in the flow tell of each, where no values do.

Two authors of one model make its calls in about the same order. All alignments that keep the order
are weighed against one another: how likely a pair is, is its share of the weight of all. What one
author calls in another order is looked for in what is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.flow import Flow, inputs_of
from msprobe_builder.align.evidence.scores import THRESHOLD
from msprobe_builder.align.evidence.sites import at_other_sites
from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.pairing.across import around
from msprobe_builder.align.pairing.anchors import by_micro_step
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.base.codes import Evidence
from msprobe_builder.dump.names import Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.match.hashing import mixed

Int = NDArray[np.int64]
Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

_LARGEST = 2_000_000  # pairs of calls of a micro-step that are weighed
_PLACES = 2  # first tensors that a call takes in, by which it is known
_FAR = 12  # calls one after the other that only move elements
ALONE = -0.7  # weight of a call that one side makes alone
_LEAST = 0.6  # probability of a pair that is made
_LIKELIER = 0.1  # probability of one that is offered
_DEEPER, _SHALLOW = 12.0, 0.06  # weight of standing deeper in one network, and what is no matter
_MOVED = 4.5  # weight of calls that only move what is put out by a pair
_NAMED = 0.7  # weight of what the names of the modules around say
_LIKELY = 0.7  # by which an exchange may be worse and still be likely
_KNOWN = 0.5  # least share of calls of which it is known who makes what they take in
_OPEN = 0.3  # probability below which a call has no partner
_BESIDE = 3  # calls without a partner that are seen through
_PASSES = 3  # networks that one author calls in another order are found in what is left


def pair_by_order_and_flow(pairs: Pairs, flow: Flow, other: Flow) -> None:
    """Guess which calls are pairs where no values tell.

    Where one side has no modules these are pairs; elsewhere evidence, see ``Known.guess``.
    """
    if pairs.known.trust.equal:
        return
    alone = not all(
        (side.forward & (side.outline.kind == Kind.MODULE)).any()
        for side in (pairs.npu, pairs.bench)
    )
    found = list(_guessed(pairs, flow, other, alone=alone))
    if not alone:
        for i, j, _ in found:
            pairs.known.guess[i], pairs.known.other_guess[j] = j, i
        return
    for i, j, probability in found:
        weight = THRESHOLD + float(np.log(probability / (1 - probability)))
        pairs.add(i, j, Evidence.INSIDE, max(weight, THRESHOLD))
    if not flow.is_guessed:
        pair_moving(pairs, flow, other)


def _guessed(
    pairs: Pairs, flow: Flow, other: Flow, *, alone: bool
) -> Iterator[tuple[int, int, float]]:
    """Pairs of calls with their probabilities; without flow only where calls are ``alone``."""
    moving = pairs.known.moving
    calls = _Calls.of(pairs.npu, flow, moving), _Calls.of(pairs.bench, other, moving)
    for a, b in zip(*(by_micro_step(one.side, one.nodes) for one in calls), strict=False):
        if not len(a) or not len(b) or len(a) * len(b) > _LARGEST:
            continue
        makers = calls[0].makers(a), calls[1].makers(b)
        local = alike = _alike(pairs, a, b)
        if all((one[0] >= 0).mean() > _KNOWN for one in makers):
            far = np.abs(_depth(makers[0])[:, None] - _depth(makers[1]))
            local = alike - _DEEPER * np.maximum(far - _SHALLOW, 0.0)
        elif not alone:
            continue
        found = np.zeros_like(local)
        for _ in range(_PASSES):
            i, j = np.flatnonzero(found.sum(axis=1) < 0.5), np.flatnonzero(found.sum(axis=0) < 0.5)
            if not len(i) or not len(j):
                break
            found[np.ix_(i, j)] = likely_pairs(local[np.ix_(i, j)])
        rows, columns = np.nonzero(found >= _LIKELIER)
        chances = found[rows, columns].tolist()
        pairs.known.chances += zip(a[rows].tolist(), b[columns].tolist(), chances, strict=True)
        rows, columns = np.nonzero(found >= _LEAST)
        if flow.is_guessed:
            nodes = (a, makers[0]), (b, makers[1])
            waits = [_waits(one.side, *them) for one, them in zip(calls, nodes, strict=True)]
            told = ~_exchangeable(local, rows, columns, (waits[0], waits[1]))
            told &= ~_shifted(alike, found, rows, columns)
            rows, columns = rows[told], columns[told]
        for row, column in zip(rows, columns, strict=True):
            yield int(a[row]), int(b[column]), min(float(found[row, column]), 1 - 1e-6)


def _exchangeable(local: Float, rows: Int, columns: Int, waits: tuple[Bool, Bool]) -> Bool:
    """Which pairs order alone tells: others of them could be made as well, and need not wait."""
    chosen, traded = local[rows, columns], local[np.ix_(rows, columns)]
    as_good = traded + traded.T > chosen[:, None] + chosen - 2 * _LIKELY
    np.fill_diagonal(as_good, False)
    waiting = waits[0][np.ix_(rows, rows)] & waits[1][np.ix_(columns, columns)]
    in_order = (rows[:, None] < rows) == (columns[:, None] < columns)
    return np.asarray((as_good & ~(waiting & in_order)).any(axis=1))


def _shifted(alike: Float, found: Float, rows: Int, columns: Int) -> Bool:
    """Which pairs stand between two calls left on the two sides that are like them.

    One author makes a branch before another one, so each stands beside the next one's.
    """
    chosen = alike[rows, columns] - _LIKELY
    free, other_free = (np.flatnonzero(found.sum(axis=one) < _OPEN) for one in (1, 0))
    result = np.zeros(len(rows), dtype=bool)
    for i, j in np.argwhere(alike[np.ix_(free, other_free)] > chosen.min(initial=np.inf)).tolist():
        row, column = free[i], other_free[j]
        least = np.minimum(alike[row, columns], alike[rows, column])
        is_like = np.minimum(least, alike[row, column]) > chosen
        result |= is_like & ((rows < row) != (columns < column))
    return result


def _waits(side: Traits, nodes: Int, makers: Int) -> Bool:
    """Whether one of two calls comes of the other, for all pairs of calls.

    Where it is unknown what a call comes of it is the call before, unless that does the same.
    """
    comes = np.zeros((len(nodes), len(nodes)), dtype=bool)
    like = mixed(side.operator[nodes], side.inputs.shapes[nodes]).tolist()
    for node, own in enumerate(makers.T.tolist()):
        known = [one for one in own if 0 <= one < node]
        before = node - 1
        while not known and before >= 0 and like[before] == like[node]:
            before -= 1
        for one in known or range(max(before, 0), before + 1):
            comes[node] |= comes[one]
            comes[node, one] = True
    return np.asarray(comes | comes.T)


def pair_moving(pairs: Pairs, flow: Flow, other: Flow) -> None:
    """Match calls that move elements of one tensor into one form, as often on both sides.

    Of several such calls, as of one tensor that is cut, their order tells.
    """
    moving = pairs.known.moving
    debug = _moved(pairs.npu, flow, moving, pairs.partner, pairs.partner)
    reference = _moved(pairs.bench, other, moving, np.arange(len(pairs.bench)), pairs.back)
    for key, nodes in debug.items():
        others = reference.get(key, [])
        if len(nodes) != len(others):
            continue
        for node, partner in zip(nodes, others, strict=True):
            if around(pairs, np.array([node]), np.array([partner])).all():
                pairs.add(node, partner, Evidence.INSIDE, _MOVED)


def _moved(
    side: Traits, flow: Flow, moving: Int, name: Int, partner: Int
) -> dict[tuple[int, ...], list[int]]:
    """Calls without a partner that move elements, by what they do with which tensor of a pair."""
    found: dict[tuple[int, ...], list[int]] = {}
    table = flow.table
    nodes = np.flatnonzero(flow.is_leaf & np.isin(side.operator, moving) & (partner < 0))
    for node in nodes.tolist():
        given = inputs_of(flow, node)
        source = int(flow.source[given[0]]) if given else -1
        maker = int(table.node[source]) if source >= 0 else -1
        for _ in range(_BESIDE):  # what one side does by a call more
            if maker < 0 or partner[maker] >= 0:
                break
            before = inputs_of(flow, maker)
            one = int(flow.source[before[0]]) if before else -1
            maker = int(table.node[one]) if one >= 0 else -1
        if maker < 0 or partner[maker] < 0:
            continue
        key = int(name[maker]), int(table.position[source]), int(side.operator[node])
        shapes = int(side.inputs.shapes[node]), int(side.outputs.shapes[node])
        found.setdefault((*key, *shapes), []).append(node)
    return found


@dataclass(frozen=True)
class _Calls:
    """The calls of a side that compute something, and who computed what they take in."""

    side: Traits
    nodes: Int
    maker: Int  # (places, all nodes of the side), -1 where unknown

    @staticmethod
    def of(side: Traits, flow: Flow, moving: Int) -> _Calls:
        """Calls that only move elements are seen through."""
        size, table = len(side), flow.table
        maker = np.full((_PLACES, size), -1, dtype=np.int64)
        rows = np.flatnonzero(
            flow.is_leaf[table.node] & (table.section == Section.INPUT) & table.is_tensor
        )
        node = table.node[rows]
        first = np.searchsorted(node, node)
        place = np.arange(len(rows)) - first
        known = (place < _PLACES) & (flow.source[rows] >= 0)
        maker[place[known], node[known]] = table.node[flow.source[rows[known]]]
        moves_only = flow.is_leaf & np.isin(side.operator, moving)
        for _ in range(_FAR):
            through = (maker >= 0) & moves_only[maker]
            if not through.any():
                break
            maker = np.where(through, maker[0][maker], maker)
        nodes = np.flatnonzero(flow.is_leaf & ~moves_only & (side.operator >= 0))
        return _Calls(side, nodes, maker)

    def makers(self, nodes: Int) -> Int:
        """By place, which of some nodes makes what each of them takes in, -1 for none."""
        number = np.full(len(self.side) + 1, -1, dtype=np.int64)
        number[nodes] = np.arange(len(nodes))
        return number[self.maker[:, nodes]]


def _said(pairs: Pairs, a: Int, b: Int) -> Float:
    """What the names of the modules say that make two calls, up to 2 for equal ones."""
    words, others = pairs.known.words, pairs.known.other_words
    hosts = pairs.npu.outline.host[a], pairs.bench.outline.host[b]
    (_, first, row), (_, second, column) = (
        np.unique(side.of_node[host], return_index=True, return_inverse=True)
        for side, host in zip((words, others), hosts, strict=True)
    )
    said = words.said(hosts[0][first], others, hosts[1][second])
    both = (hosts[0] > 0)[:, None] & (hosts[1] > 0)
    return np.asarray(said[row.reshape(-1)[:, None], column.reshape(-1)] * both)


def _depth(makers: Int) -> Float:
    """How many calls come before each one on the longest way to it, as a share of all."""
    result = np.zeros(makers.shape[1])
    for node, own in enumerate(makers.T.tolist()):
        result[node] = 1 + max((result[one] for one in own if 0 <= one < node), default=0)
    return np.asarray(result / result.max())


def _alike(pairs: Pairs, a: Int, b: Int) -> Float:
    """Evidence of what pairs of calls do and of what extent, without their surroundings."""
    npu, bench = pairs.npu, pairs.bench
    trust, products = pairs.known.trust, pairs.known.products
    operators = npu.operator[a][:, None], bench.operator[b]
    multiply = np.isin(operators[0], products) & np.isin(operators[1], products)
    # A product may take a bias with it; a sum of two others takes in no bias.
    other_inputs = np.where(multiply | ~np.bool_(trust.same_sizes), -0.3, -2.0)
    result = np.zeros((len(a), len(b)))
    for debug, reference, same, rank, otherwise in (
        (npu.outputs, bench.outputs, 1.5, 0.5, -6.0 if trust.same_sizes else -1.0),
        (npu.inputs, bench.inputs, 0.8, 0.3, other_inputs),
    ):
        equal = trust.extent(debug)[a][:, None] == trust.extent(reference)[b]
        numel = debug.numel[a][:, None] == reference.numel[b]
        result += np.where(equal, same, np.where(numel, rank, otherwise))
    result += 0.4 * (npu.arguments[a][:, None] == bench.arguments[b])
    site, other_site = pairs.known.site[a][:, None], pairs.known.other_site[b]
    result += 1.0 * ((site > 0) & (site == other_site)) - 4.0 * at_other_sites(site, other_site)
    result += _NAMED * _said(pairs, a, b)
    result += np.where(operators[0] == operators[1], 1.5, np.where(multiply, 0.5, -30.0))
    return result


def likely_pairs(score: Float) -> Float:
    """The probability of each pair among all alignments that keep the order.

    Weights are log-odds; the sums over all alignments from the beginning and from the end.
    """
    ahead, behind = _sums(score), _sums(score[::-1, ::-1])[::-1, ::-1]
    total = ahead[-1, -1]
    return np.asarray(np.exp(ahead[:-1, :-1] + score + behind[1:, 1:] - total))


def _sums(score: Float) -> Float:
    """The logarithm of the weight of all alignments up to each row and column."""
    n, m = score.shape
    result = np.empty((n + 1, m + 1))
    alone = ALONE * np.arange(m + 1)
    result[0] = alone
    for row in range(n):
        here = np.logaddexp(result[row, :-1] + score[row], result[row, 1:] + ALONE)
        here = np.r_[result[row, 0] + ALONE, here]
        result[row + 1] = np.logaddexp.accumulate(here - alone) + alone
    return result
