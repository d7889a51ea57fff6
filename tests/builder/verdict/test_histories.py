"""Where one side alone keeps what gradients need: drawn programs against plain rules."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part
from msprobe_builder.operators.operator import Kind
from msprobe_builder.operators.table import operator_of
from msprobe_builder.verdict.differences.histories import is_cut, is_cut_off
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.lacking import cut_off
from msprobe_builder.verdict.model.runs import Runs, runs_of
from tests.builder.verdict.columns import compared
from tests.builder.verdict.drawn_programs import drawn_program

TRIED = [(seed, mixed) for seed in range(800, 830) for mixed in (False, True)]


@functools.cache
def runs_drawn(seed: int, mixed: bool) -> Runs:
    return runs_of(compared(*drawn_program(seed, 24, mixed=mixed, richly=True)))


@pytest.fixture(params=TRIED, ids=str)
def runs(request: pytest.FixtureRequest) -> Runs:
    return runs_drawn(*request.param)


def plainly_cut(part: Part, maker: np.ndarray, row: int, seen: set[int]) -> bool:
    """Whether anything that a tensor was made of needs a gradient, however far before."""
    if row in seen:
        return False
    seen.add(row)
    table = part.table
    before = [int(maker[row])] if maker[row] >= 0 else []
    if table.section[row] == Section.OUTPUT:
        before = [
            other
            for other in range(len(table))
            if table.node[other] == table.node[row]
            and table.is_tensor[other]
            and table.section[other] in (Section.INPUT, Section.PARAMETERS)
        ]
    return any(
        table.requires_grad[other] != 0 or plainly_cut(part, maker, other, seen) for other in before
    )


def test_a_history_is_cut_where_something_before_needs_a_gradient(runs: Runs) -> None:
    for part, maker in ((runs.npu, runs.maker), (runs.bench, runs.bench_maker)):
        for row in np.flatnonzero(part.table.is_tensor).tolist():
            assert is_cut(part, maker, row) is plainly_cut(part, maker, row, set())


def cut_off_here(runs: Runs, row: int, other: int) -> bool:
    """The same of the one of two tensors that needs none."""
    if runs.npu.table.requires_grad[row] == 0:
        return plainly_cut(runs.npu, runs.maker, row, set())
    return other < 0 or plainly_cut(runs.bench, runs.bench_maker, other, set())


def needing_otherwise(runs: Runs) -> list[int]:
    here, there = runs.npu.table, runs.bench.table
    return [
        row
        for row in np.flatnonzero(here.is_tensor & (runs.other >= 0)).tolist()
        if here.requires_grad[row] != there.requires_grad[runs.other[row]]
        and min(here.requires_grad[row], there.requires_grad[runs.other[row]]) >= 0
    ]


def first_cut(runs: Runs, rows: list[int]) -> tuple[float, int, int, int] | None:
    """Score, side and node of the first call behind which one side alone keeps gradients."""
    table, calls, others = runs.npu.table, runs.npu.calls, runs.bench.calls
    weights = [row for row in rows if table.section[row] == Section.PARAMETERS]
    modules = {calls.stems[int(calls.stem[table.node[row]])] for row in weights}
    for row in rows:
        if runs.discrete[row]:
            continue
        node, other = int(table.node[row]), int(runs.other[row])
        partner = int(runs.partner[node])
        if table.section[row] == Section.PARAMETERS and is_frozen(runs, row):
            return (100.0 if len(modules) == 1 else 60.0), 0, node, row
        is_forward = calls.direction[node] == Direction.FORWARD and bool(calls.is_api[node])
        if partner < 0 or not is_forward:
            continue
        has_back = calls.twin[node] >= 0, others.twin[partner] >= 0
        if not any(has_back) and runs.backward.any():
            continue
        if not cut_off_here(runs, row, other):
            continue
        is_cast = operator_of(calls.stems[int(calls.stem[node])]).kind is Kind.CAST
        if table.section[row] == Section.OUTPUT and not is_cast:
            return 60.0, 0, node, row
        for side, part, lone, made in (
            (0, runs.npu, runs.partner, int(runs.origin[row])),
            (1, runs.bench, runs.bench_partner, int(runs.bench_origin[other])),
        ):
            if made >= 0 and lone[part.table.node[made]] < 0:
                return 100.0, side, int(part.table.node[made]), row
        if all(has_back) and handed_on_alone(runs, row):
            return 60.0, 0, int(calls.twin[node]), row
    return None


def is_frozen(runs: Runs, row: int) -> bool:
    """Whether one side alone has the gradient of a parameter, or none has any gradients."""
    told = []
    for part, node in (
        (runs.npu, int(runs.npu.table.node[row])),
        (runs.bench, int(runs.partner[runs.npu.table.node[row]])),
    ):
        table = part.table
        own = part.calls.stems[int(part.calls.stem[node])] if node >= 0 else ""
        gradients = [
            (
                part.tree.names[int(table.node[one])].partition(".parameters_grad")[0],
                runs.texts.values[table.name_id[one]].rpartition(".")[2],
            )
            for one in np.flatnonzero(table.is_tensor).tolist()
            if table.section[one] == Section.PARAMETERS_GRAD
        ]
        name = runs.texts.values[runs.npu.table.name_id[row]].rpartition(".")[2]
        told.append((bool(gradients), (own, name) in gradients, node))
    if not (told[0][0] or told[1][0]):
        return True
    return told[1][2] >= 0 and told[0][1] != told[1][1]


def handed_on_alone(runs: Runs, row: int) -> bool:
    made, there = int(runs.origin[row]), int(runs.bench_origin[runs.other[row]])
    if min(made, there) < 0 or runs.other[made] != there:
        return False
    needs = runs.npu.table.requires_grad[made], runs.bench.table.requires_grad[there]
    return bool(needs[0] == 1 and needs[1] == 1)


def test_the_first_call_behind_which_gradients_are_kept_is_told(runs: Runs) -> None:
    rows = needing_otherwise(runs)
    for turn in range(0, len(rows), 3):
        found = list(cut_off(runs, np.array(rows[turn:], dtype=np.int64)))
        right = first_cut(runs, rows[turn:])
        if right is None:
            assert found == []
            continue
        [one] = found
        assert (one.score, one.side, one.node, one.row) == right
        assert one.cause is Cause.GRADIENT


def test_what_needs_a_gradient_here_was_made_of_what_does_or_not(runs: Runs) -> None:
    for row in needing_otherwise(runs):
        other = int(runs.other[row])
        makers = runs.maker, runs.bench_maker
        assert is_cut_off(runs.npu, runs.bench, makers, row, other) is cut_off_here(
            runs, row, other
        )
