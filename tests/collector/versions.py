"""What older torch cannot do on a CPU, and what the tests of that leave out there."""

from __future__ import annotations

import pytest
import torch

_VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])


def needs_torch(*version: int, to: str) -> pytest.MarkDecorator:
    """Skip before ``version`` of torch, which learned ``to`` do it with that."""
    least = ".".join(map(str, version))
    return pytest.mark.skipif(version > _VERSION, reason=f"torch {least} is the first to {to}")


CAN_SHARD = _VERSION >= (2, 7)
NEEDS_SHARDS = needs_torch(2, 7, to="shard modules fully on a CPU")
