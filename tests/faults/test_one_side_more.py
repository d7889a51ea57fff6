"""What one side calls more often, gives twice, turns, or cuts off, and what modules alone hide."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
import torch
from torch import nn

from msprobe_builder import BuildConfig, build
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import read_verdict
from tests.faults.case import HALF, NOISE, SAME, Case
from tests.faults.judging import SIDE, judged
from tests.faults.scoring import score

PAIRS = Path(__file__).resolve().parent.parent / "data" / "pairs"


@pytest.mark.parametrize("kind", [SAME, NOISE])
def test_a_layer_called_once_more_is_named_as_a_whole(kind: str, tmp_path: Path) -> None:
    """No gradient of its parameters, which one use more adds to, is accused."""
    found = score(Case("states", "layer_twice", 1, kind=kind, seed=810), tmp_path)
    assert found.verdict.conclusion == "fault"
    strong = {one.node for one in found.verdict.suspects if one.strength == "strong"}
    assert strong == {f"Module.layers.1.StateBlock.forward.{call}" for call in (1, 3)}


def test_recomputation_is_no_call_more(tmp_path: Path) -> None:
    with tarfile.open(PAIRS / "ckpt_true.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    runs = BuildConfig(tmp_path / "ckpt_true" / "npu", tmp_path / "ckpt_true" / "bench")
    with opened(build(runs, tmp_path / "out", workers=1).path) as connection:
        verdict = read_verdict(connection)
    assert verdict is not None
    assert (verdict.conclusion, verdict.suspects) == ("clean", ())


def test_a_module_that_is_given_one_tensor_twice_is_named(tmp_path: Path) -> None:
    found = score(Case("answering", "asks_itself", 1, seed=841), tmp_path)
    assert found.place == 1
    assert found.verdict.suspects[0].node == "Module.layers.1.Cross.forward.0"


def test_labels_are_no_sizes(tmp_path: Path) -> None:
    """What a loss makes of the noise of its input does not grow with the numbers of classes."""
    found = score(Case("states", "classes_not_weighed", kind=NOISE, seed=811), tmp_path)
    assert (found.place, found.is_strong) == (1, True)


class Turned(nn.Module):
    """Places that may be shifted before sums that hardly feel it."""

    def __init__(self, dtype: torch.dtype, *, shifted: bool) -> None:
        super().__init__()
        torch.manual_seed(22)
        self.given = nn.Linear(SIDE, SIDE, dtype=dtype)
        self.shifted = shifted

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.given(x.to(self.given.weight.dtype))
        return (x.roll(1, 1) if self.shifted else x).square().mean()


def test_a_shift_that_no_number_shows_is_a_weak_suspect_in_halves(tmp_path: Path) -> None:
    """In float32 what follows would show it."""
    half, single = (
        judged(tmp_path / str(dtype), Turned(dtype, shifted=True), Turned(dtype, shifted=False))
        for dtype in (torch.bfloat16, torch.float32)
    )
    named = [(one.node, one.strength, one.cause) for one in half.suspects]
    assert named == [("Tensor.roll.0.forward", "weak", "extra")]
    assert (half.conclusion, single.conclusion) == ("undecided", "clean")


class Parted(nn.Module):
    """Two branches, and in between what no dump of modules alone shows."""

    def __init__(self, wrong: str = "") -> None:
        super().__init__()
        torch.manual_seed(23)
        self.first, self.second = nn.Linear(SIDE, SIDE), nn.Linear(SIDE, SIDE)
        self.norm, self.other = nn.LayerNorm(SIDE), nn.LayerNorm(SIDE)
        self.out = nn.Linear(SIDE, SIDE)
        with torch.no_grad():
            self.norm.weight.copy_(torch.linspace(0.2, 2.0, SIDE))
        self.wrong = wrong

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one = torch.tanh(self.first(x)) * torch.linspace(0.1, 3.0, SIDE)
        if self.wrong == "order":
            one = one.transpose(1, 2).contiguous()
        two = self.second(x)
        if self.wrong == "cut":
            two = two.detach()
        one = self.norm(one)
        two = (self.norm if self.wrong == "norm" else self.other)(two)
        return self.out(one + two).square().mean()


def test_behind_calls_that_nobody_recorded_order_makes_no_module_certain(tmp_path: Path) -> None:
    verdict = judged(tmp_path, Parted("order"), Parted(), level="L0")
    first = verdict.suspects[0]
    assert (first.node, first.strength) == ("Module.norm.LayerNorm.forward.0", "weak")
    assert "made by calls that nobody recorded" in first.evidence
    assert verdict.conclusion == "undecided"


class Aside(Parted):
    """Its loss has another part, which no module is given."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        aside = torch.tanh(self.second(x)).mean()
        if self.wrong == "aside":
            aside = aside.detach()
        return super().forward(x) + aside


def test_of_modules_alone_the_first_that_is_given_no_history_is_named(tmp_path: Path) -> None:
    verdict = judged(tmp_path, Parted("cut"), Parted(), level="L0")
    named = [(one.node, one.strength, one.cause) for one in verdict.suspects]
    assert named == [("Module.other.LayerNorm.forward.0", "strong", "gradient")]


def test_of_modules_alone_those_that_give_nothing_back_are_told(tmp_path: Path) -> None:
    verdict = judged(tmp_path, Aside("aside"), Aside(), level="L0")
    named = {one.node: (one.strength, one.cause) for one in verdict.suspects}
    assert named["Module.second.Linear.backward.0"] == ("weak", "missing")


def test_a_module_that_is_called_instead_is_named_and_not_what_is_around_it(
    tmp_path: Path,
) -> None:
    found = score(Case("segmenter", "second_as_first", 3, seed=823, level="L0"), tmp_path)
    first = found.verdict.suspects[0]
    assert (first.node, first.cause) == ("Module.blocks.3.norm1.GroupNorm.forward.1", "extra")


def test_an_unrecorded_gradient_of_few_elements_accuses_nobody(tmp_path: Path) -> None:
    found = score(Case("states", None, kind=HALF, seed=800, level="L0"), tmp_path)
    assert not found.is_strong


class Started(nn.Module):
    """Two states, of which one always begins with nothing."""

    def __init__(self, *, lost: bool) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.given, self.used = nn.Linear(SIDE, SIDE), nn.Linear(2 * SIDE, SIDE)
        self.lost = lost

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = self.given(x).tanh()
        if self.lost:
            state = torch.zeros_like(state)
        cell = torch.zeros_like(state)
        for _ in range(2):
            made = self.used(torch.cat([state, cell], -1))
            state, cell = made.tanh(), cell + made.sigmoid()
        return state.square().mean()


def test_of_equal_calls_that_at_a_line_of_one_side_alone_is_too_many(tmp_path: Path) -> None:
    first = judged(tmp_path, Started(lost=True), Started(lost=False)).suspects[0]
    assert (first.node, first.cause) == ("Torch.zeros_like.0.forward", "extra")
