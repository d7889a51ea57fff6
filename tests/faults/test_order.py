"""Values that stand at other places, which no statistic tells until positions matter."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from tests.faults.judging import SIDE, WrongKernel, judged
from tests.faults.noise import RelativeNoise


class Biased(nn.Module):
    """Scores to which a bias is added that is looked up by relative position."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(11)
        self.given, self.out = nn.Linear(SIDE, SIDE, bias=False), nn.Linear(SIDE, SIDE)
        self.table = nn.Parameter(torch.randn(2 * SIDE - 1) + 0.3)
        place = torch.arange(SIDE)
        self.index = place[:, None] - place[None] + SIDE - 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.given(x) + 0.5
        return self.out(torch.softmax(scores + self.table[self.index], -1)).square().mean()


class Sliced(nn.Module):
    """A product of which half precision are treated otherwise, as rotary embeddings do."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(12)
        self.given, self.out = nn.Linear(SIDE, SIDE, bias=False), nn.Linear(SIDE, SIDE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.given(x).tanh()
        left, right = made[..., : SIDE // 2], made[..., SIDE // 2 :]
        return self.out(torch.cat((left * 2.0, right), -1)).square().mean()


class Stacked(nn.Module):
    """Keys and values of one product, which come to stand behind one another first."""

    def __init__(self, *, unbinds: bool) -> None:
        super().__init__()
        torch.manual_seed(15)
        self.both, self.out = nn.Linear(SIDE, 2 * SIDE, bias=False), nn.Linear(SIDE, SIDE)
        self.unbinds = unbinds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.both(x).reshape(len(x), SIDE, 2, 2, SIDE // 2).permute(2, 0, 3, 1, 4)
        keys, values = heads.unbind(0) if self.unbinds else (heads[0], heads[1])
        told = torch.softmax(keys @ keys.transpose(-2, -1), -1) @ values
        return self.out(told.transpose(1, 2).reshape(x.shape)).square().mean()


class WrongSum(TorchDispatchMode):
    """A kernel that adds a fiftieth of the second term too much."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        with torch._C.DisableTorchFunction():
            result = func(*args, **kwargs or {})
            if func is torch.ops.aten.add.Tensor and isinstance(args[1], torch.Tensor):
                result = result + 0.02 * args[1]
            return result


def transposed() -> Biased:
    model = Biased()
    model.index = model.index.t().contiguous()
    return model


def exchanged() -> Sliced:
    model = Sliced()
    model.given.weight.data = model.given.weight.data.roll(1, 0)
    return model


@pytest.mark.parametrize("noise", [0.0, 1e-6])
def test_the_sum_that_shows_a_transposed_index_is_not_accused(noise: float, tmp_path: Path) -> None:
    kernels = RelativeNoise(noise, 3) if noise else None
    verdict = judged(tmp_path, transposed(), Biased(), kernels)
    assert verdict.conclusion == "undecided"
    first = verdict.suspects[0]
    assert (first.node, first.cause) == ("Tensor.__getitem__.0.forward", "order")
    assert {one.strength for one in verdict.suspects} == {"weak"}
    # The other term is no less likely to stand elsewhere than the rows of a weight are.
    assert [one.node for one in verdict.suspects[1:]] == ["Functional.linear.0.forward"]


@pytest.mark.parametrize("noise", [0.0, 1e-6])
def test_the_slice_that_shows_exchanged_rows_is_not_accused(noise: float, tmp_path: Path) -> None:
    """What it is given comes from one product alone, whose weight has them."""
    kernels = RelativeNoise(noise, 3) if noise else None
    verdict = judged(tmp_path, exchanged(), Sliced(), kernels)
    first = verdict.suspects[0]
    assert (first.node, first.cause) == ("Functional.linear.0.forward", "order")
    assert first.strength == "strong"
    assert all("getitem" not in one.node for one in verdict.suspects)


@pytest.mark.parametrize("unbinds", [True, False])
def test_the_first_dimension_need_not_be_that_of_samples(unbinds: bool, tmp_path: Path) -> None:
    """Samples in another order do not exchange keys and values, which the weight's rows do."""
    model = Stacked(unbinds=unbinds)
    model.both.weight.data = model.both.weight.data.roll(SIDE, 0)
    verdict = judged(tmp_path, model, Stacked(unbinds=unbinds))
    first = verdict.suspects[0]
    assert (first.node, first.cause) == ("Functional.linear.0.forward", "order")
    assert first.strength == "strong"
    assert "samples" not in first.evidence


def test_a_sum_that_is_wrong_indeed_is_accused(tmp_path: Path) -> None:
    first = judged(tmp_path, Biased(), Biased(), WrongSum()).suspects[0]
    assert (first.node, first.cause, first.strength) == (
        "Tensor.__add__.1.forward",
        "output",
        "strong",
    )


def test_checksums_tell_which_of_the_terms_it_was(tmp_path: Path) -> None:
    verdict = judged(tmp_path, transposed(), Biased(), statistics={"summary_mode": "md5"})
    assert [one.node for one in verdict.suspects] == ["Tensor.__getitem__.0.forward"]


def test_elements_tell_that_the_index_was_another(tmp_path: Path) -> None:
    first = judged(tmp_path, transposed(), Biased(), task="tensor").suspects[0]
    assert (first.cause, first.strength) == ("external", "strong")
    assert first.node == "Tensor.__getitem__.0.forward"
    assert first.evidence.startswith("input.1 ")


class Gated(nn.Module):
    """Two products of which one lets the other pass."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(13)
        self.up, self.gate, self.out = (nn.Linear(SIDE, SIDE, bias=False) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(torch.sigmoid(self.gate(x)) * self.up(x)).square().mean()


def wrong_product(kernel: str, result: Any, *, is_multiple: bool) -> Any:
    """Products that are a tenth too large, or of which every other one is lost."""
    if kernel == "mul.Tensor" and result.shape[-1:] == (SIDE,):
        if is_multiple:
            return 1.1 * result
        result[..., ::2] *= 40.0
    return result


def test_a_product_of_exchanged_rows_is_one_of_those_that_may_be_wrong(tmp_path: Path) -> None:
    model = Gated()
    model.gate.weight.data = model.gate.weight.data.roll(1, 0)
    verdict = judged(tmp_path, model, Gated())
    assert {one.strength for one in verdict.suspects} == {"weak"}
    assert verdict.suspects[0].node == "Tensor.__mul__.0.forward"
    # Which of the two has moved nothing tells.
    assert {one.node for one in verdict.suspects[1:3]} == {
        "Functional.linear.0.forward",
        "Functional.linear.1.forward",
    }


@pytest.mark.parametrize("is_multiple", [True, False])
def test_a_product_that_no_order_explains_is_accused(is_multiple: bool, tmp_path: Path) -> None:
    kernel = WrongKernel(partial(wrong_product, is_multiple=is_multiple))
    first = judged(tmp_path, Gated(), Gated(), kernel).suspects[0]
    assert (first.node, first.strength) == ("Tensor.__mul__.0.forward", "strong")


class Halved(nn.Module):
    """A gate and what it opens, which stand behind one another or in turns."""

    def __init__(self, *, in_turns: bool) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.both = nn.Linear(SIDE, 2 * SIDE)
        self.out = nn.Linear(SIDE, SIDE)
        self.in_turns = in_turns

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        both = self.both(x)
        if self.in_turns:
            gate, opened = both[..., ::2], both[..., 1::2]
        else:
            gate, opened = both.chunk(2, -1)
        return self.out(gate.sigmoid() * opened.tanh()).square().mean()


def test_calls_that_take_other_elements_than_the_reference_takes_by_others(tmp_path: Path) -> None:
    first = judged(tmp_path, Halved(in_turns=False), Halved(in_turns=True)).suspects[0]
    assert (first.node, first.strength) == ("Tensor.chunk.0.forward", "strong")


class Turned(nn.Module):
    """Attention of rows that may be exchanged with columns before."""

    def __init__(self, *, turns: bool) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.given, self.out = nn.Linear(SIDE, SIDE), nn.Linear(SIDE, SIDE)
        self.turns = turns

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.tanh()
        if self.turns:
            rows = rows.transpose(0, 1)
        rows = self.given(rows.reshape(x.shape))
        told = nn.functional.scaled_dot_product_attention(rows, rows.tanh(), rows.sigmoid())
        return self.out(told).square().mean()


class WrongRows(TorchDispatchMode):
    """A kernel of attention that doubles every other element."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        with torch._C.DisableTorchFunction():
            result = func(*args, **kwargs or {})
            if "softmax" in func.__name__ or "attention" in func.__name__:
                first = result[0] if isinstance(result, tuple) else result
                if first.is_floating_point() and "backward" not in func.__name__:
                    first[..., ::2] *= 2.0
            return result


def test_a_transposition_of_one_side_is_suspected_before_the_attention_that_shows_it(
    tmp_path: Path,
) -> None:
    verdict = judged(tmp_path, Turned(turns=False), Turned(turns=True))
    first = verdict.suspects[0]
    assert (first.side, first.node) == ("bench", "Tensor.transpose.0.forward")
    assert {one.strength for one in verdict.suspects} == {"weak"}


def test_an_attention_is_accused_where_both_sides_turn(tmp_path: Path) -> None:
    first = judged(tmp_path, Turned(turns=True), Turned(turns=True), WrongRows()).suspects[0]
    assert (first.node, first.strength) == (
        "Functional.scaled_dot_product_attention.0.forward",
        "strong",
    )


class Placed(nn.Module):
    """A picture beside the rows and columns of its places."""

    def __init__(self, *, columns_first: bool = False) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.columns_first = columns_first
        self.conv = nn.Conv2d(5, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        at = torch.arange(SIDE) / SIDE
        down, along = torch.meshgrid(at, at, indexing="ij")
        where = torch.stack([along, down] if self.columns_first else [down, along])
        return self.conv(torch.cat([x, where])[None]).square().mean()


def test_what_joins_tensors_that_look_alike_is_named_before_the_convolution(tmp_path: Path) -> None:
    """Rows and columns hold the same numbers, so that no statistic tells which comes first."""
    verdict = judged(tmp_path, Placed(columns_first=True), Placed())
    assert verdict.suspects[0].node == "Torch.stack.0.forward"
    assert verdict.suspects[0].cause == "order"
    assert all(one.strength == "weak" for one in verdict.suspects)
