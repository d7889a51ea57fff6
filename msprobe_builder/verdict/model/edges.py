"""Tensors that calls are given, and parameters get, though their makers put out others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.standing import GATHERING
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part, inputs_of
from msprobe_builder.operators.operator import Kind, Operator
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.amounts import A_FLIP
from msprobe_builder.verdict.model.clue import (
    CHOSE,
    MANY,
    UNKNOWN_MAKER,
    Clue,
    Evidence,
    idle_calls,
)
from msprobe_builder.verdict.model.levels import level_before
from msprobe_builder.verdict.model.noise import spread_of_edges
from msprobe_builder.verdict.model.observations import WORST, Observations, surprise
from msprobe_builder.verdict.model.outside import are_averages, are_held, are_weights, take_no_part
from msprobe_builder.verdict.model.parameter_gradients import of_parameter_gradients
from msprobe_builder.verdict.model.places import Columns, Spare
from msprobe_builder.verdict.model.runs import Runs
from msprobe_builder.verdict.model.unmatched import of_unmatched, unmatched

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Float = NDArray[np.float64]

_MEAN, _NORM = 2, 3  # of what was read
_FLIPPED_MOST = 10.0  # times the share of whole numbers that may have flipped
_SEVERAL_WEIGHTS, _MOST_WEIGHTS = 8, 0.8  # that tell what a cast does, and their share
_SOME_WEIGHTS, _CERTAINLY = 4, 30.0  # of which half score as much: the runs hold other weights
_BEYOND, _FIRM = 1.5, 20.0  # times half a unit that no cast makes, and what one of it weighs
_UNMATCHED_VIEWS = 4  # of one side alone, one of the other


def of_edges(evidence: Evidence, spare: Spare | None = None) -> Iterable[Clue]:
    """Tensors that calls are given, or parameters get, though their makers put out others.

    Without those that are kept as ``spare``.
    """
    runs, seen, latent = evidence.runs, evidence.seen, evidence.expected.latent
    table = runs.npu.table
    given = runs.rows(Section.INPUT, Section.PARAMETERS)
    given |= runs.rows(Section.OUTPUT) & runs.open[table.node] & (runs.maker >= 0)
    given &= (runs.other >= 0) & (seen.size > 0)
    given[_handed_through(runs)] = False
    rows = np.flatnonzero(given)
    made, bench_made = _makers(runs, rows, seen.differs[rows])
    node = table.node[rows]
    base = np.where(made >= 0, latent[made], np.nan)
    put_out = _of_outputs(evidence)
    in_place = (table.section == Section.INPUT) & runs.npu.calls.is_api[table.node]
    written = np.flatnonzero((made >= 0) & in_place[made])
    base[written] = np.fmax(base[written], put_out[table.node[made[written]]])
    silent = written[~_puts_out(runs)[table.node[made[written]]]]
    base[silent] = _of_written(evidence, rows[silent], made[silent])
    averages = np.flatnonzero(are_averages(runs, evidence.does, rows))
    counterpart = np.where(made >= 0, runs.other[made], -1)
    # A call that puts parameters of ranks together takes a rank's parts of them from outside.
    gathers = runs.npu.calls.of_stems(lambda one: one.startswith(GATHERING)) == 1
    weight = (table.section[rows] == Section.PARAMETERS) | (gathers[node] & (made < 0))
    weight |= are_weights(runs, rows) & (made < 0)
    base[(weight | are_held(runs, rows)) & (made < 0)] = 0.0
    base[averages] = _of_averages(evidence, rows[averages])
    alone = unmatched(runs.bench, runs.bench_partner)
    missing = (bench_made >= 0) & alone[runs.bench.table.node[bench_made]]
    rewired = (made >= 0) & (counterpart >= 0) & (bench_made >= 0) & (counterpart != bench_made)
    extra = (made >= 0) & unmatched(runs.npu, runs.partner)[table.node[made]] & (counterpart < 0)
    base[missing & (made < 0) & ~runs.backward[node]] = 0.0
    outside = np.flatnonzero((made < 0) & (bench_made < 0) & ~runs.backward[node])
    base[outside[take_no_part(runs, evidence.does, rows[outside])]] = 0.0
    unknown = np.isnan(base)
    base[unknown] = level_before(evidence, rows[unknown])
    floor = np.where(weight, 0.3, 0.6) * (runs.coarse if runs.is_mixed else runs.fine)[rows]
    told = np.fmax(floor, 2 * base) * spread_of_edges(runs, seen, evidence.expected)[rows]
    score = surprise(seen, rows, told) * np.where(unknown, UNKNOWN_MAKER, 1.0)
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
    all_over = others >= max(_SOME_WEIGHTS / 2, _weights_compared(runs, seen, gathers) / 2)
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
            yield of_unmatched(runs, clue, 1, int(runs.bench.table.node[bench_made[place]]))
        elif extra[place]:
            yield of_unmatched(runs, clue, 0, int(table.node[made[place]]))
        elif rewired[place]:
            copied = _copied_by(runs, int(made[place]), int(bench_made[place]))
            wired = replace(clue, cause=Cause.WIRING)
            yield wired if copied < 0 else of_unmatched(runs, clue, 0, copied)
        elif made[place] < 0 and not runs.backward[at]:  # gradients are sums, of what was made
            yield replace(clue, cause=Cause.EXTERNAL)
        else:
            yield clue
    yield from of_parameter_gradients(evidence)


def _of_outputs(evidence: Evidence) -> Float:
    """By node what its outputs are off by at most, and what it writes in place is, too."""
    table = evidence.runs.npu.table
    result = np.zeros(len(evidence.runs.npu.tree))
    rows = np.flatnonzero(evidence.runs.rows(Section.OUTPUT))
    np.fmax.at(result, table.node[rows], evidence.expected.latent[rows])
    return result


def _puts_out(runs: Runs) -> Bool:
    """Nodes that put out a tensor."""
    result = np.zeros(len(runs.npu.tree), dtype=bool)
    result[runs.npu.table.node[runs.rows(Section.OUTPUT)]] = True
    return result


def _of_written(evidence: Evidence, rows: Int, made: Int) -> Float:
    """What rows are off by that calls wrote to, and did not put out.

    It is what these were given, all of it, over the size of what it was written to. Nobody reads
    what memory held before that.
    """
    runs, seen, table = evidence.runs, evidence.seen, evidence.runs.npu.table
    given = np.flatnonzero(runs.rows(Section.INPUT) & ~runs.meaningless & ~runs.discrete)
    given = given[np.isin(table.node[given], table.node[made])]
    amount = evidence.expected.latent[given] * seen.norm[given]
    total = np.bincount(table.node[given], amount**2, len(runs.npu.tree))
    with np.errstate(all="ignore"):
        result = np.sqrt(total[table.node[made]]) / seen.norm[rows]
    return np.asarray(np.minimum(result, WORST))


def _of_averages(evidence: Evidence, rows: Int) -> Float:
    """What means and variances are off by: what they are of is, in full, over their own size."""
    runs, seen, table = evidence.runs, evidence.seen, evidence.runs.npu.table
    first = _first(runs.npu, Section.INPUT)[table.node[rows]]
    error, size = evidence.expected.latent[first], seen.rms[first]
    with np.errstate(all="ignore"):
        amount = np.where(table.position[rows] == 1, size, 2 * size**2) / seen.rms[rows]
        return np.asarray(np.clip(np.nan_to_num(error * amount), 0, WORST))


def _handed_through(runs: Runs) -> Int:
    """Rows of gradients that modules put out as they were given them, and nobody has made.

    These are of tensors that are used inside as well: what is recorded is the sum of all uses.
    """
    table = runs.npu.table
    at = runs.backward[table.node] & runs.npu.calls.is_module[table.node]
    given = np.flatnonzero(at & runs.rows(Section.INPUT) & (runs.maker < 0))
    put_out = np.flatnonzero(at & runs.rows(Section.OUTPUT))
    # Each with all that its module puts out, of which there is hardly more than one.
    last = np.searchsorted(table.node[put_out], table.node[given], "right")
    times = last - np.searchsorted(table.node[put_out], table.node[given])
    own = np.repeat(given, times)
    other = put_out[np.arange(len(own)) + np.repeat(last - np.cumsum(times), times)]
    alike = (table.statistics[:, own] == table.statistics[:, other]).all(axis=0)
    return np.asarray(own[alike & (table.shape_id[own] == table.shape_id[other])])


def _weights_compared(runs: Runs, seen: Observations, gathers: Bool) -> int:
    """How many weights are given to calls that nobody has made, whether or not they differ."""
    rows = np.flatnonzero((runs.maker < 0) & (seen.size >= 0) & ~runs.discrete)
    weight = runs.rows(Section.PARAMETERS)[rows] | are_weights(runs, rows)
    weight |= (gathers[runs.npu.table.node] & runs.rows(Section.INPUT))[rows]
    return int(np.count_nonzero(weight))


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
        given, put_out = (_first(part, one) for one in (Section.INPUT, Section.OUTPUT))
        size = part.table.numel
        # A slice may leave nothing out, as one that adds a dimension.
        keeps = part.calls.are(lambda one: one.kind is Kind.SLICE) & (put_out >= 0)
        keeps &= size[given] == size[put_out]
        is_idle = part.calls.are(lambda one: one.kind is Kind.CAST) & (put_out >= 0)
        keeps |= is_idle & (part.table.dtype_id[given] == part.table.dtype_id[put_out])
        keeps = (partner < 0) & (given >= 0) & (keeps | part.calls.are(_keeps_all))
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


def _first(part: Part, section: Section) -> Int:
    """By node the row of the first tensor that it is given, or puts out, -1 without."""
    table = part.table
    result = np.full(len(part.tree), -1, dtype=np.int64)
    rows = np.flatnonzero(table.is_tensor & (table.section == section))[::-1]
    result[table.node[rows]] = rows
    return result
