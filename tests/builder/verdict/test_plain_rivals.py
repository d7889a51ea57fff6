"""What explains a clue as well and is no fault, against the rules of it in plain words."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest

from msprobe_builder.dump.parameters import Section
from msprobe_builder.operators.operator import Kind, Operator
from msprobe_builder.operators.table import operator_of
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import Clue, Evidence
from msprobe_builder.verdict.model.passes import loss_divided
from msprobe_builder.verdict.model.rivals import Rivals
from msprobe_builder.verdict.model.weighing import Weighing
from tests.builder.verdict.drawn_evidence import evidence_drawn
from tests.builder.verdict.drawn_ranks import ranks_drawn

TRIED = [(seed, is_of_ranks) for seed in range(18) for is_of_ranks in (False, True)]


@functools.cache
def rivals_evidence(seed: int, is_of_ranks: bool) -> Evidence:
    """Of a drawn program, some tensors of which hold the same elements at other places."""
    one = ranks_drawn(seed)[0] if is_of_ranks else evidence_drawn(800 + seed, seed % 2 == 1)
    rng, table = np.random.default_rng(seed), one.runs.npu.table
    count = len(table)
    size, moved = one.seen.size.copy(), one.seen.moved.copy()
    again = np.flatnonzero(rng.random(count) < 0.15)
    weights = np.flatnonzero(table.is_tensor & (table.section == Section.PARAMETERS))
    inputs = np.flatnonzero(table.is_tensor & (table.section == Section.INPUT))
    origin = one.runs.origin.copy()
    for row in inputs[rng.random(len(inputs)) < 0.3].tolist():
        before = weights[weights < row][-3:]
        if len(before):  # calls work with the weights of modules before them
            origin[row] = rng.choice(before)
    runs = replace(one.runs, origin=origin)
    one = replace(one, runs=runs)
    if seed % 3 == 0:  # of data and weights these alone differ
        given = data(one)
        size[given] = 0.0
        chosen = np.array(given)[np.isin(given, weights)] if seed % 2 else np.array(given)
        again = np.sort(rng.permutation(chosen)[: 1 + seed // 3 % 3])
        size[again] = 0.1
        moved[:, np.setdiff1d(given, again)] = 0.0
    moved[:2, again] = 0.0
    moved[2:, again] = rng.choice([0.0, 0.3], size=(2, len(again)))
    moved[2, again[: 1 + len(again) // 2]] = 0.3
    exact = np.where(rng.random(count) < 0.2, 0.1, one.seen.exact)
    if seed % 3 == 0:
        exact[again] = np.nan
    resized = np.where(rng.random(count) < 0.1, 2.0, table.numel)
    npu = replace(runs.npu, table=replace(table, numel=resized))
    return replace(
        one,
        runs=replace(runs, npu=npu),
        seen=replace(one.seen, size=size, moved=moved, exact=exact),
        is_merged=seed % 5 == 0,
    )


def data(evidence: Evidence) -> list[int]:
    """Rows of data and weights: given, compared, and made by nobody."""
    runs = evidence.runs
    table = runs.npu.table
    return [
        row
        for row in np.flatnonzero(table.is_tensor).tolist()
        if table.section[row] in (Section.INPUT, Section.PARAMETERS)
        and runs.origin[row] < 0
        and runs.other[row] >= 0
        and not runs.discrete[row]
        and not runs.backward[table.node[row]]
    ]


class Plain:
    """The rivals of one comparison, row by row."""

    def __init__(self, evidence: Evidence) -> None:
        self.ev, self.runs = evidence, evidence.runs
        self.table = self.runs.npu.table
        self.rows: dict[tuple[int, int], list[int]] = {}
        for row in np.flatnonzero(self.table.is_tensor).tolist():
            key = int(self.table.node[row]), int(self.table.section[row])
            self.rows.setdefault(key, []).append(row)
        given = data(evidence)
        moved = [row for row in given if self.is_reordered(row)]
        differs = [row for row in given if evidence.seen.size[row] > 0]
        few = 0 < len(moved) == len(differs) <= max(2, int(0.1 * len(given)))
        self.moved = set(moved) if few else set()

    def given(self, node: int) -> list[int]:
        return self.rows.get((node, int(Section.INPUT)), [])

    def operator(self, node: int) -> Operator:
        calls = self.runs.npu.calls
        return operator_of(calls.stems[int(calls.stem[node])])

    def is_exact(self, row: int) -> bool:
        high, low = self.table.statistics[:2, row]
        is_known = not np.isnan(self.ev.seen.exact[row])
        return bool(is_known or high == low or self.table.numel[row] == 1)

    def is_reordered(self, row: int) -> bool:
        high, low, mean, norm = self.ev.seen.moved[:, row]
        is_moved = high == 0 and low == 0 and (mean > 0 or norm > 0)
        return bool(is_moved and not self.is_exact(row) and not self.runs.discrete[row])

    def shows_places(self, clue: Clue) -> bool:
        if clue.cause is not Cause.OUTPUT or clue.row < 0 or clue.side == 1:
            return False
        node = int(self.table.node[clue.row])
        if self.runs.backward[node] or self.runs.open[node]:
            return False
        if clue.error < 0.002 and self.table.numel[clue.row] > 1:
            return False
        is_lookup = self.operator(node).kind is Kind.LOOKUP
        return not is_lookup and not self.ev.seen.is_factor[clue.row]

    def reordered_before(self, clue: Clue, section: Section) -> int | None:
        """The nearest call before, breadth first, later calls first."""
        waiting, seen = [int(self.table.node[clue.row])], set[int]()
        moved = {row for row in self.moved if self.table.section[row] == section}
        while waiting:
            node = waiting.pop(0)
            rows = self.given(node)
            makers = [int(self.runs.origin[row]) for row in rows if self.runs.origin[row] >= 0]
            if moved & {*rows, *makers}:
                return node
            before = {int(self.table.node[row]) for row in makers}
            waiting += sorted(before - seen, reverse=True)
            seen |= before
        return None

    def beside(self, clue: Clue) -> Clue:
        if clue.rival or clue.meets_again:
            return clue
        if self.shows_places(clue):
            weight = self.reordered_before(clue, Section.PARAMETERS)
            if weight is not None and weight != clue.node:
                return replace(clue, node=weight, cause=Cause.ORDER)
            if weight is not None:
                return clue
            if self.reordered_before(clue, Section.INPUT) is not None:
                return replace(clue, rival="places")
        for name in ("passes", "chosen", "unknown", "sum_of_uses", "places"):
            if getattr(self, name)(clue):
                return replace(clue, rival=name)
        return clue

    def chosen(self, clue: Clue) -> bool:
        """A place in a list in a tuple of indices, such as 1.1.0."""
        given = self.ev.arguments.get(clue.node, [])
        listed = [one.is_count and len(one.name.split(".")) >= 3 for one in given]
        is_noisy = self.ev.runs.is_mixed or max(self.ev.noise.tolist(), default=0.0) > 0
        sizes = zip(self.ev.runs.npu.table.node.tolist(), self.ev.seen.size.tolist(), strict=True)
        tree = self.ev.runs.npu.tree
        has_moved = any(
            size > 0 and tree.subtree_end[node] < clue.node and ".forward" in tree.names[node]
            for node, size in sizes
        )
        return (
            clue.cause is Cause.ARGUMENT
            and clue.side == 0
            and is_noisy
            and has_moved
            and listed[:1] == [True]
            and all(listed)
        )

    def passes(self, clue: Clue) -> bool:
        return loss_divided(self.ev, clue) is not None  # all modules go back as often as there

    def unknown(self, clue: Clue) -> bool:
        if clue.row < 0 or clue.side == 1:
            return False
        row = clue.row
        if clue.cause is Cause.EXTRA and self.ev.is_merged:
            row = int(self.runs.origin[row])
            if row < 0:
                return False
        elif clue.cause is not Cause.OUTPUT or self.table.section[row] != Section.OUTPUT:
            return False
        node = int(self.table.node[row])
        if not self.runs.npu.calls.is_api[node]:
            return False
        ahead = int(self.runs.npu.calls.twin[node]) if self.runs.backward[node] else -1
        if ahead >= 0 and ahead not in self.table.node:
            return True
        given = self.given(node)

        def is_known(one: int) -> bool:
            if np.isnan(self.ev.expected.latent[one]) and not self.runs.discrete[one]:
                return False
            other = int(self.ev.paired[one])
            if other < 0 or np.isnan(self.table.numel[one]):
                return True
            return bool(self.table.numel[one] == self.runs.bench.table.numel[other])

        return not given or not all(map(is_known, given))

    def sum_of_uses(self, clue: Clue) -> bool:
        causes = (Cause.BETWEEN, Cause.EXTERNAL, Cause.UNRECORDED)
        if clue.cause not in causes or clue.row < 0 or clue.side == 1:
            return False
        node = int(self.table.node[clue.row])
        if self.runs.backward[node]:
            return True
        shapes = {
            int(self.table.shape_id[row])
            for (_, section), rows in self.rows.items()
            if section == Section.PARAMETERS_GRAD
            for row in rows
        }
        is_behind = any(self.runs.backward[one] for one in range(node))
        is_api = bool(self.runs.npu.calls.is_api[node])
        return is_api and is_behind and int(self.table.shape_id[clue.row]) in shapes

    def places(self, clue: Clue) -> bool:
        if not self.shows_places(clue):
            return False
        node = int(self.table.node[clue.row])
        given = self.given(node)
        selects = self.operator(node).kind in (Kind.SLICE, Kind.PICK, Kind.FILTER)
        if selects and self.runs.partner[node] >= 0:
            return any(not self.is_exact(row) for row in given)
        indices = [row for row in given if self.runs.discrete[row] and not self.is_exact(row)]
        has_indices = any(self.table.numel[row] > 1 for row in indices)
        is_api = bool(self.runs.npu.calls.is_api[node])
        return any(map(self.is_reordered, given)) or (is_api and has_indices)


def clues(evidence: Evidence) -> list[Clue]:
    table = evidence.runs.npu.table
    rng = np.random.default_rng(len(table))
    causes = list(Cause)
    found = []
    for row, node in enumerate(table.node.tolist()):
        for cause in (Cause.OUTPUT, causes[int(rng.integers(len(causes)))]):
            error = float(rng.choice([0.0019, 0.0021, 0.5]))
            rival = "places" if rng.random() < 0.05 else ""
            again = bool(rng.random() < 0.05)
            side = int(rng.random() < 0.1)
            clue = Clue(9.0, side, node, cause, row, error, meets_again=again, rival=rival)
            found.append(clue)
    for node in range(1, len(evidence.runs.npu.tree)):
        for cause in (Cause.ARGUMENT, Cause.EXTRA, Cause.MISSING):
            found.append(Clue(9.0, node % 4 == 0, node, cause, -1))
    return found


@pytest.mark.parametrize("case", TRIED, ids=str)
def test_what_explains_a_clue_as_well(case: tuple[int, bool]) -> None:
    evidence = rivals_evidence(*case)
    rivals, plain = Rivals(evidence, Weighing()), Plain(evidence)
    for clue in clues(evidence):
        assert rivals.beside(clue) == plain.beside(clue), clue


def test_an_explanation_that_was_left_out_explains_nothing() -> None:
    evidence = rivals_evidence(1, False)
    plain = Plain(evidence)
    for clue in clues(evidence):
        rival = plain.beside(clue).rival
        if rival and not clue.rival:
            found = Rivals(evidence, Weighing(frozenset({rival}))).beside(clue)
            assert found.rival != rival
