"""What the build knows of one step and rank before it is stored."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.diagnostics import Diagnostic
from msprobe_builder.dump.read import Dump
from msprobe_builder.graph.assembly import Assembly
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.tree import Tree
from msprobe_builder.match.matching import Matching
from msprobe_builder.metrics.comparison import Comparisons
from msprobe_builder.task import Task
from msprobe_builder.texts import Texts

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
    origins: list[tuple[int, ...]] = field(default_factory=list)  # ranks of each merged node
    recipes: dict[int, str] = field(default_factory=dict)  # how a row of the table was merged
    assemblies: dict[int, Assembly] | None = None  # files of a merged row, None when not merged
    unknown: dict[int, str] = field(default_factory=dict)  # why a merged row cannot be compared


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
