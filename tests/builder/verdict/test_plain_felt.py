"""Which clues somebody feels: those of drawn programs, taken one at a time.

What is computed behind them, and what is told of two calls, is tried by itself in other files.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.floating import SINGLE
from msprobe_builder.operators.operator import Kind
from msprobe_builder.operators.table import operator_of
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model import clues as model_clues
from msprobe_builder.verdict.model import places
from msprobe_builder.verdict.model.agreement import (
    gradients_agree,
    nobody_keeps,
    nothing_comes_of_it,
    results_agree,
)
from msprobe_builder.verdict.model.clue import LEAST, THRESHOLD, Clue, Evidence
from msprobe_builder.verdict.model.clues import clues, felt
from msprobe_builder.verdict.model.converging import Leaks, Ways, is_of_other_sizes
from msprobe_builder.verdict.model.exchanged import Exchanges
from msprobe_builder.verdict.model.places import placed
from msprobe_builder.verdict.model.weighing import Weighing
from tests.builder.verdict.drawn_evidence import evidence_drawn

TRIED = [(seed, mixed) for seed in range(600, 630) for mixed in (False, True, None)]
ONE_SIDED = (Cause.MISSING, Cause.EXTRA)
GIVEN = (Cause.OUTPUT, Cause.EXTERNAL, Cause.BETWEEN, *ONE_SIDED, Cause.WIRING)
OF_PROGRAM = (Cause.ARGUMENT, Cause.GRADIENT, Cause.WEIGHT, Cause.WEIGHTS)


class Felt:
    """The same, a question at a time."""

    def __init__(self, evidence: Evidence) -> None:
        self.ev = evidence
        self.runs, self.seen = evidence.runs, evidence.seen
        self.table, self.tree = self.runs.npu.table, self.runs.npu.tree
        self.calls = self.runs.npu.calls
        self.ways, self.leaks = Ways(evidence), Leaks(evidence)

    def unit(self, row: int) -> float:
        return float((self.runs.coarse if self.runs.is_mixed else self.runs.fine)[row])

    def rows(self, node: int, section: Section) -> list[int]:
        here = self.runs.rows(section) & (self.table.node == node)
        return [int(row) for row in np.flatnonzero(here)]

    def at(self, clue: Clue) -> int:
        return int(self.table.node[clue.row]) if clue.row >= 0 else -1

    def operation(self, side: int, node: int) -> tuple[str, int]:
        calls = (self.runs.npu, self.runs.bench)[side].calls
        stem = calls.stems[int(calls.stem[node])]
        name = stem.rpartition(".")[2] if stem.startswith("Module") else operator_of(stem).name
        return name, int(calls.direction[node])

    def leaves(self, module: int) -> float:
        """How many units off the worst is that an open module puts out; -1 without."""
        found = [-1.0]
        for row in self.rows(module, Section.OUTPUT):
            if self.runs.open[module] and not self.runs.discrete[row]:
                size = self.seen.size[row]
                found.append(math.inf if math.isnan(size) else size / self.unit(row))
        below = range(module, int(self.tree.subtree_end[module]) + 1)
        for row in np.flatnonzero(self.runs.rows(Section.PARAMETERS_GRAD)).tolist():
            times = self.seen.size[row] / self.unit(row)
            node = int(self.table.node[row])
            if times > 4 and node in below and node != module:
                found.append(times)
        return max(found)

    def comes_to_the_same(self, clue: Clue) -> bool:
        """Whether all calls that are given it put out the same, through modules of calls.

        An argument makes up for what is given otherwise, or for what nobody compared.
        """
        if clue.cause is Cause.ARGUMENT and clue.row >= 0:
            given = self.rows(int(self.table.node[clue.row]), Section.INPUT)
            if any(np.isnan(self.seen.size[row]) for row in given):
                return clue.error <= 2 * clue.expected
            return 50 * clue.error < clue.expected and self.puts_out_the_same(clue.row)
        if clue.row < 0 or self.table.section[clue.row] != Section.INPUT:
            return False
        given = [] if self.is_state(clue) else [clue.row]
        for _ in range(8 if given else 0):
            given = [row for row in given if not self.puts_out_the_same(row)]
            if not given:
                return True
            if not all(self.runs.open[self.table.node[row]] for row in given):
                return False
            given = [
                row
                for row in range(len(self.table))
                if int(self.runs.maker[row]) in given and self.table.section[row] == Section.INPUT
            ]
            if not given:
                return False
        return False

    def puts_out_the_same(self, row: int) -> bool:
        node = int(self.table.node[row])
        kind = self.calls.operators[int(self.calls.stem[node])].kind
        counts = bool(self.calls.is_api[node] and self.ev.does.counts[node])
        if self.calls.is_module[node]:
            inside = range(node, int(self.tree.subtree_end[node]) + 1)
            counts = any(
                self.calls.is_forward_call[one] and self.runs.partner[one] < 0 for one in inside
            )
        hidden = kind in (Kind.JOIN, Kind.PRODUCT, Kind.LOOKUP)
        if not counts or self.runs.backward[node] or hidden:
            return False
        made = self.rows(node, Section.OUTPUT)
        return bool(made) and all(
            self.seen.size[one] <= 4 * max(self.unit(one), float(self.ev.noise[node]))
            and not self.runs.discrete[one]
            for one in made
        )

    def habits(self, found: list[Clue]) -> list[Clue]:
        """Outputs that several calls of an operator use otherwise than they are written of."""
        alike = [
            one
            for one in found
            if one.cause is Cause.OUTPUT and one.row >= 0 and self.is_used_alike(one)
        ]
        times = Counter(self.operation(0, one.node) for one in alike)
        return [one for one in alike if times[self.operation(0, one.node)] > 1]

    def is_used_alike(self, clue: Clue) -> bool:
        used = []
        for row in np.flatnonzero(self.runs.rows(Section.INPUT)).tolist():
            if not self.calls.is_api[self.table.node[row]] or not self.seen.size[row] >= 0:
                continue
            there = int(self.runs.bench_origin[self.runs.other[row]])
            makers = [int(self.runs.origin[row])]
            if there >= 0:
                makers.append(int(self.runs.bench_row[there]))
            if clue.row in makers:
                used.append(float(self.seen.size[row]))
        return bool(used) and max(used) <= clue.error / 20

    def all(self, every: list[Clue]) -> tuple[list[Clue], list[Clue]]:
        found = [one for one in every if one.score > 7]
        dead = results_agree(self.ev, 1) and nobody_keeps(self.ev)
        no_gradient_is_off = gradients_agree(self.ev)
        habits = self.habits(found)
        kept: list[Clue] = []
        gone: list[Clue] = []
        for one in sorted(found, key=placed(self.runs)):
            is_same = one.cause in (*GIVEN, Cause.ARGUMENT) and self.comes_to_the_same(one)
            if (
                (dead and one.cause is Cause.OUTPUT)
                or one in habits
                or Exchanges(self.runs).is_of_unpaired(one)
                or (is_same and self.ways.agree(one.row))
            ):
                gone.append(one)
                continue
            clue = self.with_meeting(one)
            if clue.cause is Cause.GRADIENT and no_gradient_is_off:
                continue
            last = self.behind_its_module(clue)
            (gone if last is None else kept).append(clue if last is None else last)
        end = int(self.calls.last_pass) if nothing_comes_of_it(self.ev) else -1
        marked = []
        for one in kept:
            goes = one.cause in GIVEN and 0 <= self.at(one) <= end and not self.is_state(one)
            marked.append(replace(one, meets_again=True) if goes else one)
        told = {
            (one.side, one.cause, self.operation(one.side, one.node))
            for one in marked
            if one.cause in ONE_SIDED and not one.meets_again and one.score > 30
        }
        return [
            replace(one, meets_again=False)
            if (one.side, one.cause, self.operation(one.side, one.node)) in told
            else one
            for one in marked
        ], gone

    def with_meeting(self, clue: Clue) -> Clue:
        """Marked where one program makes other calls, and all behind agrees."""
        if clue.row < 0 or not (clue.cause in GIVEN or is_of_other_sizes(self.runs, clue)):
            return clue
        is_gross = clue.error > min(0.3, 50 * 4 * self.unit(clue.row))
        if is_gross and self.ways.meet_again(clue):
            return replace(clue, meets_again=True)
        return clue

    def behind_its_module(self, clue: Clue) -> Clue | None:
        """The same; None where the module around puts out what it should."""
        at = self.at(clue)
        if clue.cause in OF_PROGRAM or at < 0 or self.calls.direction[at] == Direction.NONE:
            return clue
        around = int(self.tree.parent[at])
        worst = self.leaves(around)
        most = max(4, self.ways.usual(clue) / SINGLE)
        if not 0 <= worst <= most or not self.calls.is_module[around]:
            return clue
        if not clue.error / self.unit(clue.row) > 50 * max(worst, 1.0):
            return clue
        stays = self.is_state(clue) or self.is_left_in_a_weight(clue)
        if stays or self.leaks.leaves(at, around):
            return clue
        if self.runs.is_mixed and clue.score >= 10:
            return replace(clue, meets_again=True)
        return None

    def is_state(self, clue: Clue) -> bool:
        """Whether a normalisation keeps it, where nobody recorded what is kept."""
        table, at, other = self.table, self.at(clue), int(self.runs.other[clue.row])
        if at < 0 or other < 0 or not self.ev.does.normalises[at] or self.runs.backward[at]:
            return False
        is_beside = table.section[clue.row] == Section.INPUT and table.position[clue.row] in (1, 2)
        return bool(
            is_beside and table.requires_grad[clue.row] == 0 and self.runs.maker[clue.row] < 0
        )

    def is_left_in_a_weight(self, clue: Clue) -> bool:
        """Whether it is the gradient of a parameter."""
        at, table = self.at(clue), self.table
        if not self.runs.backward[at] or table.section[clue.row] != Section.OUTPUT:
            return False
        factors = [
            row
            for row in np.flatnonzero(table.node == self.calls.twin[at]).tolist()
            if table.section[row] == Section.INPUT and table.is_tensor[row]
        ]
        made = [int(self.runs.maker[one]) for one in factors][int(table.position[clue.row]) :]
        return bool(made and made[0] >= 0 and table.section[made[0]] == Section.PARAMETERS)


@pytest.mark.parametrize(("seed", "mixed"), TRIED)
def test_a_clue_is_felt_or_vanishes(seed: int, mixed: bool | None) -> None:
    evidence = evidence_drawn(seed, mixed)
    with np.errstate(all="ignore"):
        every = clues(evidence, Weighing())
        assert felt(evidence, every, Weighing()) == Felt(evidence).all(every)


@pytest.mark.parametrize(("seed", "mixed"), TRIED)
@pytest.mark.parametrize("least", [THRESHOLD, LEAST])
def test_clues_that_nobody_looks_at_are_counted(
    seed: int, mixed: bool | None, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where two of a cause are looked at, most are spare: the same is felt, and counted."""
    for module in (model_clues, places):
        monkeypatch.setattr(module, "LOOKED_AT", 2)
    evidence, spare = evidence_drawn(seed, mixed), places.Spare()
    both = Weighing(), Weighing()
    with np.errstate(all="ignore"):
        every = clues(evidence, both[0])
        few = clues(evidence, both[1], spare)
        whole = felt(evidence, every, both[0], least)
        assert felt(evidence, few, both[1], least, spare) == whole
    assert len(few) + sum(len(one.row) for one in spare.columns) == len(every)
    place = places.placed(evidence.runs)
    assert both[1].weighed(few, whole[0], place, spare) == both[0].weighed(every, whole[0], place)


def test_most_clues_behind_a_fault_are_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "LOOKED_AT", 2)
    shares = []
    for seed, mixed in TRIED:
        spare = places.Spare()
        with np.errstate(all="ignore"):
            few = clues(evidence_drawn(seed, mixed), Weighing(), spare)
        left_out = sum(len(one.row) for one in spare.columns)
        shares.append(left_out / max(1, left_out + len(few)))
    assert max(shares) > 0.3
