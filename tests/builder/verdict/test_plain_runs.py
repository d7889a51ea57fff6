"""The columns of both runs against plain rules, and what is read of casts and of remainders."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part, inputs_of
from msprobe_builder.operators.table import operator_of
from msprobe_builder.verdict.judge import judge_pair
from msprobe_builder.verdict.model.observations import observe
from msprobe_builder.verdict.model.runs import Runs, only_runs_forward, runs_of
from tests.builder.small_dumps import Record
from tests.builder.verdict.columns import Run, compared, measured, rows_by_name
from tests.builder.verdict.drawn_programs import drawn_program

TRIED = [(seed, mixed) for seed in range(500, 516) for mixed in (False, True)]
UNITS = {"torch.float32": 2.0**-23, "torch.bfloat16": 2.0**-7, "torch.float16": 2.0**-10}


@functools.cache
def runs_drawn(seed: int, mixed: bool) -> Runs:
    return runs_of(compared(*drawn_program(seed, 30, mixed=mixed, richly=True)))


@pytest.fixture(params=TRIED, ids=str)
def runs(request: pytest.FixtureRequest) -> Runs:
    return runs_drawn(*request.param)


def unit(runs: Runs, part: Part, row: int) -> float:
    return UNITS.get(runs.texts.values[part.table.dtype_id[row]], 2.0**-23)


def test_units_are_those_of_both_types_and_no_finer_than_single_precision(runs: Runs) -> None:
    for row in np.flatnonzero(runs.npu.table.is_tensor).tolist():
        units = [unit(runs, runs.npu, row)]
        if runs.other[row] >= 0:
            units.append(unit(runs, runs.bench, int(runs.other[row])))
            assert runs.npu.table.numel[row] == runs.bench.table.numel[runs.other[row]]
            assert runs.bench_row[runs.other[row]] == row
        assert (runs.coarse[row], runs.fine[row]) == (max(units), min(units))
        dtype = runs.texts.values[runs.npu.table.dtype_id[row]]
        assert bool(runs.discrete[row]) is ("int" in dtype)


def test_modules_are_open_where_calls_inside_were_recorded(runs: Runs) -> None:
    tree, calls = runs.npu.tree, runs.npu.calls
    around: set[int] = set()
    for node in range(len(tree)):
        above = int(tree.parent[node]) if calls.is_api[node] else 0
        while above > 0:
            around.add(above)
            above = int(tree.parent[above])
    for node in range(len(tree)):
        assert bool(runs.open[node]) is bool(node in around and calls.is_module[node])


def test_origins_are_looked_for_through_modules(runs: Runs) -> None:
    node, maker = runs.npu.table.node, runs.maker
    for row in range(len(node)):
        made = int(maker[row])
        while made >= 0 and runs.open[node[made]] and maker[made] >= 0:
            made = int(maker[made])
        assert runs.origin[row] == made


def test_runs_are_mixed_where_types_differ_as_a_habit(runs: Runs) -> None:
    table = runs.npu.table
    pairs = [(row, int(other)) for row, other in enumerate(runs.other.tolist()) if other >= 0]

    def differs(row: int, other: int) -> bool:
        here, there = table.dtype_id[row], runs.bench.table.dtype_id[other]
        return bool(here != there)

    def is_product(row: int) -> bool:
        at = int(table.node[row])
        operator = operator_of(runs.npu.calls.stems[int(runs.npu.calls.stem[at])])
        is_forward = bool(runs.npu.calls.is_forward_call[at])
        return is_forward and "products" in operator.condition

    products = [
        differs(*pair)
        for pair in pairs
        if is_product(pair[0]) and table.section[pair[0]] == Section.OUTPUT
    ]
    weights = [differs(*pair) for pair in pairs if table.section[pair[0]] == Section.PARAMETERS]
    right = any(len(one) >= 4 and 2 * sum(one) >= len(one) for one in (products, weights))
    right |= sum(differs(*pair) for pair in pairs) > 0.2 * len(pairs)
    # Pairs of other sizes are no longer there; they are too few to turn it.
    share = sum(differs(*pair) for pair in pairs) / len(pairs)
    if abs(share - 0.2) > 0.05:
        assert runs.is_mixed is right


def test_a_run_is_inference_where_nothing_needs_a_gradient(runs: Runs) -> None:
    assert not only_runs_forward(runs.npu)
    sides = Run(), Run()
    for side in sides:
        one = measured(np.eye(3), needs=False)
        side.call("Torch.exp.0.forward", [measured(np.ones(4))], [one])
    alone = runs_of(compared(*sides))
    assert only_runs_forward(alone.npu)
    assert (alone.npu.calls.direction != Direction.BACKWARD).all()


def test_other_operators_are_told_by_the_table(runs: Runs) -> None:
    for node in np.flatnonzero(runs.partner >= 0).tolist():
        names = [
            operator_of(part.calls.stems[int(part.calls.stem[one])]).name
            for part, one in ((runs.npu, node), (runs.bench, int(runs.partner[node])))
        ]
        right = bool(runs.npu.calls.is_api[node]) and names[0] != names[1]
        assert bool(runs.other_operator[node]) is right


@pytest.mark.parametrize("differ", [0, 1, 9])
def test_truth_values_are_read_where_they_are_cast_to_numbers(differ: int) -> None:
    truth = np.arange(60).reshape(6, 10) % 3 == 0
    other = truth.copy()
    other.reshape(-1)[:differ] ^= True
    sides = Run(), Run()
    x = measured(np.random.default_rng(0).normal(size=(6, 10)))
    for side, values in zip(sides, (other, truth), strict=True):
        bare: Record = {
            **measured(values.astype(int), "bool"),
            "Mean": None,
            "Norm": None,
            "Max": True,
            "Min": False,
        }
        side.call("Torch.gt.0.forward", [x], [bare])
        cast = measured(values.astype(float), needs=False)
        side.call("Tensor.to.0.forward", [bare], [cast])
    result = compared(*sides)
    columns = runs_of(result)
    assert result.comparisons is not None
    with np.errstate(all="ignore"):
        seen = observe(columns, result.comparisons)
    rows = rows_by_name(result)
    mean, norm = abs(other.mean() - truth.mean()), 0.0
    norm = abs(math.sqrt(other.sum()) - math.sqrt(truth.sum())) / math.sqrt(truth.sum())
    size = math.sqrt(truth.mean())
    for name in ("Tensor.to.0.forward:input.0", "Torch.gt.0.forward:output.0"):
        assert seen.size[rows[name]] == pytest.approx(max(mean / size, norm))
        assert bool(seen.differs[rows[name]]) is (differ > 0)


@pytest.mark.parametrize(("share", "is_told"), [(1e-2, True), (1e-4, False), (0.0, False)])
def test_more_than_a_remainder_where_the_reference_has_zeros(share: float, is_told: bool) -> None:
    """Rounding leaves a thousandth of what tensors usually hold at most."""
    sides = Run(), Run()
    rng = np.random.default_rng(0)
    for place in range(9):
        x, y = rng.normal(size=(2, 6, 8))
        for side, values in zip(sides, (y * share, y * 0), strict=True):
            made = y if place else values
            side.call(f"Torch.mystery.{place}.forward", [measured(x)], [measured(made)])
    result = compared(*sides)
    assert result.comparisons is not None
    with np.errstate(all="ignore"):
        seen = observe(runs_of(result), result.comparisons)
    size = seen.size[rows_by_name(result)["Torch.mystery.0.forward:output.0"]]
    assert bool(size == 10.0) is is_told


@pytest.mark.parametrize("length", [3, 10])
def test_what_broke_is_followed_to_where_it_broke(length: int) -> None:
    sides = Run(), Run()
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 8))
    for place in range(length):
        given, x = x, np.tanh(x) * 1.2
        for side, is_debug in zip(sides, (True, False), strict=True):
            records = []
            for at, values in ((place - 1, given), (place, x)):
                record = measured(values)
                if is_debug and at >= 1:
                    record = {**record, "Max": math.inf, "Mean": math.inf, "Norm": math.inf}
                records.append(record)
            side.call(f"Torch.tanh.{place}.forward", records[:1], records[1:])
    result = compared(*sides)
    found = judge_pair(result)
    assert found is not None
    first = found.suspects[0]
    assert result.npu.tree.names[first.node] == "Torch.tanh.1.forward"
    assert inputs_of(result.npu.table, first.node).size == 1
