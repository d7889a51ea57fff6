"""Arguments of torch that are no tensors, as records of dump.json."""

from __future__ import annotations

import zlib
from contextlib import suppress
from typing import Any

import torch
import torch.distributed as dist

from msprobe_collector.record.framework import Item
from msprobe_collector.record.statistics import Measured, measure
from msprobe_collector.unseen import unseen


def is_p2p(value: Any) -> bool:
    """Whether ``value`` is one operation of ``batch_isend_irecv``."""
    return dist.is_available() and issubclass(type(value), dist.P2POp)


def describe_plain(value: Any) -> Item | None:
    """The record of a value that torch or NumPy made, None for what dumps do not show."""
    kind = type(value)  # of which objects that make up their attributes know nothing
    if kind is torch.dtype:
        return {"type": "torch.dtype", "value": str(value)}
    if kind is torch.device:
        return {"type": "torch.device", "value": f"{value.type}:{value.index}"}
    if kind is torch.memory_format:
        return {"type": "torch.memory_format", "format": str(value).removeprefix("torch.")}
    if dist.is_available() and issubclass(kind, dist.ProcessGroup):
        ranks = group_ranks(value)
        return {
            "type": "torch.ProcessGroup",
            "group_ranks": ranks,
            "group_id": group_id(ranks),
        }
    if dist.is_available() and issubclass(kind, (dist.ReduceOp, dist.ReduceOp.RedOpType)):
        return {"type": "torch.distributed.ReduceOp", "value": str(value)}
    if hasattr(kind, "__array_interface__") and hasattr(kind, "dtype"):
        return _describe_array(value)
    return None


def _describe_array(array: Any) -> Item | None:
    """A numpy array or scalar, measured like a tensor."""
    if array.shape == ():
        return {"type": f"numpy.{type(array).__name__}", "value": array.item()}
    numbers: Any = (None, None, None, None)
    with suppress(TypeError), unseen():  # texts and objects have no statistics
        measured = measure(torch.from_numpy(array.copy()))
        assert isinstance(measured, Measured)
        numbers = measured.values
    high, low, mean, norm = numbers
    return {
        "type": "numpy.ndarray",
        "dtype": str(array.dtype),
        "shape": list(array.shape),
        "Max": high,
        "Min": low,
        "Mean": mean,
        "Norm": norm,
    }


def group_ranks(group: Any) -> list[int]:
    """The ranks of a group of processes; None stands for all."""
    if group is None:
        group = dist.group.WORLD
    return [] if group is None else list(dist.get_process_group_ranks(group))


def group_id(ranks: list[int]) -> str:
    """What dumps call a group with these ranks."""
    return f"{zlib.crc32(str(ranks).encode()):08x}"
