"""Pairs of tensors that do not belong together, in plain words."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from msprobe_builder.dump.parameters import Section
from msprobe_builder.operators import questions
from msprobe_builder.operators.table import operator_of
from msprobe_builder.verdict.differences.mispaired import (
    inside_cells,
    other_places,
    swapped_operands,
)
from msprobe_builder.verdict.model.runs import Runs, runs_of
from tests.builder.small_dumps import Record, number
from tests.builder.verdict.columns import Run, compared, measured

STEMS = (
    *("Tensor.__add__", "Tensor.__mul__", "Torch.maximum", "Torch.sub", "Torch.matmul"),
    *("Functional.lstm_cell", "Torch.gru_cell"),
)
MODULES = ("LSTMCell", "GRUCell", "Block")
KEYS = ("Max", "Min", "Norm")
TRIED = range(20)


def off(record: Record, rng: np.random.Generator) -> Record:
    """The record of nearly the same tensor, or of another."""
    chosen = str(rng.choice([*KEYS, "Mean"]))
    return {**record, chosen: record[chosen] * (1 + 10.0 ** rng.uniform(-5, -1))}


@functools.cache
def runs_drawn(seed: int) -> Runs:
    rng = np.random.default_rng(1200 + seed)
    sides = Run(), Run()
    for turn, stem in enumerate(rng.choice(STEMS, size=24).tolist()):
        operands = [measured(rng.normal(0.3, 1, 12) * 10.0 ** rng.uniform(-3, 3)) for _ in "ab"]
        if rng.random() < 0.1:
            operands[0] = measured(np.zeros(12))
        more = [number(2)] if rng.random() < 0.2 else []
        made = measured(rng.normal(size=12))
        back = [measured(rng.normal(size=12)) for _ in range(3)]
        for side, own in enumerate(sides):
            given = [off(one, rng) if side else one for one in operands]
            if rng.random() < 0.5:
                given.reverse()
            name = stem
            if side and rng.random() < 0.2 and stem == "Tensor.__add__":
                name = "Torch.add"
            own.call(f"{name}.{turn}.forward", [*more, *given], [made])
            if "cell" in stem:
                own.call(f"{name}.{turn}.backward", back[:2], [*back, back[0]])
    for place, kind in enumerate(MODULES):
        back = [measured(rng.normal(size=12)) for _ in range(3)]
        for own in sides:
            own.call(f"Module.part{place}.{kind}.forward.0", back, [back[0]])
            own.call(f"Module.part{place}.{kind}.backward.0", back, back)
    return runs_of(compared(*sides))


@pytest.fixture(params=TRIED)
def runs(request: pytest.FixtureRequest) -> Runs:
    return runs_drawn(request.param)


def stem(runs: Runs, node: int, side: int = 0) -> str:
    names = (runs.npu, runs.bench)[side].tree.names
    return names[node].rsplit(".", 2)[0]


def test_later_arguments_of_a_call_of_another_name_may_stand_elsewhere(runs: Runs) -> None:
    table = runs.npu.table
    differs = np.random.default_rng(1).random(len(table)) < 0.7
    found = other_places(runs.npu, runs.bench, runs.partner, differs)
    for row, node in enumerate(table.node.tolist()):
        partner = int(runs.partner[node])
        is_renamed = partner >= 0 and stem(runs, node) != stem(runs, partner, 1)
        is_renamed = is_renamed and not stem(runs, node).startswith("Module")
        is_later = table.section[row] == Section.INPUT and table.position[row] > 0
        assert found[row] == (differs[row] and is_renamed and is_later)


def test_gradients_of_recurrent_cells_depend_on_the_kernel(runs: Runs) -> None:
    table = runs.npu.table
    found = inside_cells(runs.npu)
    for row, node in enumerate(table.node.tolist()):
        name = runs.npu.tree.names[node]
        is_given = table.section[row] == Section.INPUT
        position = int(table.position[row])
        right = "_cell" in name and ".backward" in name and not (is_given and position == 0)
        right |= ".LSTMCell.backward" in name and is_given and position == 1
        assert found[row] == right, name


def test_operands_that_came_the_other_way_are_each_others_partners(runs: Runs) -> None:
    table, bench = runs.npu.table, runs.bench.table
    differs = np.random.default_rng(2).random(len(table)) < 0.9
    other = np.full(len(table), -1)  # as they stand, before anything is exchanged
    for node, partner in enumerate(runs.partner.tolist()):
        own, there = (
            [
                row
                for row in np.flatnonzero(one.node == at).tolist()
                if one.section[row] == Section.INPUT and one.is_tensor[row]
            ]
            for one, at in ((table, node), (bench, partner))
        )
        for row, beside in zip(own, there, strict=False):
            other[row] = beside

    def alike(row: int, beside: int) -> bool:
        own, there = table.statistics[:, row], bench.statistics[:, beside]
        size = max(abs(there[0]), abs(there[1]), 1e-30)
        if there[3] == 0:
            return False
        apart = abs(own - there) / [size, size, 1.0, there[3]]
        return bool(max(apart[0], apart[1], apart[3]) < 1e-3)

    right = np.zeros(len(table), dtype=bool)
    for row in range(len(table) - 1):
        node = int(table.node[row])
        is_first = table.position[row] == 0 and table.section[row] == Section.INPUT
        is_pair = node == table.node[row + 1] and table.section[row + 1] == Section.INPUT
        is_api = not stem(runs, node).startswith("Module")
        if not (is_first and is_pair and is_api and differs[row] and differs[row + 1]):
            continue
        is_either = questions.commutes(operator_of(stem(runs, node)))
        if is_either and alike(row, int(other[row + 1])) and alike(row + 1, int(other[row])):
            right[row] = right[row + 1] = True
    found = swapped_operands(runs.npu.calls, table, bench, other, differs)
    assert found.tolist() == right.tolist()
