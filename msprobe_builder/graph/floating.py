"""The types of both frameworks: how finely floating-point ones round and how far they reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts


class FloatingType(NamedTuple):
    """``epsilon`` is the distance from 1 to the next larger number, ``lowest`` the lowest one.

    ``step`` is the distance from 0 to the next larger number, 0 where no training comes near it.
    """

    epsilon: float
    lowest: float
    step: float = 0.0


_FLOAT64 = FloatingType(2.0**-52, -float(np.finfo(np.float64).max))
_FLOAT32 = FloatingType(2.0**-23, -float(np.finfo(np.float32).max))
_FLOAT16 = FloatingType(2.0**-10, -65504.0, 2.0**-24)
# What is no real floating type reaches as far as one likes.
_OTHER = FloatingType(_FLOAT32.epsilon, -np.inf)

# PyTorch writes torch.float8_e5m2, MindSpore Float8E5M2; neither case nor underscores count.
_TYPES = {
    "float64": _FLOAT64,
    "double": _FLOAT64,
    "complex128": _OTHER._replace(epsilon=_FLOAT64.epsilon),
    "float32": _FLOAT32,
    "float": _FLOAT32,
    "complex64": _OTHER,
    "float16": _FLOAT16,
    "half": _FLOAT16,
    "bfloat16": FloatingType(2.0**-7, -(2.0 - 2.0**-7) * 2.0**127),
    "float8e4m3fn": FloatingType(2.0**-3, -448.0, 2.0**-9),
    "float8e4m3fnuz": FloatingType(2.0**-3, -240.0, 2.0**-10),
    "float8e5m2": FloatingType(2.0**-2, -57344.0, 2.0**-16),
    "float8e5m2fnuz": FloatingType(2.0**-2, -57344.0, 2.0**-17),
}


SINGLE = _FLOAT32.epsilon
_USUAL = 0.95  # of the tensors have a type that is no coarser
FLOAT16 = _FLOAT16.epsilon  # of float16, which no other type shares


def epsilons(dtype_id: NDArray[np.int64], texts: Texts) -> NDArray[np.float64]:
    """Rounding unit of each row's dtype; float32's where it is unknown or no float."""
    return _column(dtype_id, texts, 0)


def in_use(units: NDArray[np.float64]) -> float:
    """The unit of the coarsest type that is in use all over: what is finer was mostly made of it.

    ``units`` are those of tensors, of which one in twenty may be coarser; float32's where none are.
    """
    return float(np.quantile(units, _USUAL)) if len(units) else SINGLE


def lowest_numbers(dtype_id: NDArray[np.int64], texts: Texts) -> NDArray[np.float64]:
    """The lowest finite number of each row's type, -inf where it is no real floating type."""
    return _column(dtype_id, texts, 1)


def rounding_units(texts: Sequence[str]) -> dict[int, float]:
    """Rounding unit of each text that names a floating-point type, by its place."""
    return {
        place: _TYPES[name].epsilon
        for place, text in enumerate(texts)
        if (name := _name(text)) in _TYPES
    }


def rounding_unit(dtype: str) -> float:
    """Rounding unit of a type, 0 where it holds whole numbers or truth values."""
    name = _name(dtype)
    return 0.0 if name.startswith(("int", "uint", "bool", "long")) else _type_of(dtype).epsilon


def steps(units: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distance from 0 to the next number of the types that round with these units, else 0.

    Of types with one unit the largest.
    """
    result = np.zeros(np.shape(units))
    for one in sorted(_TYPES.values(), key=lambda kind: kind.step):
        if one.step:
            result[units == one.epsilon] = one.step
    return result


def is_boolean(dtype_id: NDArray[np.int64], texts: Texts) -> NDArray[np.bool_]:
    """Of each row whether it holds truth values."""
    return np.isin(dtype_id, [n for n, text in enumerate(texts.values) if _name(text) == "bool"])


def is_complex(dtype_id: NDArray[np.int64], texts: Texts) -> NDArray[np.bool_]:
    """Of each row whether it holds complex numbers."""
    found = [n for n, text in enumerate(texts.values) if _name(text).startswith("complex")]
    return np.isin(dtype_id, found)


def discrete_types(texts: Texts) -> NDArray[np.bool_]:
    """By id whether a text names whole numbers or truth values; the last, of no text, is False."""
    names = [text.rpartition(".")[2].lower() for text in texts.values]
    starts = ("int", "uint", "bool", "long")
    return np.array([*(name.startswith(starts) for name in names), False])


def _column(dtype_id: NDArray[np.int64], texts: Texts, place: int) -> NDArray[np.float64]:
    """One fact of a FloatingType for each row."""
    table = np.full(len(texts) + 1, _OTHER[place])
    present = np.flatnonzero(np.bincount(dtype_id + 1))  # few, and -1 is none
    for own in present[present > 0].tolist():
        table[own - 1] = _type_of(texts.values[own - 1])[place]
    return np.asarray(table[dtype_id])  # -1 is the last, which no text has


def _type_of(dtype: str) -> FloatingType:
    return _TYPES.get(_name(dtype), _OTHER)


def _name(dtype: str) -> str:
    return dtype.rpartition(".")[2].lower().replace("_", "")
