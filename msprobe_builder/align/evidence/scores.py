"""How well two nodes agree: the evidence for a pair, as a sum of weights.

Nothing here is required: where a dump has no statistics, or a fault has changed them, what is
left decides. Weights are roughly log-odds; a pair needs more than ``THRESHOLD``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.guesses import held_guesses
from msprobe_builder.align.evidence.holding import holds
from msprobe_builder.align.evidence.sites import at_other_sites
from msprobe_builder.align.evidence.sizes import given_other_sizes, other_form, takes_more
from msprobe_builder.align.evidence.traits import Tensors, Traits
from msprobe_builder.align.evidence.trust import Trust, levels
from msprobe_builder.align.evidence.words import Words
from msprobe_builder.dump.names import Kind

Int = NDArray[np.int64]
Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

THRESHOLD = 1.5
IMPOSSIBLE = -100.0
_GUESSED = 2.5  # of pairs that order and flow of all calls show
_AROUND = 0.15  # for each radius of the flow of tensors at which what is around is alike

MORE = 1.5  # times as much as another puts out or holds; an adapter, a bias or padding adds less


_ALL = Trust(2.0, 1.0)


def _nothing() -> Int:
    return np.empty((0, 0), dtype=np.int64)


@dataclass
class Known:
    """What is known while pairs are made.

    ``exact`` are the pairs of the documented rule, by npu node; ``stems`` counts how often the
    modules of two stems were matched, by stem ids; ``stem`` gives those of the nodes. ``shift``
    is by how much the call numbers of a stem differed when two such calls were matched last.
    ``twin`` numbers modules by their weights where only one module of each side has these, -1
    elsewhere. ``trust`` says which agreement of statistics means anything, see :func:`trust_of`.
    ``layouts`` are the operators that only lay out a tensor anew: of these there are many, and
    what tells them apart is what they are given. ``padded`` are those whose results one side may
    have padded, ``moving`` those that only move elements, or cast them, ``products`` those that
    sum up products, ``taking`` those that take elements of a tensor, by numbers or by places that a
    tensor tells. ``site`` numbers the
    lines that make the calls, see :func:`~.sites.shared_sites`. ``hands_on`` tells which
    modules put out what they take in, see :func:`~.hands_on.hands_on`. ``same_code`` is False
    where no statistics tell and the hierarchies show two authors, ``one_code`` where the calls do,
    see pairing/repeated_calls.py; ``has_flow`` where who made what is known, or values tell.
    ``guess`` is the likely partner of calls, -1 without, as the order and the flow of all of them
    tell, see pairing/order_and_flow.py; ``chances`` are all pairs that these leave possible, with
    their probability.
    """

    exact: Int
    words: Words
    other_words: Words
    stem: Int
    other_stem: Int
    call: Int
    other_call: Int
    twin: Int
    other_twin: Int
    trust: Trust
    layouts: Int
    padded: Int
    moving: Int
    products: Int
    taking: Int
    site: Int
    other_site: Int
    hands_on: Int
    other_hands_on: Int
    guess: Int
    other_guess: Int
    same_code: bool = True
    one_code: bool = True
    has_flow: bool = True
    around: Int = field(default_factory=_nothing)
    other_around: Int = field(default_factory=_nothing)
    shift: dict[int, int] = field(default_factory=dict)
    chances: list[tuple[int, int, float]] = field(default_factory=list)
    stems: dict[int, int] = field(default_factory=dict)
    taken_stems: set[int] = field(default_factory=set)


def scores(
    npu: Traits, bench: Traits, a: Int, b: Int, depth: Int, other_depth: Int, known: Known
) -> Float:
    """Evidence for each pair of nodes ``a`` × ``b``; IMPOSSIBLE where they cannot be one.

    ``depth`` tells how many levels were dissolved to reach a node: 0 for a direct child.
    """
    is_call, other_call = npu.outline.kind[a] == Kind.API, bench.outline.kind[b] == Kind.API
    result = np.full((len(a), len(b)), IMPOSSIBLE)
    i, j = np.flatnonzero(is_call), np.flatnonzero(other_call)
    if len(i) and len(j):
        result[np.ix_(i, j)] = _of_calls(npu, bench, a[i], b[j], depth[i], other_depth[j], known)
    i, j = np.flatnonzero(~is_call), np.flatnonzero(~other_call)
    if len(i) and len(j):
        result[np.ix_(i, j)] = _of_modules(npu, bench, a[i], b[j], depth[i], other_depth[j], known)
    return result


def _of_calls(
    npu: Traits, bench: Traits, a: Int, b: Int, depth: Int, other_depth: Int, known: Known
) -> Float:
    result = np.full((len(a), len(b)), 2.0)
    result += _flow(npu, bench, a, b, known.trust) + _surroundings(known, a, b)
    result += 0.5 * (npu.arguments[a][:, None] == bench.arguments[b])
    result += 0.6 * (depth[:, None] == other_depth)
    same_stem = known.stem[a][:, None] == known.other_stem[b]
    shift = np.array([known.shift.get(stem, 0) for stem in known.stem[a].tolist()], dtype=np.int64)
    same_shift = (known.call[a] - shift)[:, None] == known.other_call[b]
    result += 0.3 * same_stem + 0.3 * (same_stem & same_shift)
    operator = npu.operator[a]
    layout = _among(operator, known.layouts)[:, None]
    padded = _among(operator, known.padded)[:, None]
    moving = _among(operator, known.moving)[:, None]
    result -= np.where(padded | moving, 0.0, 1.5) * takes_more(npu, bench, a, b)
    other_sizes = _other_outputs(npu, bench, a, b, known.trust)
    far_more = _far_more(npu, bench, a, b, known.trust)
    # Of the very same tensor another slice may be taken by mistake: that is no other call.
    same = _given_the_same(npu, bench, a, b, other_sizes | far_more, known.trust)
    result -= np.where(padded | (same & ~layout), 2.0, 4.0) * other_sizes
    result -= 5.0 * (far_more & ~same)
    if known.trust.same_shapes and not known.trust.equal:
        result -= 3.0 * (layout & other_form(npu, bench, a, b))
    by_places = npu.inputs.count[a][:, None] != bench.inputs.count[b]
    result -= 4.0 * (_among(operator, known.taking)[:, None] & by_places)
    site, other_site = known.site[a][:, None], known.other_site[b]
    result += 1.0 * ((site > 0) & (site == other_site))
    result -= 4.0 * at_other_sites(site, other_site)
    guess, other_guess = known.guess[a][:, None], known.other_guess[b]
    result += np.where(guess == b, _GUESSED, -_GUESSED * ((guess >= 0) | (other_guess >= 0)))
    result[operator[:, None] != bench.operator[b]] = IMPOSSIBLE
    return result


def _among(operator: Int, kinds: Int) -> Bool:
    """Which of a few operators are of some kinds; ``np.isin`` takes longer to begin than this."""
    return np.asarray((operator[:, None] == kinds).any(axis=1))


def _flow(npu: Traits, bench: Traits, a: Int, b: Int, trust: Trust, forms: bool = False) -> Float:
    """``forms``: the same elements in another form agree as another size in that form does."""
    result = np.zeros((len(a), len(b)))
    results = npu.results, bench.results
    for debug, reference, weight, (first, other) in (
        (npu.inputs, bench.inputs, 1.0, (npu.inputs, bench.inputs)),
        (npu.outputs, bench.outputs, 1.2, results),
    ):
        ranks = debug.ranks[a][:, None] == reference.ranks[b]
        if forms:  # one author calls modules with all tokens in a row, or returns more
            ranks |= (first.numel[a][:, None] == other.numel[b]) & (other.numel[b] > 1)
        extent = trust.extent(debug)[a][:, None] == trust.extent(reference)[b]
        equal = 0.8 if trust.same_shapes or not trust.same_sizes else 0.5
        result += weight * np.where(extent, equal, np.where(ranks, 0.3, -0.6))
        result += weight * agreement(debug, reference, a, b, trust)
    return result


def _surroundings(known: Known, a: Int, b: Int) -> Float:
    """The weight of who makes what two nodes take in, and of who takes in what they put out."""
    result = np.zeros((len(a), len(b)))
    for debug, reference in zip(known.around, known.other_around, strict=True):
        result += _AROUND * ((debug[a][:, None] == reference[b]) & (reference[b] != 0))
    return result


def _other_outputs(npu: Traits, bench: Traits, a: Int, b: Int, trust: Trust) -> Bool:
    """Where models of equal sizes put out tensors of other sizes: one does more than the other."""
    if not trust.same_sizes:
        return np.zeros((len(a), len(b)), dtype=bool)
    some = (npu.outputs.numel[a][:, None] > 0) & (bench.outputs.numel[b] > 0)
    return np.asarray(some & (npu.outputs.numel[a][:, None] != bench.outputs.numel[b]))


def _far_more(npu: Traits, bench: Traits, a: Int, b: Int, trust: Trust) -> Bool:
    """Where one puts out half as much again as the other: it does the work of several."""
    x, y = npu.outputs.numel[a][:, None], bench.outputs.numel[b]
    low = np.minimum(x, y)
    much = (np.maximum(x, y) >= MORE * low) & (low > 0)
    return np.asarray(
        much & trust.same_sizes & (npu.outputs.count[a][:, None] == bench.outputs.count[b])
    )


def _given_the_same(npu: Traits, bench: Traits, a: Int, b: Int, wanted: Bool, trust: Trust) -> Bool:
    """Of the ``wanted`` pairs those that take in tensors equal in all statistics."""
    result = np.zeros(wanted.shape, dtype=bool)
    if trust.equal:
        i, j = np.nonzero(wanted)
        result[i, j] = levels(npu.inputs, bench.inputs, a[i], b[j]) == 2
    return result


def agreement(debug: Tensors, reference: Tensors, a: Int, b: Int, trust: Trust) -> Float:
    """The weight of equal or near statistics of two sections, for each pair of ``a`` × ``b``."""
    if not trust.equal and not trust.near:
        return np.zeros((len(a), len(b)))
    level = levels(debug, reference, a[:, None], b[None, :])
    return np.array([0.0, trust.near, max(trust.equal, trust.near)])[level]


def _of_modules(
    npu: Traits, bench: Traits, a: Int, b: Int, depth: Int, other_depth: Int, known: Known
) -> Float:
    result = 0.8 + _flow(npu, bench, a, b, known.trust, True) + _surroundings(known, a, b)
    result += _parameters(npu, bench, a, b, known.trust)
    result += _below(npu, bench, a, b)
    result -= 1.5 * known.trust.same_sizes * given_other_sizes(npu, bench, a, b)
    sizes, other_sizes = npu.parameters_below[1, a][:, None], bench.parameters_below[1, b]
    result -= 5.0 * ((sizes != other_sizes) & _other_outputs(npu, bench, a, b, known.trust))
    debug, reference = known.twin[a][:, None], known.other_twin[b]
    held = npu.parameters.count[a][:, None] == 0  # what it holds may be another in part
    elsewhere = (debug != reference) & ((debug >= 0) | (reference >= 0))
    result -= np.where(held, 5.0, 7.0) * elsewhere
    alike = (sizes == other_sizes) & (sizes > 0)
    words, same_sizes = known.words, known.trust.same_sizes
    result += words.agreement(a, known.other_words, b, alike, sizes_tell=same_sizes)
    has, other_has = npu.parameters.count[a][:, None] > 0, bench.parameters.count[b] > 0
    around = np.where(has != other_has, 8.0, 5.0)  # a block against the one norm inside of it
    result -= around * holds(npu, bench, a, b)
    result -= around * holds(bench, npu, b, a).T
    if known.trust.equal:  # elsewhere statistics do not show what hands on
        first, second = known.hands_on[a][:, None], known.other_hands_on[b]
        result -= 5.0 * ((first >= 0) & (second >= 0) & (first != second))
        # What hands on is told from others by what it is given alone.
        other_tensor = levels(npu.outputs, bench.outputs, a[:, None], b[None, :]) == 0
        result -= 2.0 * ((first == 1) & (second == 1) & other_tensor)
    result += 0.3 * (depth[:, None] == other_depth)
    result += 4.0 * (known.exact[a][:, None] == b)
    result += _GUESSED * held_guesses(npu, bench, a, b, (known.guess, known.other_guess))
    # One path on both sides, though other modules stand around it.
    result += 1.5 * (known.stem[a][:, None] == known.other_stem[b])
    for i, stem in enumerate(known.stem[a].tolist()):
        for j, other in enumerate(known.other_stem[b].tolist()):
            if known.stems.get(stem) == other:
                result[i, j] += 4.0
            elif stem in known.stems or other in known.taken_stems:
                result[i, j] -= 2.0
    return result


def _parameters(npu: Traits, bench: Traits, a: Int, b: Int, trust: Trust) -> Float:
    debug, reference = npu.parameters, bench.parameters
    has, other_has = debug.count[a][:, None] > 0, reference.count[b] > 0
    both = has & other_has
    result = np.where(has != other_has, -1.5, 0.0)
    sizes = debug.numel[a][:, None] == reference.numel[b]
    ranks = debug.ranks[a][:, None] == reference.ranks[b]
    shapes = debug.shapes[a][:, None] == reference.shapes[b] if trust.same_sizes else ranks
    result += both * np.where(shapes, 1.0, np.where(sizes, 0.3, np.where(ranks, -0.7, -2.0)))
    result += both * trust.weights * agreement(debug, reference, a, b, _ALL)
    with np.errstate(invalid="ignore", divide="ignore"):
        x, y = npu.parameters_below[:, a, None], bench.parameters_below[:, None, b]
        near = (np.abs(x - y) <= 1e-3 * np.maximum(x, y)) & (x > 0)
    result += np.where(near[1], 0.8, 0.0) + np.where(near.all(axis=0), trust.weights, 0.0)
    if npu.parameters_below[1, 0] > 0 and bench.parameters_below[1, 0] > 0:
        result -= 3.0 * ((x[1] > 0) != (y[1] > 0))
        # An activation is no counterpart of what holds it beside a linear.
        numel, other_numel = debug.numel[a][:, None], reference.numel[b]
        result -= 5.0 * (((x[1] == 0) & (y[1] > other_numel)) | ((y[1] == 0) & (x[1] > numel)))
    return np.asarray(result)


def _below(npu: Traits, bench: Traits, a: Int, b: Int) -> Float:
    """Up to 2 for equal operators below, down to -1.5 for none in common; 0 without any."""
    x, y = npu.below[a][:, None, :], bench.below[b]
    common = np.minimum(x, y).sum(axis=2)
    total = npu.below[a].sum(axis=1)[:, None] + bench.below[b].sum(axis=1)
    some = (npu.below[a].sum(axis=1)[:, None] > 0) & (bench.below[b].sum(axis=1) > 0)
    dice = 2.0 * common / np.maximum(total, 1)
    return np.asarray(np.where(some, 3.5 * dice - 1.5, 0.0))
