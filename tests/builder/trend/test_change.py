"""How much tensors change from step to step, told by sketches, against the tensors themselves."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from msprobe_builder.trend.build import build_trend
from msprobe_collector import PrecisionDebugger
from tests.collector.recording import write_config

Tensors = dict[str, torch.Tensor]
Changes = dict[str, dict[int, object]]  # of a target, by step; None where there is none

BATCHES = (2, 2, 2, 3, 3)
NOT_FINITE = 4  # the step whose input holds NaN
SMALL, FROZEN, LARGE = "small", "frozen", "large"


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.small = nn.Linear(5, 4)  # its sketch holds the elements themselves
        nn.init.zeros_(self.small.bias)
        self.frozen = nn.Linear(4, 96).requires_grad_(False)
        self.large = nn.Linear(96, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.large(self.frozen(self.small(x)))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Tensors]]:
    """Dumps of five steps, and what each step saw."""
    path = tmp_path_factory.mktemp("steps")
    torch.manual_seed(3)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    debugger = PrecisionDebugger(config_path=write_config(path))
    seen: list[Tensors] = []
    for step, batch in enumerate(BATCHES):
        x = torch.randn(batch, 5)
        if step == NOT_FINITE:
            x[0, 0] = torch.nan
        seen.append(
            {"x": x, **{name: one.detach().clone() for name, one in net.named_parameters()}}
        )
        debugger.start(net)
        loss = net(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        debugger.stop()
        debugger.step()
        optimizer.step()
    debugger.close()
    return path / "dump", seen


def changes_of(source: Path, out: Path) -> Changes:
    report = build_trend(source, out, "run")
    with closing(sqlite3.connect(report.path)) as connection:
        rows = connection.execute("SELECT name, step, change FROM trend_view WHERE rank = 0")
        found: Changes = {}
        for name, step, change in rows:
            found.setdefault(name, {})[step] = change
    return found


def weight(name: str) -> str:
    return f"Module.{name}.Linear.0:parameters.weight"


def true_change(seen: list[Tensors], name: str, now: int, before: int) -> float:
    one, other = (seen[step][name].double().numpy() for step in (now, before))
    return float(np.linalg.norm(one - other) / np.linalg.norm(other))


def test_a_change_is_that_of_the_tensors(
    recorded: tuple[Path, list[Tensors]], tmp_path: Path
) -> None:
    dumps, seen = recorded
    found = changes_of(dumps, tmp_path)
    for name, near in ((SMALL, 1e-3), (LARGE, 0.5)):
        changes = found[weight(name)]
        assert changes[0] is None, "there is none before"
        wanted = [true_change(seen, f"{name}.weight", now, now - 1) for now in (1, 2, 3, 4)]
        assert min(wanted) > 1e-4
        assert [changes[now] for now in (1, 2, 3, 4)] == pytest.approx(wanted, rel=near)
    assert list(found[weight(FROZEN)].values()) == [None, 0, 0, 0, 0]
    assert found["Module.small.Linear.0:parameters.bias"][1] == np.inf, "from zero"


def test_other_shapes_have_no_change_and_nan_is_nan(
    recorded: tuple[Path, list[Tensors]], tmp_path: Path
) -> None:
    dumps, seen = recorded
    changes = changes_of(dumps, tmp_path)["Module.small.Linear.0:input.0"]
    wanted = [true_change(seen, "x", now, now - 1) for now in (1, 2)]
    assert [changes[1], changes[2]] == pytest.approx(wanted, rel=1e-3)
    assert (changes[0], changes[3], changes[4]) == (None, None, "NaN")


def without_step(dumps: Path) -> None:
    shutil.rmtree(dumps / "step1")


def without_sketches(dumps: Path) -> None:
    [file] = (dumps / "step1").rglob("sketch.bin")
    file.unlink()


@pytest.mark.parametrize(
    ("lose", "before"), [(without_step, {2: 0, 3: 2}), (without_sketches, {3: 2})]
)
def test_the_step_before_is_the_last_one_that_was_recorded(
    recorded: tuple[Path, list[Tensors]],
    tmp_path: Path,
    lose: Callable[[Path], None],
    before: dict[int, int],
) -> None:
    dumps, seen = recorded
    shutil.copytree(dumps, tmp_path / "dump")
    lose(tmp_path / "dump")
    changes = changes_of(tmp_path / "dump", tmp_path)[weight(SMALL)]
    told = {step: change for step, change in changes.items() if change is not None and step < 4}
    wanted = {now: true_change(seen, "small.weight", now, then) for now, then in before.items()}
    assert told == pytest.approx(wanted, rel=1e-3)


def test_each_rank_is_told_by_its_own_steps(
    recorded: tuple[Path, list[Tensors]], tmp_path: Path
) -> None:
    """Rank 1 has what rank 0 had a step later."""
    dumps, seen = recorded
    for step in (0, 1):
        for rank in (0, 1):
            [place] = (file.parent for file in (dumps / f"step{step + rank}").rglob("dump.json"))
            shutil.copytree(place, tmp_path / "dump" / f"step{step}" / f"rank{rank}")
    report = build_trend(tmp_path / "dump", tmp_path, "run")
    with closing(sqlite3.connect(report.path)) as connection:
        rows = connection.execute(
            "SELECT rank, step, change FROM trend_view WHERE name = ? AND change IS NOT NULL",
            (weight(SMALL),),
        ).fetchall()
    wanted = {rank: true_change(seen, "small.weight", 1 + rank, rank) for rank in (0, 1)}
    assert [step for _, step, _ in rows] == [1, 1], "the first step has none"
    assert {rank: change for rank, _, change in rows} == pytest.approx(wanted, rel=1e-3)
