"""From which call on one side alone keeps what gradients need, in plain words."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest

from msprobe_builder.dump.parameters import Section
from msprobe_builder.operators.operator import Kind
from msprobe_builder.operators.table import operator_of
from msprobe_builder.verdict.differences.histories import is_cut_off
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import Clue
from msprobe_builder.verdict.model.lacking import cut_off
from msprobe_builder.verdict.model.runs import Runs
from tests.builder.verdict.drawn_evidence import evidence_drawn
from tests.builder.verdict.drawn_ranks import ranks_drawn

TRIED = [(seed, is_of_ranks) for seed in range(20) for is_of_ranks in (False, True)]


@functools.cache
def runs_drawn(seed: int, is_of_ranks: bool) -> Runs:
    """Those of a drawn program, with other flags; of some nobody has gone back."""
    one = ranks_drawn(seed)[0] if is_of_ranks else evidence_drawn(1100 + seed, seed % 2 == 1)
    runs, rng = one.runs, np.random.default_rng(seed)
    sides = []
    for part in (runs.npu, runs.bench):
        table = part.table
        flags = np.where(rng.random(len(table)) < 0.3, rng.integers(0, 2), table.requires_grad)
        section = table.section.copy()
        if seed % 4 == 0:  # of a pass ahead alone
            section[section == Section.PARAMETERS_GRAD] = Section.OUTPUT
        lost = (section == Section.PARAMETERS_GRAD) & (rng.random(len(table)) < 0.3)
        section[lost] = Section.OUTPUT
        new = replace(table, requires_grad=flags.astype(table.requires_grad.dtype), section=section)
        sides.append(replace(part, table=new))
    return replace(runs, npu=sides[0], bench=sides[1])


class Plain:
    """One tensor that needs a gradient on one side alone."""

    def __init__(self, runs: Runs, row: int, holders: int) -> None:
        self.runs, self.row, self.holders = runs, row, holders
        self.table = runs.npu.table
        self.node = int(self.table.node[row])
        self.there = int(runs.partner[self.node])
        self.name = runs.npu.tree.names[self.node]

    def clue(self, score: float, node: int, side: int = 0) -> Clue:
        return Clue(score, side, node, Cause.GRADIENT, self.row)

    def told(self) -> Clue | None:
        runs, row = self.runs, self.row
        if self.table.section[row] == Section.PARAMETERS and self.is_frozen():
            return self.clue(100.0 if self.holders == 1 else 60.0, self.node)
        if self.there < 0 or "forward" not in self.name.split(".")[-2:]:
            return None
        if self.name.startswith("Module.") and runs.npu.calls.is_api.any():
            return None  # a call in it tells
        here_back, there_back = self.back()
        if runs.backward.any() and here_back < 0 and there_back < 0:
            return None
        makers = runs.maker, runs.bench_maker
        if not is_cut_off(runs.npu, runs.bench, makers, row, int(runs.other[row])):
            return None
        is_cast = operator_of(self.name.rsplit(".", 2)[0]).kind is Kind.CAST
        is_cast = is_cast and not self.name.startswith("Module.")
        if self.table.section[row] == Section.OUTPUT and not is_cast:
            return self.clue(60.0, self.node)
        made, made_there = self.made()
        if made >= 0 and runs.partner[self.table.node[made]] < 0:
            return self.clue(100.0, int(self.table.node[made]))
        bench = runs.bench.table
        if made_there >= 0 and runs.bench_partner[bench.node[made_there]] < 0:
            return self.clue(100.0, int(bench.node[made_there]), 1)
        if here_back >= 0 and there_back >= 0 and self.is_handed_on():
            if self.name.startswith("Module."):
                return self.clue(100.0, self.node)
            return self.clue(60.0, here_back)
        if not is_cast and (here_back >= 0) != (there_back >= 0):
            return self.clue(60.0, self.node)
        return None

    def back(self) -> tuple[int, int]:
        """The calls back through it, on both sides."""
        return (
            int(self.runs.npu.calls.twin[self.node]),
            int(self.runs.bench.calls.twin[self.there]),
        )

    def made(self) -> tuple[int, int]:
        other = int(self.runs.other[self.row])
        return int(self.runs.origin[self.row]), int(self.runs.bench_origin[other])

    def is_handed_on(self) -> bool:
        """Whether both makers put out what needs a gradient."""
        made, there = self.made()
        if made < 0 or there < 0 or self.runs.other[made] != there:
            return False
        needs = self.table.requires_grad[made], self.runs.bench.table.requires_grad[there]
        return needs == (1, 1)

    def is_frozen(self) -> bool:
        """Whether one side alone has the gradient of a parameter, where any are told."""
        parts = self.runs.npu, self.runs.bench
        told = [part.table.section == Section.PARAMETERS_GRAD for part in parts]
        if not any(one.any() for one in told):
            return True
        if self.there < 0:
            return False
        names = self.runs.texts.values
        own = names[self.table.name_id[self.row]].split(".")[-1]
        has = []
        for part, of, node in zip(parts, told, (self.node, self.there), strict=True):
            module = part.tree.names[node].rsplit(".", 2)[0]
            has.append(
                any(
                    part.tree.names[int(part.table.node[row])].split(".parameters_grad")[0]
                    == module
                    and names[part.table.name_id[row]].split(".")[-1] == own
                    for row in np.flatnonzero(of & part.table.is_tensor).tolist()
                )
            )
        return has[0] != has[1]


@pytest.mark.parametrize("case", TRIED, ids=str)
def test_the_first_call_that_cuts_off_is_told(case: tuple[int, bool]) -> None:
    runs = runs_drawn(*case)
    table = runs.npu.table
    rng = np.random.default_rng(case[0])
    compared = np.flatnonzero(table.is_tensor & (runs.other >= 0))
    for count in (1, 1, 1, 3, 10, *([1] * 40)):
        rows = np.sort(rng.permutation(compared)[:count])
        weights = [row for row in rows.tolist() if table.section[row] == Section.PARAMETERS]
        holders = {runs.npu.tree.names[int(table.node[row])].rsplit(".", 2)[0] for row in weights}
        right = []
        for row in rows.tolist():
            told = None if runs.discrete[row] else Plain(runs, row, len(holders)).told()
            if told is not None:
                right = [told]
                break
        assert list(cut_off(runs, rows)) == right
