"""What a second run of the reference differs by, held against plain rules."""

from __future__ import annotations

import math
from statistics import median

import pytest

from msprobe_builder.dump.parameters import Section
from msprobe_builder.metrics.result import PairResult
from msprobe_builder.operators.table import operator_of
from tests.builder.verdict.columns import compared
from tests.builder.verdict.drawn_programs import drawn_program


def apart(second: list[float], first: list[float], elements: float) -> float:
    """The furthest of maximum, minimum, mean and norm; NaN where none is known."""
    usual = first[3] / math.sqrt(max(elements, 1))
    extremes = [abs(one) for one in first[:2]]
    largest = max([one for one in (usual, *extremes) if not math.isnan(one)], default=math.nan)
    found = []
    for own, other, unit in zip(second, first, (largest, largest, usual, first[3]), strict=True):
        if own == other:
            found.append(0.0)
        elif unit > 0 and not math.isnan(own - other):
            found.append(abs(own - other) / unit)
    return max(found, default=math.nan)


def named(result: PairResult, side: int) -> dict[str, int]:
    graph = (result.npu, result.bench)[side]
    assert graph is not None
    texts = result.texts.values
    names = zip(graph.table.node.tolist(), graph.table.name_id.tolist(), strict=True)
    return {
        f"{graph.tree.names[node]}:{texts[name]}": row for row, (node, name) in enumerate(names)
    }


@pytest.mark.parametrize("seed", range(700, 716))
def test_noise_is_at_least_what_calls_of_a_kind_show(seed: int) -> None:
    second, reference = drawn_program(seed, 20, alone=False)
    result = compared(reference, reference, second)
    assert result.baseline is not None
    assert result.bench is not None
    table, tree = result.bench.table, result.bench.tree
    # The second run as this one, so that its numbers are read as well.
    other = compared(second, reference)
    second_rows, first_rows = named(other, 0), named(other, 1)
    sizes: dict[int, float] = {}
    kinds: dict[tuple[str, int, int], list[int]] = {}
    for name, row in named(result, 1).items():
        if name not in second_rows or not table.is_tensor[row]:
            continue
        assert other.bench is not None
        size = apart(
            other.npu.table.statistics[:, second_rows[name]].tolist(),
            other.bench.table.statistics[:, first_rows[name]].tolist(),
            float(table.numel[row]),
        )
        is_whole = "int" in result.texts.values[table.dtype_id[row]]
        if math.isnan(size):
            continue
        sizes[row] = 1.0 if is_whole and size > 0 else size
        node = int(table.node[row])
        stem = tree.calls.stems[int(tree.calls.stem[node])]
        is_module = stem.startswith("Module")
        kind = stem.rpartition(".")[2] if is_module else operator_of(stem).name
        key = kind, int(tree.calls.direction[node]), int(table.section[row])
        kinds.setdefault(key, []).append(row)
    for rows in kinds.values():
        usual = median(sizes[row] for row in rows)
        for row in rows:
            right = max(sizes[row], usual)
            assert result.baseline[row] == pytest.approx(right), tree.names[table.node[row]]
    known = {row for rows in kinds.values() for row in rows}
    for row in range(len(table)):
        assert (row in known) or math.isnan(result.baseline[row])
    assert {Section.INPUT, Section.OUTPUT} <= {table.section[row] for row in known}
