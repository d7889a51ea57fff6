"""Noise, limits, roles and agreement of drawn programs, held against plain rules.

The rules are those of docs/design/verdict.md, read one tensor at a time.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from msprobe_builder.base.codes import CallRole
from msprobe_builder.dump.parameters import Section
from msprobe_builder.verdict.model.agreement import (
    gradients_agree,
    no_gradient_tells,
    nobody_keeps,
    nothing_comes_of_it,
    results_agree,
)
from msprobe_builder.verdict.model.clue import Clue, Evidence
from msprobe_builder.verdict.model.clues import clues
from msprobe_builder.verdict.model.conduct import MOVES
from msprobe_builder.verdict.model.limits import limits_of
from msprobe_builder.verdict.model.noise import noise_of
from msprobe_builder.verdict.model.roles import roles
from msprobe_builder.verdict.model.weighing import Weighing
from tests.builder.verdict.drawn_evidence import evidence_drawn, sizes, unit_of
from tests.builder.verdict.plain_clues import PlainClues

SEEDS = range(200, 224)
SINGLE = 2.0**-23
TRIED = [(seed, mixed) for seed in SEEDS for mixed in (False, True, None)]


@pytest.fixture(params=TRIED, ids=str)
def evidence(request: pytest.FixtureRequest) -> Evidence:
    return evidence_drawn(*request.param, calls=24)


def test_noise_is_what_four_in_five_of_what_differs_exceed(evidence: Evidence) -> None:
    runs, seen = evidence.runs, evidence.seen
    found = noise_of(runs, seen, evidence.does)
    for direction in (0, 1):
        every = [
            float(seen.size[row])
            for row in sizes(evidence, Section.OUTPUT)
            if runs.npu.calls.is_api[runs.npu.table.node[row]]
            and not runs.discrete[row]
            and evidence.does.kind[runs.npu.table.node[row]] != MOVES
            and bool(runs.backward[runs.npu.table.node[row]]) == bool(direction)
        ]
        off = [one for one in every if one > 0]
        is_noisy = len(off) >= 8 and len(off) >= len(every) / 2
        right = min(float(np.quantile(off, 0.2)), 20 * SINGLE) if is_noisy else 0.0
        right = 20 * SINGLE if runs.is_mixed else right
        assert found[direction] == pytest.approx(right)


def test_limits_are_what_hardly_any_call_would_have_hidden(evidence: Evidence) -> None:
    # Some were measured, of many elements and of few.
    rng = np.random.default_rng(len(evidence.seen.size))
    exact = np.where(rng.random(len(evidence.seen.size)) < 0.4, evidence.seen.size, np.nan)
    evidence = replace(evidence, seen=replace(evidence.seen, exact=exact))
    runs, plain = evidence.runs, PlainClues(evidence)
    told: dict[bool, list[float]] = {False: [], True: []}
    hidden: dict[bool, list[float]] = {False: [], True: []}
    norms, differ = [], []
    for row in sizes(evidence, Section.OUTPUT):
        expected = float(evidence.expected.told[row])
        if math.isnan(expected) or runs.discrete[row] or not evidence.expected.is_whole[row]:
            continue
        error = expected * plain.spread(row)
        differ.append(bool(evidence.seen.differs[row]))
        told[plain.is_back(row)].append(error)
        is_measured = not math.isnan(evidence.seen.exact[row])
        of_measured = 1.6 * 7 ** (1 / 3) if evidence.seen.elements[row] >= 16 else 1.5 * 7
        seen = (of_measured if is_measured else 7) * (error + 2e-7)
        hidden[plain.is_back(row)].append(seen)
        if not plain.is_back(row):
            shared = 0.12 + 1 / math.sqrt(float(evidence.seen.elements[row]))
            moved = min(1.0, error * error) / 2 + float(evidence.seen.resolution[row])
            norm = 7 * (error * shared + moved)
            norms.append(min(norm, seen) if is_measured else norm)
    every = hidden[False] + hidden[True]
    found = limits_of(evidence)
    if not every:
        assert not found.told
        return
    ways = [one for one in hidden.values() if one]
    shares = (0.95, 0.9, 0.75)
    share = next((one for one in shares if all(np.quantile(way, one) < 1 for way in ways)), 0.5)
    forward, backward = (
        float(np.quantile(hidden[back], share)) if hidden[back] else 0.0 for back in (False, True)
    )
    assert (found.share, found.forward, found.backward) == pytest.approx((share, forward, backward))
    assert found.factor == pytest.approx(np.quantile(norms, share) if norms else 0.0)
    levels = [float(np.median(told[back])) if told[back] else 0.0 for back in (False, True)]
    assert found.levels == pytest.approx(levels)
    usual = float(np.quantile(runs.coarse[runs.other >= 0], 0.95))
    is_quiet = not runs.is_mixed and (usual <= SINGLE or sum(differ) < len(differ) / 2)
    wide = [
        sum(7 * (one + 2e-7) > least for one in told[back]) > len(told[back]) / 3
        for back, least in ((False, 0.02), (True, 0.2))
        if hidden[back]
    ]
    is_blind = any(np.quantile(way, 0.5) >= 1 for way in ways)
    assert found.hides is (len(every) >= 30 and (is_blind or (any(wide) and not is_quiet)))


def test_what_is_off_is_what_neither_rounding_nor_noise_makes(evidence: Evidence) -> None:
    for row in sizes(evidence, *Section):
        noise = float(evidence.noise[evidence.runs.npu.table.node[row]])
        level = max(64 * unit_of(evidence, row), 8 * noise)
        assert bool(evidence.off[row]) is bool(evidence.seen.size[row] > level)


def is_small(evidence: Evidence, rows: list[int], level: float, noise: float) -> bool:
    return all(
        evidence.seen.size[row] <= max(level * unit_of(evidence, row), noise) for row in rows
    )


def test_gradients_agree_where_none_is_off_and_none_is_alone(evidence: Evidence) -> None:
    runs = evidence.runs
    table = runs.npu.table
    alone = any(
        side.section[row] == Section.PARAMETERS_GRAD and side.is_tensor[row] and other[row] < 0
        for side, other in ((table, runs.other), (runs.bench.table, runs.bench_row))
        for row in range(len(side))
    )
    back = [row for row in sizes(evidence, Section.OUTPUT) if runs.backward[table.node[row]]]
    told = [*back, *sizes(evidence, Section.PARAMETERS_GRAD)]
    right = not alone and len(told) >= 5 and is_small(evidence, told, 30, 0.0)
    assert gradients_agree(evidence) is right


def last_agree(evidence: Evidence, outputs: int) -> bool:
    runs, table = evidence.runs, evidence.runs.npu.table
    first_back = np.flatnonzero(runs.backward)
    end = int(first_back[0]) if len(first_back) else len(runs.npu.tree)
    told = [
        row
        for row in sizes(evidence, Section.OUTPUT)
        if runs.npu.calls.is_forward_call[table.node[row]]
        and table.node[row] < end
        and not runs.discrete[row]
    ]
    units = [
        float(runs.coarse[row])
        for row in range(len(table))
        if evidence.seen.size[row] > 0 or runs.coarse[row] <= SINGLE
    ]
    unit = max(units, default=0.0)
    least = (30 if unit <= SINGLE else 8) * unit
    return all(
        evidence.seen.size[row] <= max(least, 30 * float(evidence.noise[table.node[row]]))
        for row in told[-outputs:]
    )


def gradients_tell(evidence: Evidence) -> bool:
    runs = evidence.runs
    noise = 100 * float(evidence.noise.max())
    usual = float(np.quantile(runs.coarse[runs.other >= 0], 0.95))
    if usual > SINGLE:
        noise = max(noise, 8 * usual)
    for row in sizes(evidence, Section.PARAMETERS_GRAD):
        level = max(30 * float(runs.fine[row]), noise)
        if runs.is_mixed:
            level = 8 * max(float(runs.coarse[row]), usual)
        if evidence.seen.size[row] > level:
            return True
    return False


def test_results_agree_where_the_last_outputs_do(evidence: Evidence) -> None:
    for outputs in (1, 2, 3):
        assert results_agree(evidence, outputs) is last_agree(evidence, outputs)
    assert no_gradient_tells(evidence) is not gradients_tell(evidence)
    several = len(sizes(evidence, Section.PARAMETERS_GRAD)) >= 5
    nothing = several and not gradients_tell(evidence) and last_agree(evidence, 1)
    assert nothing_comes_of_it(evidence) is nothing


def test_nobody_keeps_what_agrees_behind_the_last_that_is_off(evidence: Evidence) -> None:
    runs, table, seen = evidence.runs, evidence.runs.npu.table, evidence.seen
    told = [row for row in sizes(evidence, Section.OUTPUT) if not runs.discrete[row]]
    off = [row for row in told if seen.size[row] > 4 * unit_of(evidence, row)]
    right = False
    if off:
        last = max(int(table.node[row]) for row in off)
        later = {int(table.node[row]) for row in told if table.node[row] > last}
        if sum(table.node[row] > last for row in told) >= 5:
            made = {row for row in off if table.node[row] == last}
            for _ in range(8):
                made = {row for row in range(len(table)) if int(runs.maker[row]) in made}
                for row in made:
                    at = int(table.node[row])
                    closed = runs.npu.calls.is_module[at] and not runs.open[at]
                    if not (closed or evidence.does.kind[at] == MOVES):
                        continue
                    is_off = seen.size[row] > 4 * unit_of(evidence, row)
                    is_given = table.section[row] == Section.INPUT
                    right |= bool(is_off and is_given and at in later)
    assert nobody_keeps(evidence) is right


def test_suspects_begin_what_others_carry(evidence: Evidence) -> None:
    runs, table = evidence.runs, evidence.runs.npu.table
    with np.errstate(all="ignore"):
        every = clues(evidence, Weighing())
    rng = np.random.default_rng(len(every))
    drawn = [every[one] for one in rng.permutation(len(every))[:5]]
    found, excused = drawn[:3], drawn[3:]
    role, source = roles(evidence, found, excused)
    judged = [
        row
        for row in sizes(evidence, Section.OUTPUT, Section.PARAMETERS_GRAD)
        if not evidence.does.free[table.node[row]]
    ]
    off = {
        int(table.node[row])
        for row in judged
        if evidence.seen.size[row]
        > max(2 * unit_of(evidence, row), 4 * float(evidence.noise[table.node[row]]))
    }
    begins, suspects = begins_of(evidence, drawn)
    right = carried(evidence, off, begins, suspects)
    known = {int(table.node[row]) for row in judged}
    for node in range(len(runs.npu.tree)):
        number = right.get(node, -1)
        assert source[node] == (number if number < len(found) else -1), runs.npu.tree.names[node]
        is_clean = CallRole.CARRIER if node in right else CallRole.CLEAN
        expected = is_clean if node in known else CallRole.UNKNOWN
        is_suspect = node in {one.node for one in found if one.side == 0}
        assert role[node] == (CallRole.SUSPECT if is_suspect else expected)


def begins_of(evidence: Evidence, found: list[Clue]) -> tuple[dict[int, int], dict[int, int]]:
    """Where each clue shows, and the nodes of this run that are accused, by number."""
    begins: dict[int, int] = {}
    suspects: dict[int, int] = {}
    for number, one in enumerate(found):
        if one.row >= 0:
            begins.setdefault(int(evidence.runs.npu.table.node[one.row]), number)
        elif one.side == 0:
            begins.setdefault(one.node, number)
        if one.side == 0:
            suspects[one.node] = number
    return begins, suspects


def carried(
    evidence: Evidence, off: set[int], begins: dict[int, int], suspects: dict[int, int]
) -> dict[int, int]:
    """By node the first suspect that it inherits from, by what it is given."""
    runs, table = evidence.runs, evidence.runs.npu.table
    source = dict(suspects)
    if not begins:
        return source
    asked = sorted(off | set(begins))
    for _ in range(2):
        for node in asked:
            if node in source:
                continue
            rows = [row for row in range(len(table)) if table.node[row] == node]
            made = [int(runs.maker[row]) for row in rows if table.is_tensor[row]]
            before = [int(table.node[one]) for one in made if one >= 0]
            if runs.backward[node] and runs.npu.calls.twin[node] >= 0:
                before.append(int(runs.npu.calls.twin[node]))
            known = [source[one] for one in before if one in source]
            if node in begins:
                source[node] = begins[node]
            elif known:
                source[node] = min(known)
    latest = -1
    for node in asked:
        latest = begins.get(node, latest)
        if node in off and node not in source:
            inside = [one for one in sorted(begins) if node < one]
            ends = int(runs.npu.tree.subtree_end[node])
            source[node] = begins[inside[0]] if inside and inside[0] <= ends else latest
    return {node: number for node, number in source.items() if number >= 0}
