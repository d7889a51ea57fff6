"""By how much correct kernels may part within a few steps of a training."""

from __future__ import annotations

# Shares of a tensor's size. What is less is not accused, what is more is looked at.
ROUNDING = {"float64": 1e-6, "float32": 1e-3}
ROUNDING_OF_HALF_PRECISION = 0.05


def share_of_rounding(dtype: str) -> float:
    """Of a type named as torch or NumPy names it, with or without the name of the library."""
    return ROUNDING.get(dtype.rpartition(".")[2], ROUNDING_OF_HALF_PRECISION)
