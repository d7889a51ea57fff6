"""Averages that a normalisation keeps, of which nothing comes in the step that moves them."""

# mypy: disable-error-code="no-untyped-call"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from msprobe_builder import BuildConfig, build
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import Verdict, read_verdict
from msprobe_collector import PrecisionDebugger


def recorded(folder: Path, momentum: float, noise: float) -> Path:
    """Two steps of a training whose second normalisation moves its averages by ``momentum``."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(
            *(nn.Linear(12, 24), nn.BatchNorm1d(24), nn.GELU()),
            *(nn.Linear(24, 24), nn.BatchNorm1d(24, momentum=momentum), nn.GELU()),
            nn.Linear(24, 4),
        )
        data = torch.randn(2, 32, 12)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    debugger = PrecisionDebugger(dump_path=folder, task="statistics", level="mix")
    for batch in data * (1 + noise * torch.linspace(-1, 1, 12)):
        debugger.start(model=model)
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        debugger.stop()
        debugger.step()
    PrecisionDebugger.close()
    return folder


def verdict_of(folder: Path, momentum: float, noise: float, *, plainly: bool) -> Verdict:
    """On statistics alone where ``plainly``."""
    npu, bench = recorded(folder / "npu", momentum, noise), recorded(folder / "bench", 0.1, 0.0)
    for name in ("sketch.bin", "flow.bin") if plainly else ():
        for file in folder.rglob(name):
            file.unlink()
    built = build(BuildConfig(npu, bench), folder / "out")
    with opened(built.path) as connection:
        verdict = read_verdict(connection)
    assert verdict is not None
    return verdict


@pytest.mark.parametrize("plainly", [False, True])
@pytest.mark.parametrize("noise", [0.0, 1e-6])
def test_averages_that_are_moved_otherwise_are_told(
    noise: float, plainly: bool, tmp_path: Path
) -> None:
    """Behind weights that noise has moved nothing may be certain."""
    verdict = verdict_of(tmp_path, 0.3, noise, plainly=plainly)
    assert verdict.conclusion == "fault" or (noise and verdict.conclusion == "undecided")
    assert verdict.suspects[0].node == "Functional.batch_norm.1.forward"


@pytest.mark.parametrize("plainly", [False, True])
@pytest.mark.parametrize("noise", [0.0, 1e-6])
def test_averages_that_noise_has_moved_are_no_others(
    noise: float, plainly: bool, tmp_path: Path
) -> None:
    verdict = verdict_of(tmp_path, 0.1, noise, plainly=plainly)
    assert (verdict.conclusion, verdict.suspects) == ("clean", ())
