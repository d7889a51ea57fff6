"""Which functions of torch draw random numbers, or seed them."""

from __future__ import annotations

import torch

from msprobe_builder.operators.operator import Kind
from msprobe_builder.operators.table import rows
from msprobe_collector.drawing.follow import SEEDS, Owner

_DEVICES = ("cuda", "npu", "xpu", "mps")


def torch_drawing() -> list[Owner]:
    """Those of the table of operators, where torch has them, and those of its devices."""
    drawing = [row.name for row in rows() if row.kind is Kind.DRAW]
    devices = [(kind, getattr(torch, kind, None)) for kind in _DEVICES]
    return [
        (torch, "torch", drawing),
        (torch.Tensor, "torch.Tensor", [f"{one}{end}" for end in ("", "_") for one in drawing]),
        (torch.nn.functional, "torch.nn.functional", drawing),
        (torch, "torch", SEEDS),
        *((owner, f"torch.{kind}", SEEDS) for kind, owner in devices if owner is not None),
    ]
