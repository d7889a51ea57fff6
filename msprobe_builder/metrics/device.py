"""Where errors of single elements are computed: here by numpy, or by torch on an accelerator.

The formulas are those of elementwise.py, in float64 too; results agree with it to rounding, as
sums are added up in another order. Integers and complex numbers are computed by numpy.
"""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.options import CPU
from msprobe_builder.metrics.elementwise import (
    WITHIN_FIVE,
    WITHIN_ONE,
    Array,
    Part,
    PartOf,
    Squares,
    part_errors,
)
from msprobe_builder.metrics.tensor_file import PIECE

_NAMES = re.compile(r"(cpu|cuda|npu)(:[0-9]{1,4})?\Z")
# Elements: a piece must keep thousands of cores busy, and several fit any device's memory.
_DEVICE_PIECE = 1 << 24


@dataclass(frozen=True)
class Computer:
    """Elements of a piece, and the function that computes it."""

    piece: int
    part_of: PartOf


def check_device(name: str) -> None:
    """UsageError unless it is the name of a device, whether there is one or not."""
    if not _NAMES.match(name) or name.startswith("cpu:"):
        raise UsageError(f"--device {name!r} is none of cpu, cuda, cuda:N, npu and npu:N.")


def computer(device: str) -> Computer:
    """Computes on ``device``; BuildError when this machine has no such one."""
    check_device(device)
    if device == CPU:
        return Computer(PIECE, part_errors)
    torch = _torch(device)

    def part_of(n: Array, b: Array) -> Part:
        if n.dtype != np.float64 or b.dtype != np.float64:
            return part_errors(n, b)
        return torch_part(torch, n, b, device)

    return Computer(_DEVICE_PIECE, part_of)


def torch_part(torch: Any, n: Array, b: Array, device: str) -> Part:
    """What :func:`part_errors` computes of float64, by torch on ``device``."""
    x, y = (torch.from_numpy(np.ascontiguousarray(side)).to(device) for side in (n, b))
    equal = (x == y) | (x.isnan() & y.isnan())
    absolute = (x - y).abs().masked_fill(equal, 0.0)
    size = y.abs()
    relative = absolute / size
    relative = relative.masked_fill(size.isinf() & ~absolute.isnan(), float("inf"))
    relative = relative.masked_fill(equal, 0.0)
    x, y = (side.masked_fill(equal & ~side.isfinite(), 0.0) for side in (x, y))
    distance, _ = _squares(torch, absolute)
    npu, x = _squares(torch, x)
    bench, y = _squares(torch, y)
    counts = torch.stack(
        [equal.all(), (relative < WITHIN_ONE).sum(), (relative < WITHIN_FIVE).sum()]
    )  # exact as float64 far beyond the size of a piece
    largest = torch.stack([absolute.max(), relative.max()])
    product = (x * y).sum().reshape(1)
    answer = torch.cat([counts.to(torch.float64), largest, distance, npu, bench, product]).tolist()
    return Part(
        size=len(n),
        is_equal=bool(answer[0]),
        within_one=int(answer[1]),
        within_five=int(answer[2]),
        absolute=answer[3],
        relative=answer[4],
        distance=Squares(*answer[5:7]),
        npu=Squares(*answer[7:9]),
        bench=Squares(*answer[9:11]),
        product=answer[11],
    )


def _squares(torch: Any, x: Any) -> tuple[Any, Any]:
    """Scale and total of the squares of x, and x divided by its largest magnitude."""
    scale = x.abs().max()
    is_usual = scale.isfinite() & (scale != 0)
    scaled = x / torch.where(is_usual, scale, 1.0)
    total = torch.where(is_usual, (scaled * scaled).sum(), (scale != 0).to(x.dtype))
    return torch.stack([scale, total]), scaled


def _torch(device: str) -> Any:
    kind = device.partition(":")[0]
    try:
        torch = importlib.import_module("torch")
        if kind == "npu":
            importlib.import_module("torch_npu")
        torch.zeros(1, dtype=torch.float64, device=device)
    except ImportError as error:
        extra = "npu" if kind == "npu" else "torch"
        raise BuildError(
            f"--device {device} needs {error.name}; install it with pip install "
            f"'msprobe-graph[{extra}]'."
        ) from error
    except (RuntimeError, AssertionError) as error:
        first = str(error).strip().partition("\n")[0]
        raise BuildError(
            f"There is no device {device} here ({first}); choose another --device."
        ) from error
    return torch
