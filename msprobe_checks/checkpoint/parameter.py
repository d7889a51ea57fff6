"""A parameter that can be read when it is needed, so that no model is in memory as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from msprobe_builder.base.errors import BuildError
from msprobe_builder.facts.fact import Fact

if TYPE_CHECKING:
    import torch


class ShapeError(ValueError):
    """The shapes of parts that do not make a whole."""


@dataclass(frozen=True)
class Parameter:
    """One tensor of a checkpoint; ``load`` reads it, and nothing keeps it."""

    shape: tuple[int, ...]
    dtype: str  # as torch names it, without ``torch.``
    load: Callable[[], torch.Tensor]
    is_bits: bool = False  # of a type that torch computes nothing with: its bytes are loaded
    is_unread: bool = False  # sparse, quantized, nested or without numbers


def _unread() -> torch.Tensor:
    raise BuildError("A part of a parameter is sparse, quantized, nested or has no numbers.")


UNREAD = Parameter((), "", _unread, is_unread=True)


@dataclass(frozen=True)
class Checkpoint:
    """All parameters of one model in one state."""

    kind: str  # who wrote it, in words
    parameters: dict[str, Parameter]
    notes: tuple[Fact, ...] = ()  # what was odd
    groups: int | None = None  # of query heads that share a key, where the checkpoint says it


def of_tensor(tensor: torch.Tensor) -> Parameter:
    """A tensor that is mapped or in memory already."""
    import torch

    name = str(tensor.dtype).removeprefix("torch.")
    if has_numbers(tensor.dtype):
        return Parameter(tuple(tensor.shape), name, lambda: tensor)
    content = (tensor if tensor.dim() else tensor[None]).view(torch.uint8)
    return Parameter(tuple(content.shape), name, lambda: content, is_bits=True)


def stored_elements(tensor: torch.Tensor) -> int:
    """How many elements there are in memory, or in the file, of which an expanded one has more."""
    return tensor.untyped_storage().nbytes() // max(1, tensor.element_size())


@cache
def has_numbers(dtype: torch.dtype) -> bool:
    """Whether torch can make numbers of the elements of a type."""
    import torch

    try:
        torch.empty(1, dtype=dtype).to(torch.complex128 if dtype.is_complex else torch.float64)
    except (NotImplementedError, RuntimeError, TypeError):
        return False
    return True


def are_equal(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether two tensors have the same elements, of types without arithmetic the same bytes."""
    import torch

    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    try:
        return torch.equal(x, y)
    except NotImplementedError:
        return torch.equal(*(one.contiguous().view(torch.uint8) for one in (x, y)))


def joined(parts: list[Parameter], dimension: int) -> Parameter:
    """The parts of a parameter one after the other; ShapeError when they do not fit."""
    shape = list(parts[0].shape)
    for part in parts:
        rest = [size for place, size in enumerate(part.shape) if place != dimension]
        own = [size for place, size in enumerate(shape) if place != dimension]
        if len(part.shape) <= dimension or rest != own:
            raise ShapeError(str([list(one.shape) for one in parts]))
    shape[dimension] = sum(part.shape[dimension] for part in parts)

    def load() -> torch.Tensor:
        import torch

        return torch.cat([part.load() for part in parts], dimension)

    return Parameter(tuple(shape), parts[0].dtype, load, parts[0].is_bits)


def rows(whole: Parameter, ranges: list[tuple[int, int]]) -> Parameter:
    """Some rows of a parameter, range by range."""

    def load() -> torch.Tensor:
        import torch

        tensor = whole.load()
        return torch.cat([tensor[start:stop] for start, stop in ranges])

    count = sum(stop - start for start, stop in ranges)
    return Parameter((count, *whole.shape[1:]), whole.dtype, load, whole.is_bits)
