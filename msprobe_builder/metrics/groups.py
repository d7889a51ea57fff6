"""What goes in and out of groups of calls, compared; a group is graded like a call."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.bands import Band
from msprobe_builder.base.codes import Grade
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.task import Task
from msprobe_builder.graph.side import Side
from msprobe_builder.match.matching import Group
from msprobe_builder.metrics.comparison import Comparisons
from msprobe_builder.metrics.grading import grades, is_output
from msprobe_builder.metrics.measure import compare_rows
from msprobe_builder.metrics.pairing import Pairs

Float = NDArray[np.float64]
Int = NDArray[np.int64]


@dataclass(frozen=True)
class GroupResults:
    """The groups of one step and rank; ``owner`` is the place of the group of each pair."""

    groups: tuple[Group, ...]
    comparisons: Comparisons
    owner: Int
    error: Float  # of each group, NaN where there is none
    grade: Int


def measure_groups(
    task: Task,
    npu: Side,
    bench: Side,
    groups: tuple[Group, ...],
    profile: tuple[Band, ...],
    texts: Texts,
    threads: int = 1,
) -> GroupResults:
    """Compare the outer inputs and outputs of all groups."""
    rows = [
        (row, other, place)
        for place, group in enumerate(groups)
        for row, other in group.rows
        if npu.table.is_tensor[row] and bench.table.is_tensor[other] and task is not Task.STRUCTURE
    ]
    columns = np.array(sorted(rows), dtype=np.int64).reshape(-1, 3).T
    # A tensor may go into several calls; it is compared once.
    _, first = np.unique(columns[0], return_index=True)
    columns = columns[:, first]
    pairs, owner = Pairs(columns[0], columns[1]), columns[2]
    comparisons = compare_rows(task, npu, bench, pairs, texts, threads).comparisons
    error = _errors(task, is_output(npu.table)[pairs.npu], comparisons.error, owner, len(groups))
    grade = grades(error, np.zeros(len(groups), dtype=np.int64), profile)
    grade[np.isnan(error)] = Grade.UNGRADED
    return GroupResults(groups, comparisons, owner, error, grade)


def _errors(task: Task, output: NDArray[np.bool_], error: Float, owner: Int, groups: int) -> Float:
    """As of a call: of its outputs, beyond that of its inputs where all elements are known."""
    worst_out, worst_in = np.full(groups, np.nan), np.full(groups, np.nan)
    np.fmax.at(worst_out, owner[output], error[output])
    np.fmax.at(worst_in, owner[~output], error[~output])
    if task is Task.MD5:
        return np.asarray(np.fmax(worst_out, worst_in))
    if task is not Task.TENSOR:
        return worst_out
    has_input = np.bincount(owner[~output], minlength=groups) > 0
    given = np.where(has_input, worst_in, 0.0)
    return np.asarray(np.where(worst_out == 0, 0.0, np.clip(worst_out - given, 0.0, 1.0)))
