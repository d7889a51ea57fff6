"""Numbers of each rank's own that meet what ranks hold alike, and what is then told to begin it."""

from __future__ import annotations

import numpy as np
import pytest

from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.provenance import Provenance
from msprobe_builder.metrics.result import PairResult
from msprobe_builder.verdict.model.runs import runs_of
from msprobe_builder.verdict.ranks.apart import mixed_with_own
from tests.builder.small_dumps import Record
from tests.builder.verdict.columns import Run, compared, measured, rows_by_name

# The norm of gradients: of a rank's parts, and of what ranks hold alike; what scales all with it.
PARTS, ALIKE, BOTH = 3.0, 2.0, 5.0
ROOT, SCALE = BOTH**0.5, 0.5 / BOTH**0.5


def number(value: float) -> Record:
    return measured(np.array(value))


def updated(alike: float) -> PairResult:
    """A norm of two sums, what it scales a gradient with, and the update that is given this."""
    run = Run()
    run.call("Module.a.Linear.forward.0", [measured(np.arange(6.0))], [measured(np.arange(6.0))])
    gradient = np.linspace(-1, 2, 8)
    scaled = measured(gradient * SCALE)
    run.call("Module.a.Linear.backward.0", [measured(gradient)], [measured(gradient)])
    run.call("Tensor.__add__.0.forward", [number(PARTS), number(alike)], [number(BOTH)])
    run.call("Tensor.sqrt.0.forward", [number(BOTH)], [number(ROOT)])
    run.call("Tensor.reciprocal.0.forward", [number(ROOT)], [number(SCALE)])
    run.call("Tensor.mul_.0.forward", [measured(gradient), number(SCALE)], [scaled])
    run.call("Tensor.lerp_.0.forward", [measured(np.zeros(8)), scaled], [scaled])
    return compared(run, run)


@pytest.mark.parametrize(
    ("alike", "own", "begins"),
    [
        (ALIKE, (PARTS, BOTH, ROOT, SCALE), "Tensor.__add__.0.forward"),
        (0.0, (PARTS, BOTH, ROOT, SCALE), "Tensor.mul_.0.forward"),  # nothing is mixed in there
        (ALIKE, (ROOT, SCALE), "Tensor.mul_.0.forward"),  # the sum is alike on all ranks
        (ALIKE, (), "Tensor.lerp_.0.forward"),
    ],
)
def test_the_call_is_told_that_first_mixes_them(
    alike: float, own: tuple[float, ...], begins: str
) -> None:
    result = updated(alike)
    rows, table = rows_by_name(result), result.npu.table
    singles: dict[int, tuple[float, ...]] = {
        row: (float(table.statistics[0, row]), 2 * float(table.statistics[0, row]))
        for row in rows.values()
        if table.numel[row] == 1
        and any(np.isclose(table.statistics[0, row], one) for one in own)
        and table.section[row] in (Section.INPUT, Section.OUTPUT)
    }
    node = result.npu.tree.names.index("Tensor.lerp_.0.forward")
    scaled = {rows["Tensor.mul_.0.forward:output.0"]: fact("unmerged.depends")}
    found = mixed_with_own(runs_of(result), Provenance(singles=singles, unknown=scaled), node)
    assert result.npu.tree.names[found] == begins
    alone: dict[int, tuple[float, ...]] = {row: (one[0], one[0]) for row, one in singles.items()}
    told = Provenance(singles=alone, unknown=scaled)
    assert mixed_with_own(runs_of(result), told, node) == node
    # Numbers of ranks that scale nothing are for them to add up.
    assert mixed_with_own(runs_of(result), Provenance(singles=singles), node) == node
