"""Calls that make much of next to nothing: rounding to whole numbers, powers, a few samples."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from tests.faults.judging import SIDE, judged


class Noise(TorchDispatchMode):
    """Kernels whose every output is off by a few units in the sixth digit."""

    def __init__(self) -> None:
        super().__init__()
        self.random = torch.Generator().manual_seed(3)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        with torch._C.DisableTorchFunction():
            result = func(*args, **kwargs or {})
            if isinstance(result, torch.Tensor) and func in _NOISY:
                noise = torch.randn(result.shape, generator=self.random, dtype=result.dtype)
                result = result * (1.0 + 2e-6 * noise)
            return result


_ATEN = torch.ops.aten
_NOISY = (
    _ATEN.addmm.default,
    _ATEN.mul.Tensor,
    _ATEN.div.Tensor,
    _ATEN.pow.Scalar,
    _ATEN.tanh.default,
    _ATEN.sigmoid.default,
    _ATEN.native_batch_norm.default,
)


def _whole(x: torch.Tensor) -> torch.Tensor:
    """Just beside whole numbers, where the next digit decides."""
    return (x * 4.0).round() / 4.0 * 4.0


_STEPS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "ceil": torch.ceil,
    "floor": torch.floor,
    "trunc": torch.trunc,
    "floor_divide": lambda x: x // 1.0,
    "remainder": lambda x: x % 1.0,
    "frac": torch.frac,
    "sign": lambda x: torch.sign(x - 1.0),
}


class Stepped(nn.Module):
    def __init__(self, step: Callable[[torch.Tensor], torch.Tensor], *, bias: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(38)
        self.given, self.out = nn.Linear(SIDE, SIDE), nn.Linear(SIDE, SIDE)
        self.step, self.bias = step, bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        moved = self.step(_whole(self.given(x)).detach() + self.bias)
        return self.out(torch.tanh(self.given(x)) * moved).square().mean()


@pytest.mark.parametrize("step", list(_STEPS))
def test_a_step_aside_is_no_fault(step: str, tmp_path: Path) -> None:
    verdict = judged(tmp_path, Stepped(_STEPS[step]), Stepped(_STEPS[step]), Noise())
    assert not [one for one in verdict.suspects if one.strength == "strong"]
    assert not [one for one in verdict.suspects if one.node.endswith(f"{step}.0.forward")]


class Turning(nn.Module):
    """Waves of whole turns, of which nothing is left but rounding."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(40)
        self.given, self.out = nn.Linear(SIDE, SIDE), nn.Linear(SIDE, SIDE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        turns = torch.arange(1, SIDE + 1) * (2.0 * torch.pi)
        return self.out(torch.tanh(self.given(x) + turns.sin() + turns.tan())).square().mean()


def test_what_is_left_of_whole_turns_is_no_fault(tmp_path: Path) -> None:
    verdict = judged(tmp_path, Turning(), Turning(), Noise())
    assert verdict.conclusion == "clean"
    assert not verdict.suspects


def test_a_step_that_is_wrong_is_found(tmp_path: Path) -> None:
    """What it is given is equal to the last digit, so that nothing explains another step."""

    class Off(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
        ) -> Any:
            with torch._C.DisableTorchFunction():
                result = func(*args, **kwargs or {})
                return result + 1.0 if func is _ATEN.ceil.default else result

    model = Stepped(torch.ceil, bias=0.3), Stepped(torch.ceil, bias=0.3)
    first = judged(tmp_path, *model, Off()).suspects[0]
    assert first.node == "Torch.ceil.0.forward"
    assert first.strength == "strong"


class Angles(nn.Module):
    """Angles from powers of a large base in double precision, as rotary embeddings make them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(39)
        self.given, self.out = nn.Linear(SIDE, SIDE), nn.Linear(SIDE, SIDE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shares = torch.arange(SIDE, dtype=torch.float64) / SIDE
        turns = 1.0 / 10000.0**shares
        angles = torch.outer(torch.arange(SIDE, dtype=torch.float64), turns).float()
        y = self.given(x) * torch.cos(angles)
        for _ in range(4):
            y = torch.sigmoid(self.given(y))
        return self.out(y).square().mean()


def test_double_precision_in_a_run_in_single_precision_accuses_nobody(tmp_path: Path) -> None:
    """Accelerators compute it in single precision, or with as much noise."""
    assert not judged(tmp_path, Angles(), Angles(), Noise()).suspects


class Few(nn.Module):
    """A batch normalisation of two samples of each channel, of which their signs are left."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(40)
        self.dtype = dtype
        self.given, self.norm = nn.Conv2d(3, SIDE, SIDE), nn.BatchNorm2d(SIDE)
        self.first, self.out = nn.Conv2d(3, 3, 1), nn.Linear(SIDE, SIDE)
        self.to(dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        images = torch.stack((x, x.flip(1) * 1.01)).to(self.dtype)
        y = self.norm(self.given(torch.tanh(self.first(images))))
        return self.out(torch.tanh(y.flatten(1))).float().square().mean()


def test_what_is_left_of_two_samples_accuses_nobody(tmp_path: Path) -> None:
    verdict = judged(tmp_path, Few(torch.bfloat16), Few(torch.float32))
    assert not [one for one in verdict.suspects if one.strength == "strong"]
    assert not [one for one in verdict.suspects if "batch_norm" in one.node]
