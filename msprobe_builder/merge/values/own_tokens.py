"""Gradients of a loss that each rank averages over its own part of a sequence.

The mean over the tokens of one of two ranks gives each token twice the weight that the mean over
all has. Where the ranks hand the same gradient to it as the other side, every gradient that flows
back from it is twice that of an unsplit run, until weights are averaged over the ranks. For the
comparison they are divided by the number of parts: then they are what the mean over all tokens
gives back. A script that divides the loss itself hands a smaller gradient to the mean, and nothing
is to be done.
"""

from __future__ import annotations

from dataclasses import replace
from math import isclose

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.flow.operators import operator_of

_LOSSES = frozenset(
    "cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy "
    "binary_cross_entropy_with_logits kl_div mean".split()
)
_SAME = 1e-5
_DIVIDED = "it was divided by {}, as the loss of each rank is the mean of its own tokens"


def with_common_mean(side: Side, other: Side, texts: Texts) -> Side:
    """The side with gradients of the mean over all tokens, where ranks took that of their own.

    Not with files at hand: the elements in them would not be divided.
    """
    provenance = side.provenance
    if provenance is None or not provenance.slices or provenance.assemblies:
        return side
    if other.provenance is not None and other.provenance.slices:
        return side
    node = _own_mean(side, texts)
    given = None if node is None else _given_back(side, node)
    theirs = None if given is None else _given_back(other, side.tree.names[node or 0])
    if given is None or theirs is None or not isclose(given, theirs, rel_tol=_SAME):
        return side
    table = side.table
    backward = np.array([name.direction is Direction.BACKWARD for name in side.tree.parsed])
    of_loss = backward[table.node] | (table.section == Section.PARAMETERS_GRAD)
    of_loss &= ~np.isnan(table.statistics).all(axis=0)
    rows = [row for row in provenance.slices if of_loss[row]]
    parts = np.array([provenance.slices[row] for row in rows])
    statistics = table.statistics.copy()
    statistics[:, rows] /= parts
    recipes = dict(provenance.recipes)
    for row, count in zip(rows, parts.tolist(), strict=True):
        recipes[row] = _with_reason(recipes.get(row, ""), _DIVIDED.format(count))
    return replace(
        side,
        table=replace(table, statistics=statistics),
        provenance=replace(provenance, recipes=recipes),
    )


def _with_reason(recipe: str, more: str) -> str:
    """A recipe with one more reason for what was done last; what was done before stands behind."""
    last, before, earlier = recipe.partition("; of rank ")
    if "because " in last:
        return f"{last}, and {more}{before}{earlier}"
    return f"{last}{'; ' if last else ''}because {more}{before}{earlier}"


def _own_mean(side: Side, texts: Texts) -> int | None:
    """The call that takes the mean, as the last number made of all tokens before going back.

    One that is spelt as a sum and a division by a count is not taken for it: who counts what, the
    script alone tells.
    """
    assert side.provenance is not None
    table, slices = side.table, side.provenance.slices
    found: int | None = None
    for node, name in enumerate(side.tree.parsed):
        if name.direction is Direction.BACKWARD:
            return found
        if name.kind is not Kind.API:
            continue
        first, last = np.searchsorted(table.node, [node, node + 1]).tolist()
        rows = np.arange(first, last)
        given = rows[table.is_tensor[rows] & (table.section[rows] == Section.INPUT)]
        made = rows[table.is_tensor[rows] & (table.section[rows] == Section.OUTPUT)]
        if len(made) != 1 or table.numel[made[0]] != 1 or not len(given):
            continue
        operator = operator_of(name)
        count = slices.get(int(given[0]))
        if count is not None:
            is_mean = operator in _LOSSES and not _is_summed(table, rows, texts)
            found = node if is_mean and not _skips(table, given) else None
    return None


def _given_back(side: Side, call: int | str) -> float | None:
    """The gradient that a call is handed on the way back, if it is one number."""
    names = side.tree.names
    name = names[call] if isinstance(call, int) else call
    back = name.removesuffix(".forward") + ".backward"
    if back not in names:
        return None
    table, node = side.table, names.index(back)
    first, last = np.searchsorted(table.node, [node, node + 1]).tolist()
    rows = np.arange(first, last)
    given = rows[table.is_tensor[rows] & (table.section[rows] == Section.INPUT)]
    if len(given) != 1 or table.numel[given[0]] != 1:
        return None
    handed = {} if side.provenance is None else side.provenance.handed
    value = float(table.statistics[0, given[0]])
    return value if np.isfinite(value) else handed.get(int(given[0]))


def _is_summed(table: ParameterTable, rows: NDArray[np.int64], texts: Texts) -> bool:
    values = texts.values
    words = {values[one] for one in table.value_id[rows[~table.is_tensor[rows]]] if one >= 0}
    return "sum" in words


def _skips(table: ParameterTable, given: NDArray[np.int64]) -> bool:
    """Whether labels leave tokens out, so that ranks may count other numbers of them."""
    return len(given) > 1 and bool(table.statistics[1, given[1]] < 0)
