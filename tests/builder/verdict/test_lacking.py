"""Tensors and calls of one side alone: which are told, by plain rules."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.floating import epsilons
from msprobe_builder.graph.part import Part
from msprobe_builder.operators.operator import Kind, Operator
from msprobe_builder.operators.table import operator_of
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.lacking import calls_alone, of_lacking, undone
from msprobe_builder.verdict.model.runs import Runs, runs_of
from tests.builder.small_dumps import Record, number
from tests.builder.verdict.columns import Run, compared, measured
from tests.builder.verdict.drawn_programs import drawn_program

TRIED = [(seed, mixed) for seed in range(300, 330) for mixed in (False, True)]


@pytest.mark.parametrize(("seed", "mixed"), TRIED)
def test_a_tensor_that_one_side_alone_gives_is_told(seed: int, mixed: bool) -> None:
    runs = runs_of(compared(*drawn_program(seed, 24, mixed=mixed, richly=True)))
    found = {(one.node, one.cause, one.score, one.side, one.row) for one in of_lacking(runs)}
    assert found == {(*one, 60.0, 0, -1) for one in plainly_lacking(runs)}


def plainly_lacking(runs: Runs) -> set[tuple[int, Cause]]:
    calls = runs.npu.calls
    judged = [
        node
        for node in range(len(runs.npu.tree))
        if calls.is_api[node]
        and runs.partner[node] >= 0
        and operator(runs.npu, node).name == operator(runs.bench, int(runs.partner[node])).name
        and operator(runs.npu, node).kind is not Kind.COLLECTIVE
        and not (runs.backward[node] and "cell" in operator(runs.npu, node).traits)
    ]
    lacking = [node for node in judged if is_half(runs, node)]
    kinds = [(operator(runs.npu, one).name, bool(runs.backward[one])) for one in judged]
    of_all = Counter(kinds)
    times = Counter((operator(runs.npu, one).name, bool(runs.backward[one])) for one in lacking)
    found = set()
    for node in lacking:
        kind = operator(runs.npu, node).name, bool(runs.backward[node])
        if times[kind] >= 3 and 2 * times[kind] > of_all[kind]:
            continue
        ahead = int(calls.twin[node])
        there = int(runs.bench.calls.twin[runs.partner[node]])
        if runs.backward[node] and ahead >= 0:
            if there >= 0 and needing(runs.npu, ahead) != needing(runs.bench, there):
                continue
            if is_cast_inside(runs, ahead):
                continue
        found.add((node, Cause.GRADIENT if runs.backward[node] else Cause.ARGUMENT))
    return found


def operator(part: Part, node: int) -> Operator:
    return operator_of(part.calls.stems[int(part.calls.stem[node])])


def rows_at(part: Part, node: int) -> dict[tuple[int, int], int]:
    """The rows of what a call is given and puts out, but for gradients of zeros."""
    table = part.table
    back = part.tree.names[node].endswith("backward")
    return {
        (int(table.section[row]), int(table.position[row])): row
        for row in np.flatnonzero(table.node == node).tolist()
        if table.section[row] in (Section.INPUT, Section.OUTPUT)
        and not (table.is_tensor[row] and table.statistics[3, row] == 0 and back)
    }


def is_half(runs: Runs, node: int) -> bool:
    here, there = rows_at(runs.npu, node), rows_at(runs.bench, int(runs.partner[node]))
    for place in here.keys() & there.keys():
        row, other = here[place], there[place]
        tensors = bool(runs.npu.table.is_tensor[row]), bool(runs.bench.table.is_tensor[other])
        if tensors[0] != tensors[1] and not is_one_number(runs, row, other):
            return True
    return False


def is_one_number(runs: Runs, row: int, other: int) -> bool:
    npu, bench = runs.npu.table, runs.bench.table
    is_here = bool(npu.is_tensor[row])
    tensor, one = (npu, row) if is_here else (bench, other)
    plain, place = (bench, other) if is_here else (npu, row)
    if tensor.numel[one] != 1 or plain.value_id[place] < 0:
        return False
    try:
        value = float(runs.texts.values[plain.value_id[place]])
    except ValueError:
        return False
    return math.isclose(value, tensor.statistics[0, one], rel_tol=1e-6)


def needing(part: Part, node: int) -> int:
    table = part.table
    given = (table.node == node) & table.is_tensor & (table.section == Section.INPUT)
    return int(np.count_nonzero(given & (table.requires_grad == 1)))


def is_cast_inside(runs: Runs, node: int) -> bool:
    sides = [(runs.npu, node)]
    if runs.partner[node] >= 0:
        sides.append((runs.bench, int(runs.partner[node])))
    for part, at in sides:
        table, unit = part.table, epsilons(part.table.dtype_id, runs.texts)
        floats = [
            row
            for row in np.flatnonzero((table.node == at) & table.is_tensor).tolist()
            if "float" in runs.texts.values[table.dtype_id[row]]
        ]
        least = min((unit[one] for one in floats if table.section[one] == Section.INPUT), default=0)
        made = [unit[one] for one in floats if table.section[one] == Section.OUTPUT]
        if not least or not made:
            continue
        is_cast = operator(part, at).kind is Kind.CAST and bool(part.calls.is_api[at])
        if least < max(made) or (is_cast and least > max(made)):
            return True
    return False


ALONE = ("Torch.erfinv", "Torch.heaviside", "Tensor.view", "Tensor.to", "Torch.zeros", "Torch.flip")


@pytest.mark.parametrize("seed", range(20))
def test_few_calls_of_one_side_alone_are_told(seed: int) -> None:
    """Up to one in twenty, but for those that only hand on; not as many as the other side has."""
    rng = np.random.default_rng(seed)
    sides = Run(), Run()
    added: tuple[list[str], list[str]] = ([], [])
    length = int(rng.integers(30, 70))
    counts: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    made = measured(rng.normal(size=(3, 4)))
    places: list[tuple[int, int, str]] = []
    for place in range(length):
        given, made = made, measured(rng.normal(size=(3, 4)))
        for side, own in enumerate(sides):
            own.call(f"Torch.tanh.{place}.forward", [given], [made])
            if rng.random() < 0.03:
                stem = str(rng.choice(ALONE))
                name = f"{stem}.{counts[side][stem]}.forward"
                counts[side][stem] += 1
                own.call(name, [measured(rng.normal(size=5))], [measured(rng.normal(size=5))])
                added[side].append(name)
                places.append((place, side, name))
    runs = runs_of(compared(*sides))
    places.sort(key=lambda one: (one[0], -one[1]))  # between calls what only the reference makes
    alone = [
        (place, side, name)
        for place, side, name in places
        if name.rpartition(".forward")[0].rpartition(".")[0]
        not in ("Tensor.view", "Tensor.to", "Torch.zeros")
        and (runs.partner, runs.bench_partner)[side][names(runs, side).index(name)] < 0
    ]
    of_side = [[one for one in alone if one[1] == side] for side in (0, 1)]
    many = any(len(own) > 0.05 * (length + len(added[side])) for side, own in enumerate(of_side))
    stems = [
        Counter(one[2].rpartition(".forward")[0].rpartition(".")[0] for one in own)
        for own in of_side
    ]
    right = [
        (side, name)
        for _, side, name in alone
        if stems[0][stem := name.rpartition(".forward")[0].rpartition(".")[0]] != stems[1][stem]
    ]
    found = calls_alone(runs)
    assert [(one.side, names(runs, one.side)[one.node]) for one in found] == ([] if many else right)
    assert {(one.score, one.row, one.cause) for one in found} <= {
        (8.0, -1, Cause.EXTRA),
        (8.0, -1, Cause.MISSING),
    }
    assert all((one.cause is Cause.MISSING) == (one.side == 1) for one in found)


def names(runs: Runs, side: int) -> list[str]:
    return list((runs.npu, runs.bench)[side].tree.names)


def trained(*, steps: list[str], passes: bool = True) -> Run:
    """A module forward and back, and then calls of an optimizer."""
    rng = np.random.default_rng(0)
    one = Run()
    x, y, g = (measured(rng.normal(size=(3, 4))) for _ in range(3))
    module = "Module.layer.Layer"
    if passes:
        one.call(f"{module}.forward.0", [x], [y])
    one.call("Torch.tanh.0.forward", [x], [y], within=f"{module}.forward.0" if passes else None)
    one.call("Torch.tanh.0.backward", [y], [g])
    if passes:
        one.call(f"{module}.backward.0", [y], [g])
    one.call(
        "Torch.addcdiv.0.forward", [measured(rng.normal(size=7))], [measured(rng.normal(size=7))]
    )
    for place, name in enumerate(steps):
        given: list[Record] = [measured(rng.normal(size=(5, place + 2))), number(0.1)]
        one.call(name, given, [measured(rng.normal(size=(5, place + 2)))])
    return one


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("name", ["Tensor.mul_", "Tensor.add_", "Tensor.zero_", "Torch.mul"])
@pytest.mark.parametrize("passes", [True, False])
def test_what_is_written_at_the_end_on_one_side_alone(side: int, name: str, passes: bool) -> None:
    """What writes over all that was there is no change of it, and what writes nothing none."""
    runs = [
        trained(steps=[f"{name}.0.forward"] if side == one else [], passes=passes) for one in (0, 1)
    ]
    columns = runs_of(compared(*runs))
    found = undone(columns)
    if name in ("Tensor.zero_", "Torch.mul") or not passes:
        assert found == []
        return
    [one] = found
    assert (one.side, names(columns, side)[one.node]) == (side, f"{name}.0.forward")
    assert one.cause is (Cause.MISSING if side else Cause.EXTRA)
    assert (one.score, one.row) == (8.0, -1)


def test_what_both_sides_write_in_two_ways_is_one() -> None:
    """Calls that have no counterpart, of other operators and sizes."""
    runs = trained(steps=[]), trained(steps=[])
    for run, name, shape in zip(
        runs, ("Tensor.mul_", "Torch._foreach_lerp_"), ((5, 2), (3, 4, 7)), strict=True
    ):
        written = [measured(np.ones(shape)) for _ in shape]
        run.call(f"{name}.0.forward", [*written, number(0.1)], written[:1])
    columns = runs_of(compared(*runs))
    alone = [int((one < 0).sum()) for one in (columns.partner[1:], columns.bench_partner[1:])]
    assert alone == [1, 1]
    assert undone(columns) == []
