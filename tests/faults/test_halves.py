"""One side in bfloat16: a factor near 1 shows in a norm, in which rounding averages out."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from msprobe_builder.database.read.verdict import Verdict
from tests.collector.recording import record
from tests.faults.judging import verdict_on

WIDTH, WORDS, LAYERS = 48, 24, 4


class Times(TorchDispatchMode):
    """Multiply what one kernel puts out; nothing of that is recorded."""

    def __init__(self, kernel: str, turn: int, factor: float) -> None:
        super().__init__()
        self._kernel, self._turn, self._factor = kernel, turn, factor
        self._seen = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.__name__.partition(".")[0] == self._kernel:
            if self._seen == self._turn:
                with torch._C.DisableTorchFunction():
                    result.copy_(result.float() * self._factor)
            self._seen += 1
        return result


class Layer(nn.Module):
    """A branch beside the way through."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.wide, self.back = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.back(torch.tanh(self.wide(self.norm(x))))


class Stack(nn.Module):
    """Layers one on another, with biases as of a model that has trained a while."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        with torch.no_grad():
            for one in self.parameters():
                one.add_(0.1 * torch.randn_like(one))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x.float().square().mean()


def _judged(
    folder: Path, change: Callable[[nn.Module], None] | None, kernels: Times | None = None
) -> Verdict:
    """The verdict on a model in bfloat16 that was changed, beside one in single precision."""
    reference = Stack()
    model = copy.deepcopy(reference)
    if change is not None:
        with torch.no_grad():
            change(model)
    model = model.bfloat16()
    x = torch.randn(WORDS, WIDTH, generator=torch.Generator().manual_seed(8))

    def step(one: nn.Module, data: torch.Tensor, way: Times | None) -> None:
        if way is None:
            one(data).backward()
            return
        with way:
            one(data).backward()

    for side, one, data, way in (
        ("npu", model, x.bfloat16(), kernels),
        ("bench", reference, x, None),
    ):
        record(folder / side, partial(step, one, data, way), one)
    return verdict_on(folder / "npu" / "dump", folder / "bench" / "dump", folder / "out")


def _times(name: str, factor: float, model: nn.Module) -> None:
    model.get_parameter(name).mul_(factor)


def test_what_is_merely_rounded_is_clean(tmp_path: Path) -> None:
    verdict = _judged(tmp_path, None)
    assert (verdict.conclusion, verdict.suspects) == ("clean", ())


@pytest.mark.parametrize("factor", [0.98, 1.015])
@pytest.mark.parametrize("name", ["layers.1.wide.weight", "layers.2.back.weight"])
def test_a_weight_that_is_off_by_little_is_named(tmp_path: Path, name: str, factor: float) -> None:
    verdict = _judged(tmp_path, partial(_times, name, factor))
    module = name.removesuffix(".weight")
    best = verdict.suspects[0]
    assert best.node == f"Module.{module}.Linear.forward.0"
    assert (best.cause, best.strength) == ("weight", "strong")


@pytest.mark.parametrize("name", ["layers.1.wide.bias", "layers.2.norm.weight"])
def test_so_is_a_weight_of_one_dimension(tmp_path: Path, name: str) -> None:
    verdict = _judged(tmp_path, partial(_times, name, 1.01))
    module, _, _ = name.rpartition(".")
    assert verdict.suspects
    assert verdict.suspects[0].node.startswith(f"Module.{module}.")
    assert verdict.suspects[0].cause == "weight"


def test_weights_that_were_trained_apart_accuse_nobody(tmp_path: Path) -> None:
    def trained(model: nn.Module) -> None:
        for turn, one in enumerate(model.parameters()):
            one.mul_(1.0085 if turn % 3 else 0.9915)

    verdict = _judged(tmp_path, trained)
    assert not [one for one in verdict.suspects if one.cause in ("weight", "weights")]


@pytest.mark.parametrize("factor", [0.98, 1.02])
@pytest.mark.parametrize(
    ("kernel", "turn", "name"),
    [("addmm", 3, "Functional.linear.3.forward"), ("tanh", 2, "Torch.tanh.2.forward")],
)
def test_two_percent_of_what_a_call_puts_out_are_certain(
    tmp_path: Path, kernel: str, turn: int, name: str, factor: float
) -> None:
    verdict = _judged(tmp_path, None, Times(kernel, turn, factor))
    assert (verdict.suspects[0].node, verdict.suspects[0].strength) == (name, "strong")


def test_a_sum_that_is_a_multiple_is_not_put_down_to_another_order(tmp_path: Path) -> None:
    verdict = _judged(tmp_path, None, Times("add", 0, 1.05))
    best = verdict.suspects[0]
    assert (best.node, best.cause, best.strength) == (
        "Tensor.__add__.0.forward",
        "output",
        "strong",
    )
