"""The verdict on two models that are written for one test."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from msprobe_builder import BuildConfig, build
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import Verdict, read_verdict
from tests.collector.recording import record

SIDE = 8


class WrongKernel(TorchDispatchMode):
    """Kernels whose results ``change`` alters, given a name such as ``mul.Tensor`` and a result."""

    def __init__(self, change: Callable[[str, Any], Any]) -> None:
        super().__init__()
        self._change = change

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        with torch._C.DisableTorchFunction():  # what this mode does is not part of the run
            return self._change(func.__name__, func(*args, **(kwargs or {})))


def _train(model: nn.Module, data: torch.Tensor) -> None:
    model(data).backward()


def judged(
    folder: Path,
    model: nn.Module,
    reference: nn.Module,
    kernels: AbstractContextManager[object] | None = None,
    **config: Any,
) -> Verdict:
    """The verdict on a model beside its reference, both given the same data.

    Of shape (3, ``SIDE``, ``SIDE``); models put out their loss. ``kernels`` runs around ``model``.
    """
    for side, one in (("npu", model), ("bench", reference)):
        torch.manual_seed(7)
        data = torch.randn(3, SIDE, SIDE)
        with (kernels if side == "npu" else None) or nullcontext():
            record(folder / side, partial(_train, one, data), one, **config)
    return verdict_on(folder / "npu" / "dump", folder / "bench" / "dump", folder / "out")


def verdict_on(npu: Path, bench: Path, out: Path) -> Verdict:
    """The verdict on two dumps; the database comes to lie in ``out``."""
    result = build(BuildConfig(npu, bench), out, workers=1)
    with opened(result.path) as connection:
        verdict = read_verdict(connection)
    assert verdict is not None
    return verdict
