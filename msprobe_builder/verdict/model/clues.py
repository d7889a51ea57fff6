"""Where the two runs differ by more than one can expect, and what may be to blame for it there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.floating import SINGLE
from msprobe_builder.graph.part import Part
from msprobe_builder.operators.operator import Kind
from msprobe_builder.verdict.differences.arguments import Argument
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.arrangement import arranged_by
from msprobe_builder.verdict.model.conduct import Conduct
from msprobe_builder.verdict.model.noise import spread_of, spread_of_edges
from msprobe_builder.verdict.model.observations import WORST, Observations, surprise
from msprobe_builder.verdict.model.propagation import Expected
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Float = NDArray[np.float64]

THRESHOLD = 7.0
_CHOSE = 30.0  # whole numbers differ though nothing that went in does
_CHOSE_OF_UNKNOWN = 5.0
_CAST = 40.0  # one side alone computes in another type
_LACKING = 60.0  # a tensor on one side alone
_ARGUMENT = 9.0  # an argument that differs, whether or not it shows
_ARGUMENT_SHOWS = 2.0
_PARTLY_KNOWN = 0.4  # of a score, where not all that went in is known
_UNKNOWN_MAKER = 0.5
_BEFORE, _NEAR = 40, 200  # outputs that tell what an unknown one is off by, and how far they lie
_LONE_NEAR = 60


@dataclass(frozen=True)
class Clue:
    """Something at a node of a side that is ``score`` times more than what is expected.

    ``row`` of the npu table is where it shows, -1 nowhere.
    """

    score: float
    side: int
    node: int
    cause: Cause
    row: int
    error: float = 0.0
    expected: float = 0.0


@dataclass(frozen=True)
class Evidence:
    """All that clues are taken from."""

    runs: Runs
    seen: Observations
    does: Conduct
    expected: Expected
    arguments: dict[int, list[Argument]]
    passed_over: Bool  # nodes whose gradient a neighbour is told with

    @staticmethod
    def of(
        runs: Runs,
        seen: Observations,
        does: Conduct,
        expected: Expected,
        arguments: dict[int, list[Argument]],
    ) -> Evidence:
        """With what only this needs."""
        idle = idle_calls(runs.npu)
        theirs = idle_calls(runs.bench)
        either = idle | ((runs.partner >= 0) & theirs[runs.partner])
        twin = runs.npu.calls.twin
        over = runs.backward & (twin >= 0) & either[twin]
        return Evidence(runs, seen, does, expected, arguments, np.asarray(over))


def clues(evidence: Evidence) -> list[Clue]:
    """All clues, in no order."""
    return [
        *_of_outputs(evidence),
        *_of_edges(evidence),
        *_of_lacking(evidence.runs),
    ]


_HANDS_ON = {Kind.CAST, Kind.SHAPE, Kind.TRANSPOSE, Kind.MASK, Kind.DRAW, Kind.TURN}


def idle_calls(part: Part) -> Bool:
    """Forward calls that hand on the tensor itself: casts to its own type, dropout of nothing."""
    table, calls, size = part.table, part.calls, len(part.tree)
    first = np.full(size, -1)
    result = np.full(size, -1)
    leading = table.is_tensor & (table.position == 0)
    for section, column in ((Section.INPUT, first), (Section.OUTPUT, result)):
        rows = np.flatnonzero(leading & (table.section == section))
        column[table.node[rows]] = rows
    hands_on = calls.are(lambda one: one.kind in _HANDS_ON or "itself" in one.keeps)
    chosen = hands_on & (calls.direction == Direction.FORWARD) & (first >= 0) & (result >= 0)
    own, made = table.statistics[:, first], table.statistics[:, result]
    same = ((own == made) | (np.isnan(own) & np.isnan(made))).all(axis=0)
    return np.asarray(chosen & same & (table.dtype_id[first] == table.dtype_id[result]))


def _of_outputs(evidence: Evidence) -> Iterable[Clue]:
    runs, seen, expected = evidence.runs, evidence.seen, evidence.expected
    table = runs.npu.table
    rows = np.flatnonzero(
        ~np.isnan(expected.told)
        & (runs.other >= 0)
        & ~np.isnan(seen.size)
        & ~evidence.does.free[table.node]
        & ~evidence.passed_over[table.node]
    )
    told = expected.told[rows] * spread_of(runs, seen, evidence.does, expected)[rows]
    score = surprise(seen, rows, told, _carried(runs, seen)[table.node[rows]])
    score = np.where(expected.is_whole[rows], score, _PARTLY_KNOWN * score)
    node = table.node[rows]
    agrees = _given_agrees(evidence)
    discrete = runs.discrete[rows]
    # Behind one choice that agrees in what statistics tell another may follow from it unseen.
    other = np.flatnonzero(runs.discrete & (expected.latent > 0.1))
    before = table.node[other[0]] if len(other) else len(runs.npu.tree)
    is_certain = expected.is_whole[rows] & (node <= before)
    chose = np.where(is_certain, _CHOSE, _CHOSE_OF_UNKNOWN)
    score[discrete] = np.where((seen.size[rows] > 0) & agrees[node], chose, 0.0)[discrete]
    odd = _cast_alone(runs)[rows]
    named = np.isin(node, list(evidence.arguments))
    for place in np.flatnonzero((score > 1) | odd | named).tolist():
        row, at = int(rows[place]), int(node[place])
        if odd[place]:
            yield Clue(_CAST, 0, at, Cause.OUTPUT, row, float(seen.size[row]), float(told[place]))
            continue
        cause, strength = Cause.OUTPUT, float(score[place])
        if named[place]:
            several = evidence.arguments[at]
            tells = bool(evidence.does.counts[at]) and _same_shapes(runs, at)
            plain = any(not (one.is_slight or (one.is_count and not tells)) for one in several)
            strength = max(_ARGUMENT_SHOWS * strength, _ARGUMENT if plain else 0.0)
            cause = Cause.ARGUMENT
        side = 0
        if seen.size[row] >= WORST and not named[place]:
            at = _origin(runs, at)
        elif (
            strength > THRESHOLD
            and not named[place]
            and (by := arranged_by(runs, at, evidence.arguments))
        ):
            (side, at), cause = by, Cause.ORDER
        yield Clue(strength, side, at, cause, row, float(seen.size[row]), float(told[place]))


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


def _same_shapes(runs: Runs, node: int) -> bool:
    """Whether a call is given and puts out tensors of the same sizes on both sides."""
    table, bench = runs.npu.table, runs.bench.table
    first, last = np.searchsorted(table.node, [node, node + 1]).tolist()
    rows = first + np.flatnonzero(table.is_tensor[first:last] & (runs.other[first:last] >= 0))
    return bool((table.shape_id[rows] == bench.shape_id[runs.other[rows]]).all())


def _given_agrees(evidence: Evidence) -> Bool:
    """Nodes of which nothing that went in is off."""
    table = evidence.runs.npu.table
    rows = evidence.runs.rows(Section.INPUT, Section.PARAMETERS)
    off = np.zeros(len(evidence.runs.npu.tree), dtype=bool)
    off[table.node[rows & (evidence.expected.latent > 0)]] = True
    return ~off


def _cast_alone(runs: Runs) -> Bool:
    """Rows that one side alone has in a coarser type, where that is no habit."""
    differs = (runs.coarse != runs.fine) & (runs.coarse > SINGLE) & (runs.other >= 0)
    return np.asarray(differs & ~runs.discrete & (not runs.is_mixed))


def _origin(runs: Runs, node: int) -> int:
    """The call that first put out infinity on this side alone, followed back from what broke."""
    table, bench = runs.npu.table, runs.bench.table
    for _ in range(64):
        first, last = np.searchsorted(table.node, [node, node + 1]).tolist()
        for row in range(first, last):
            made = int(runs.maker[row])
            other = int(runs.other[row])
            if table.section[row] != Section.INPUT or made < 0 or other < 0:
                continue
            infinite = np.isinf(table.statistics[:2, row]).any()
            if (
                infinite
                and not np.isinf(bench.statistics[:2, other]).any()
                and table.node[made] < node
            ):
                node = int(table.node[made])
                break
        else:
            return node
    return node


def _of_edges(evidence: Evidence) -> Iterable[Clue]:
    """Tensors that calls are given, or parameters get, though their makers put out others."""
    runs, seen, latent = evidence.runs, evidence.seen, evidence.expected.latent
    table, calls = runs.npu.table, runs.npu.calls
    given = runs.rows(Section.INPUT, Section.PARAMETERS)
    given |= runs.rows(Section.OUTPUT) & runs.open[table.node] & (runs.maker >= 0)
    given &= (runs.other >= 0) & (seen.size > 0) & ~evidence.passed_over[table.node]
    rows = np.flatnonzero(given)
    made, bench_made = runs.maker[rows], runs.bench_maker[runs.other[rows]]
    node = table.node[rows]
    base = np.where(made >= 0, latent[made], np.nan)
    counterpart = np.where(made >= 0, runs.other[made], -1)
    weight = table.section[rows] == Section.PARAMETERS
    base[weight & (made < 0)] = 0.0
    lone = _lone(runs.bench, runs.bench_partner)
    missing = (bench_made >= 0) & lone[runs.bench.table.node[bench_made]]
    rewired = (made >= 0) & (counterpart >= 0) & (bench_made >= 0) & (counterpart != bench_made)
    extra = (made >= 0) & _lone(runs.npu, runs.partner)[table.node[made]] & (counterpart < 0)
    base[missing & (made < 0)] = 0.0
    unknown = np.isnan(base)
    base[unknown] = _level_before(evidence, rows[unknown])
    floor = np.where(weight, 1.0, 0.6) * (runs.coarse if runs.is_mixed else runs.fine)[rows]
    told = np.fmax(floor, 2 * base) * spread_of_edges(runs, seen, evidence.expected)[rows]
    score = surprise(seen, rows, told) * np.where(unknown, _UNKNOWN_MAKER, 1.0)
    chosen = runs.discrete[rows]
    score[chosen] = np.where((seen.size[rows] > 0) & ~(base > 0), _CHOSE, 0.0)[chosen]
    for place in np.flatnonzero(score > 1).tolist():
        row, at = int(rows[place]), int(node[place])
        strength = float(score[place])
        clue = Clue(strength, 0, at, Cause.BETWEEN, row, float(seen.size[row]), float(told[place]))
        if weight[place] and made[place] < 0:
            yield replace(clue, cause=Cause.WEIGHT)
        elif missing[place]:
            yield _of_lone(runs, clue, 1, int(runs.bench.table.node[bench_made[place]]))
        elif extra[place]:
            yield _of_lone(runs, clue, 0, int(table.node[made[place]]))
        elif rewired[place]:
            yield replace(clue, cause=Cause.WIRING)
        elif made[place] < 0:
            yield _of_unknown(runs, clue)
        else:
            yield clue
    yield from _of_parameter_gradients(evidence)


def _lone(part: Part, partner: Int) -> Bool:
    return np.asarray((part.calls.is_api | part.calls.is_module) & (partner < 0))


def _of_lone(runs: Runs, clue: Clue, side: int, node: int) -> Clue:
    """The clue as one of a call that one side alone makes: the forward one, where it has one."""
    part, partner = ((runs.npu, runs.partner), (runs.bench, runs.bench_partner))[side]
    twin = int(part.calls.twin[node])
    if part.calls.direction[node] == Direction.BACKWARD and twin >= 0 and partner[twin] < 0:
        node = twin
    return replace(clue, side=side, node=node, cause=Cause.MISSING if side else Cause.EXTRA)


def _of_unknown(runs: Runs, clue: Clue) -> Clue:
    """Of a tensor that nobody knows the maker of: a call nearby whose output nobody uses."""
    if runs.backward[clue.node] or clue.score <= THRESHOLD / 2:
        return replace(clue, cause=Cause.EXTERNAL)
    for side in (1, 0):
        part, partner = ((runs.npu, runs.partner), (runs.bench, runs.bench_partner))[side]
        here = clue.node if side == 0 else int(runs.partner[clue.node])
        near = _unused(runs, side)
        near = near[(near < here) & (here - near < _LONE_NEAR)]
        if here >= 0 and len(near):
            beside = near[part.tree.parent[near] == part.tree.parent[here]]
            node = int(beside[0]) if len(beside) else int(near[-1])
            return _of_lone(runs, clue, side, node)
    return replace(clue, cause=Cause.EXTERNAL)


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
    runs, latent = evidence.runs, evidence.expected.latent
    table = runs.npu.table
    outputs = np.flatnonzero(~np.isnan(evidence.expected.told) & ~np.isnan(latent))
    result = np.zeros(len(rows))
    for back in (False, True):
        some = outputs[runs.backward[table.node[outputs]] == back]
        at = table.node[some]
        chosen = np.flatnonzero(runs.backward[table.node[rows]] == back)
        for place in chosen.tolist():
            node = table.node[rows[place]]
            end = int(np.searchsorted(at, node))
            near = some[max(0, end - _BEFORE) : end]
            near = near[node - table.node[near] < _NEAR]
            result[place] = min(float(latent[near].max(initial=0.0)), WORST)
    return result


def _of_parameter_gradients(evidence: Evidence) -> Iterable[Clue]:
    """Gradients of parameters, expected as far off as the worst of their module's backward calls."""
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
    for row in rows.tolist():
        node = int(table.node[row])
        of = names.get(tree.names[node].partition(".parameters_grad")[0], -1)
        base = float(worst[of]) if of >= 0 else np.nan
        weight = 1.0
        if np.isnan(base):
            base, weight = float(_level_before(evidence, np.array([row]))[0]), _UNKNOWN_MAKER
        elif "," not in runs.texts.values[table.shape_id[row]] and seen.norm[row] > 0:
            base = min(WORST, base * max(1.0, longest[of] / seen.norm[row]))
        told = max(0.6 * (runs.coarse if runs.is_mixed else runs.fine)[row], 2 * base)
        score = weight * float(surprise(seen, np.array([row]), np.array([told]))[0])
        if score > 1:
            yield Clue(score, 0, node, Cause.OUTPUT, row, float(seen.size[row]), told)


def _of_lacking(runs: Runs) -> Iterable[Clue]:
    """Calls of both sides of which one is given a tensor, or puts one out, where the other has none."""
    kinds = [_what_stands(one.table) for one in (runs.npu, runs.bench)]
    for node in np.flatnonzero(runs.npu.calls.is_api & (runs.partner >= 0)).tolist():
        own, theirs = kinds[0].get(node, {}), kinds[1].get(int(runs.partner[node]), {})
        if any(own[place] != theirs[place] for place in own.keys() & theirs.keys()):
            cause = Cause.GRADIENT if runs.backward[node] else Cause.ARGUMENT
            yield Clue(_LACKING, 0, node, cause, -1)


def _what_stands(table: object) -> dict[int, dict[tuple[int, int], bool]]:
    from msprobe_builder.graph.parameter_table import ParameterTable

    assert isinstance(table, ParameterTable)
    result: dict[int, dict[tuple[int, int], bool]] = {}
    chosen = np.flatnonzero(np.isin(table.section, (Section.INPUT, Section.OUTPUT)))
    columns = (table.node, table.section, table.position, table.is_tensor)
    for node, section, position, is_tensor in zip(
        *(one[chosen].tolist() for one in columns), strict=True
    ):
        result.setdefault(node, {})[section, position] = is_tensor
    return result


_FELT = 4.0  # rounding units from which on a module puts out something else
_VANISHED = 50.0  # times smaller an error is behind the module in which it was
_OF_PROGRAM = (Cause.ARGUMENT, Cause.GRADIENT, Cause.WEIGHT)


def felt(evidence: Evidence, found: list[Clue]) -> list[Clue]:
    """Those that somebody feels; the others are two formulas for one thing, or calls paired wrongly.

    What is off inside of a module, and vanishes in what that puts out, has explained itself.
    """
    runs, seen = evidence.runs, evidence.seen
    table, calls, parent = runs.npu.table, runs.npu.calls, runs.npu.tree.parent
    unit = runs.coarse if runs.is_mixed else runs.fine
    out = np.flatnonzero(runs.rows(Section.OUTPUT) & runs.open[table.node] & ~runs.discrete)
    worst = np.full(len(runs.npu.tree), -1.0)
    times = np.where(np.isnan(seen.size[out]), np.inf, seen.size[out] / unit[out])
    np.maximum.at(worst, table.node[out], times)
    result = []
    for one in found:
        at = int(table.node[one.row]) if one.row >= 0 else one.node
        around = int(parent[at])
        is_inside = one.row >= 0 and calls.direction[at] != Direction.NONE
        if one.cause not in _OF_PROGRAM and is_inside and 0 <= worst[around] <= _FELT:
            units = one.error / unit[one.row]
            if calls.is_module[around] and units > _VANISHED * max(worst[around], 1.0):
                continue
        result.append(one)
    return result


def ranked(runs: Runs, found: list[Clue]) -> list[Clue]:
    """Those above the threshold, each node once, the first of the run first."""
    before = np.maximum.accumulate(np.where(runs.bench_partner >= 0, runs.bench_partner, 0))

    def place(one: Clue) -> tuple[float, float]:
        at = float(one.node) if one.side == 0 else float(before[one.node]) + 0.5
        return at, -one.score

    result: dict[tuple[int, int], Clue] = {}
    for one in sorted((one for one in found if one.score > THRESHOLD), key=place):
        result.setdefault((one.side, one.node), one)
    return list(result.values())
