"""Modules known by the calls that make their results.

What a module puts out is made by one of its last calls. The partner of that call makes what the
partner of the module puts out: if it does not, one of the two modules does more than the other,
such as an addition or a norm at its end, and they are no counterparts. Results are compared
with calls of the same side alone, so a fault or another seed changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.flow import is_leaf
from msprobe_builder.align.evidence.operators import maybe_hands_on, moves, numbers_of
from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.evidence.trust import levels
from msprobe_builder.align.pairing.across import around
from msprobe_builder.align.pairing.anchors import by_micro_step
from msprobe_builder.align.pairing.pairs import Pairs, note
from msprobe_builder.base.codes import Evidence
from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.operators.questions import any_of

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_ENDS = 3  # last pairs of a micro-step that show that nothing was wrong before
_LAST = 8  # calls at the end of a module among which the one is that makes its result
_OTHER = 1e-3  # of the largest element, by which elements that were only moved do not differ
_TOLD = 0.2  # least share of modules that are given what another one puts out
_MASKED = 1e4  # such numbers take out places of a softmax
_WEIGHT = 5.0  # of modules that begin and end with the same calls


@dataclass(frozen=True)
class Results:
    """Of some modules of a side, the last calls (modules, ``_LAST``), and which make the result."""

    modules: Int
    calls: Int
    makes: Bool


def take_back_other_results(
    pairs: Pairs, npu: Traits, bench: Traits, operators: dict[str, int]
) -> None:
    """Leave grey automatic pairs of modules whose results are made by calls that are no pair.

    ``npu`` and ``bench`` are the sides with their first results, ``operators`` the names behind
    the ids. Where modules remain that begin and end with the same calls, they are matched instead.
    """
    forms = _hand_on(operators)
    is_module = pairs.npu.forward & (pairs.npu.outline.kind == Kind.MODULE)
    nodes = np.flatnonzero((pairs.evidence > 0) & (pairs.partner > 0) & is_module)
    if not len(nodes):
        return
    sides = (npu, nodes, pairs.partner), (bench, pairs.partner[nodes], pairs.back)
    results = [_results(side, modules, forms) for side, modules, _ in sides]
    first, second = pairs.known.hands_on[nodes], pairs.known.other_hands_on[pairs.partner[nodes]]
    contradicted = (first >= 0) & (second >= 0) & (first != second)
    for own, other in ((0, 1), (1, 0)):
        contradicted |= _other_result(results[own], results[other], sides[own][2], sides[other][0])
    for node in nodes[contradicted].tolist():
        pairs.take_back(node)
    pair_by_ends(pairs, npu, bench, operators)


def take_back_other_values(pairs: Pairs, operators: dict[str, int]) -> None:
    """Leave grey automatic pairs that differ though what comes of them agrees.

    A fault shows up to the end. Where the last calls of all agree nothing was wrong before: then
    modules with other parameters that put out other tensors do other things, and calls that only
    move elements move those of other tensors. A mask may hold another large number.
    """
    npu, bench = pairs.npu, pairs.bench
    if not pairs.known.trust.equal:
        return
    if not _ends_agree(pairs):
        return
    nodes = np.flatnonzero((pairs.evidence > 0) & (pairs.partner > 0) & npu.forward)
    other = pairs.partner[nodes]
    same_size = (npu.outputs.numel[nodes] == bench.outputs.numel[other]) & (
        npu.outputs.numel[nodes] > 1
    )
    differs = same_size & (levels(npu.outputs, bench.outputs, nodes, other) == 0)
    differs &= ~np.isnan(npu.outputs.values[0, nodes] + bench.outputs.values[0, other])
    is_module = npu.outline.kind[nodes] == Kind.MODULE
    sizes = npu.parameters_below[1, nodes], bench.parameters_below[1, other]
    own = npu.parameters.count[nodes], bench.parameters.count[other]
    works_otherwise = is_module & ((sizes[0] != sizes[1]) | (own[0] != own[1]))
    if not npu.below[0].any():  # without calls nothing else shows an addition at the end
        works_otherwise |= is_module
    moving = numbers_of(operators, any_of(moves, maybe_hands_on))
    hands_on = (pairs.known.hands_on[nodes] == 1) & (pairs.known.other_hands_on[other] == 1)
    moves_another = np.isin(npu.operator[nodes], moving) | hands_on
    moves_another &= same_size & _holds_another(pairs, nodes)
    for node in nodes[(differs & works_otherwise) | moves_another].tolist():
        pairs.take_back(node)


def _holds_another(pairs: Pairs, nodes: Int) -> Bool:
    """Where the largest or smallest elements that pairs put out differ, and are no mask's."""
    debug = pairs.npu.outputs.values[1:, nodes]
    reference = pairs.bench.outputs.values[1:, pairs.partner[nodes]]
    largest = np.maximum(np.abs(debug), np.abs(reference)).max(axis=0)  # NaN where not recorded
    with np.errstate(invalid="ignore"):
        differs = (np.abs(debug - reference) > _OTHER * largest).any(axis=0)
    return np.asarray(differs & (largest < _MASKED))


def _hand_on(operators: dict[str, int]) -> Int:
    return numbers_of(operators, maybe_hands_on)


def _behind_backward(side: Traits) -> Bool:
    """Nodes behind the first backward call of their micro-step: autograd makes calls there, too."""
    nodes, step = np.arange(len(side)), side.outline.tree.micro_step
    backward = side.direction == Direction.BACKWARD
    first = np.full(int(step.max(initial=0)) + 1, len(side), dtype=np.int64)
    np.minimum.at(first, step[backward], nodes[backward])
    return np.asarray(nodes > first[step])


def _ends_agree(pairs: Pairs) -> bool:
    """Whether the last pairs of calls in each micro-step put out the same."""
    npu, bench = pairs.npu, pairs.bench
    leaves = np.flatnonzero(is_leaf(npu) & (pairs.partner > 0) & (npu.outputs.numel > 1))
    leaves = leaves[~_behind_backward(npu)[leaves]]
    known = npu.outputs.values[0, leaves] + bench.outputs.values[0, pairs.partner[leaves]]
    ends = [step[-_ENDS:] for step in by_micro_step(npu, leaves[np.isfinite(known)])]
    last = np.concatenate([np.empty(0, np.int64), *ends])
    return bool(len(last)) and bool(
        (levels(npu.outputs, bench.outputs, last, pairs.partner[last]) == 2).all()
    )


def _results(side: Traits, modules: Int, forms: Int) -> Results:
    """The calls that put out what a module does; without statistics, the last of its size.

    A module that holds nothing makes its result itself.
    """
    leaves = np.flatnonzero(is_leaf(side))
    if not len(leaves):
        empty = np.full((len(modules), _LAST), -1, dtype=np.int64)
        return Results(modules, empty, empty >= 0)
    end = np.searchsorted(leaves, side.outline.tree.subtree_end[modules], side="right")
    place = end[:, None] - 1 - np.arange(_LAST)
    calls = np.where(place >= 0, leaves[np.maximum(place, 0)], -1)
    calls = np.where(calls > modules[:, None], calls, -1)
    own = modules[:, None]
    there = (calls >= 0) & (side.outputs.count[calls] > 0)
    equal = there & (levels(side.outputs, side.outputs, calls, own) == 2)
    last = there & ~np.isin(side.operator[calls], forms)
    last &= np.cumsum(last, axis=1) == 1
    last &= side.outputs.numel[calls] == side.outputs.numel[own]
    is_known = ~np.isnan(side.outputs.values[0, own])
    makes = np.where(is_known, equal, last)
    holds_nothing = side.outline.tree.subtree_end[modules] == modules
    calls[holds_nothing, 0], makes[holds_nothing, 0] = modules[holds_nothing], True
    return Results(modules, calls, makes)


def _other_result(debug: Results, reference: Results, partner: Int, other: Traits) -> Bool:
    """Where the partners of what makes the results stand outside, and put out something else.

    A partner inside that is not what makes the result may be a part of a group: a convolution
    beside one that adds its bias in a call of its own.
    """
    makes = debug.makes & (partner[debug.calls] >= 0)
    found = np.where(makes, partner[debug.calls], 0)[:, :, None]
    wanted = np.where(reference.makes, reference.calls, 0)[:, None, :]
    both = makes[:, :, None] & reference.makes[:, None, :]
    modules = reference.modules[:, None, None]
    same = (modules <= found) & (found <= other.outline.tree.subtree_end[modules])
    # A sum along the layers is near to the one before it: what is handed on is the very same.
    asked = np.nonzero(both & ~same)
    found_there, wanted_there = (np.broadcast_to(one, both.shape)[asked] for one in (found, wanted))
    same = np.broadcast_to(same, both.shape).copy()
    same[asked] = levels(other.outputs, other.outputs, found_there, wanted_there) == 2
    torn = both.any(axis=(1, 2)) & ~(both & same).any(axis=(1, 2))
    return np.asarray(torn | _more_is_done(makes, found[:, :, 0], reference, other))


def _more_is_done(makes: Bool, found: Int, reference: Results, other: Traits) -> Bool:
    """Where nothing recorded makes the other result, and it is not what the partners put out.

    Without calls in the dump an addition at the end is not seen; that it was made is, if tensors
    are handed on as they are put out at all.
    """
    given, put_out = (one.values[0, other.forward] for one in (other.inputs, other.outputs))
    if other.below[0].any() or np.isin(given, put_out).mean() < _TOLD:
        return np.zeros(len(reference.modules), dtype=bool)
    holding = (reference.calls >= 0).any(axis=1)
    known = ~np.isnan(other.outputs.values[0, reference.modules]) & ~reference.makes.any(axis=1)
    known &= makes.any(axis=1) & holding
    same = levels(other.outputs, other.outputs, found, reference.modules[:, None]) > 0
    return np.asarray(known & ~(makes & same).any(axis=1))


def pair_by_ends(pairs: Pairs, npu: Traits, bench: Traits, operators: dict[str, int]) -> None:
    """Match modules without a partner whose first and last calls are those of one free module."""
    forms = _hand_on(operators)
    nodes = np.flatnonzero((pairs.partner < 0) & npu.forward)
    others = np.flatnonzero((pairs.back < 0) & bench.forward)
    free: dict[tuple[int, int], list[int]] = {}
    for other, ends in zip(others.tolist(), _ends(bench, others, forms), strict=True):
        free.setdefault(ends, []).append(other)
    ends_of = zip(nodes.tolist(), _ends(npu, nodes, forms), strict=True)
    for node, (first, last) in reversed(list(ends_of)):  # what a wrapper holds before the wrapper
        if first < 0 or last < 0:
            continue
        ends = int(pairs.partner[first]), int(pairs.partner[last])
        found = free.get(ends, []) if min(ends) >= 0 else []
        if len(found) != 1 or not around(pairs, np.array([node]), np.array(found)).all():
            continue
        if pairs.add(node, found[0], Evidence.LEAVES, _WEIGHT):
            note(pairs, node, found[0])


def _ends(side: Traits, modules: Int, forms: Int) -> list[tuple[int, int]]:
    """The first call of each module, and the last of those that make its result; -1 if unknown."""
    results = _results(side, modules, forms)
    leaves = np.flatnonzero(is_leaf(side) & ~np.isin(side.operator, forms))
    if not len(leaves):
        return [(-1, -1)] * len(modules)
    first = leaves[np.minimum(np.searchsorted(leaves, modules), len(leaves) - 1)]
    inside = (first > modules) & (first <= side.outline.tree.subtree_end[modules])
    last = np.where(
        results.makes & ~np.isin(side.operator[results.calls], forms), results.calls, -1
    )
    return list(zip(np.where(inside, first, -1).tolist(), last.max(axis=1).tolist(), strict=True))
