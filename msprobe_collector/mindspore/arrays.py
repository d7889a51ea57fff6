"""The records of MindSpore's tensors; numbers are reduced by NumPy in float64."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any

import mindspore
import numpy as np
from mindspore._c_expression.typing import Type
from numpy.typing import NDArray

from msprobe_builder.sketch.layout import NO_ROW
from msprobe_collector.config.narrowing import Slice, positions
from msprobe_collector.config.settings import MD5, SKETCH, XOR
from msprobe_collector.mindspore.array_files import ArrayFiles
from msprobe_collector.record.array_sketches import ArraySketches
from msprobe_collector.record.framework import Item
from msprobe_collector.record.nested import NestedDescriber
from msprobe_collector.record.parts import Opener
from msprobe_collector.record.words import hexadecimal, joined
from msprobe_collector.write.records import Leaf

_FIELDS = ("Max", "Min", "Mean", "Norm")
_EXACT_INTEGER = 2**53
_LARGEST_SQUARED = 1e150


class Arrays(NestedDescriber):
    """Describes values of MindSpore programs."""

    opener = Opener(mindspore.Tensor, mindspore.nn.Cell)

    def __init__(self, summary_mode: str, files: ArrayFiles, measures: bool = True) -> None:
        self._with_checksum = measures and summary_mode == MD5
        self._with_words = measures and summary_mode == XOR
        self._measures = measures
        self._files = files
        self.sketches = ArraySketches() if measures and summary_mode == SKETCH else None
        self.estimate = False  # count what would be saved instead of saving it
        self.described_bytes = 0
        self.slices: Sequence[Slice] = ()

    def tensor(self, tensor: Any, path: str | None = None, born: bool = False) -> Item:  # noqa: ARG002
        """The record of one tensor; call inside ``unseen``."""
        item = Leaf(type="mindspore.Tensor", dtype=str(tensor.dtype), shape=list(tensor.shape))
        if not self._measures and path is None:
            return item
        array = self._taken(tensor)
        if self.slices and array is not None:
            item["shape"] = list(array.shape)
        if self._measures:
            numbers = (None,) * 4 if array is None else measure(widened(array))
            item.update(zip(_FIELDS, numbers, strict=True))
        if self.sketches is not None and array is not None:
            item.row = self.sketches.add(widened(array))
        if self._with_checksum and array is not None:
            item["md5"] = f"{zlib.crc32(bits_of(array).tobytes()):08x}"
        if self._with_words and array is not None:
            item["md5"] = hexadecimal(joined(bits_of(array).tobytes()))
        if self.estimate:
            self.described_bytes += 0 if array is None else array.nbytes
        elif path is not None:
            return self.saved(tensor, item, path)
        return item

    def _taken(self, tensor: Any) -> NDArray[Any] | None:
        array = host_array(tensor)
        taken = None if array is None else positions(array.shape, self.slices)
        return array if array is None or taken is None else array[taken]

    def saved(self, tensor: Any, item: Item, path: str) -> Item:
        array = self._taken(tensor)
        if array is None:
            return item
        kept = bits_of(array) if self._files.one_file else widened(array)
        saved = Leaf(item, data_name=self._files.save(kept, path, array.dtype.name))
        saved.row = getattr(item, "row", NO_ROW)
        return saved

    def single(self, value: Any, path: str | None, leaves: list[Any]) -> Item | None:  # noqa: ARG002
        if issubclass(type(value), Type):
            return {"type": "mindspore.dtype", "value": str(value)}
        if issubclass(type(value), np.generic):
            return {"type": f"numpy.{type(value).__name__}", "value": value.item()}
        if issubclass(type(value), np.ndarray):
            return {
                "type": "numpy.ndarray",
                "dtype": str(value.dtype),
                "shape": list(value.shape),
                **dict(zip(_FIELDS, measure(value), strict=True)),
            }
        return None

    is_settled = True

    def settle(self) -> None:
        """Nothing waits on a device."""

    def expose(self, tensor: Any) -> None:
        """Every tensor is read anew, so nothing needs to be remembered of it."""

    def let_go(self, tensor: Any) -> None:
        """Nothing refers to a tensor."""

    def forget_step(self) -> None:
        """Every tensor is read anew."""


def host_array(tensor: Any) -> NDArray[Any] | None:
    """The numbers of a tensor in the host's memory; None where this process cannot read them."""
    try:
        array: NDArray[Any] = tensor.asnumpy()
    except (RuntimeError, TypeError, ValueError):
        return None
    return array


def widened(array: NDArray[Any]) -> NDArray[Any]:
    """Half precision that NumPy cannot reckon with as float32, anything else as it is."""
    if array.dtype.name != "bfloat16":
        return array
    return (bits_of(array).astype(np.uint32) << 16).view(np.float32)


def bits_of(array: NDArray[Any]) -> NDArray[Any]:
    """bfloat16 as integers of the same bits, anything else as it is."""
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def measure(array: NDArray[Any]) -> tuple[Any, Any, Any, Any]:
    """Max, min, mean and norm; of booleans whether any and all are true."""
    if array.size == 0 or array.dtype.kind not in "biufc":
        return (None, None, None, None)
    if array.dtype.kind == "b":
        return (bool(array.any()), bool(array.all()), None, None)
    is_complex = array.dtype.kind == "c"
    if is_complex:
        array = np.abs(array)
    if array.ndim == 0:
        value = _plain(array.item())
        return (value, value, value, None if is_complex else abs(value))
    high, low = _plain(array.max().item()), _plain(array.min().item())
    with np.errstate(over="ignore", invalid="ignore"):
        wide = array.astype(np.float64, copy=False).reshape(-1)
        mean = float(wide.mean())
        if is_complex:
            return (high, low, mean, None)
        largest = max(abs(high), abs(low))
        if math.isfinite(largest) and largest > _LARGEST_SQUARED:
            norm = float(largest * np.linalg.norm(wide / largest))
        else:
            norm = float(np.linalg.norm(wide))
    return (high, low, mean, norm)


def _plain(value: float) -> float | int:
    """Integers as floats, as readers expect, unless that would round them."""
    return float(value) if abs(value) <= _EXACT_INTEGER else value
