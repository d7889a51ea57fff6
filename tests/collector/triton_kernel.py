"""A kernel of Triton's, which writes to a tensor without telling torch."""

# mypy: disable-error-code="import-untyped, import-not-found, untyped-decorator"
# Triton is there with CUDA only.

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def _double(values, size, block: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < size
    tl.store(values + at, 2 * tl.load(values + at, mask=inside), mask=inside)


def double(tensor: torch.Tensor) -> None:
    """Double all numbers of a contiguous tensor on a CUDA device, in place."""
    _double[(triton.cdiv(tensor.numel(), 256),)](tensor, tensor.numel(), 256)
