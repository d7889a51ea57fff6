"""Tensors that calls are given, and parameters get, though their makers put out others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.standing import GATHERING
from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part, inputs_of
from msprobe_builder.operators.operator import Kind, Operator
from msprobe_builder.operators.table import is_in_place
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.amounts import A_FLIP
from msprobe_builder.verdict.model.clue import CHOSE, MANY, Clue, Evidence, idle_calls
from msprobe_builder.verdict.model.noise import spread_of_edges
from msprobe_builder.verdict.model.observations import WORST, Observations, surprise
from msprobe_builder.verdict.model.outside import BEFORE, are_held, are_weights, take_no_part
from msprobe_builder.verdict.model.places import Columns, Spare
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Float = NDArray[np.float64]

_UNKNOWN_MAKER = 0.5
_MEAN, _NORM = 2, 3  # of what was read
_FLIPPED_MOST = 10.0  # times the share of whole numbers that may have flipped
_NEAR = 200  # how far outputs lie that tell what an unknown one is off by
_UNUSED_NEAR = 60
_ALL_EQUAL, _FEW = 0.9, 8  # of the outputs before; fewer agree by chance
_SEVERAL_WEIGHTS, _MOST_WEIGHTS = 8, 0.8  # that tell what a cast does, and their share
_SOME_WEIGHTS, _CERTAINLY = 4, 30.0  # of which half score as much: the runs hold other weights
_BEYOND, _FIRM = 1.5, 20.0  # times half a unit that no cast makes, and what one of it weighs
_UNMATCHED_VIEWS = 4  # of one side alone, one of the other
_SMALL = 50.0  # times shorter than what it is made of a gradient is that cancels


def of_edges(evidence: Evidence, spare: Spare | None = None) -> Iterable[Clue]:
    """Tensors that calls are given, or parameters get, though their makers put out others.

    Without those that are kept as ``spare``.
    """
    runs, seen, latent = evidence.runs, evidence.seen, evidence.expected.latent
    table = runs.npu.table
    given = runs.rows(Section.INPUT, Section.PARAMETERS)
    given |= runs.rows(Section.OUTPUT) & runs.open[table.node] & (runs.maker >= 0)
    given &= (runs.other >= 0) & (seen.size > 0)
    rows = np.flatnonzero(given)
    made, bench_made = _makers(runs, rows, seen.differs[rows])
    node = table.node[rows]
    base = np.where(made >= 0, latent[made], np.nan)
    counterpart = np.where(made >= 0, runs.other[made], -1)
    # A call that puts parameters of ranks together takes a rank's parts of them from outside.
    gathers = runs.npu.calls.of_stems(lambda one: one.startswith(GATHERING)) == 1
    weight = (table.section[rows] == Section.PARAMETERS) | (gathers[node] & (made < 0))
    weight |= are_weights(runs)[rows] & (made < 0)
    base[(weight | are_held(runs)[rows]) & (made < 0)] = 0.0
    unmatched = _unmatched(runs.bench, runs.bench_partner)
    missing = (bench_made >= 0) & unmatched[runs.bench.table.node[bench_made]]
    rewired = (made >= 0) & (counterpart >= 0) & (bench_made >= 0) & (counterpart != bench_made)
    extra = (made >= 0) & _unmatched(runs.npu, runs.partner)[table.node[made]] & (counterpart < 0)
    base[missing & (made < 0) & ~runs.backward[node]] = 0.0
    outside = np.flatnonzero((made < 0) & (bench_made < 0) & ~runs.backward[node])
    base[outside[take_no_part(runs, evidence.does, rows[outside])]] = 0.0
    unknown = np.isnan(base)
    base[unknown] = _level_before(evidence, rows[unknown])
    floor = np.where(weight, 0.3, 0.6) * (runs.coarse if runs.is_mixed else runs.fine)[rows]
    told = np.fmax(floor, 2 * base) * spread_of_edges(runs, seen, evidence.expected)[rows]
    score = surprise(seen, rows, told) * np.where(unknown, _UNKNOWN_MAKER, 1.0)
    score = np.fmax(score, _beyond_a_cast(runs, seen, rows, weight & (made < 0)))
    chosen = runs.discrete[rows]
    may_flip = (base > 0) & ((base * seen.elements[rows] > A_FLIP) | (seen.size[rows] < MANY))
    moved = np.fmax(*np.nan_to_num(seen.moved[_MEAN:, rows]))
    may_flip &= moved <= _FLIPPED_MOST * base  # a share of the elements moves sums by as much
    may_flip &= ~(missing & rewired)  # it is another tensor, whatever the one here is off by
    score[chosen] = np.where(seen.differs[rows] & ~may_flip, CHOSE, 0.0)[chosen]
    # A neighbour is told with what these are given, where there is one on both sides. What
    # autocast has added up over the uses of a weight has none, and is nobody's.
    has_neighbour = ((made >= 0) | runs.is_mixed) & ~missing & ~extra
    score[evidence.passed_over[node] & has_neighbour] = 0.0
    others = int(np.count_nonzero(score[weight & ~chosen] >= _CERTAINLY))
    all_over = others >= max(_SOME_WEIGHTS / 2, _weights_compared(runs, seen) / 2)
    both = missing & extra
    idle = _idle(runs) if both.any() else both  # of which nobody asks
    listed = np.flatnonzero(score > 1)
    if spare is not None:
        plain = (made >= 0) | runs.backward[node]
        plain &= ~((weight & (made < 0)) | missing | extra | rewired)
        between = listed[plain[listed]]
        size = seen.size[rows[between]]
        columns = Columns(Cause.BETWEEN, rows[between], node[between], score[between], size)
        listed = np.setdiff1d(listed, between[~spare.take(runs, columns)], assume_unique=True)
    for place in listed.tolist():
        row, at = int(rows[place]), int(node[place])
        strength = float(score[place])
        clue = Clue(strength, 0, at, Cause.BETWEEN, row, float(seen.size[row]), float(told[place]))
        if weight[place] and made[place] < 0:
            yield replace(clue, cause=Cause.WEIGHTS if all_over else Cause.WEIGHT)
        elif missing[place] and (not extra[place] or idle[table.node[made[place]]]):
            yield _of_unmatched(runs, clue, 1, int(runs.bench.table.node[bench_made[place]]))
        elif extra[place]:
            yield _of_unmatched(runs, clue, 0, int(table.node[made[place]]))
        elif rewired[place]:
            copied = _copied_by(runs, int(made[place]), int(bench_made[place]))
            wired = replace(clue, cause=Cause.WIRING)
            yield wired if copied < 0 else _of_unmatched(runs, clue, 0, copied)
        elif made[place] < 0 and not runs.backward[at]:  # gradients are sums, of what was made
            yield replace(clue, cause=Cause.EXTERNAL)
        else:
            yield clue
    yield from _of_parameter_gradients(evidence)


def _weights_compared(runs: Runs, seen: Observations) -> int:
    """How many weights are given to calls that nobody has made, whether or not they differ."""
    rows = runs.rows(Section.PARAMETERS) | are_weights(runs)
    rows &= (runs.maker < 0) & (seen.size >= 0) & ~runs.discrete
    return int(np.count_nonzero(rows))


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


def _copied_by(runs: Runs, made: int, bench_made: int) -> int:
    """The call of this run alone that made a copy for a call to work on, -1 without.

    What comes next is then given the tensor itself, which the call has left as it was.
    """
    table = runs.npu.table
    there = int(runs.bench_row[bench_made])
    for row in inputs_of(table, int(table.node[there])).tolist() if there >= 0 else ():
        node = int(table.node[runs.maker[row]]) if runs.maker[row] >= 0 else -1
        if node < 0 or runs.partner[node] >= 0 or not runs.npu.calls.is_forward_call[node]:
            continue
        if (runs.maker[inputs_of(table, node)] == made).any():
            return node
    return -1


def _makers(runs: Runs, rows: Int, differs: Bool) -> tuple[Int, Int]:
    """By row what made it, on both sides: inside of a module of one side alone a call of both.

    Of what ``differs`` in its statistics no call of one side alone is to blame that keeps them.
    """
    found = []
    for own, (part, partner, _, makers, origins) in zip(
        (rows, runs.other[rows]), runs.sides, strict=True
    ):
        at, maker, origin = part.table.node, makers[own], origins[own]
        closed = (maker >= 0) & (partner < 0)[at[maker]] & (partner >= 0)[at[origin]]
        made = np.where(closed, origin, maker)
        given = _first_given(part)
        keeps = (partner < 0) & part.calls.are(_keeps_all) & (given >= 0)
        through = np.flatnonzero(differs & (made >= 0))
        for _ in range(_UNMATCHED_VIEWS):
            through = through[keeps[at[made[through]]]]
            before = makers[given[at[made[through]]]]
            through, before = through[before >= 0], before[before >= 0]
            made[through] = before
        found.append(made)
    return found[0], found[1]


def _keeps_all(operator: Operator) -> bool:
    """Whether it hands on all elements of what it is given, in whatever order."""
    keeps = operator.kind in (Kind.SHAPE, Kind.TRANSPOSE) or "itself" in operator.keeps
    return keeps and operator.kind is not Kind.CAST


def _idle(runs: Runs) -> Bool:
    """Nodes that hand on the tensor itself, and those that give its gradient back."""
    idle, twin = idle_calls(runs.npu), runs.npu.calls.twin
    return np.asarray(idle | (runs.backward & (twin >= 0) & idle[twin]))


def _first_given(part: Part) -> Int:
    """By node the row of the first tensor that it is given, -1 without."""
    table = part.table
    result = np.full(len(part.tree), -1, dtype=np.int64)
    rows = np.flatnonzero(table.is_tensor & (table.section == Section.INPUT))[::-1]
    result[table.node[rows]] = rows
    return result


def _unmatched(part: Part, partner: Int) -> Bool:
    return np.asarray((part.calls.is_api | part.calls.is_module) & (partner < 0))


def _of_unmatched(runs: Runs, clue: Clue, side: int, node: int) -> Clue:
    """The clue as one of a call that one side alone makes: the forward one, where it has one."""
    part, partner, *_ = runs.sides[side]
    twin = int(part.calls.twin[node])
    if part.calls.direction[node] == Direction.BACKWARD and twin >= 0 and partner[twin] < 0:
        node = twin
    return replace(clue, side=side, node=node, cause=Cause.MISSING if side else Cause.EXTRA)


def made_outside(runs: Runs, row: int) -> bool:
    """Whether a call outside of all modules has made what the module of a row is given.

    What takes no part in training may be data.
    """
    table = runs.npu.table
    if row < 0 or table.section[row] != Section.INPUT:
        return False
    return bool(table.requires_grad[row] == 1 or runs.backward[table.node[row]])


def maker_guessed(runs: Runs, clue: Clue) -> Clue:
    """Of a tensor that nobody knows the maker of: a call nearby whose output nobody uses."""
    if runs.backward[clue.node]:
        return clue
    for side in (1, 0):
        part = runs.sides[side].part
        here = clue.node if side == 0 else int(runs.partner[clue.node])
        near = _unused(runs, side)
        near = near[(near < here) & (here - near < _UNUSED_NEAR)]
        if here >= 0 and len(near):
            beside = near[part.tree.parent[near] == part.tree.parent[here]]
            node = int(beside[0]) if len(beside) else int(near[-1])
            return _of_unmatched(runs, clue, side, node)
    return clue


def written_by(runs: Runs, clue: Clue) -> Clue:
    """Of a tensor whose maker one side alone knows: the last call of the other that writes to such.

    What a call writes into a tensor nobody records, so that it comes from nowhere afterwards.
    """
    row, other = clue.row, int(runs.other[clue.row])
    unknown = (int(runs.origin[row]) < 0, other >= 0 and int(runs.bench_origin[other]) < 0)
    if unknown[0] == unknown[1] or runs.backward[clue.node]:
        return clue
    side = int(unknown[1])
    part, partner, *_ = runs.sides[side]
    table, here = part.table, clue.node if side == 0 else int(runs.partner[clue.node])
    writes = part.calls.apis(is_in_place)
    writes &= part.calls.is_forward_call & (partner < 0)
    given = (row, other)[side]
    alike = (table.section == Section.INPUT) & (table.position == 0) & writes[table.node]
    alike &= (table.shape_id == table.shape_id[given]) & (table.node < here)
    nodes = table.node[alike]
    return _of_unmatched(runs, clue, side, int(nodes[-1])) if len(nodes) else clue


def _unused(runs: Runs, side: int) -> Int:
    """Forward calls of one side alone whose outputs nobody is known to use."""
    part, partner, _, maker, _ = runs.sides[side]
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
        if not len(outputs) or not len(chosen):
            continue
        row, node = rows[chosen, None], table.node[rows[chosen], None]
        place = np.searchsorted(at, node) - 1 - np.arange(BEFORE)
        near = some[np.maximum(place, 0)] if len(some) else np.zeros_like(place)
        is_near = (place >= 0) & (node - table.node[near] < _NEAR)

        def most(values: Float, where: Bool) -> Float:
            return np.asarray(np.where(where, np.nan_to_num(values), 0.0).max(axis=1))

        worst = most(latent[near], is_near)
        if not runs.is_mixed:  # so many agree by no chance
            equal = (is_near & (seen.size[near] == 0)).sum(axis=1)
            agree = equal >= _ALL_EQUAL * np.maximum(is_near.sum(axis=1), _FEW)
            worst[agree] = most(seen.size[near], is_near)[agree]
        if back:  # a sum of gradients may be that much shorter than what it is a sum of
            alike = is_near & (table.shape_id[near] == table.shape_id[row])
            with np.errstate(all="ignore"):
                shorter = most(seen.norm[near], alike) / seen.norm[rows[chosen]] / _SMALL
            worst *= np.where(seen.norm[rows[chosen]] > 0, np.fmax(1.0, shorter), 1.0)
            for one in np.flatnonzero(~is_near.any(axis=1)).tolist():  # a loss nobody recorded
                last = outputs[table.node[outputs] < node[one, 0]][-1:]
                worst[one] = float(latent[last].max(initial=0.0))
        else:
            behind = np.flatnonzero(np.maximum.accumulate(runs.backward)[node[:, 0]])
            for one in behind.tolist():
                worst[one] = max(worst[one], _of_gradients_before(evidence, int(rows[chosen[one]])))
        result[chosen] = np.minimum(worst, WORST)
    return result


def _of_gradients_before(evidence: Evidence, row: int) -> float:
    """What a tensor is off by if it is a sum of gradients of its size.

    Little may be left of a sum, as of a bias before a normalisation.
    """
    runs, seen = evidence.runs, evidence.seen
    table = runs.npu.table
    if not seen.norm[row] > 0:
        return 0.0
    before = runs.backward[table.node] & runs.rows(Section.OUTPUT) & (table.node < table.node[row])
    parts = np.flatnonzero(before & (table.shape_id == table.shape_id[row]))
    # Of some of them only this run is known.
    norm = np.where(np.isnan(seen.norm[parts]), table.statistics[_NORM, parts], seen.norm[parts])
    most = np.nan_to_num(evidence.expected.latent[parts] * norm).max(initial=0.0)
    return float(most / seen.norm[row])


def _of_parameter_gradients(evidence: Evidence) -> Iterable[Clue]:
    """Gradients of parameters, as far off as the worst of their module's backward calls."""
    runs, seen, latent = evidence.runs, evidence.seen, evidence.expected.latent
    table, tree, calls = runs.npu.table, runs.npu.tree, runs.npu.calls
    rows = np.flatnonzero(runs.rows(Section.PARAMETERS_GRAD) & (runs.other >= 0))
    if not len(rows) or tree.micro_steps != runs.bench.tree.micro_steps:
        return  # of other numbers of passes they are other sums
    matched = runs.partner[table.node] >= 0
    back = np.flatnonzero(runs.backward[table.node] & ~np.isnan(latent) & matched)
    above = np.where(
        calls.is_api[table.node[back]], tree.parent[table.node[back]], table.node[back]
    )
    stem = calls.stem[above]
    worst, longest = np.full(len(calls.stems), np.nan), np.zeros(len(calls.stems))
    np.fmax.at(worst, stem, latent[back])
    np.maximum.at(longest, stem, np.nan_to_num(seen.norm[back]))
    names = {one: number for number, one in enumerate(calls.stems)}
    of = np.array(
        [
            names.get(calls.stems[one].partition(".parameters_grad")[0], -1)
            for one in calls.stem[table.node[rows]].tolist()
        ]
    )
    base = np.where(of >= 0, worst[of], np.nan)
    unknown = np.isnan(base)
    base[unknown] = _level_before(evidence, rows[unknown])
    # Those of one dimension are sums, in which much cancels; others are so where they are small.
    flat = np.array(["," not in runs.texts.values[one] for one in table.shape_id[rows].tolist()])
    with np.errstate(all="ignore"):
        length = np.fmax(seen.norm[rows], table.statistics[_NORM, rows])
        cancelled = np.fmax(1.0, longest[of] / np.where(flat, 1.0, _SMALL) / length)
    base = np.where(~unknown, np.minimum(WORST, base * cancelled), base)
    floor = 0.6 * (runs.coarse if runs.is_mixed else runs.fine)[rows]
    told = np.fmax(floor, 2 * base)
    score = surprise(seen, rows, told) * np.where(unknown, _UNKNOWN_MAKER, 1.0)
    missing = _unmatched(runs.bench, runs.bench_partner)
    extra = _unmatched(runs.npu, runs.partner)
    for place in np.flatnonzero(score > 1).tolist():
        row = int(rows[place])
        error, expected = float(seen.size[row]), float(told[place])
        one = Clue(float(score[place]), 0, int(table.node[row]), Cause.OUTPUT, row, error, expected)
        made, there = int(runs.maker[row]), int(runs.bench_maker[runs.other[row]])
        if there >= 0 and missing[runs.bench.table.node[there]]:
            yield _of_unmatched(runs, one, 1, int(runs.bench.table.node[there]))
        elif made >= 0 and extra[table.node[made]]:
            yield _of_unmatched(runs, one, 0, int(table.node[made]))
        else:
            yield replace(one, rival="unknown") if unknown[place] else one
