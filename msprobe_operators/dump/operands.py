"""Operands of a recorded call: real tensors where the dump holds them, else like them.

What is made up has the recorded shape, dtype and range, the same values at every run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite, isinf, isnan, prod
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.facts.wording import ENGLISH, tell
from msprobe_builder.metrics.tensor_file import TensorFileError, open_tensor

MOST_BYTES = 1 << 31
_MOST_DIMENSIONS = 64
_DTYPES = {str(value): value for value in vars(torch).values() if isinstance(value, torch.dtype)}


class CannotRebuildError(Exception):
    """Why a call cannot be run again."""

    def __init__(self, reason: Fact) -> None:
        super().__init__(tell(reason, ENGLISH))
        self.reason = reason


@dataclass(frozen=True)
class Source:
    """Where operands come from: the dump's tensor files, or a seed alone."""

    directory: Path | None
    most_bytes: int = MOST_BYTES


@dataclass(frozen=True)
class Operands:
    """Arguments of a call on the CPU; ``is_real`` when no tensor was made up."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    is_real: bool


def operands(name: str, record: dict[str, Any], source: Source) -> Operands:
    """Arguments of the call ``name``; CannotRebuildError says what is in the way."""
    found: list[bool] = []

    def tensor(leaf: dict[str, Any], place: str) -> Tensor:
        made, is_real = rebuild(leaf, f"{name}.{place}", source)
        found.append(is_real)
        return made

    args = record.get("input_args", record.get("input"))
    kwargs = record.get("input_kwargs") or {}
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise CannotRebuildError(fact("operator.no_arguments"))
    wanted = _recorded_dtype(name, record)
    built = tuple(
        wanted if item == {} and wanted is not None else _value(item, str(number), tensor)
        for number, item in enumerate(args)
    )
    if name.split(".")[1] in ("__getitem__", "__setitem__") and len(built) > 1:
        built = (built[0], _index(built[0], built[1], record), *built[2:])
    named = {str(key): _value(item, str(key), tensor) for key, item in kwargs.items()}
    return Operands(built, named, all(found))


def _index(of: Any, index: Any, record: dict[str, Any]) -> Any:
    """An index as it was: dumps write x[0, 1] and x[[0, 1]] alike, and their results tell.

    Raises CannotRebuildError where they do not.
    """
    if not isinstance(index, list) or not isinstance(of, Tensor):
        return index
    if any(item is None or isinstance(item, (slice, Tensor, type(...))) for item in index):
        return tuple(index)
    outputs = record.get("output")
    result = outputs[0] if isinstance(outputs, list) and outputs else None
    shape = result.get("shape") if isinstance(result, dict) else None
    if isinstance(shape, list) and all(type(item) is int for item in index):
        if shape == [len(index), *of.shape[1:]]:
            return index
        if shape == list(of.shape[len(index) :]):
            return tuple(index)
    raise CannotRebuildError(fact("operator.index"))


def _recorded_dtype(name: str, record: dict[str, Any]) -> torch.dtype | None:
    """What ``to`` and ``type`` were asked for where that was not recorded: their result."""
    outputs = record.get("output")
    if name.split(".")[1] not in ("to", "type") or not isinstance(outputs, list) or not outputs:
        return None
    return _DTYPES.get(str(outputs[0].get("dtype"))) if isinstance(outputs[0], dict) else None


def rebuild(leaf: dict[str, Any], place: str, source: Source) -> tuple[Tensor, bool]:
    """A recorded tensor and whether it is the real one. Raises CannotRebuildError."""
    dtype = _DTYPES.get(str(leaf.get("dtype")))
    shape = leaf.get("shape")
    if dtype is None or not isinstance(shape, list) or len(shape) > _MOST_DIMENSIONS:
        raise CannotRebuildError(fact("operator.no_dtype", place=place.rsplit(".", 1)[-1]))
    if not all(
        isinstance(size, int) and not isinstance(size, bool) and size >= 0 for size in shape
    ):
        raise CannotRebuildError(fact("operator.no_shape", shape=repr(shape)))
    size = prod(shape) * dtype.itemsize
    if size > source.most_bytes:
        limit = source.most_bytes
        raise CannotRebuildError(fact("operator.operand_too_large", size=size, limit=limit))
    file = leaf.get("data_name")
    if source.directory is not None and isinstance(file, str):
        try:
            stored = open_tensor(source.directory, file)
        except TensorFileError as error:
            reason = fact("operator.unreadable", reason=error.reason)
            raise CannotRebuildError(reason) from error
        kept = stored.content  # a copy, because what lies in a file cannot be written to
        content = (
            kept.detach().clone() if isinstance(kept, Tensor) else torch.from_numpy(np.array(kept))
        )
        if dtype is torch.bfloat16 and content.dtype is torch.float32:
            content = content.to(dtype)  # arrays have no such type, so it is written wider
        if list(content.shape) != shape or content.dtype != dtype:
            raise CannotRebuildError(fact("operator.other_file", file=file))
        return content.requires_grad_(_wants_gradient(leaf, dtype)), True
    made = _made_up(shape, dtype, leaf, crc32(place.encode("utf-8", "backslashreplace")))
    return made.requires_grad_(_wants_gradient(leaf, dtype)), False


def _wants_gradient(leaf: dict[str, Any], dtype: torch.dtype) -> bool:
    return leaf.get("requires_grad") is True and (dtype.is_floating_point or dtype.is_complex)


def _made_up(shape: list[int], dtype: torch.dtype, leaf: dict[str, Any], seed: int) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        ends = bool(leaf.get("Min", False)), bool(leaf.get("Max", True))
        drawn = torch.rand(shape, generator=source) < 0.5
        return drawn if ends[0] != ends[1] else torch.full(shape, ends[1])
    low, high = _bound(leaf.get("Min"), 0.0), _bound(leaf.get("Max"), 1.0)
    if low > high:
        low, high = high, low
    if not (dtype.is_floating_point or dtype.is_complex):
        # A negative number among counts is a mark, such as the index that a loss ignores.
        least = int(low) if high < 0 else max(int(low), 0)
        drawn = torch.randint(least, max(int(high) + 1, least + 1), shape, generator=source)
        if low < 0 and drawn.numel() > 1:
            drawn.reshape(-1)[0] = int(low)
        return drawn.to(dtype)
    u = torch.rand(shape, generator=source, dtype=torch.float64)
    values = low + (high - low) * u if isfinite(high - low) else low / 2 + (high / 2 - low / 2) * u
    flat = values.reshape(-1)
    for number, key in enumerate(("Min", "Max")):  # the ends of the range, NaN and infinity too
        value = leaf.get(key)
        if (
            flat.numel() > number
            and isinstance(value, (int, float))
            and not isinstance(value, bool)
        ):
            flat[number] = float(str(value))
    return values.to(dtype)


def _bound(value: object, otherwise: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return otherwise
    if isnan(value) or isinf(value):
        return otherwise
    return float(value)


def _value(item: Any, place: str, tensor: Callable[[dict[str, Any], str], Tensor]) -> Any:
    if isinstance(item, list):
        return [_value(part, f"{place}.{number}", tensor) for number, part in enumerate(item)]
    if item is None or isinstance(item, (bool, int, float)):
        return item
    if isinstance(item, str):
        return item[:200]
    if not isinstance(item, dict):
        raise CannotRebuildError(fact("operator.unknown_operand", place=place))
    kind = item.get("type")
    if not item:
        raise CannotRebuildError(fact("operator.operand_unrecorded", place=place))
    if kind is None:
        return {str(key): _value(part, f"{place}.{key}", tensor) for key, part in item.items()}
    if str(kind).startswith(("torch.Tensor", "torch.nn.parameter")) and "shape" in item:
        return tensor(item, place)
    value = item.get("value")
    if kind in ("int", "float", "bool", "str", "complex") and isinstance(
        value, (int, float, bool, str)
    ):
        return complex(value) if kind == "complex" else value
    if kind == "torch.dtype" and isinstance(value, str) and value in _DTYPES:
        return _DTYPES[value]
    if kind == "torch.device":
        return torch.device("cpu")
    if kind == "torch.memory_format":
        found = getattr(torch, str(item.get("format")), None)
        return found if isinstance(found, torch.memory_format) else torch.preserve_format
    if kind == "torch.Size" and isinstance(value, list) and all(isinstance(n, int) for n in value):
        return torch.Size(value)
    if kind == "slice" and isinstance(value, list) and len(value) == 3:
        return slice(*(part if isinstance(part, int) else None for part in value))
    if kind in ("ellipsis", "Ellipsis"):
        return ...
    what = str(kind)[:60]
    raise CannotRebuildError(fact("operator.type_unrecorded", place=place, type=what))
