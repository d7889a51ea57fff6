"""Where the elements of a tensor lie in its memory, and whether two tensors share any."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

_MOST_WORK = 10_000  # of numpy's search for a common byte; beyond it two may share one
_BASE = 1 << 40  # an address that is never looked at
_TYPES = {1: "|u1", 2: "<u2", 4: "<u4", 8: "<u8", 16: "<c16"}


class Layout(NamedTuple):
    """Offset and strides in elements of ``itemsize`` bytes."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    def extent(self) -> tuple[int, int]:
        """The first byte and that behind the last one; equal ones for no elements."""
        last = 0
        for length, stride in zip(self.shape, self.strides, strict=True):
            if not length:
                return 0, 0
            last += (length - 1) * stride
        begin = self.offset * self.itemsize
        return begin, begin + (last + 1) * self.itemsize

    def is_dense(self) -> bool:
        """Whether it takes every byte of its extent, each once."""
        begin, end = self.extent()
        size = self.itemsize
        for length in self.shape:
            size *= length
        if size != end - begin:
            return False
        need = 1
        for stride, length in sorted(zip(self.strides, self.shape, strict=True)):
            if length > 1:
                if stride != need:
                    return False
                need *= length
        return True


def overlap(one: Layout, other: Layout) -> bool:
    """Whether two tensors in one memory share an element; True where that cannot be told."""
    begin, end = one.extent()
    other_begin, other_end = other.extent()
    if begin >= other_end or other_begin >= end:
        return False
    if one.is_dense() and other.is_dense():
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
    begin, end = one.extent()
    other_begin, other_end = other.extent()
    return begin <= other_begin and other_end <= end and one.is_dense()


class _At:
    """An array to be asked for its addresses alone."""

    def __init__(self, layout: Layout) -> None:
        size = layout.itemsize
        self.__array_interface__ = {
            "data": (_BASE + layout.offset * size, True),
            "shape": layout.shape,
            "strides": tuple(stride * size for stride in layout.strides),
            "typestr": _TYPES[size],
            "version": 3,
        }


def _array(layout: Layout) -> np.ndarray[Any, Any]:
    if layout.itemsize not in _TYPES:
        raise TypeError(layout.itemsize)
    return np.asarray(_At(layout))
