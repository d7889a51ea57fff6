"""From errors to colours: the error of a node, its grade, and what lies below a module.

Statistics mode, as the user's document defines it: the error of a node is the largest relative
error of its outputs' statistics; NaN or infinity in the max or min of an output of the run under
debug is the worst error. A node that holds parameter gradients is graded by them: they are what
it puts out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.tree import Tree
from msprobe_builder.metrics.pairing import Pairs

Float = NDArray[np.float64]
Int = NDArray[np.int64]


class Grade(IntEnum):
    """How bad a node is; stored in ``node.grade``."""

    UNGRADED = 0
    OK = 1
    SLIGHT = 2
    MODERATE = 3
    SERIOUS = 4
    SEVERE = 5
    UNMATCHED = 6


@dataclass(frozen=True)
class Band:
    """Errors in [low, high) get this grade and colour; the last band includes 1."""

    grade: Grade
    low: float | None
    high: float | None
    colour: str

    @property
    def name(self) -> str:
        """The grade's word in tables and views."""
        return self.grade.name.lower()


def _profile(*bounds: float) -> tuple[Band, ...]:
    colours = ("#FFFCF3", "#FFEDBE", "#FFDC7F", "#FFC62E", "#FF704D")
    grades = (Grade.OK, Grade.SLIGHT, Grade.MODERATE, Grade.SERIOUS, Grade.SEVERE)
    return (
        Band(Grade.UNGRADED, None, None, "#FFFFFF"),
        *(
            Band(grade, low, high, colour)
            for grade, low, high, colour in zip(
                grades, bounds[:-1], bounds[1:], colours, strict=True
            )
        ),
        Band(Grade.UNMATCHED, None, None, "#C7C7C7"),
    )


STATISTICS_PROFILE = _profile(0.0, 0.2, 0.4, 0.6, 0.8, 1.0)

# What these put out is uninitialised memory: it differs between equal runs.
UNINITIALISED = frozenset(
    {
        "empty",
        "empty_like",
        "empty_strided",
        "empty_with_format",
        "new_empty",
        "new_empty_strided",
    }
)


def node_errors(
    tree: Tree, table: ParameterTable, partner: Int, pairs: Pairs, pair_error: Float
) -> Float:
    """Error 0…1 of each npu node in statistics mode, NaN where there is none.

    ``pair_error`` is the worst relative error of each pair, NaN where nothing could be compared.
    """
    error = np.full(len(tree), np.nan)
    error[(partner >= 0) & (tree.record >= 0)] = 0.0
    graded = np.isin(table.section, (Section.OUTPUT, Section.PARAMETERS_GRAD))
    counts = graded[pairs.npu] & ~np.isnan(pair_error)
    np.fmax.at(error, table.node[pairs.npu[counts]], pair_error[counts])

    extremes = table.statistics[:2]
    recorded = (table.missing[None, :] & np.array([[1], [2]])) == 0
    broken = (recorded & ~np.isfinite(extremes)).any(axis=0) & table.is_tensor & graded
    nodes = table.node[broken]
    error[nodes[partner[nodes] >= 0]] = 1.0

    for node, name in enumerate(tree.parsed):
        is_uninitialised = name.stem.rpartition(".")[2] in UNINITIALISED
        if name.kind is Kind.API and is_uninitialised and partner[node] >= 0:
            error[node] = 0.0
    error[0] = np.nan
    return error


def collection_errors(tree: Tree, partner: Int, error: Float) -> Float:
    """``error`` with each matched collection set to the worst of its children."""
    result: Float = error.copy()
    for node, name in enumerate(tree.parsed):
        if name.kind is Kind.COLLECTION:
            below = error[node + 1 : tree.subtree_end[node] + 1]
            known = below[~np.isnan(below)]
            result[node] = known.max() if len(known) and partner[node] >= 0 else np.nan
    return result


def grades(error: Float, partner: Int, profile: tuple[Band, ...]) -> Int:
    """Grade of each node of a comparison."""
    bands = [band for band in profile if band.low is not None]
    lows = np.array([band.low for band in bands])
    of_band = np.array([band.grade for band in bands])
    band = np.searchsorted(lows, np.nan_to_num(error, nan=0.0), side="right") - 1
    grade = np.where(np.isnan(error), Grade.UNGRADED, of_band[np.maximum(band, 0)])
    return np.asarray(np.where(partner < 0, Grade.UNMATCHED, grade), dtype=np.int64)


@dataclass(frozen=True)
class Rollup:
    """What lies below each inner node, itself not counted.

    ``counts`` has shape (number of grades, n); ``worst`` is the worst of ok … severe, 0 when
    nothing below is graded.
    """

    node: Int
    counts: Int
    worst: Int
    worst_overflow: Int


def roll_up(subtree_end: Int, grade: Int, overflow: Int) -> Rollup:
    """Roll-ups of all nodes that have children; linear by prefix sums over pre-order."""
    size = len(subtree_end)
    node = np.flatnonzero(subtree_end > np.arange(size))
    end = subtree_end[node]
    below = np.zeros((len(Grade), len(node)), dtype=np.int64)
    for value in Grade:
        total = np.cumsum(grade == value)
        below[value] = total[end] - total[node]
    return Rollup(node, below, _highest(below, Grade.OK, Grade.SEVERE), _worst(node, end, overflow))


def _highest(counts: Int, first: int, last: int) -> Int:
    worst = np.zeros(counts.shape[1], dtype=np.int64)
    for value in range(first, last + 1):
        worst[counts[value] > 0] = value
    return worst


def _worst(node: Int, end: Int, level: Int) -> Int:
    worst = np.zeros(len(node), dtype=np.int64)
    for value in range(1, int(level.max(initial=0)) + 1):
        total = np.cumsum(level == value)
        worst[total[end] > total[node]] = value
    return worst
