"""Masks of the lowest number, memory that is written in parts, and differences below rounding."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from tests.faults.case import HALF, NOISE, SAME, Case
from tests.faults.judging import SIDE, judged
from tests.faults.scoring import score


@pytest.mark.parametrize("kind", [SAME, NOISE])
def test_the_sum_with_a_mask_is_not_accused_of_what_it_is_given(kind: str, tmp_path: Path) -> None:
    """Beside the lowest number of a type what is wrong in the scores looks like nothing."""
    found = score(Case("capped", "turned_the_other_way", kind=kind, seed=601), tmp_path)
    assert found.place == 1
    assert found.is_strong


class Hidden(nn.Module):
    """Scores of a type, and a mask of its lowest number."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(33)
        self.given, self.out = nn.Linear(SIDE, SIDE), nn.Linear(SIDE, SIDE)
        self.to(dtype)
        self.mask = torch.full((SIDE, SIDE), torch.finfo(dtype).min, dtype=dtype).triu(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.given(x.to(self.mask.dtype)) + self.mask
        return self.out(torch.softmax(scores, -1)).float().square().mean()


class Larger(TorchDispatchMode):
    """A sum that takes its first term half as much again."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        with torch._C.DisableTorchFunction():
            if func is torch.ops.aten.add.Tensor and isinstance(args[1], torch.Tensor):
                args = (1.5 * args[0], *args[1:])
            return func(*args, **kwargs or {})


def test_the_evidence_shows_what_the_mask_leaves(tmp_path: Path) -> None:
    """The norm is that of the mask value, of which every type has another."""
    first = judged(tmp_path, Hidden(torch.bfloat16), Hidden(torch.float32), Larger()).suspects[0]
    assert first.node == "Tensor.__add__.0.forward"
    assert " has max " in first.evidence


def test_tensors_that_are_put_together_in_place_accuse_nobody(tmp_path: Path) -> None:
    """What is read of fresh memory while it is filled differs from run to run."""
    found = score(Case("capped", None, kind=SAME, seed=600), tmp_path)
    assert found.verdict.conclusion == "clean"
    assert not found.verdict.suspects


def test_what_products_round_does_not_make_their_inputs_mispaired(tmp_path: Path) -> None:
    found = score(Case("capped", "other_base", kind=HALF, seed=608), tmp_path)
    assert found.place == 1


class Deep(nn.Module):
    """Several layers whose end is bent a little, or not."""

    def __init__(self, *, bent: bool) -> None:
        super().__init__()
        torch.manual_seed(31)
        self.layers = nn.ModuleList(nn.Linear(SIDE, SIDE) for _ in range(8))
        self.out = nn.Linear(SIDE, SIDE)
        self.bent = bent

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.sigmoid(layer(x))
        x = x / 500.0
        if self.bent:
            x = torch.tanh(x)
        return self.out(x * 500.0).square().mean()


@pytest.mark.parametrize("bent", [True, False])
def test_a_call_behind_which_bits_differ_first_is_named(bent: bool, tmp_path: Path) -> None:
    """What it changes is less than rounding explains, but nothing else can have changed it."""
    verdict = judged(tmp_path, Deep(bent=bent), Deep(bent=not bent))
    first = verdict.suspects[0]
    assert first.node == "Torch.tanh.0.forward"
    assert first.cause == ("extra" if bent else "missing")
    assert first.side == ("npu" if bent else "bench")
    assert first.strength == "weak"
    assert verdict.conclusion == "undecided"


def test_the_same_difference_in_a_noisy_run_is_none(tmp_path: Path) -> None:
    verdict = judged(tmp_path, Deep(bent=True), Deep(bent=False), Higher())
    assert verdict.conclusion == "clean"


class Higher(TorchDispatchMode):
    """Kernels that round to the next higher number."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        with torch._C.DisableTorchFunction():
            result = func(*args, **kwargs or {})
            if isinstance(result, torch.Tensor) and func in _ROUNDED:
                result = torch.nextafter(result, torch.full_like(result, 2.0))
            return result


_ROUNDED = (torch.ops.aten.mul.Tensor, torch.ops.aten.addmm.default, torch.ops.aten.sigmoid.default)


class Counted(nn.Module):
    """Whole numbers are cut off just below a step, and look up factors that differ much."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(32)
        self.given, self.out = nn.Linear(SIDE, SIDE), nn.Linear(SIDE, SIDE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        below = torch.full_like(x, 2.0 - 2.0**-23)
        chosen = (below * 1.0).long()
        factors = torch.tensor([1.0, 1.0, 100.0])[chosen]
        return self.out(torch.tanh(self.given(x)) * factors).square().mean()


def test_what_is_made_of_another_choice_is_not_accused(tmp_path: Path) -> None:
    verdict = judged(tmp_path, Counted(), Counted(), Higher())
    assert verdict.conclusion == "undecided"
    assert not verdict.suspects
    assert "chose other indices" in verdict.sentence


class Attends(nn.Module):
    """Attention that hides what a mask of truth values, or of what is added to scores, hides."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        if mask.dtype == torch.bool:
            return torch.nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=mask)
        scores = x @ x.transpose(-1, -2) * x.shape[-1] ** -0.5
        return torch.softmax(scores + mask, -1) @ x


class Encoder(nn.Module):
    """Hands the mask on."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Attends() for _ in range(2))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, mask)
        return x


class Masked(nn.Module):
    """Makes the mask that its attention is given from places of words."""

    def __init__(self, *, fused: bool) -> None:
        super().__init__()
        torch.manual_seed(34)
        self.given, self.out = nn.Linear(SIDE, SIDE), nn.Linear(SIDE, SIDE)
        self.attends = Encoder()
        self.fused = fused

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        places = torch.arange(SIDE // 2).repeat(2)
        if not self.fused:
            torch.zeros(SIDE, dtype=torch.long) + places  # as what a mask is not made of after all
        mask = places[:, None] >= places[None]
        y = self.given(x)
        if not self.fused:
            mask = torch.where(mask, 0.0, torch.finfo(torch.float32).min)
        return self.out(self.attends(y, mask)).square().mean()


@pytest.mark.parametrize("fused", [True, False])
def test_a_mask_of_truth_values_beside_one_of_numbers_accuses_nobody(
    fused: bool, tmp_path: Path
) -> None:
    verdict = judged(tmp_path, Masked(fused=fused), Masked(fused=not fused))
    assert verdict.conclusion == "clean"
    assert not verdict.suspects
