"""Which process of a distributed training this is."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import torch.distributed as dist


def process_rank() -> int | None:
    """Its rank among all; None where nothing is distributed."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank()
    return None
