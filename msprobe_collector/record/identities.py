"""What tells a tensor from others: its memory, where it lies in it, and the counter of writes."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from typing import Any, TypeAlias

import torch

from msprobe_collector.one_pass import loaded
from msprobe_collector.record.layouts import Layout
from msprobe_collector.record.statistics import plain_part

_PLAIN = (torch.Tensor, torch.nn.Parameter)
# The tensor behind a wrapper, its memory, its counter of writes, and where it lies.
Part: TypeAlias = "tuple[torch.Tensor, torch.UntypedStorage, int, Layout]"


def part_of(tensor: torch.Tensor) -> Part | None:
    """What a tensor is of a memory, where it has one."""
    if loaded.compiled is not None:
        known: Part | None = loaded.compiled.plain_part(tensor)
        if known is not None:
            return known
    plain = tensor if type(tensor) in _PLAIN else plain_of(tensor)
    storage = None if plain is None else storage_of(plain)
    if plain is None or storage is None:
        return None
    try:
        version = plain._version
    except RuntimeError:
        version = -1
    try:
        layout = layout_of(plain)
    except RuntimeError:
        return None  # of a lazy module, or of rows that differ in length: it has no shape
    return plain, storage, version, layout


def layout_of(tensor: torch.Tensor) -> Layout:
    """Where a plain tensor lies in its memory."""
    offset: Any = tensor.storage_offset()
    return offset, tensor.shape, tensor.stride(), tensor.itemsize


def counter_of(tensor: torch.Tensor) -> int:
    """The counter of writes to any tensor; of one that stands for others theirs as well.

    A distributed tensor is written to without the notice of the shard in it, and the other way.
    """
    if type(tensor) in _PLAIN:
        return version_of(tensor)
    plain = plain_of(tensor)
    return version_of(tensor) + (0 if plain is None or plain is tensor else version_of(plain))


def version_of(tensor: torch.Tensor) -> int:
    """The counter of writes; -1 in inference mode, which has none."""
    try:
        return tensor._version
    except RuntimeError:
        return -1


def plain_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """The tensor behind a wrapper, which is where its memory is; None where there is none."""
    if type(tensor) in _PLAIN:
        return tensor
    waiting = getattr(tensor, "elem", None)  # of a collective: its memory is there already
    if isinstance(waiting, torch.Tensor):
        return plain_of(waiting)
    return plain_part(tensor)


def storage_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """The memory of a tensor, where it has one of its own."""
    try:
        return tensor.untyped_storage()
    except RuntimeError:
        return None
