"""Tensors that lie behind each other in ``tensors.bin``, found by ``index.json``.

The index is as little trusted as any other file: types are looked up, never made, and every
place is checked against the length of the file before it is mapped.
"""

from __future__ import annotations

import functools
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.limits import LARGEST_STORE_INDEX
from msprobe_builder.files.arrays import mapped_part
from msprobe_builder.files.regular import read_bytes
from msprobe_builder.files.text_files import parse_appended

DATA, INDEX = "tensors.bin", "index.json"
_NUMPY = """
    float16 float32 float64 complex64 complex128 int8 int16 int32 int64 uint8 uint16 uint32 uint64
    bool
""".split()
# Types that only torch knows, with the integers that have their bits.
_BITS = {"bfloat16": np.uint16, "float8_e4m3fn": np.uint8, "float8_e5m2": np.uint8}


class StoreError(ValueError):
    """Why a place in the store cannot be read."""


def stored_tensor(directory: Path, name: str) -> tuple[NDArray[Any], str | None] | None:
    """The mapped numbers of ``name``, and the torch type whose bits they are if numpy has none.

    None when the directory has no store or the store no such tensor; StoreError when it is
    damaged.
    """
    index = directory / INDEX
    try:
        state = index.stat()
    except OSError:
        return None
    if index.is_symlink() or (directory / DATA).is_symlink():
        raise StoreError(f"{INDEX} or {DATA} is a link")
    entry = _entries(index, state.st_mtime_ns, state.st_size).get(name)
    if entry is None:
        return None
    kind, offset, shape = _checked(entry)
    dtype = np.dtype(_BITS.get(kind, kind))
    size = prod(shape) * dtype.itemsize
    if offset + size > (directory / DATA).stat().st_size:
        raise StoreError(f"{DATA} is too short for it")
    content: Any = np.zeros(shape, dtype)
    if size:
        content = mapped_part(directory / DATA, dtype, offset, shape)
    return content, kind if kind in _BITS else None


@functools.lru_cache(maxsize=8)
def _entries(index: Path, _changed: int, _size: int) -> dict[str, Any]:
    content, _ = parse_appended(read_bytes(index, LARGEST_STORE_INDEX))
    if not isinstance(content, dict):
        raise StoreError(f"{INDEX} holds no object")
    return content


def _checked(entry: Any) -> tuple[str, int, tuple[int, ...]]:
    """Type, offset and shape of an entry of the index."""
    try:
        kind, offset, shape = entry["dtype"], entry["offset"], entry["shape"]
    except (TypeError, KeyError) as error:
        raise StoreError(f"{INDEX} describes it incompletely") from error
    kind = kind.removeprefix("torch.") if isinstance(kind, str) else ""
    numbers = [offset, *shape] if isinstance(shape, list) else [None]
    if not all(type(number) is int and 0 <= number < 1 << 48 for number in numbers):
        raise StoreError(f"{INDEX} gives it no place or shape")
    if kind not in _NUMPY and kind not in _BITS:
        raise StoreError(f"elements of type {kind!r} are no numbers")
    return kind, offset, tuple(shape)
