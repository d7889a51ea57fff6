"""Plain numbers among the parameters: a loss that was taken out of its tensor, a scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.metrics.pairing import Pairs, pair_arguments
from msprobe_builder.metrics.statistics import statistic_errors

Int = NDArray[np.int64]
Float = NDArray[np.float64]

_NUMBERS = ("int", "float")


@dataclass(frozen=True)
class NumberPairs:
    """Pairs of numbers: relative error |n - b| / |b| in 0…1, 1 too when n is NaN or infinite."""

    pairs: Pairs
    error: Float
    is_equal: NDArray[np.bool_]


def compare_numbers(
    npu: ParameterTable, bench: ParameterTable, partner: Int, texts: Texts
) -> NumberPairs:
    """Compare the int and float arguments of matched nodes."""
    is_number = np.array([text in _NUMBERS for text in texts.values] + [False])
    pairs = pair_arguments(npu, bench, partner)
    both = is_number[npu.type_id[pairs.npu]] & is_number[bench.type_id[pairs.bench]]
    pairs = Pairs(pairs.npu[both], pairs.bench[both])
    left, right = npu.value_id[pairs.npu], bench.value_id[pairs.bench]
    values = {text_id: _value(texts, text_id) for text_id in {*left.tolist(), *right.tolist()}}
    n = np.array([values[text_id] for text_id in left.tolist()], dtype=np.float64)
    b = np.array([values[text_id] for text_id in right.tolist()], dtype=np.float64)
    _, relative = statistic_errors(n, b)
    error = np.where(np.isnan(relative), 1.0, np.minimum(relative, 1.0))
    error[~np.isfinite(n)] = 1.0
    return NumberPairs(pairs, error, (left == right) | (n == b) | (np.isnan(n) & np.isnan(b)))


def _value(texts: Texts, text_id: int) -> float:
    try:
        return float(texts.values[text_id]) if text_id >= 0 else np.nan
    except ValueError:
        return np.nan
