"""Calls under autocast are run again as autocast made them, and judged by what it computed in."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional

from msprobe_collector import PrecisionDebugger
from msprobe_operators.command import main


class Mixed(nn.Module):
    """Matrix products in half, sums and norms not, a cast that asks for half itself."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(64, 32), nn.LayerNorm(32), nn.Linear(32, 4)
        self.filters = nn.Conv1d(1, 2, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.gelu(self.first(x))
        z = self.last(self.norm(y)).softmax(-1) @ torch.ones(4, 4)
        found: torch.Tensor = z.bfloat16().sum() + self.filters(x[:, None]).mean()
        return found


def recorded(folder: Path, dtype: torch.dtype) -> Path:
    torch.manual_seed(1)
    model, x = Mixed(), torch.randn(92, 64)
    debugger = PrecisionDebugger(dump_path=folder / "dump", task="tensor", level="mix")
    with debugger.start(model):
        with torch.autocast("cpu", dtype):
            loss = model(x)
        loss.float().backward()
    debugger.close()
    return folder / "dump" / "step0" / "rank"


def checked(dump: Path, folder: Path) -> tuple[int, list[dict[str, str]]]:
    status = main(["check", str(dump), "-o", str(folder)])
    with (folder / "operator_check.csv").open(encoding="utf-8-sig", newline="") as stream:
        return status, list(csv.DictReader(stream))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_correct_calls_under_autocast_are_right_and_tested(
    dtype: torch.dtype, tmp_path: Path
) -> None:
    status, rows = checked(recorded(tmp_path, dtype), tmp_path / "out")
    assert not status
    assert {row["status"] for row in rows if "linear" in row["name"]} == {"passed"}
    assert {row["status"] for row in rows} == {"passed"}, rows


def test_a_wrong_gradient_under_autocast_is_found(tmp_path: Path) -> None:
    """By a fifth, several times what bfloat16 rounds in a call."""
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl("gelu_backward", _wrong_gelu_backward, "CPU")
        dump = recorded(tmp_path, torch.bfloat16)
    finally:
        library._destroy()
    status, rows = checked(dump, tmp_path / "out")
    failed = [(row["name"], row["direction"]) for row in rows if row["status"] == "failed"]
    assert (status, failed) == (4, [("Functional.gelu.0", "backward")])


def _wrong_gelu_backward(
    gradient: torch.Tensor, x: torch.Tensor, *, approximate: str = "none"
) -> torch.Tensor:
    assert approximate == "none"
    wide = x.float()
    density = torch.exp(-wide.square() / 2) / (2 * torch.pi) ** 0.5
    right = (1 + torch.erf(wide / 2**0.5)) / 2 + wide * density
    found: torch.Tensor = (gradient.float() * right * 1.2).to(x.dtype)
    return found
