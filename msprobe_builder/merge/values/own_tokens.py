"""Gradients of a loss that each rank averages over its own part of a sequence.

The mean over the tokens of one of two ranks gives each token twice the weight that the mean over
all has, so every gradient that flows back from it is twice that of an unsplit run, until weights
are averaged over the ranks. Put together they are divided by the number of ranks: then they are
what the mean over all tokens gives back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.merge.flow.operators import operator_of
from msprobe_builder.merge.ranks.part import StageGraph

_LOSSES = frozenset(
    "cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy "
    "binary_cross_entropy_with_logits kl_div mean".split()
)
_DIVISIONS = frozenset({"div", "divide", "true_divide", "__truediv__", "__itruediv__"})


def with_common_mean(stages: Sequence[StageGraph], texts: Texts) -> list[StageGraph]:
    """The stages with gradients of the mean over all tokens, where ranks took that of their own."""
    if not any(_takes_own_mean(one, texts) for one in stages):
        return list(stages)
    return [_divided(one) for one in stages]


def _divided(stage: StageGraph) -> StageGraph:
    table = stage.table
    backward = [name.direction is Direction.BACKWARD for name in stage.tree.parsed]
    of_loss = np.array(backward)[table.node] | (table.section == Section.PARAMETERS_GRAD)
    rows = np.flatnonzero(stage.of_tokens & of_loss & ~np.isnan(table.statistics).all(axis=0))
    statistics = table.statistics.copy()
    statistics[:, rows] /= stage.slices
    recipes = dict(stage.provenance.recipes)
    why = f"; divided by {stage.slices}, as the loss of each rank is the mean of its own tokens"
    recipes |= {row: f"{recipes.get(row, '')}{why}".removeprefix("; ") for row in rows.tolist()}
    return replace(
        stage,
        table=replace(table, statistics=statistics),
        provenance=replace(stage.provenance, recipes=recipes),
    )


def _takes_own_mean(stage: StageGraph, texts: Texts) -> bool:
    """Whether the last number made of all tokens before the first backward pass is a mean of them.

    Spelt as a loss, or as a sum that is divided by as many tokens as one rank has. With files at
    hand nothing is divided: the elements in them would not be.
    """
    if not stage.of_tokens.any() or stage.provenance.assemblies:
        return False
    table, found, counts = stage.table, False, set[float]()
    for node, name in enumerate(stage.tree.parsed):
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
        if stage.of_tokens[given[0]]:
            is_loss = operator in _LOSSES
            found = is_loss and not _is_summed(table, rows, texts) and not _skips(table, given)
            counts.add(float(table.numel[given[0]]) / stage.slices)
        elif operator in _DIVISIONS and not found:
            found = bool(counts & _divisors(table, rows, given, texts))
    return False


def _is_summed(table: ParameterTable, rows: NDArray[np.int64], texts: Texts) -> bool:
    values = texts.values
    words = {values[one] for one in table.value_id[rows[~table.is_tensor[rows]]] if one >= 0}
    return "sum" in words


def _skips(table: ParameterTable, given: NDArray[np.int64]) -> bool:
    """Whether labels leave tokens out, so that ranks may count other numbers of them."""
    return len(given) > 1 and bool(table.statistics[1, given[1]] < 0)


def _divisors(
    table: ParameterTable, rows: NDArray[np.int64], given: NDArray[np.int64], texts: Texts
) -> set[float]:
    """The numbers that a call may divide by: its second tensor, or numbers among its arguments."""
    found = {float(table.statistics[0, row]) for row in given[1:].tolist()}
    plain = rows[~table.is_tensor[rows] & (table.value_id[rows] >= 0)]
    for value in table.value_id[plain].tolist():
        text = texts.values[value]
        if text.replace(".", "", 1).isdecimal():
            found.add(float(text))
    return found
