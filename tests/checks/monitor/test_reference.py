"""What the reference tool's monitor wrote of a training is what that training computes."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import re
import shutil
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest
import torch
from torch import nn

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.command.main import main
from msprobe_checks.monitor.compare import compare_monitors
from msprobe_checks.monitor.explain import verdict
from msprobe_collector import PrecisionDebugger

DATA = Path(__file__).parents[2] / "data" / "reference" / "monitor_8.3.3.tar.xz"


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.emb = nn.Embedding(16, 8)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
            for _ in range(2)
        )
        self.head = nn.Linear(8, 16)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        inner = self.emb(words)
        for block in self.blocks:
            inner = inner + block(inner)
        logits: torch.Tensor = self.head(inner)
        return logits


def train(directory: Path, factor: float = 1.0) -> Path:
    """As it was recorded, four steps; from step 2 on gradients are ``factor`` times as large."""
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    debugger = PrecisionDebugger(None, "monitor", directory)
    debugger.monitor(model)
    for step in range(4):
        words = torch.randint(0, 16, (4, 6), generator=torch.Generator().manual_seed(step))
        nn.functional.cross_entropy(model(words).flatten(0, 1), words.flatten()).backward()
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.grad.mul_(factor if step >= 2 else 1.0)
        optimizer.step()
        optimizer.zero_grad()
    PrecisionDebugger.close()
    return directory


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    with tarfile.open(DATA) as archive:
        archive.extractall(tmp_path / "reference", filter="data")
    return tmp_path / "reference"


def test_it_agrees_with_the_same_training(tmp_path: Path, recorded: Path) -> None:
    comparison = compare_monitors(train(tmp_path / "run"), recorded)
    assert verdict(comparison) == (
        "the runs agree within 0.01 at steps 0 to 3 (322 rows), "
        "but 34 rows stand in one run only and were not compared."
    )
    [pair] = comparison.ranks
    # Of the last step the reference has no state of the optimizer: it reads it before updates.
    parameters = len(list(Model().parameters()))
    called = len(list(Model().modules())) - 1  # but for the list of blocks
    assert len(pair.step) == 4 * (3 * parameters + called) + 3 * 2 * parameters
    assert pair.only_first == (("learning_rate", "group0"),)
    assert pair.only_second == ()


def test_a_cause_is_named_against_it(tmp_path: Path, recorded: Path) -> None:
    found = verdict(compare_monitors(train(tmp_path / "run", 2.0), recorded))
    assert found.startswith(
        "the runs part at step 2, rank 0: the gradient before the update of emb.weight has 2 times"
    )
    assert found.endswith("reduction, scaling, clipping.")


def test_it_becomes_a_trend(tmp_path: Path, recorded: Path) -> None:
    assert main(["trend", str(recorded), "-o", str(tmp_path / "out")]) == 0
    [path] = (tmp_path / "out").glob("*.trend.db")
    with closing(sqlite3.connect(path)) as database:
        found = database.execute(
            "SELECT norm, zeros FROM trend_view"
            " WHERE kind = 'gradient' AND name = 'emb.weight' AND step = 1"
        ).fetchall()
    assert found == [(0.183071, 16)]  # 0.125 of 128 values


def test_two_records_of_a_rank_and_a_damaged_line_are_one_sentence(recorded: Path) -> None:
    [directory] = recorded.iterdir()
    path = directory / "grad_reduced_1-1.csv"
    text = path.read_text()
    head, line = text.splitlines()[:2]
    for wrong in (text.replace("0.183071", "much"), f"{head}\n{line[:20]}\n"):
        path.write_text(wrong)
        with pytest.raises(BuildError, match=re.escape(f"{path} is damaged in line 2; remove it.")):
            compare_monitors(recorded, recorded)
    path.write_bytes(bytes(99))
    with pytest.raises(BuildError, match=re.escape(f"{path} is no record of a monitor: its")):
        compare_monitors(recorded, recorded)
    shutil.copytree(directory, recorded / directory.name.replace("Nov25", "Nov26"))
    with pytest.raises(UsageError, match=r"two records of rank 0, .*; give a directory with"):
        compare_monitors(recorded, recorded)
