"""Tensors that calls are given, and parameters get, though their makers put out others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part
from msprobe_builder.operators.operator import Kind, Operator
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import CHOSE, MANY, Clue, Evidence
from msprobe_builder.verdict.model.noise import spread_of_edges
from msprobe_builder.verdict.model.observations import WORST, Observations, surprise
from msprobe_builder.verdict.model.propagation import A_FLIP
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Float = NDArray[np.float64]

_UNKNOWN_MAKER = 0.5
_BEFORE, _NEAR = 40, 200  # outputs that tell what an unknown one is off by, and how far they lie
_LONE_NEAR = 60
_SEVERAL_WEIGHTS, _MOST_WEIGHTS = 8, 0.8  # that tell what a cast does, and their share
_BEYOND, _FIRM = 1.5, 20.0  # times half a unit that no cast makes, and what one of it weighs
_UNMATCHED_VIEWS = 4  # of one side alone, one of the other
_SMALL = 50.0  # times shorter than what it is made of a gradient is that cancels


def of_edges(evidence: Evidence) -> Iterable[Clue]:
    """Tensors that calls are given, or parameters get, though their makers put out others."""
    runs, seen, latent = evidence.runs, evidence.seen, evidence.expected.latent
    table = runs.npu.table
    given = runs.rows(Section.INPUT, Section.PARAMETERS)
    given |= runs.rows(Section.OUTPUT) & runs.open[table.node] & (runs.maker >= 0)
    given &= (runs.other >= 0) & (seen.size > 0) & ~evidence.passed_over[table.node]
    rows = np.flatnonzero(given)
    made, bench_made = _makers(runs, rows, seen.differs[rows])
    node = table.node[rows]
    base = np.where(made >= 0, latent[made], np.nan)
    counterpart = np.where(made >= 0, runs.other[made], -1)
    weight = table.section[rows] == Section.PARAMETERS
    base[weight & (made < 0)] = 0.0
    unmatched = _unmatched(runs.bench, runs.bench_partner)
    missing = (bench_made >= 0) & unmatched[runs.bench.table.node[bench_made]]
    rewired = (made >= 0) & (counterpart >= 0) & (bench_made >= 0) & (counterpart != bench_made)
    extra = (made >= 0) & _unmatched(runs.npu, runs.partner)[table.node[made]] & (counterpart < 0)
    base[missing & (made < 0) & ~runs.backward[node]] = 0.0
    unknown = np.isnan(base)
    base[unknown] = _level_before(evidence, rows[unknown])
    floor = np.where(weight, 0.3, 0.6) * (runs.coarse if runs.is_mixed else runs.fine)[rows]
    told = np.fmax(floor, 2 * base) * spread_of_edges(runs, seen, evidence.expected)[rows]
    score = surprise(seen, rows, told) * np.where(unknown, _UNKNOWN_MAKER, 1.0)
    score = np.fmax(score, _beyond_a_cast(runs, seen, rows, weight & (made < 0)))
    chosen = runs.discrete[rows]
    may_flip = (base > 0) & ((base * seen.elements[rows] > A_FLIP) | (seen.size[rows] < MANY))
    score[chosen] = np.where(seen.differs[rows] & ~may_flip, CHOSE, 0.0)[chosen]
    for place in np.flatnonzero(score > 1).tolist():
        row, at = int(rows[place]), int(node[place])
        strength = float(score[place])
        clue = Clue(strength, 0, at, Cause.BETWEEN, row, float(seen.size[row]), float(told[place]))
        if weight[place] and made[place] < 0:
            yield replace(clue, cause=Cause.WEIGHT)
        elif missing[place] and not extra[place]:
            yield _of_lone(runs, clue, 1, int(runs.bench.table.node[bench_made[place]]))
        elif extra[place]:
            yield _of_lone(runs, clue, 0, int(table.node[made[place]]))
        elif rewired[place]:
            yield replace(clue, cause=Cause.WIRING)
        elif made[place] < 0 and not runs.backward[at]:  # gradients are sums, of what was made
            yield replace(clue, cause=Cause.EXTERNAL)
        else:
            yield clue
    yield from _of_parameter_gradients(evidence)


def _beyond_a_cast(runs: Runs, seen: Observations, rows: Int, weight: Bool) -> Float:
    """Scores of weights whose extremes a cast cannot make of the reference's, 0 of others.

    A cast moves an element by half a unit at most. That holds where most weights keep to it: it
    does not behind steps of two optimizers.
    """
    result = np.zeros(len(rows))
    here = np.flatnonzero(weight & ~runs.discrete[rows])
    if not runs.is_mixed or len(here) < _SEVERAL_WEIGHTS:
        return result
    extremes = np.nan_to_num(np.fmax(*seen.moved[:2, rows[here]]))
    times = extremes / (runs.coarse[rows[here]] / 2)
    if float((times <= _BEYOND).mean()) >= _MOST_WEIGHTS:
        result[here] = np.where(times > _BEYOND, _FIRM * times, 0.0)
    return result


def _makers(runs: Runs, rows: Int, differs: Bool) -> tuple[Int, Int]:
    """By row what made it, on both sides: inside of a module of one side alone a call of both.

    Of what ``differs`` in its statistics no call of one side alone is to blame that keeps them.
    """
    both = (
        (runs.npu, runs.partner, runs.maker[rows], runs.origin[rows], runs.maker),
        (
            runs.bench,
            runs.bench_partner,
            runs.bench_maker[runs.other[rows]],
            runs.bench_origin[runs.other[rows]],
            runs.bench_maker,
        ),
    )
    found = []
    for part, partner, maker, origin, makers in both:
        at = part.table.node
        closed = (maker >= 0) & (partner < 0)[at[maker]] & (partner >= 0)[at[origin]]
        made = np.where(closed, origin, maker)
        given = _first_given(part)
        keeps = (partner < 0) & part.calls.are(_keeps_all) & (given >= 0)
        for _ in range(_UNMATCHED_VIEWS):
            through = differs & (made >= 0) & keeps[at[made]]
            before = np.where(through, makers[given[at[made]]], -1)
            made = np.where(before >= 0, before, made)
        found.append(made)
    return found[0], found[1]


def _keeps_all(operator: Operator) -> bool:
    """Whether it hands on all elements of what it is given, in whatever order."""
    keeps = operator.kind in (Kind.SHAPE, Kind.TRANSPOSE) or "itself" in operator.keeps
    return keeps and operator.kind is not Kind.CAST


def _first_given(part: Part) -> Int:
    """By node the row of the first tensor that it is given, -1 without."""
    table = part.table
    result = np.full(len(part.tree), -1, dtype=np.int64)
    rows = np.flatnonzero(table.is_tensor & (table.section == Section.INPUT))[::-1]
    result[table.node[rows]] = rows
    return result


def _unmatched(part: Part, partner: Int) -> Bool:
    return np.asarray((part.calls.is_api | part.calls.is_module) & (partner < 0))


def _of_lone(runs: Runs, clue: Clue, side: int, node: int) -> Clue:
    """The clue as one of a call that one side alone makes: the forward one, where it has one."""
    part, partner = ((runs.npu, runs.partner), (runs.bench, runs.bench_partner))[side]
    twin = int(part.calls.twin[node])
    if part.calls.direction[node] == Direction.BACKWARD and twin >= 0 and partner[twin] < 0:
        node = twin
    return replace(clue, side=side, node=node, cause=Cause.MISSING if side else Cause.EXTRA)


def maker_guessed(runs: Runs, clue: Clue) -> Clue:
    """Of a tensor that nobody knows the maker of: a call nearby whose output nobody uses."""
    if runs.backward[clue.node]:
        return clue
    for side in (1, 0):
        part = (runs.npu, runs.bench)[side]
        here = clue.node if side == 0 else int(runs.partner[clue.node])
        near = _unused(runs, side)
        near = near[(near < here) & (here - near < _LONE_NEAR)]
        if here >= 0 and len(near):
            beside = near[part.tree.parent[near] == part.tree.parent[here]]
            node = int(beside[0]) if len(beside) else int(near[-1])
            return _of_lone(runs, clue, side, node)
    return clue


def _unused(runs: Runs, side: int) -> Int:
    """Forward calls of one side alone whose outputs nobody is known to use."""
    part, partner, maker = (
        (runs.npu, runs.partner, runs.maker),
        (runs.bench, runs.bench_partner, runs.bench_maker),
    )[side]
    used = np.zeros(len(part.tree), dtype=bool)
    used[part.table.node[maker[maker >= 0]]] = True
    return np.flatnonzero(part.calls.is_forward_call & (partner < 0) & ~used)


def _level_before(evidence: Evidence, rows: Int) -> Float:
    """What the outputs before some rows are off by at most, of those that are near."""
    runs, seen, latent = evidence.runs, evidence.seen, evidence.expected.latent
    table = runs.npu.table
    outputs = np.flatnonzero(~np.isnan(evidence.expected.told) & ~np.isnan(latent))
    # What a module puts out is there once all that stands in it has run.
    made_at = runs.npu.tree.subtree_end[table.node[outputs]]
    order = np.argsort(made_at, kind="stable")
    outputs, made_at = outputs[order], made_at[order]
    result = np.zeros(len(rows))
    for back in (False, True):
        here = runs.backward[table.node[outputs]] == back
        some, at = outputs[here], made_at[here]
        chosen = np.flatnonzero(runs.backward[table.node[rows]] == back)
        for place in chosen.tolist():
            node = table.node[rows[place]]
            end = int(np.searchsorted(at, node))
            near = some[max(0, end - _BEFORE) : end]
            near = near[node - table.node[near] < _NEAR]
            worst = float(latent[near].max(initial=0.0))
            if back:
                worst *= _cancelling(runs, seen, near, int(rows[place]))
            result[place] = min(worst, WORST)
    return result


def _cancelling(runs: Runs, seen: Observations, near: Int, row: int) -> float:
    """How many times shorter a sum of gradients is than what it may be a sum of."""
    parts = near[runs.npu.table.shape_id[near] == runs.npu.table.shape_id[row]]
    longest = float(np.nan_to_num(seen.norm[parts]).max(initial=0.0))
    return max(1.0, longest / seen.norm[row] / _SMALL) if seen.norm[row] > 0 else 1.0


def _of_parameter_gradients(evidence: Evidence) -> Iterable[Clue]:
    """Gradients of parameters, as far off as the worst of their module's backward calls."""
    runs, seen, latent = evidence.runs, evidence.seen, evidence.expected.latent
    table, tree, calls = runs.npu.table, runs.npu.tree, runs.npu.calls
    rows = np.flatnonzero(runs.rows(Section.PARAMETERS_GRAD) & (runs.other >= 0) & (seen.size > 0))
    if not len(rows):
        return
    back = np.flatnonzero(runs.backward[table.node] & ~np.isnan(latent))
    above = np.where(
        calls.is_api[table.node[back]], tree.parent[table.node[back]], table.node[back]
    )
    stem = calls.stem[above]
    worst, longest = np.full(len(calls.stems), np.nan), np.zeros(len(calls.stems))
    order = np.argsort(latent[back])
    worst[stem[order]] = latent[back][order]
    np.maximum.at(longest, stem, np.nan_to_num(seen.norm[back]))
    names = {one: number for number, one in enumerate(calls.stems)}
    of = np.array(
        [
            names.get(tree.names[node].partition(".parameters_grad")[0], -1)
            for node in table.node[rows].tolist()
        ]
    )
    base = np.where(of >= 0, worst[of], np.nan)
    unknown = np.isnan(base)
    base[unknown] = _level_before(evidence, rows[unknown])
    # Those of one dimension are sums, in which much cancels; others are so where they are small.
    flat = np.array(["," not in runs.texts.values[one] for one in table.shape_id[rows].tolist()])
    with np.errstate(all="ignore"):
        cancelled = np.fmax(1.0, longest[of] / np.where(flat, 1.0, _SMALL) / seen.norm[rows])
    base = np.where(~unknown, np.minimum(WORST, base * cancelled), base)
    floor = 0.6 * (runs.coarse if runs.is_mixed else runs.fine)[rows]
    told = np.fmax(floor, 2 * base)
    score = surprise(seen, rows, told) * np.where(unknown, _UNKNOWN_MAKER, 1.0)
    for place in np.flatnonzero(score > 1).tolist():
        row = int(rows[place])
        error, expected = float(seen.size[row]), float(told[place])
        yield Clue(float(score[place]), 0, int(table.node[row]), Cause.OUTPUT, row, error, expected)
