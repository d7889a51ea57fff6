"""Which values of a side are NaN or infinite."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.graph.parameter_table import ParameterTable

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
_EXTREMES = 2  # max and min: an infinite mean or norm is no infinite element


@dataclass(frozen=True)
class Values:
    """What is wrong with each parameter, by row."""

    nan: Bool
    plus: Bool  # +inf
    minus: Bool  # -inf
    is_scalar: Bool

    @property
    def abnormal(self) -> Bool:
        return self.nan | self.plus | self.minus

    @property
    def only_minus(self) -> Bool:
        return self.minus & ~self.nan & ~self.plus


def is_finite(table: ParameterTable, texts: Texts, of_ranks: Collection[int] = ()) -> bool:
    """Whether no value of a side is NaN or infinite, so that there is nothing to look for."""
    return not (of_ranks or bool(values_of(table, texts).abnormal.any()))


def values_of(table: ParameterTable, texts: Texts, of_ranks: Collection[int] = ()) -> Values:
    """What is wrong with each parameter of a side.

    ``of_ranks`` are rows of which a merged rank is NaN or infinite, whatever the whole shows.
    """
    recorded = (table.missing[None, :] & np.array([[1], [2], [4], [8]])) == 0
    nan = (np.isnan(table.statistics) & recorded).any(axis=0)
    extremes = table.statistics[:_EXTREMES]
    is_scalar = ~table.is_tensor & is_text(table.type_id, texts, "float")
    if of_ranks:
        hidden = np.zeros(len(table), dtype=bool)
        hidden[list(of_ranks)] = True
        nan |= hidden & ~np.isinf(extremes).any(axis=0)
    return Values(
        nan=nan | (is_scalar & is_text(table.value_id, texts, "NaN")),
        plus=(extremes == np.inf).any(axis=0)
        | (is_scalar & is_text(table.value_id, texts, "Infinity")),
        minus=(extremes == -np.inf).any(axis=0)
        | (is_scalar & is_text(table.value_id, texts, "-Infinity")),
        is_scalar=is_scalar,
    )


def is_text(ids: Int, texts: Texts, text: str) -> Bool:
    """Where a column of ids has that of a text."""
    return np.asarray(ids == texts.find(text), dtype=bool)
