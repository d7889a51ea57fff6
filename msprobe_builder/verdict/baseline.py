"""What two correct runs differ by: the reference against a second or a perturbed run of it.

Where each tensor ends up when nothing is wrong is the best there is to know of noise: it holds what
kernels add, what chaos makes of it, and which choices of indices are close.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Direction
from msprobe_builder.base.texts import Texts
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.tree import Tree
from msprobe_builder.metrics.comparison import Comparisons
from msprobe_builder.verdict.calls import calls_of, operator_of
from msprobe_builder.verdict.distance import distances

Float = NDArray[np.float64]
Int = NDArray[np.int64]


def baseline(
    noise: ParameterTable, bench: ParameterTable, tree: Tree, comparisons: Comparisons, texts: Texts
) -> Float:
    """The error that noise makes of each row of the reference's table, NaN where not known.

    ``tree`` is the reference's, ``comparisons`` are those of the second run with it. Two draws of
    one error differ, by luck down to nothing, so that of a tensor is at least the median of what
    its operator puts out, or is given, in that direction.
    """
    result = np.full(len(bench), np.nan)
    found = distances(noise, bench, comparisons, texts)
    result[comparisons.pairs.bench] = found.error
    known = np.flatnonzero(np.isfinite(result))
    if not len(known):
        return result
    kind = _kinds(tree)[bench.node[known]] * 8 + bench.section[known]
    order = np.argsort(kind, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(kind[order]) != 0])
    for rows in np.split(known[order], starts[1:]):
        result[rows] = np.maximum(result[rows], np.median(result[rows]))
    return result


def _kinds(tree: Tree) -> Int:
    """A number for the operator, or class of modules, and the direction of each node."""
    numbers: dict[str, int] = {}
    calls = calls_of(tree)
    operator = calls.of_stems(lambda stem: numbers.setdefault(operator_of(stem), len(numbers)))
    return np.asarray(operator * len(Direction) + calls.direction)
