"""What models of a library showed: small models that hold one of their habits each."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from msprobe_builder.database.read.verdict import Verdict
from tests.collector.recording import record
from tests.faults.judging import SIDE, judged, verdict_on
from tests.faults.noise import RelativeNoise


class Falling(nn.Module):
    """Running sums of what falls, and their differences behind a mask, as in linear attention."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.speed = nn.Parameter(torch.rand(SIDE))
        self.mix = nn.Linear(SIDE, SIDE)

    def forward(self, data: Tensor) -> Tensor:
        x = F.softplus(self.mix(data))
        fallen, again = ((x[..., 0] * -60.0).cumsum(-1).detach() for _ in range(2))
        apart = fallen[:, :, None] - again[:, None, :]
        hidden = torch.ones(SIDE, SIDE, dtype=torch.bool).triu(1)
        decay = apart.masked_fill(hidden, float("-inf")).exp()
        return (decay @ (x * self.speed)).square().mean()


def test_a_difference_that_is_small_beside_its_terms_may_be_rounding(tmp_path: Path) -> None:
    found = judged(tmp_path, Falling(), Falling(), RelativeNoise(1e-6, 3))
    assert found.conclusion == "clean"


class Left(nn.Module):
    """The first of two equal numbers is taken off the other, which comes to nothing."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.mix = nn.Linear(SIDE, SIDE)

    def forward(self, data: Tensor) -> Tensor:
        x = self.mix(data) * 20.0
        left = torch.maximum(x * 1.0, x - 100.0) - x * 1.0
        return (x * left.exp()).square().mean()


def test_what_cancels_to_nothing_is_measured_by_its_terms(tmp_path: Path) -> None:
    assert judged(tmp_path / "noise", Left(), Left(), RelativeNoise(1e-6, 5)).conclusion == "clean"


class Words(nn.Module):
    """Words that are foretold by the matrix that they are looked up in."""

    def __init__(self, half: bool = False) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.words = nn.Embedding(16, SIDE)
        self.mix = nn.Linear(SIDE, SIDE)
        self.head = nn.Linear(SIDE, 16, bias=False)
        self.head.weight = self.words.weight
        self.is_halved = half

    def forward(self, ids: Tensor) -> Tensor:
        x = self.mix(self.words(ids))
        if self.is_halved and x.requires_grad:
            x.register_hook(_halved)
        told = self.head(x).float()
        return F.cross_entropy(told.flatten(0, 1), ids.flatten().roll(1))


def _halved(gradient: Tensor) -> Tensor:
    with torch._C.DisableTorchFunction():
        return gradient / 2


def _ids(*, other: bool = False) -> Tensor:
    ids = torch.arange(12).view(2, 6) % 11
    if other:
        ids[1, 2] -= 1
    return ids


def _judged(folder: Path, model: nn.Module, other: nn.Module, ids: Tensor, **way: Any) -> Verdict:
    for side, one, given in (("npu", model, ids), ("bench", other, _ids())):
        record(folder / side, partial(_twice, one, given, (_ids() + 3) % 11), one, **way)
    return verdict_on(folder / "npu" / "dump", folder / "bench" / "dump", folder / "out")


def _twice(model: nn.Module, ids: Tensor, before: Tensor) -> None:
    model(before).backward()
    model(ids).backward()


def test_other_words_are_told_in_half_precision(tmp_path: Path) -> None:
    """They are no numbers that rounding moves, however far the numbers before were moved."""
    found = _judged(tmp_path, Words().bfloat16(), Words(), _ids(other=True))
    assert found.conclusion == "fault"
    assert found.suspects[0].node == "Module.words.Embedding.forward.1"


def test_a_matrix_of_two_modules_holds_what_comes_back_to_either(tmp_path: Path) -> None:
    """The gradient is halved on its way from the head to the words: the head is innocent."""
    found = _judged(tmp_path, Words(half=True), Words(), _ids())
    assert found.suspects[0].strength == "strong"
    assert all("head" not in one.node for one in found.suspects)


class Cast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.mix = nn.Linear(SIDE, SIDE)

    def forward(self, data: Tensor) -> Tensor:
        return self.mix(data).double().square().mean().float()


class CastByHalf(torch.utils._python_dispatch.TorchDispatchMode):
    """What is cast from double precision, of several numbers, comes out half as large."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        is_cast = func.__name__.startswith("_to_copy") and args[0].dtype is torch.float64
        return result / 2 if is_cast and result.numel() > 1 else result


def test_the_gradient_of_a_cast_that_both_make_is_judged(tmp_path: Path) -> None:
    found = judged(tmp_path, Cast(), Cast(), CastByHalf())
    best = found.suspects[0]
    assert (best.node, best.strength) == ("Tensor.double.0.backward", "strong")


class Picking(nn.Module):
    """A part is picked of what a product has put out; a kernel may make something else of it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.mix = nn.Linear(SIDE, SIDE)

    def forward(self, data: Tensor) -> Tensor:
        x = self.mix(data)
        return (x[:, 1:3] * 1.0).square().mean()


class PickedTwice(torch.utils._python_dispatch.TorchDispatchMode):
    """Every slice of the second dimension comes out twice as large."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        is_pick = func.__name__.startswith("slice.") and args[1:2] == (1,)
        return result * 2 if is_pick else result


def test_a_pick_that_puts_out_a_multiple_is_to_blame_itself(tmp_path: Path) -> None:
    found = judged(tmp_path, Picking(), Picking(), PickedTwice())
    assert found.suspects[0].node == "Tensor.__getitem__.0.forward"
    assert found.suspects[0].cause == "output"


class Telling(nn.Module):
    """An encoder's output is handed out beside what a decoder makes of it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(8)
        self.encoder, self.decoder = nn.Linear(SIDE, SIDE), nn.Linear(SIDE, SIDE)

    def forward(self, data: Tensor) -> tuple[Tensor, Tensor]:
        seen = self.encoder(data)
        told = self.decoder(seen)
        return told, seen


class Judging(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Telling()

    def forward(self, data: Tensor) -> Tensor:
        told, seen = self.inner(data)
        return told.square().mean() + 0.1 * seen.square().mean()


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_a_gradient_of_what_is_used_inside_as_well_accuses_nobody(
    level: str, tmp_path: Path
) -> None:
    """It is off from where the decoder's gradient is, which is later in the backward pass."""
    own = Judging()

    def wrong(_: nn.Module, given: Any, __: Any) -> tuple[Tensor]:
        with torch._C.DisableTorchFunction():
            return (given[0] * 3.0,)

    own.inner.decoder.register_full_backward_hook(wrong)
    found = judged(tmp_path, own, Judging(), level=level)
    strong = [one.node for one in found.suspects if one.strength == "strong"]
    assert all("inner.Telling" not in one for one in strong)


class Named(nn.Module):
    """A loss by labels that come from outside."""

    def __init__(self, turn: int = 0) -> None:
        super().__init__()
        torch.manual_seed(9)
        self.mix = nn.Linear(SIDE, SIDE)
        self.labels = (torch.arange(3 * SIDE) * 5 % SIDE).roll(turn)

    def forward(self, data: Tensor) -> Tensor:
        return F.cross_entropy(self.mix(data).flatten(0, 1), self.labels)


def test_labels_in_another_order_do_not_accuse_the_loss_for_sure(tmp_path: Path) -> None:
    found = judged(tmp_path, Named(1), Named())
    assert found.conclusion == "undecided"
    best = found.suspects[0]
    assert (best.node, best.cause) == ("Functional.cross_entropy.0.forward", "order")
