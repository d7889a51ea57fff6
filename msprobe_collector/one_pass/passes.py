"""Statistics, sketch and fingerprint of a tensor on the host in one pass over its memory.

Without the compiled module torch computes the same up to rounding.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from msprobe_builder.sketch.definition import (
    COLUMN_BITS,
    ROW_BITS,
    flat_signs,
    grid_of,
)
from msprobe_collector.one_pass import loaded

_KEPT_SHAPES = 1024
# Places in the table of types of the compiled module.
_CODES = {
    torch.float64: 0,
    torch.float32: 1,
    torch.float16: 2,
    torch.bfloat16: 3,
    torch.int64: 4,
    torch.int32: 5,
    torch.int16: 6,
    torch.int8: 7,
    torch.uint8: 8,
    torch.bool: 9,
}


# Max, min, mean and norm; a fingerprint that tells the numbers, to the bit, from what others may
# make of them; and the row of ``sketch.bin``, where it is asked for.
Passed: TypeAlias = "tuple[tuple[Any, Any, Any, Any], int, bytes | None]"


def is_there() -> bool:
    """Whether the compiled module can be used."""
    return loaded.compiled is not None


def pass_over(plain: torch.Tensor, sketches: bool) -> Passed | None:
    """What one pass over a plain tensor in the memory of this process finds.

    None where the compiled module does not know the type, or where there are no numbers.
    """
    place = _place_of(plain)
    if place is None:
        return None
    # A class may say otherwise of its ``shape``.
    return loaded.compiled.measure(*place, plan_of(plain.size()) if sketches else None)


def fingerprint_of(plain: torch.Tensor) -> int | None:
    """The fingerprint that :func:`pass_over` found; None where it finds nothing."""
    place = _place_of(plain)
    return None if place is None else loaded.compiled.fingerprint(*place)


def _place_of(plain: torch.Tensor) -> tuple[Any, ...] | None:
    """Address, type, count, shape and strides of its numbers; None where nobody can read them."""
    code = _CODES.get(plain.dtype)
    if code is None or loaded.compiled is None or plain.is_neg():
        return None
    count = plain.numel()
    if not count:
        return None
    if plain.is_contiguous():
        return plain.data_ptr(), code, count, None, None
    return plain.data_ptr(), code, count, plain.size(), plain.stride()


@lru_cache(maxsize=_KEPT_SHAPES)
def plan_of(shape: torch.Size) -> Any:
    """What the sketch of a shape needs, made once."""
    grid = grid_of(tuple(shape))
    lengths = (grid.narrow.lines, grid.narrow.width, grid.wide.lines, grid.wide.width)
    tables = _tables(flat_signs(max(lengths)).along_narrow.shape[1])
    return loaded.compiled.plan(
        grid.rows,
        grid.columns,
        grid.row_slice,
        grid.column_slice,
        grid.narrow.width,
        grid.wide.width,
        ROW_BITS,
        COLUMN_BITS,
        *(one.ctypes.data for one in tables),
        tables,
    )


@lru_cache(maxsize=32)
def _tables(length: int) -> tuple[Any, ...]:
    """The signs of the flat order: one of each position as it is, several as bits."""
    signs = flat_signs(length)
    return tuple(np.float32(one[0]) if len(one) == 1 else _bits(one) for one in signs)


def _bits(signs: npt.NDArray[np.int8]) -> npt.NDArray[np.uint16]:
    """Bit k of each position is set where row k of ``signs`` is plus."""
    places = np.uint16(1) << np.arange(len(signs), dtype=np.uint16)
    return np.asarray((places[:, None] * (signs > 0)).sum(axis=0), np.uint16)
