"""From errors to colours: the error of a node 0…1 and its grade, for each task.

The user's document defines both. n is the run under debug:

statistics  the largest relative error of the statistics of the node's outputs
tensor      how far the share of elements within 1/1000 falls from inputs to outputs:
            the smallest of the inputs minus the smallest of the outputs
md5         1 when any input or output differs, else 0
structure   none

In statistics and tensor, NaN or infinity in the max or min of an output of n is the worst error.
Parameters count as inputs; a node that holds parameter gradients puts them out.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.bands import Band
from msprobe_builder.base.codes import Grade
from msprobe_builder.dump.names import Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.dump.task import Task
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.tree import Tree

Float = NDArray[np.float64]
Int = NDArray[np.int64]


_COLOURS = {
    Grade.UNGRADED: "#FFFFFF",
    Grade.OK: "#FFFCF3",
    Grade.SLIGHT: "#FFEDBE",
    Grade.MODERATE: "#FFDC7F",
    Grade.SERIOUS: "#FFC62E",
    Grade.SEVERE: "#FF704D",
    Grade.UNMATCHED: "#C7C7C7",
}
_ALL = (Grade.OK, Grade.SLIGHT, Grade.MODERATE, Grade.SERIOUS, Grade.SEVERE)


def _profile(grades: tuple[Grade, ...], *bounds: float) -> tuple[Band, ...]:
    ranges = zip(grades, bounds[:-1], bounds[1:], strict=True)
    return (
        Band(Grade.UNGRADED, None, None, _COLOURS[Grade.UNGRADED]),
        *(Band(grade, low, high, _COLOURS[grade]) for grade, low, high in ranges),
        Band(Grade.UNMATCHED, None, None, _COLOURS[Grade.UNMATCHED]),
    )


STATISTICS_PROFILE = _profile(_ALL, 0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
TENSOR_PROFILE = _profile(_ALL, 0.0, 0.05, 0.1, 0.15, 0.2, 1.0)
MD5_PROFILE = _profile((Grade.OK, Grade.SEVERE), 0.0, 1.0, 1.0)
STRUCTURE_PROFILE = _profile((), 0.0)

PROFILES = {
    Task.STATISTICS: STATISTICS_PROFILE,
    Task.TENSOR: TENSOR_PROFILE,
    Task.MD5: MD5_PROFILE,
    Task.STRUCTURE: STRUCTURE_PROFILE,
}


@dataclass(frozen=True)
class Evidence:
    """What was measured on rows of the npu table: errors 0…1, NaN where it says nothing.

    ``unknown`` are rows of tensors of which nothing that could be measured was recorded,
    ``no_data`` those of memory that nobody has written to.
    """

    row: Int
    error: Float
    unknown: Int = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    no_data: Int = field(default_factory=lambda: np.empty(0, dtype=np.int64))


def is_output(table: ParameterTable) -> NDArray[np.bool_]:
    """Rows that a node puts out."""
    put_out = table.section == int(Section.OUTPUT)  # an enumeration makes 64 bits of each
    return np.asarray(put_out | (table.section == int(Section.PARAMETERS_GRAD)))


def is_broken(table: ParameterTable) -> NDArray[np.bool_]:
    """Tensors whose max or min is recorded and is NaN or infinite."""
    recorded = (table.missing[None, :] & np.array([[1], [2]])) == 0
    broken = (recorded & ~np.isfinite(table.statistics[:2])).any(axis=0)
    return np.asarray(broken & table.is_tensor)


def node_errors(
    task: Task, tree: Tree, table: ParameterTable, partner: Int, evidence: Evidence
) -> Float:
    """Error 0…1 of each npu node, NaN where there is none.

    ``partner`` is the bench node of each npu node, -1 without. A matched call with nothing to
    compare has error 0, one whose outputs are all unknown has none; collections have the worst of
    what they hold.
    """
    error = np.full(len(tree), np.nan)
    if task is Task.STRUCTURE:
        return error
    has_record = (partner >= 0) & (tree.record >= 0)
    found = _tensor_errors(tree, table, evidence) if task is Task.TENSOR else np.zeros(len(tree))
    if task is not Task.TENSOR:
        counts = is_output(table)[evidence.row] | (task is Task.MD5)
        np.fmax.at(found, table.node[evidence.row[counts]], evidence.error[counts])
        found[_is_open(len(tree), table, evidence) & (found == 0)] = np.nan
    if task is not Task.MD5:
        broken = is_broken(table) & is_output(table)
        broken[evidence.no_data] = False
        found[table.node[broken]] = 1.0
    found[_without_data(len(tree), table, evidence)] = 0.0
    error[has_record] = found[has_record]
    error[0] = np.nan
    return collection_errors(tree, partner, error)


def _without_data(nodes: int, table: ParameterTable, evidence: Evidence) -> NDArray[np.bool_]:
    """Nodes that put out memory which nobody has written to, and nothing else."""
    fresh = np.zeros(len(table), dtype=bool)
    fresh[evidence.no_data] = True
    output = is_output(table) & table.is_tensor
    idle, real = np.zeros(nodes, dtype=bool), np.zeros(nodes, dtype=bool)
    idle[table.node[output & fresh]] = True
    real[table.node[output & ~fresh]] = True
    return idle & ~real


def _is_open(nodes: int, table: ParameterTable, evidence: Evidence) -> NDArray[np.bool_]:
    """Nodes that put something out of which nothing could be measured."""
    output = is_output(table)
    measured, unknown = np.zeros(nodes, dtype=bool), np.zeros(nodes, dtype=bool)
    measured[table.node[evidence.row[output[evidence.row] & ~np.isnan(evidence.error)]]] = True
    unknown[table.node[evidence.unknown[output[evidence.unknown]]]] = True
    return unknown & ~measured


def _tensor_errors(tree: Tree, table: ParameterTable, evidence: Evidence) -> Float:
    """The worst output's error minus the worst input's; NaN where a file that counts is missing.

    Without inputs, whatever is wrong arose here. Inputs that could not be read leave open
    whether it did.
    """
    output = is_output(table)[evidence.row]
    worst_in, worst_out = (
        _worst(len(tree), table.node[evidence.row[side]], evidence.error[side])
        for side in (~output, output)
    )
    return np.where(worst_out == 0, 0.0, np.clip(worst_out - worst_in, 0.0, 1.0))


def _worst(nodes: int, node: Int, error: Float) -> Float:
    """Largest known error per node; 0 where there is nothing, NaN where nothing is known."""
    worst = np.zeros(nodes)
    worst[node] = np.nan
    np.fmax.at(worst, node, error)
    return worst


def collection_errors(tree: Tree, partner: Int, error: Float) -> Float:
    """``error`` with each matched collection set to the worst of its children."""
    result: Float = error.copy()
    for node in np.flatnonzero(tree.calls.kind == Kind.COLLECTION).tolist():
        below = error[node + 1 : tree.subtree_end[node] + 1]
        known = below[~np.isnan(below)]
        result[node] = known.max() if len(known) and partner[node] >= 0 else np.nan
    return result


def grades(error: Float, partner: Int, profile: tuple[Band, ...]) -> Int:
    """Grade of each node of a comparison."""
    grade = np.full(len(error), Grade.UNGRADED, dtype=np.int64)
    for band in profile:
        if band.low is not None:
            grade[error >= band.low] = band.grade
    grade[partner < 0] = Grade.UNMATCHED
    return grade
