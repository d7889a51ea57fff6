"""What is to be recorded next is recorded as it is written, and the next verdict says more."""

# mypy: disable-error-code="no-untyped-call"
# torch is typed in part only.

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from msprobe_builder import BuildConfig, build
from msprobe_builder.command.main import main
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import Verdict, read_verdict
from msprobe_builder.facts.wording import tell
from msprobe_collector import PrecisionDebugger

STEPS = 4
FACTOR = 2.0  # that the size may be off by


@dataclass(frozen=True)
class Run:
    """A training; what differs from the reference stands here."""

    seed: int = 0
    fast_from: int = STEPS  # the step whose update is ten times too large
    is_turned: bool = False  # the data in the other order
    skipped: int = STEPS  # the step of which the second micro-step is left out
    with_update: bool = False  # the optimizer stands between start and stop
    first: int = 0


GOOD = Run()


def train(run: Run, folder: Path, **options: Any) -> Path:
    """Record a few steps of a small network into a folder."""
    torch.manual_seed(run.seed)
    network = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    data = torch.randn(STEPS, 2, 5, 6, generator=torch.Generator().manual_seed(1))
    if run.is_turned:
        data = data.flip(0)
    debugger = PrecisionDebugger(dump_path=folder, **options)
    try:
        for step in range(STEPS):
            if step >= run.first:
                debugger.start(network)
            for micro in range(1 if step == run.skipped else 2):
                network(data[step, micro]).square().mean().backward()
            if not run.with_update:
                debugger.stop()
            optimizer.param_groups[0]["lr"] = 1.0 if step >= run.fast_from else 0.1
            optimizer.step()
            debugger.stop()
            optimizer.zero_grad()
            debugger.step()
    finally:
        debugger.close()
    return folder


def judged(npu: Path, bench: Path, out: Path) -> tuple[Path, Verdict]:
    """The database of two runs, and its verdict."""
    path = build(BuildConfig(npu, bench), out, workers=1).path
    with opened(path) as connection:
        verdict = read_verdict(connection)
    assert verdict is not None
    return path, verdict


def first_look(tmp_path: Path, run: Run, good: Run = GOOD, **options: Any) -> tuple[Path, Verdict]:
    """What is told of a whole recording of both."""
    named = {"level": "mix", "task": "statistics"} | options
    npu, bench = (
        train(one, tmp_path / name, **named) for name, one in (("npu", run), ("bench", good))
    )
    return judged(npu, bench, tmp_path / "out")


def second_look(tmp_path: Path, path: Path, record: Callable[[str, Path], Path]) -> Verdict:
    """What is told of what the first verdict wanted to be recorded, of the size that it told."""
    config = tmp_path / "config.json"
    assert main(["verdict", str(path), "--next-config", str(config)]) == 0
    with opened(path) as connection:
        verdict = read_verdict(connection)
    assert verdict is not None
    assert verdict.next_dump is not None
    assert json.loads(config.read_text("utf-8")) == verdict.next_dump["config"]
    npu, bench = (record(str(config), tmp_path / f"next_{name}") for name in ("npu", "bench"))
    size = sum(one.stat().st_size for one in npu.rglob("*") if one.is_file())
    assert size / FACTOR < verdict.next_dump["expected_bytes"] < size * FACTOR
    return judged(npu, bench, tmp_path / "next_out")[1]


def test_weights_that_change_between_steps_lead_to_the_optimizer(tmp_path: Path) -> None:
    path, verdict = first_look(tmp_path, Run(fast_from=1))
    assert (verdict.suspects[0].cause, verdict.first_bad_step) == ("update", 2)
    assert "moved 10 times as far" in verdict.suspects[0].evidence
    assert verdict.next_dump is not None
    assert verdict.next_dump["config"]["step"] == [1, 2]
    assert "between start() and stop()" in tell(verdict.remark)
    runs = {"next_npu": Run(fast_from=1, with_update=True), "next_bench": Run(with_update=True)}
    second = second_look(
        tmp_path, path, lambda config, folder: train(runs[folder.name], folder, config_path=config)
    )
    assert second.first_bad_step == 1
    assert second.suspects[0].cause == "argument"
    assert "is -1, -0.1 in the reference" in second.suspects[0].evidence.replace(".0", "")


def test_weights_that_differ_before_the_recording_lead_to_earlier_steps(tmp_path: Path) -> None:
    path, verdict = first_look(tmp_path, Run(fast_from=0, first=2), Run(first=2))
    assert verdict.first_bad_step == 2
    assert verdict.next_dump is not None
    assert verdict.next_dump["config"]["step"] == [0, 1]
    runs = {"next_npu": Run(fast_from=0, with_update=True), "next_bench": Run(with_update=True)}
    second = second_look(
        tmp_path, path, lambda config, folder: train(runs[folder.name], folder, config_path=config)
    )
    assert second.first_bad_step == 0


def test_runs_that_began_otherwise_need_no_more_records(tmp_path: Path) -> None:
    path, verdict = first_look(tmp_path, Run(seed=1))
    assert verdict.suspects[0].cause == "weights"
    assert verdict.next_dump is None
    config = tmp_path / "config.json"
    assert main(["verdict", str(path), "--next-config", str(config)]) == 1
    assert not config.exists()


def test_a_call_outside_of_all_modules_is_recorded_alone(tmp_path: Path) -> None:
    path, verdict = first_look(tmp_path, Run(is_turned=True))
    assert verdict.suspects[0].node == "Tensor.__getitem__.0.forward"
    assert verdict.next_dump is not None
    listed = verdict.next_dump["config"]["tensor"]["list"]
    assert "Tensor.__getitem__.0." in listed
    assert not any(name.startswith("Module") for name in listed)
    runs = {"next_npu": Run(is_turned=True), "next_bench": GOOD}
    second = second_look(
        tmp_path, path, lambda config, folder: train(runs[folder.name], folder, config_path=config)
    )
    # Elements tell what statistics could not: the call was given other data.
    assert (second.suspects[0].node, second.suspects[0].cause) == (
        "Tensor.__getitem__.0.forward",
        "external",
    )


def test_structure_leads_to_statistics(tmp_path: Path) -> None:
    path, verdict = first_look(tmp_path, Run(fast_from=1), task="structure")
    assert verdict.conclusion == "undecided"
    second = second_look(
        tmp_path, path, lambda config, folder: train(GOOD, folder, config_path=config)
    )
    assert second.conclusion == "clean"


@pytest.mark.parametrize("skipped", [1, 2])
def test_a_micro_step_that_is_missing_in_a_step_before_is_pointed_at(
    tmp_path: Path, skipped: int
) -> None:
    _, verdict = first_look(tmp_path, Run(skipped=skipped))
    assert verdict.suspects[0].step == skipped + 1
    said = (
        f"Look at step {skipped} first: calls of Module.0.Linear there are 1, 2 in the reference."
    )
    assert said in verdict.suspects[0].evidence
    assert "The step before agrees" not in verdict.suspects[0].evidence
