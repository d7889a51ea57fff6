"""Small modules that are recorded twice, and what is told of the two."""

# mypy: disable-error-code="no-untyped-call"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from msprobe_builder import BuildConfig, build
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import Verdict, read_verdict
from msprobe_collector import PrecisionDebugger

Made = Callable[[bool], nn.Module]  # of whether it is the run under debug


def verdict_of(folder: Path, make: Made, shape: tuple[int, ...]) -> Verdict:
    """Of one forward pass on both sides, with the same weights and the same input."""
    npu, bench = (_recorded(folder / str(debug), make(debug), shape) for debug in (True, False))
    built = build(BuildConfig(npu, bench), folder / "out")
    with opened(built.path) as connection:
        verdict = read_verdict(connection)
    assert verdict is not None
    return verdict


def _recorded(folder: Path, net: nn.Module, shape: tuple[int, ...]) -> Path:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        x = torch.randn(shape)
    debugger = PrecisionDebugger(dump_path=folder, task="statistics", level="mix")
    debugger.start(model=net)
    net(x)
    debugger.stop()
    debugger.step()
    PrecisionDebugger.close()
    return folder / "step0" / "rank"
