"""Micro-steps whose data comes in another order: the verdict says where the reference has it."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import torch
from torch import nn

from msprobe_builder import BuildConfig, build
from tests.collector.recording import record
from tests.worded import worded

WORDS, LENGTH = 50, 6


def recorded(folder: Path, order: tuple[int, ...], summary: str, shift: int = 0) -> Path:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(WORDS, 16), nn.Linear(16, WORDS))
    batches = [(torch.randint(0, WORDS, (2, LENGTH)) + shift) % WORDS for _ in order]

    def step() -> None:
        for number in order:
            model(batches[number]).square().mean().backward()

    return record(folder, step, model, statistics={"summary_mode": summary}).directory


def sentence(folder: Path, npu: Path, bench: Path) -> tuple[str, str]:
    result = build(BuildConfig(npu, bench), folder / "out", workers=1)
    with closing(sqlite3.connect(result.path)) as connection:
        query = "SELECT conclusion, sentence FROM verdict WHERE step IS NULL"
        [(conclusion, text)] = worded(connection.execute(query))
    return conclusion, text


@pytest.mark.parametrize("summary", ["statistics", "md5"])
@pytest.mark.parametrize(("order", "step"), [((1, 0), 1), ((2, 0, 1), 2)])
def test_where_the_reference_has_the_data_is_told(
    tmp_path: Path, order: tuple[int, ...], step: int, summary: str
) -> None:
    npu = recorded(tmp_path / "npu", order, summary)
    bench = recorded(tmp_path / "bench", tuple(sorted(order)), summary)
    conclusion, text = sentence(tmp_path, npu, bench)
    assert conclusion == "fault"
    assert f"the data was given that the reference has in micro-step {step}" in text


def test_other_data_is_in_no_micro_step_of_the_reference(tmp_path: Path) -> None:
    npu = recorded(tmp_path / "npu", (0, 1), "statistics", shift=1)
    bench = recorded(tmp_path / "bench", (0, 1), "statistics")
    _, text = sentence(tmp_path, npu, bench)
    assert "other data was given" in text


class Scaled(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.linear, self.factor = nn.Linear(16, 16), factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = (self.linear(x) * self.factor).square().mean()
        return loss


def trained(
    folder: Path, passes: int, divided_by: float, factor: float = 1.0, *, multiplies: bool = False
) -> Path:
    """A step of a few passes, each loss of which is divided, or multiplied by the inverse."""
    torch.manual_seed(0)
    model = Scaled(factor)
    x = torch.randn(8, 16)

    def step() -> None:
        for _ in range(passes):
            loss = model(x)
            (loss * (1 / divided_by) if multiplies else loss / divided_by).backward()

    return record(folder, step, model).directory


@pytest.mark.parametrize("multiplies", [False, True])
def test_a_loss_divided_by_the_micro_steps_is_no_fault(tmp_path: Path, multiplies: bool) -> None:
    npu = trained(tmp_path / "npu", 1, 1, multiplies=multiplies)
    bench = trained(tmp_path / "bench", 2, 2, multiplies=multiplies)
    conclusion, text = sentence(tmp_path, npu, bench)
    assert conclusion == "undecided"
    assert "The debug run makes 1 micro-step, the reference 2." in text


def test_a_loss_divided_the_wrong_way_is_a_fault(tmp_path: Path) -> None:
    npu, bench = trained(tmp_path / "npu", 1, 4), trained(tmp_path / "bench", 2, 2)
    conclusion, text = sentence(tmp_path, npu, bench)
    assert conclusion == "fault"
    assert "Argument 1 is 4, 2 in the reference." in text


def test_a_factor_inside_of_a_module_is_no_share_of_the_micro_steps(tmp_path: Path) -> None:
    npu, bench = trained(tmp_path / "npu", 1, 1, factor=2.0), trained(tmp_path / "bench", 2, 2)
    conclusion, text = sentence(tmp_path, npu, bench)
    assert conclusion == "fault"
    assert "Argument 1 is 2.0, 1.0 in the reference." in text
