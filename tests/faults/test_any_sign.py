"""What rounding may turn anywhere: eigenvectors, rows next to nothing, powers of the smallest."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from msprobe_builder.database.read.verdict import Verdict
from tests.faults.case import SAME, Case
from tests.faults.judging import SIDE, WrongKernel, judged
from tests.faults.noise import RelativeNoise
from tests.faults.scoring import score


class Spectral(nn.Module):
    """Coordinates by eigenvectors, most of which belong to one value, which is nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow = nn.Parameter(torch.randn(SIDE, 2))
        self.out = nn.Parameter(torch.randn(SIDE, SIDE))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x @ self.narrow
        _, vectors = torch.linalg.eigh((y @ y.transpose(-1, -2)).detach())
        return (vectors @ self.out).square().sum()


class Factored(nn.Module):
    """A product by the factors of a matrix that comes from outside."""

    def __init__(self, factorise: str) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.out = nn.Parameter(torch.randn(SIDE, SIDE))
        self.factorise = getattr(torch.linalg, factorise)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        factors = self.factorise(x @ x.transpose(-1, -2))
        matrices = [one for one in factors if one.dim() == x.dim()]
        return torch.stack([self.out @ one for one in matrices]).square().sum()


def multiplied(kernel: str, result: Any, *, times: float) -> Any:
    """Matrices that factorisations put out, times a number."""
    if kernel.partition(".")[0] not in ("_linalg_eigh", "_linalg_svd", "linalg_qr"):
        return result
    return tuple(one * times if one.dim() > 2 else one for one in result)


class Powers(nn.Module):
    """The smallest of what a negative power is taken of is as far off as the largest."""

    def __init__(self, data: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(SIDE, SIDE))
        with torch.no_grad():
            self.raised = nn.Parameter(1e-4 - (data @ self.weight).min())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.weight + self.raised).pow(-0.5).sum()


class Unit(nn.Module):
    """Some rows are what rounding leaves of nothing, and all are brought to one length."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(SIDE, SIDE))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x @ self.weight
        none = y[2:] * 1.1 - y[2:] * 0.1 - y[2:]
        ways = F.normalize(torch.cat([y[:2], none]), dim=-1).detach()
        return (ways * y).sum()


class Shorter(Unit):
    """The same, with rows of another length."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x @ self.weight
        none = y[2:] * 1.1 - y[2:] * 0.1 - y[2:]
        ways = F.normalize(torch.cat([y[:2], none]), p=1.5, dim=-1).detach()
        return (ways * y).sum()


SEEDS = range(1, 13)  # of some of which a row is nothing at all, on any processor


def _beside_noise(folder: Path, model: nn.Module, reference: nn.Module, seed: int = 3) -> Verdict:
    reference.load_state_dict(model.state_dict())
    return judged(folder, model, reference, RelativeNoise(1e-6, seed))


def test_eigenvectors_of_another_sign_are_no_fault(tmp_path: Path) -> None:
    torch.manual_seed(1)
    verdict = _beside_noise(tmp_path, Spectral(), Spectral())
    assert verdict.conclusion == "undecided"
    assert not verdict.suspects
    assert "Torch.eigh.0.forward, which chose other signs of vectors" in verdict.sentence


@pytest.mark.parametrize("factorise", ["eigh", "svd", "qr"])
@pytest.mark.parametrize("times", [1.5, 1.1, float("nan")])
def test_no_sign_explains_a_norm(factorise: str, times: float, tmp_path: Path) -> None:
    kernel = WrongKernel(partial(multiplied, times=times))
    verdict = judged(tmp_path, Factored(factorise), Factored(factorise), kernel)
    first = verdict.suspects[0]
    assert (first.node, first.strength) == (f"Torch.{factorise}.0.forward", "strong")


@pytest.mark.parametrize("factorise", ["eigh", "svd", "qr"])
def test_factors_of_another_sign_are_no_fault(factorise: str, tmp_path: Path) -> None:
    verdict = judged(
        tmp_path,
        Factored(factorise),
        Factored(factorise),
        WrongKernel(partial(multiplied, times=-1.0)),
    )
    assert verdict.conclusion == "undecided"
    assert not verdict.suspects
    assert f"Torch.{factorise}.0.forward, which chose other signs" in verdict.sentence


def test_negative_powers_make_most_of_the_smallest_number(tmp_path: Path) -> None:
    torch.manual_seed(7)
    data = torch.randn(3, SIDE, SIDE)
    verdict = _beside_noise(tmp_path, Powers(data), Powers(data))
    assert verdict.conclusion != "fault"


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_next_to_nothing_may_point_anywhere(seed: int, tmp_path: Path) -> None:
    torch.manual_seed(seed)
    verdict = _beside_noise(tmp_path, Unit(), Unit(), seed)
    assert verdict.conclusion != "fault"


def test_rows_of_another_length_are_a_fault(tmp_path: Path) -> None:
    torch.manual_seed(1)
    verdict = _beside_noise(tmp_path, Shorter(), Unit())
    assert verdict.conclusion == "fault"
    assert verdict.suspects[0].node == "Functional.normalize.0.forward"


def test_of_equal_tensors_the_one_is_given_that_one_side_alone_has_made(tmp_path: Path) -> None:
    """Another call of both sides has put out just the same later on."""
    found = score(Case("unmasked", "places_go_on", kind=SAME, seed=2618), tmp_path)
    assert found.place == 1
    assert found.verdict.suspects[0].cause == "extra"
