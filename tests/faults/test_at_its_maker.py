"""Who made a tensor is named, and not who shows it; nor who merely makes rounding large."""

# mypy: disable-error-code="no-untyped-call, no-any-return, no-untyped-def"
# torch is typed in part only.

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from tests.collector.recording import record
from tests.faults.case import SAME, Case
from tests.faults.judging import SIDE, WrongKernel, judged, verdict_on
from tests.faults.scoring import score


def test_a_call_that_is_missing_before_an_idle_cast_is_named(tmp_path: Path) -> None:
    """And not the module that is given as a gradient what the cast hands on."""
    found = score(Case("drifted", "probe_not_signs", kind=SAME, seed=1484), tmp_path)
    best = found.verdict.suspects[0]
    assert (best.side, best.node, best.cause) == ("bench", "Tensor.sign.0.forward", "missing")
    assert found.is_strong


class _Bent(torch.autograd.Function):
    """What it needs in the backward pass is computed there, by calls that are recorded."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.tanh() * 1.5

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        slope = torch.cosh(x).square().reciprocal()
        return torch.mul(gradient, slope * 1.5)


class Bending(nn.Module):
    """A function with a derivative of its own between two layers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(12)
        self.first = nn.Linear(SIDE, SIDE)
        self.last = nn.Linear(SIDE, SIDE)

    def forward(self, data: Tensor) -> Tensor:
        x = self.last(_Bent.apply(self.first(data)))
        return x.square().mean()


def too_much(kernel: str, result: Any) -> Any:
    return result * 1.1 if kernel.startswith("cosh.") else result


def test_a_call_that_a_function_makes_on_the_way_back_is_named(tmp_path: Path) -> None:
    """The name of the function's class may begin with an underscore."""
    found = judged(
        tmp_path, nn.Sequential(Bending()), nn.Sequential(Bending()), WrongKernel(too_much)
    )
    assert [one.node for one in found.suspects if one.strength == "strong"] == [
        "Torch.cosh.0.forward"
    ]


class Aligned(nn.Module):
    """A loss over paths to labels that come from outside."""

    def __init__(self, turn: int = 0) -> None:
        super().__init__()
        torch.manual_seed(13)
        self.mix = nn.Linear(SIDE, SIDE)
        self.labels = torch.tensor([[1, 2, 3], [3, 4, 4], [5, 7, 5]]).roll(turn, 0)

    def forward(self, data: Tensor) -> Tensor:
        told = F.log_softmax(self.mix(data), -1).transpose(0, 1)
        lengths = torch.tensor([[SIDE] * 3, [3] * 3])
        return F.ctc_loss(told, self.labels.view(-1), lengths[0], lengths[1])


def test_labels_in_another_order_do_not_accuse_a_loss_over_paths(tmp_path: Path) -> None:
    found = judged(tmp_path, Aligned(1), Aligned())
    assert found.conclusion == "undecided"
    best = found.suspects[0]
    assert (best.node, best.cause) == ("Functional.ctc_loss.0.forward", "order")


def test_checksums_tell_that_other_labels_are_given(tmp_path: Path) -> None:
    """Nothing rounds whole numbers: what was given from outside was not chosen by chance."""
    found = judged(tmp_path, Aligned(1), Aligned(), statistics={"summary_mode": "md5"})
    best = found.suspects[0]
    assert (best.node, best.cause) == ("Tensor.view.0.forward", "external")
    assert best.strength == "strong"


class Mirrored(nn.Module):
    """Pictures and weights that nobody computes here, each perhaps in another order."""

    def __init__(self, *, is_picture: bool = False, is_weight: bool = False) -> None:
        super().__init__()
        torch.manual_seed(14)
        self.mix, self.last = nn.Linear(SIDE, SIDE), nn.Linear(SIDE, SIDE)
        self.is_picture = is_picture
        if is_weight:
            with torch.no_grad():
                self.last.weight.copy_(self.last.weight.flip(0))

    def forward(self, data: Tensor) -> Tensor:
        with torch._C.DisableTorchFunction():
            given = data.flip(-1) if self.is_picture else data * 1.0
        x = self.mix(given).tanh()
        return (x * self.last(x)).sigmoid().square().mean()


@pytest.mark.parametrize(
    ("changed", "cause"), [("is_picture", "external"), ("is_weight", "weight")]
)
def test_checksums_tell_that_a_call_is_given_other_values_from_outside(
    changed: str, cause: str, tmp_path: Path
) -> None:
    """Statistics are the same in any order, but the call that is given them is not to blame."""
    own = Mirrored(**{changed: True})
    found = judged(tmp_path, own, Mirrored(), statistics={"summary_mode": "md5"})
    best = found.suspects[0]
    assert (best.cause, best.strength) == (cause, "strong")
    assert all(one.cause == cause for one in found.suspects if one.strength == "strong")


class Rotating(nn.Module):
    """Angles are looked up in a buffer, whose last digits another library may have rounded."""

    cos: Tensor

    def __init__(self, rounded: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(16)
        self.mix = nn.Linear(SIDE, SIDE)
        angles = torch.arange(float(SIDE))
        angles[2] = angles[1] + 1e-6
        self.register_buffer("cos", angles.cos() * rounded)

    def forward(self, data: Tensor) -> Tensor:
        return (self.mix(data) * self.cos).tanh().square().mean()


def half_as_much_again(kernel: str, result: Any, *, everywhere: bool) -> Any:
    """A product that is a multiple, or wrong in the first place alone."""
    if kernel.startswith("mul.") and result.shape == (3, SIDE, SIDE):
        result[..., slice(None) if everywhere else slice(1)] *= 1.5
    return result


@pytest.mark.parametrize("is_multiple", [True, False])
def test_a_buffer_that_is_merely_rounded_does_not_excuse_the_call(
    is_multiple: bool, tmp_path: Path
) -> None:
    """Extremes move when elements are rounded, and do not in another order."""
    kernel = WrongKernel(partial(half_as_much_again, everywhere=is_multiple))
    sides = Rotating(1.0000001), Rotating()
    found = judged(tmp_path, *sides, kernel, statistics={"summary_mode": "md5"})
    assert found.suspects[0].node == "Tensor.__mul__.0.forward"
    assert all(one.cause != "external" for one in found.suspects)


def test_a_buffer_in_another_order_makes_no_multiple(tmp_path: Path) -> None:
    own = Rotating()
    own.cos.copy_(own.cos.flip(0))
    kernel = WrongKernel(partial(half_as_much_again, everywhere=True))
    found = judged(tmp_path / "clean", own, Rotating(), statistics={"summary_mode": "md5"})
    assert (found.suspects[0].cause, found.suspects[0].strength) == ("external", "strong")
    own.cos.copy_(Rotating().cos)
    own.cos[1:3] = own.cos[1:3].flip(0)  # hardly felt beside what the kernel does
    found = judged(tmp_path / "wrong", own, Rotating(), kernel, statistics={"summary_mode": "md5"})
    assert all(one.cause != "external" for one in found.suspects)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_where_one_call_alone_has_checksums_nobody_knows_how_many_differ(tmp_path: Path) -> None:
    folders = []
    for side, is_picture in (("npu", True), ("bench", False)):
        torch.manual_seed(7)
        model, data = Mirrored(is_picture=is_picture), torch.randn(3, SIDE, SIDE)
        config = {"statistics": {"summary_mode": "md5"}}
        folder = record(tmp_path / side, partial(model, data), model, **config).directory
        dump = json.loads((folder / "dump.json").read_text())
        kept = dump["data"]["Functional.linear.0.forward"]["input_args"][0].pop("md5")
        dump = json.loads(json.dumps(dump), object_hook=_without_checksum)
        dump["data"]["Functional.linear.0.forward"]["input_args"][0]["md5"] = kept
        (folder / "dump.json").write_text(json.dumps(dump))
        folders.append(folder)
    found = verdict_on(folders[0], folders[1], tmp_path / "out")
    assert found.conclusion == "fault"


def _without_checksum(one: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in one.items() if key != "md5"}


class Cancelling(nn.Module):
    """A layer whose terms nearly come to nothing, as what it is given hardly varies."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(15)
        self.mix, self.told = nn.Linear(SIDE, SIDE), nn.Linear(SIDE, SIDE)
        with torch.no_grad():
            self.told.weight -= self.told.weight.mean(1, keepdim=True)
            self.told.bias.zero_()

    def forward(self, data: Tensor) -> Tensor:
        x = self.mix(data.to(self.mix.weight.dtype)) * 0.02 + 1.0
        return self.told(x).float().mul(20.0).tanh().square().mean()


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_a_layer_whose_terms_cancel_shows_by_what_it_is_given_was_rounded(
    level: str, tmp_path: Path
) -> None:
    found = judged(tmp_path, Cancelling().bfloat16(), Cancelling(), level=level)
    assert all(one.strength == "weak" for one in found.suspects)


def test_a_layer_of_no_elements_cancels_nothing(tmp_path: Path) -> None:
    """Whatever a dump says of its norm."""
    folders = []
    for side in ("npu", "bench"):
        torch.manual_seed(7)
        step = partial(Cancelling(), torch.randn(3, SIDE, SIDE))
        folder = record(tmp_path / side, step, nn.Identity()).directory
        dump = json.loads((folder / "dump.json").read_text())
        dump["data"]["Functional.linear.1.forward"]["output"][0]["shape"] = [3, 0, SIDE]
        (folder / "dump.json").write_text(json.dumps(dump))
        folders.append(folder)
    assert verdict_on(folders[0], folders[1], tmp_path / "out").conclusion == "clean"


def test_a_parameter_whose_gradient_was_not_recorded_may_have_been_cut_off(tmp_path: Path) -> None:
    """All gradients that were recorded agree, but one side alone gives one back to it."""
    case = Case("exchanged", "shared_is_cut", kind=SAME, direction="backward", seed=1867)
    found = score(case, tmp_path)
    best = found.verdict.suspects[0]
    assert (found.place, best.node, best.cause) == (1, "Tensor.detach.0.forward", "gradient")
    assert best.strength == "weak"
