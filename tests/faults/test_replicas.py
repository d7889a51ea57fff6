"""Replicas whose gradients PyTorch averages unseen: who is wrong is named, and nobody else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from msprobe_builder import BuildConfig, BuildOptions, build
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import Verdict, read_verdict
from tests.collector.processes import run_in
from tests.faults.programs.replicas import Run, work

pytestmark = pytest.mark.slow

SEVERAL = Run(micro=2)
SHARING = Run(shares_updates=True)
RUNS = {
    "several": SEVERAL,
    "kept": SEVERAL._replace(keeps=True),
    "sharing": SHARING,
    "sharing_worn": SHARING._replace(is_worn=True),
}


def _record(rank: int, folder: str) -> None:
    for name, run in RUNS.items():
        work(rank, f"{folder}/{name}", run)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    folder = tmp_path_factory.mktemp("replicas")
    run_in(2, _record, str(folder))
    run_in(1, work, f"{folder}/whole", Run(micro=4))
    return folder


def _judged(folder: Path, run: str, other: str, output: Path) -> Verdict:
    options = BuildOptions(allow_missing=True)
    config = BuildConfig(folder / run / "dump", folder / other / "dump", options=options)
    with opened(build(config, output, workers=1).path) as connection:
        verdict = read_verdict(connection)
    assert verdict is not None
    return verdict


def _strong(verdict: Verdict) -> set[tuple[int, int, str]]:
    """Step, rank and cause of those that are sure."""
    return {(one.step, one.rank, one.cause) for one in verdict.suspects if one.strength == "strong"}


def test_gradients_hold_what_a_wrong_rank_has_added(recorded: Path, tmp_path: Path) -> None:
    verdict = _judged(recorded, "sharing_worn", "sharing", tmp_path)
    assert _strong(verdict) == {(0, 1, "weight")}
    assert "1.down" in verdict.suspects[0].node


def test_gradients_that_were_kept_are_told_where_they_are_read(
    recorded: Path, tmp_path: Path
) -> None:
    verdict = _judged(recorded, "kept", "several", tmp_path)
    assert _strong(verdict) == {(1, 0, "external"), (1, 1, "external")}
    assert "it is what passes and ranks have added up" in verdict.sentence


@pytest.mark.parametrize("runs", [("several", "whole"), ("whole", "several")])
def test_each_side_divides_by_the_passes_it_makes(
    runs: tuple[str, str], recorded: Path, tmp_path: Path
) -> None:
    verdict = _judged(recorded, *runs, tmp_path)
    assert _strong(verdict) == set()
    assert "micro-steps, the reference" in verdict.sentence
