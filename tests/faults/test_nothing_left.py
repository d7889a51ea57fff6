"""Gradients that cancel, or are sums of what nothing is given back to, and steps left undone."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from tests.faults.judging import SIDE, judged
from tests.faults.noise import RelativeNoise

ROWS = 5  # of a table: no other tensor has as many
STEPS = 5  # that are told of each place


class Spoilt(TorchDispatchMode):
    """Lets a kernel put out something else from its ``first`` call of a shape on."""

    def __init__(
        self, kernel: str, shape: tuple[int, ...], first: int, spoil: Callable[[Any], Any]
    ) -> None:
        super().__init__()
        self._kernel, self._shape, self._left, self._spoil = kernel, shape, first, spoil

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        first = result[0] if isinstance(result, tuple) else result
        if func.__name__.partition(".")[0] == self._kernel and tuple(first.shape) == self._shape:
            self._left -= 1
            if self._left < 0:
                with torch._C.DisableTorchFunction():
                    first.copy_(self._spoil(first))
        return result


def normed(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


class NormedTwice(nn.Module):
    """Behind another normalisation no factor changes anything: its gradient is all rounding."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.product, self.head = nn.Linear(SIDE, SIDE), nn.Linear(SIDE, SIDE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(normed(normed(self.product(x)))).exp().mean()


class Quotients(nn.Module):
    """Some of what it divides by is next to nothing."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.above, self.below = nn.Linear(SIDE, SIDE), nn.Linear(SIDE, SIDE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.above(x) / self.below(x).abs()).tanh().mean()


class Saturated(nn.Module):
    """A choice so sure that the reference's gradient is nothing at all."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.product = nn.Linear(SIDE, SIDE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        sure = (1e6 * self.product(x)).softmax(-1)
        return (sure * x).sum(-1).square().mean()


class Aligned(nn.Module):
    """Sums over all ways in which few labels lie in many steps."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.product = nn.Linear(SIDE, STEPS * SIDE)
        self.labels = torch.arange(9).view(3, 3) % (SIDE - 1) + 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        told = (4.0 * self.product(x)).view(len(x), -1, SIDE).log_softmax(-1).transpose(0, 1)
        steps, few = torch.full((len(x),), told.shape[0]), torch.full((len(x),), 3)
        return F.ctc_loss(told, self.labels, steps, few)


@pytest.mark.parametrize("model", [NormedTwice, Quotients, Saturated, Aligned])
def test_rounding_of_what_cancels_accuses_nobody(model: type[nn.Module], tmp_path: Path) -> None:
    verdict = judged(tmp_path, model(), model(), RelativeNoise(1e-6, seed=1))
    assert [one.node for one in verdict.suspects] == []


class Kept(nn.Module):
    """Takes memory the old way, and writes to it later."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.product = nn.Linear(SIDE, SIDE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.product(x)
        places = torch.arange(len(x))[:, None, None].expand(made.shape)
        return (made.new(*made.shape).scatter_(0, places, made) * made).mean()


def test_what_new_memory_holds_accuses_nobody(tmp_path: Path) -> None:
    verdict = judged(tmp_path, Kept(), Kept())
    assert [one.node for one in verdict.suspects] == []


class Looking(nn.Module):
    """Looks a place up in a table that others are given, too."""

    def __init__(self) -> None:
        super().__init__()
        self.back = nn.Linear(ROWS, SIDE)

    def forward(self, x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        return x + self.back(torch.matmul(x, table))


class Table(nn.Module):
    """One table for all layers."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.randn(SIDE, ROWS))

    def forward(self) -> torch.Tensor:
        return self.rows * 1.5


class Shared(nn.Module):
    """Two layers that look into one table."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.table, self.layers = Table(), nn.ModuleList([Looking(), Looking()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        table = self.table()
        for layer in self.layers:
            x = layer(x, table)
        return x.square().mean()


def test_a_sum_of_which_one_term_is_nothing_is_not_another_tensor(tmp_path: Path) -> None:
    kernels = Spoilt("mm", (SIDE, ROWS), 3, torch.zeros_like)
    verdict = judged(tmp_path, Shared(), Shared(), kernels)
    strong = [one.node for one in verdict.suspects if one.strength == "strong"]
    assert strong == ["Torch.matmul.0.backward"]


class Cast(nn.Module):
    """Converts its data itself, where it is not of the type of its weights."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.products = nn.Sequential(*(nn.Linear(SIDE, SIDE) for _ in range(4)))
        self.head = nn.Linear(SIDE, SIDE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        half = self.head.weight.dtype
        given = x.to(half) if half is not x.dtype else x
        scaled = F.layer_norm(given, (SIDE,)) * 2.0
        return self.products(self.head(scaled)).square().mean()


def test_a_cast_is_not_to_blame_for_what_no_rounding_makes(tmp_path: Path) -> None:
    kernels = Spoilt("native_layer_norm", (3, SIDE, SIDE), 0, lambda one: 0.6 * one)
    verdict = judged(tmp_path, Cast().bfloat16(), Cast(), kernels)
    first = verdict.suspects[0]
    assert (first.node, first.strength) == ("Functional.layer_norm.0.forward", "strong")


class Bend(nn.Module):
    """A module around one call."""

    def __init__(self, *, left_out: bool) -> None:
        super().__init__()
        self.left_out = left_out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if self.left_out else F.gelu(x)


class Bent(nn.Module):
    """Two products with a bend between them."""

    def __init__(self, *, left_out: bool = False) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.up, self.bend = nn.Linear(SIDE, SIDE), Bend(left_out=left_out)
        self.down = nn.Linear(SIDE, SIDE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.bend(self.up(x))).square().mean()


def test_the_only_call_of_a_module_is_named_where_it_is_left_out(tmp_path: Path) -> None:
    verdict = judged(tmp_path, Bent(left_out=True), Bent())
    first = verdict.suspects[0]
    assert (first.side, first.node) == ("bench", "Functional.gelu.0.forward")
    assert (first.cause, first.strength) == ("missing", "strong")
