"""What the build knows of one step and rank before it is stored."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.read import Dump
from msprobe_builder.dump.task import Task
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.provenance import Provenance
from msprobe_builder.graph.tree import Tree
from msprobe_builder.match.matching import Matching
from msprobe_builder.metrics.beginning import Beginning
from msprobe_builder.metrics.comparison import Comparisons
from msprobe_builder.metrics.groups import GroupResults

Int = NDArray[np.int64]


@dataclass(frozen=True)
class Graph:
    """One side: its dump, hierarchy and parameters, and the verdict on each node."""

    dump: Dump
    tree: Tree
    table: ParameterTable
    error: NDArray[np.float64]  # NaN where there is none
    grade: Int
    overflow: Int  # 0 none, 1 medium, 2 high, 3 critical
    overflow_rows: Int = field(default_factory=lambda: np.empty(0, dtype=np.int64))  # of the table
    provenance: Provenance | None = None  # of a side that was merged
    beginnings: tuple[Beginning, ...] = ()  # of NaN and infinity


@dataclass(frozen=True)
class PairResult:
    """Both sides of one step and rank; ``bench`` and what follows is None in a build."""

    step: int
    rank: int
    task: Task
    texts: Texts
    npu: Graph
    bench: Graph | None
    matching: Matching | None
    comparisons: Comparisons | None
    diagnostics: list[Diagnostic]
    groups: GroupResults | None = None
    baseline: NDArray[np.float64] | None = None  # error by row of the reference that is mere noise
    inputs: tuple[str | None, str | None] = (None, None)  # of npu and bench, see dump/inputs.py
