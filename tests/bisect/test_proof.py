"""What an experiment tells of two calls: each pair is recorded, and run again."""

# mypy: disable-error-code="no-untyped-call"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from msprobe_bisect.proof import Proof, prove
from msprobe_collector import PrecisionDebugger

Made = Callable[[Tensor, Tensor, Tensor], Tensor]  # of an input, a weight and a bias


def recorded(folder: Path, made: Made, half: bool) -> Path:
    torch.manual_seed(0)
    x, weight, bias = torch.randn(4, 16), torch.randn(32, 16) / 4, torch.randn(32)
    for one in (x, weight, bias):
        one.requires_grad_()
    debugger = PrecisionDebugger(dump_path=folder, task="tensor", level="L1")
    debugger.start()
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        result = made(x, weight, bias)
    result.float().square().mean().backward()
    debugger.stop()
    debugger.step()
    PrecisionDebugger.close()
    return folder / "step0" / "rank"


def written(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x @ weight.T + bias


class Case(NamedTuple):
    npu: Made
    bench: Made
    names: tuple[str, str]
    direction: str
    proof: Proof


CASES = {
    "a product written out": Case(
        written,
        functional.linear,
        *(("Tensor.__add__.0", "Functional.linear.0"), "forward", Proof.ROUNDING),
    ),
    "the same of the reference": Case(
        functional.linear,
        written,
        *(("Functional.linear.0", "Tensor.__add__.0"), "forward", Proof.ROUNDING),
    ),
    "without the bias": Case(
        written,
        functional.linear,
        *(("Tensor.__matmul__.0", "Functional.linear.0"), "forward", Proof.NONE),
    ),
    "its gradients": Case(
        written,
        functional.linear,
        *(("Tensor.__add__.0", "Functional.linear.0"), "backward", Proof.NONE),
    ),
    "another function": Case(
        lambda x, *_: functional.gelu(x),
        lambda x, *_: functional.silu(x),
        *(("Functional.gelu.0", "Functional.silu.0"), "forward", Proof.NONE),
    ),
    "another name, another dimension": Case(
        lambda x, *_: x.softmax(0),
        lambda x, *_: functional.softmax(x, -1),
        *(("Tensor.softmax.0", "Functional.softmax.0"), "forward", Proof.ARGUMENT),
    ),
    "another bias": Case(
        lambda x, weight, bias: functional.linear(x, weight, bias + 1),
        functional.linear,
        *(("Functional.linear.0", "Functional.linear.0"), "forward", Proof.GIVEN),
    ),
}


@pytest.mark.parametrize("half", [False, True], ids=["float32", "autocast"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_experiment_tells(case: Case, half: bool, tmp_path: Path) -> None:
    places = [
        recorded(tmp_path / side, made, half)
        for side, made in (("npu", case.npu), ("bench", case.bench))
    ]
    found = prove(case.names, case.direction, *places)
    assert found.proof is case.proof, found.told
