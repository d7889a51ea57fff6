"""Calls that put out something else than what they are given explains."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import inputs_of
from msprobe_builder.operators.operator import Kind
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.amounts import A_FLIP
from msprobe_builder.verdict.model.arrangement import blindly_before
from msprobe_builder.verdict.model.clue import CHOSE, MANY, Clue, Evidence
from msprobe_builder.verdict.model.noise import spread_of
from msprobe_builder.verdict.model.observations import Observations, surprise
from msprobe_builder.verdict.model.places import Columns, Spare
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Float = NDArray[np.float64]

_CHOSE_OF_UNKNOWN = 5.0
_CAST = 20.0  # one side alone computes in another type
_ARGUMENT = 9.0  # an argument that differs, whether or not it shows
_ARGUMENT_SHOWS = 2.0
_SHOWN = 2.0  # times what is expected, from which on an argument shows
_SLIGHT = 1e-3  # what the norm of something may be off by that may point anywhere
_DOUBTFUL = 25.0  # of a call of which nobody can compare what it is given
_ALIKE = 1e-5  # of their size, what elements differ by that are one number
_SEVERAL, _MOST_STEP = 16, 0.5  # elements, and the share of them that steps as far as the worst
_AT_ONCE = 1 << 12  # rows, whose numbers are objects meanwhile
_PARTLY_KNOWN = 0.4  # of a score, where not all that went in is known


def of_outputs(evidence: Evidence, spare: Spare | None = None) -> Iterable[Clue]:
    """Outputs that are further off than what goes in, and rounding, explain; without ``spare``."""
    runs, seen, expected = evidence.runs, evidence.seen, evidence.expected
    table = runs.npu.table
    rows = np.flatnonzero(
        ~np.isnan(expected.told)
        & (runs.other >= 0)
        & ~np.isnan(seen.size)
        & ~evidence.does.free[table.node]
        & ~evidence.passed_over[table.node]
    )
    told = expected.told[rows] * spread_of(runs, seen, evidence.does, expected, rows)
    told *= _of_parts(runs, seen, rows)
    node = table.node[rows]
    score = surprise(seen, rows, told, _carried(runs, seen)[node])
    rotated = evidence.does.turns[node]
    score[rotated] = _of_norms(seen, rows[rotated], told[rotated])
    is_known = expected.is_whole[rows] & ~evidence.does.received[node]
    score = np.where(is_known, score, _PARTLY_KNOWN * score)
    score = _with_repetitions(runs, rows, score)
    score = np.where(_given_unknown(runs, seen)[node], np.fmin(score, _DOUBTFUL), score)
    agrees = _given_agrees(evidence)
    discrete = runs.discrete[rows]
    # Behind one choice that agrees in what statistics tell another may follow from it unseen.
    other = np.flatnonzero(runs.discrete & (expected.latent > 0.1))
    before = table.node[other[0]] if len(other) else len(runs.npu.tree)
    # So do other operators, or groups of them, that are given no number that rounds.
    rounds = np.zeros(len(runs.npu.tree), dtype=bool)
    rounds[table.node[runs.rows(Section.INPUT) & ~runs.discrete]] = True
    is_certain = expected.is_whole[rows]
    is_certain |= ((runs.other_operator | (runs.partner < 0)) & ~rounds)[node]
    is_certain &= node <= before
    chose = np.where(is_certain, CHOSE, _CHOSE_OF_UNKNOWN)
    score[discrete] = np.where(seen.differs[rows] & agrees[rows], chose, 0.0)[discrete]
    stepped = evidence.does.breaks[node] & ~discrete & is_known
    score[stepped & _stepped_at_once(evidence, rows)] = CHOSE
    odd = _cast_alone(runs)[rows]
    is_named = np.zeros(len(runs.npu.tree), dtype=bool)
    is_named[list(evidence.arguments)] = True
    named = is_named[node]
    # Whole numbers that differ are seen, whatever was expected of them.
    usual = np.where(discrete, 0.0, told)
    chosen = np.flatnonzero((score > 1) | odd | named)
    if spare is not None:
        told_alone = chosen[~(odd | named)[chosen]]
        off = rows[told_alone]
        of_these = Columns(Cause.OUTPUT, off, node[told_alone], score[told_alone], seen.size[off])
        left_out = told_alone[~spare.take(runs, of_these)]
        chosen = np.setdiff1d(chosen, left_out, assume_unique=True)
    columns = (rows, node, score, seen.size[rows], told, usual, odd, named)
    listed = (chosen[first : first + _AT_ONCE] for first in range(0, len(chosen), _AT_ONCE))
    for row, at, strength, error, was_told, expects, is_odd, is_named in chain.from_iterable(
        zip(*(one[part].tolist() for one in columns), strict=True) for part in listed
    ):
        if is_odd:
            yield Clue(_CAST, 0, at, Cause.OUTPUT, row, error, was_told)
            continue
        cause = Cause.OUTPUT
        # Of other sizes, and with the same result: another formula.
        if is_named and (strength > 1 or same_shapes(runs, at)):
            several = evidence.arguments[at]
            weighty = [one for one in several if not one.is_slight]
            plain = not all(one.is_count for one in weighty) or (
                bool(weighty) and bool(evidence.does.counts[at]) and same_shapes(runs, at)
            )
            strength = max(_ARGUMENT_SHOWS * strength, _ARGUMENT if plain else 0.0)
            cause = Cause.ARGUMENT
        yield Clue(strength, 0, at, cause, row, error, expects)
    is_compared = np.zeros(len(runs.npu.tree), dtype=bool)
    is_compared[node] = True
    for at, several in evidence.arguments.items() if are_of_one_batch(runs) else ():
        weighty = [one for one in several if not one.is_slight]
        if is_compared[at] or not weighty:
            continue
        # What comes out has another size than there, so that nothing is compared.
        is_told = bool(evidence.does.counts[at]) and same_shapes(runs, at)
        # Numbers that are drawn cannot be compared, but how they are drawn can.
        is_told |= bool(evidence.does.free[at]) and not all(one.is_count for one in weighty)
        if is_told:
            yield Clue(_ARGUMENT, 0, at, Cause.ARGUMENT, -1)


def of_draws(evidence: Evidence) -> Iterable[Clue]:
    """Random numbers that are drawn otherwise, or on one side alone.

    The first are no fault, but explain all that comes of them.
    """
    runs, seen, expected = evidence.runs, evidence.seen, evidence.expected
    table = runs.npu.table
    drawn = runs.rows(Section.OUTPUT) & evidence.does.draws[table.node] & (expected.told > 0)
    rows = np.flatnonzero(drawn & (seen.size > 0) & ~runs.backward[table.node])
    score = surprise(seen, rows, expected.told[rows])
    for place in np.flatnonzero(score > 1).tolist():
        row = int(rows[place])
        node, told = int(table.node[row]), float(expected.told[row])
        error = float(seen.size[row])
        if evidence.idle_here[node]:
            yield Clue(CHOSE, 0, node, Cause.OUTPUT, row, error, told)
        else:
            yield Clue(float(score[place]), 0, node, Cause.RANDOM, row, error, told)


def _of_parts(runs: Runs, seen: Observations, rows: Int) -> Float:
    """How many times further off than the whole a part may be: all that is off may stand in it.

    Statistics of the whole hide that; where its error was measured it is no less than it is.
    """
    table, calls = runs.npu.table, runs.npu.calls
    cuts = calls.is_forward_call & calls.are(lambda one: one.kind is Kind.SLICE)
    given = np.flatnonzero(cuts[table.node] & runs.rows(Section.INPUT))
    whole = np.zeros(len(runs.npu.tree))
    np.maximum.at(whole, table.node[given], seen.elements[given])
    with np.errstate(all="ignore"):
        times = np.sqrt(whole[table.node[rows]] / seen.elements[rows])
    is_read = np.isnan(seen.exact[rows]) & np.isfinite(times)
    return np.fmax(1.0, np.where(is_read, times, 1.0))


def _given_unknown(runs: Runs, seen: Observations) -> Bool:
    """Nodes that are given tensors of which one side has no numbers."""
    table = runs.npu.table
    rows = runs.rows(Section.INPUT) & (runs.other >= 0) & np.isnan(seen.size) & ~runs.discrete
    here, there = table.missing != 0, runs.bench.table.missing[runs.other] != 0
    result = np.zeros(len(runs.npu.tree), dtype=bool)
    result[table.node[rows & (here | there)]] = True
    return result


def _with_repetitions(runs: Runs, rows: Int, score: Float) -> Float:
    """Scores, with those of the same call in other passes of its module where all are alike."""
    table, calls, parent = runs.npu.table, runs.npu.calls, runs.npu.tree.parent
    node = table.node[rows]
    inside = np.flatnonzero(calls.is_api[node] & (parent[node] > 0))
    around = parent[node[inside]]
    # Which of the calls of one operator in its module it is, and which of the tensors of it.
    operation = calls.operations[node[inside]]
    order = np.lexsort((operation, around))
    changes = (np.diff(around[order]) != 0) | (np.diff(operation[order]) != 0)
    changes = np.flatnonzero(np.append(True, changes))
    turn = np.empty(len(order), dtype=np.int64)
    turn[order] = np.arange(len(order)) - np.repeat(
        changes, np.diff(np.append(changes, len(order)))
    )
    kind = calls.stem[around] * (1 + int(operation.max(initial=0))) + operation
    group = kind * (1 + int(turn.max(initial=0))) + turn
    _, group = np.unique(group, return_inverse=True)
    own = score[inside]
    size = int(group.max(initial=-1)) + 1
    most, least = np.zeros(size), np.full(size, np.inf)
    np.maximum.at(most, group, own)
    np.minimum.at(least, group, own)
    together = np.sqrt(np.bincount(group, own**2, size))
    result = score.copy()
    result[inside] = np.where((2 * least >= most)[group], together[group], own)
    return result


def shown_behind(evidence: Evidence, found: list[Clue]) -> list[Clue]:
    """The same, of arguments whether what is made with them shows them, or what is given back.

    Or another call to which the same was given.
    """
    runs, table = evidence.runs, evidence.runs.npu.table
    shown = {
        node
        for one in found
        if one.cause is Cause.OUTPUT and one.score > CHOSE and one.row >= 0
        for node in blindly_before(runs, int(table.node[one.row]))
    }
    off = np.zeros((2, len(runs.npu.tree)), dtype=bool)
    for place, section in enumerate((Section.INPUT, Section.OUTPUT)):
        off[place, table.node[evidence.off & runs.rows(section)]] = True
    gives_back = off[1] & ~off[0] & runs.backward
    shown |= set(runs.npu.calls.twin[gives_back].tolist())
    kind, given = runs.npu.calls.operations, evidence.arguments
    alike = {
        (int(kind[one.node]), *((each.npu, each.bench) for each in given[one.node]))
        for one in found
        if one.cause is Cause.ARGUMENT and one.node in given and one.error > _SHOWN * one.expected
    }
    shown |= {
        node
        for node, several in given.items()
        if (int(kind[node]), *((one.npu, one.bench) for one in several)) in alike
    }
    return [
        replace(one, shows_behind=True)
        if one.cause is Cause.ARGUMENT and one.side == 0 and one.node in shown
        else one
        for one in found
    ]


def are_of_one_batch(runs: Runs) -> bool:
    """Whether passes have the same sizes: of several micro-steps each is given a share."""
    return runs.npu.tree.micro_steps == runs.bench.tree.micro_steps


def _of_norms(seen: Observations, rows: Int, told: Float) -> Float:
    """How far off norms are, of what may point anywhere."""
    given = np.minimum(told, _SLIGHT)
    moved = np.nan_to_num(seen.moved[3, rows])
    return np.asarray(moved / (given + seen.resolution[rows]))


def _carried(runs: Runs, seen: Observations) -> Float:
    """By node what mean and norm of what it puts out owe to those of what went in.

    A common factor stays one; and what was read coarsely may be off by as much.
    """
    table = runs.npu.table
    rows = np.flatnonzero(runs.rows(Section.INPUT) & (runs.other >= 0) & ~runs.discrete)
    result = np.zeros(len(runs.npu.tree))
    moved = np.nan_to_num(np.fmax(*seen.moved[2:, rows]))
    np.maximum.at(result, table.node[rows], seen.resolution[rows] + np.minimum(moved, 1.0))
    twin = runs.npu.calls.twin
    return np.where(runs.backward & (twin >= 0), np.fmax(result, result[twin]), result)


def same_shapes(runs: Runs, node: int) -> bool:
    """Whether a call is given tensors of the same sizes on both sides."""
    given, there = (
        part.table.shape_id[inputs_of(part.table, at)]
        for part, at in ((runs.npu, node), (runs.bench, int(runs.partner[node])))
    )
    return np.array_equal(given, there)


def _given_agrees(evidence: Evidence) -> Bool:
    """By row whether nothing that went in is off by so much that rounding chooses otherwise.

    Elements that are all alike are chosen all otherwise, or none is.
    """
    runs, seen, latent = evidence.runs, evidence.seen, evidence.expected.latent
    table = runs.npu.table
    rows = np.flatnonzero(runs.rows(Section.INPUT, Section.PARAMETERS) & (latent > 0))
    worst = np.zeros(len(runs.npu.tree))
    np.maximum.at(worst, table.node[rows], latent[rows])
    worst = worst[table.node]
    tells = (worst * seen.elements <= A_FLIP) & (seen.size >= MANY)
    apart = table.statistics[0, rows] - table.statistics[1, rows]
    alike = np.zeros(len(runs.npu.tree), dtype=bool)
    alike[table.node[rows[apart <= _ALIKE * seen.peak[rows]]]] = True
    return np.asarray((worst == 0) | (tells & ~alike[table.node]))


def _stepped_at_once(evidence: Evidence, rows: Int) -> Bool:
    """Rows in which most elements are a step off, of calls whose inputs agree to the last digit.

    Rounding that no number shows moves elements to either side of a step.
    """
    runs, seen = evidence.runs, evidence.seen
    table, other = runs.npu.table, runs.other[rows]
    given = runs.rows(Section.INPUT)
    differs = np.zeros(len(runs.npu.tree), dtype=bool)
    equal = (seen.moved == 0).all(axis=0) & (seen.elements >= _SEVERAL)
    differs[table.node[given & ~equal]] = True
    apart = np.abs(table.statistics[:3, rows] - runs.bench.table.statistics[:3, other])
    furthest = np.fmax(apart[0], apart[1])  # of equal extremes nobody knows how far a step is
    most_step = (furthest > 0) & (apart[2] >= _MOST_STEP * furthest)
    return np.asarray(~differs[table.node[rows]] & most_step)


def _cast_alone(runs: Runs) -> Bool:
    """Rows that one side alone has in a coarser type, where that is no habit."""
    return np.asarray((runs.coarse != runs.fine) & ~runs.discrete & (not runs.is_mixed))
