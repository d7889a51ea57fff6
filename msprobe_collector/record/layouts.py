"""Where the elements of a tensor lie in its memory, and whether two tensors share any."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

_REMEMBERED = 4096  # layouts, as those of a step are those of the next
_MOST_WORK = 10_000  # of numpy's search for a common byte; beyond it two may share one
_BASE = 1 << 40  # an address that is never looked at
_TYPES = {1: "|u1", 2: "<u2", 4: "<u4", 8: "<u8", 16: "<c16"}


# Offset, shape and strides in elements, and bytes of an element. There are many, so plain tuples.
Layout: TypeAlias = "tuple[int, tuple[int, ...], tuple[int, ...], int]"


@lru_cache(maxsize=_REMEMBERED)
def bytes_of(layout: Layout) -> int:
    """The bytes of all elements."""
    _, shape, _, size = layout
    for length in shape:
        size *= length
    return size


def _extent(layout: Layout) -> tuple[int, int]:
    """The first byte and that behind the last one; equal ones for no elements."""
    offset, shape, strides, size = layout
    last = 0
    for length, stride in zip(shape, strides, strict=True):
        if not length:
            return 0, 0
        last += (length - 1) * stride
    return offset * size, (offset + last + 1) * size


@lru_cache(maxsize=_REMEMBERED)
def is_dense(layout: Layout) -> bool:
    """Whether it takes every byte of its extent, each once."""
    _, shape, strides, _ = layout
    need = 1
    for stride, length in sorted(zip(strides, shape, strict=True)):
        if length > 1:
            if stride != need:
                return False
            need *= length
    return True


def overlap(one: Layout, other: Layout) -> bool:
    """Whether two tensors in one memory share an element; True where that cannot be told."""
    begin, end = _extent(one)
    other_begin, other_end = _extent(other)
    if begin >= other_end or other_begin >= end:
        return False
    if is_dense(one) and is_dense(other):
        return True
    try:
        share: Any = np.shares_memory  # whose type allows no limit
        return bool(share(_array(one), _array(other), max_work=_MOST_WORK))
    except (RuntimeError, ValueError, TypeError, OverflowError):  # too hard, or of another type
        return True


def covers(one: Layout, other: Layout) -> bool:
    """Whether every element of ``other`` is one of ``one``; False where that cannot be told."""
    if one == other:
        return True
    begin, end = _extent(one)
    other_begin, other_end = _extent(other)
    return begin <= other_begin and other_end <= end and is_dense(one)


class _At:
    """An array to be asked for its addresses alone."""

    def __init__(self, layout: Layout) -> None:
        offset, shape, strides, size = layout
        self.__array_interface__ = {
            "data": (_BASE + offset * size, True),
            "shape": tuple(shape),
            "strides": tuple(stride * size for stride in strides),
            "typestr": _TYPES[size],
            "version": 3,
        }


def _array(layout: Layout) -> np.ndarray[Any, Any]:
    if layout[3] not in _TYPES:
        raise TypeError(layout[3])
    return np.asarray(_At(layout))
