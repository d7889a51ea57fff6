"""Sketches of arrays on the host: those of the definition, so they meet torch's up to rounding."""

from __future__ import annotations

import threading
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.sketch.definition import NUMBERS, Sketch, sketch_of
from msprobe_builder.sketch.layout import NO_ROW, rows_of


class ArraySketches:
    """The rows of a step; equal arrays share one, as what a call puts out others are given."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}  # of rows, by shape, type and content
        self._new: list[Sketch] = []
        self._lock = threading.Lock()  # hooks on gradients may run in other threads

    def add(self, array: NDArray[Any]) -> int:
        """The number of an array's row, NO_ROW when it has none."""
        if not array.size or array.dtype.kind not in "biufc":
            return NO_ROW
        content = blake2b(np.ascontiguousarray(array).data, digest_size=16)
        content.update(f"{array.shape}{array.dtype}".encode())
        key = content.digest()
        with self._lock:
            known = self._numbers.get(key)
            if known is None:
                known = self._numbers[key] = len(self._numbers)
                self._new.append(sketch_of(array))
            return known

    def take(self) -> NDArray[Any]:
        """The rows since the last call."""
        with self._lock:
            new, self._new = self._new, []
        numbers = np.array([one.numbers for one in new]).reshape(-1, NUMBERS)
        return rows_of(numbers, [one.nans for one in new], [one.infinities for one in new])

    def end_step(self) -> None:
        """Number from 0 again; what was not taken is dropped."""
        with self._lock:
            self._numbers, self._new = {}, []
