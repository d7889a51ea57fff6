"""A parameter that can be read when it is needed, so that no model is in memory as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

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


@dataclass(frozen=True)
class Checkpoint:
    """All parameters of one model in one state."""

    kind: str  # who wrote it, in words
    parameters: dict[str, Parameter]
    notes: tuple[Fact, ...] = ()  # what was odd
    groups: int | None = None  # of query heads that share a key, where the checkpoint says it


def of_tensor(tensor: torch.Tensor) -> Parameter:
    """A tensor that is mapped or in memory already."""
    return Parameter(tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), lambda: tensor)


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

    return Parameter(tuple(shape), parts[0].dtype, load)


def rows(whole: Parameter, ranges: list[tuple[int, int]]) -> Parameter:
    """Some rows of a parameter, range by range."""

    def load() -> torch.Tensor:
        import torch

        tensor = whole.load()
        return torch.cat([tensor[start:stop] for start, stop in ranges])

    count = sum(stop - start for start, stop in ranges)
    return Parameter((count, *whole.shape[1:]), whole.dtype, load)
