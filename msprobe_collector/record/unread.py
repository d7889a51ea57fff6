"""Which tensors are not read, because their numbers are nobody's result."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from functools import cache

import torch

from msprobe_builder.operators.questions import is_uninitialised, slices
from msprobe_builder.operators.table import is_in_place, operator_of

_MANY = 1 << 22  # numbers of a tensor that are read whatever becomes of them


def means_nothing(tensor: torch.Tensor, name: str, born: bool) -> bool:
    """Whether the numbers are no result: memory as it was, or a buffer that only holds others.

    Frameworks make flat buffers of gigabytes, of which each call takes a part: to read all of it
    every time takes minutes, and commits memory that nobody would touch. The part has its numbers.
    """
    if tensor.numel() <= _MANY:
        return False
    stem = name.rpartition(".forward")[0].rpartition(".")[0]
    return hands_out_memory(stem) if born else tensor.dim() == 1 and _takes_part(stem)


@cache
def hands_out_memory(stem: str) -> bool:
    """Whether a call puts out memory that nobody has written."""
    return is_uninitialised(operator_of(stem)) and not is_in_place(stem)


@cache
def _takes_part(stem: str) -> bool:
    return slices(operator_of(stem))
