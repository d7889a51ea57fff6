"""Comparisons in memory: calls that are written down, as the columns that a verdict reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.source import InMemoryDump
from msprobe_builder.metrics.result import PairResult
from msprobe_builder.pipeline.compare import PairJob, build_pair
from msprobe_builder.pipeline.kept import Keeper
from msprobe_builder.verdict.judge import _evidence_of
from msprobe_builder.verdict.model.clue import Evidence
from tests.builder.small_dumps import Record

Array = NDArray[Any]
STATISTICS = ("Max", "Min", "Mean", "Norm")


def measured(values: Array, dtype: str = "float32", *, needs: bool | None = None) -> Record:
    """The statistics of a tensor as a recorder with sums in double precision writes them."""
    numbers = np.zeros(4)
    with np.errstate(all="ignore"):
        if values.size:
            flat = values.astype(np.float64).ravel()
            numbers = np.array([flat.max(), flat.min(), flat.mean(), np.sqrt((flat**2).sum())])
    is_float = "float" in dtype
    return {
        "type": "torch.Tensor",
        "dtype": f"torch.{dtype}",
        "shape": list(values.shape),
        **dict(zip(STATISTICS, numbers.tolist(), strict=True)),
        "requires_grad": is_float if needs is None else needs,
    }


@dataclass
class Run:
    """The calls of one run in their order."""

    data: dict[str, Any] = field(default_factory=dict)
    within: dict[str, str | None] = field(default_factory=dict)
    stacks: dict[str, Any] = field(default_factory=dict)

    def call(
        self,
        name: str,
        given: list[Any],
        made: list[Record],
        *,
        within: str | None = None,
        parameters: Mapping[str, Record] | None = None,
        **keywords: Any,
    ) -> None:
        """A call; what it is given and makes are records, gradients by direction of the name."""
        if name.endswith(".backward") or ".backward." in name:
            self.data[name] = {"input": given, "output": made}
        else:
            self.data[name] = {"input_args": given, "input_kwargs": keywords, "output": made}
        if parameters:
            self.data[name]["parameters"] = dict(parameters)
        self.within[name] = within

    def dump(self, name: str) -> InMemoryDump:
        content = {"task": "statistics", "level": "mix", "framework": "pytorch", "data": self.data}
        return InMemoryDump(content, self.within, self.stacks, name)


def compared(debug: Run, reference: Run, noise: Run | None = None) -> PairResult:
    """Both runs, read, paired and measured as a build does it."""
    job = PairJob(
        0,
        0,
        debug.dump("npu"),
        reference.dump("bench"),
        noise=None if noise is None else noise.dump("noise"),
    )
    return build_pair(job, _unheard, Keeper())


def _unheard(stage: str) -> None:
    """Nobody is told of stages."""


def evidence_of(result: PairResult) -> Evidence:
    """All that clues are taken from."""
    with np.errstate(all="ignore"):
        return _evidence_of(result, frozenset())[0]


def rows_by_name(result: PairResult) -> dict[str, int]:
    """The rows of this run: ``Torch.exp.0.forward:output.0``."""
    tree, table = result.npu.tree, result.npu.table
    return {
        f"{tree.names[node]}:{result.texts.values[name]}": row
        for row, (node, name) in enumerate(
            zip(table.node.tolist(), table.name_id.tolist(), strict=True)
        )
    }
