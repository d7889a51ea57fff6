"""Optimizers that share parameters out over the ranks, against one that has all on each."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.worded import worded

pytest.importorskip("torch.distributed.optim")

from msprobe_builder import BuildConfig, build
from msprobe_builder.merge.ranks.layout import parse_layout
from tests.builder.merge.sharded_training import RANK, Job, dump_all

FAULTS = ("rate", "decay", "beta", "doubled", "stale")
JOBS = [
    *(Job("none", is_foreach=each) for each in (False, True)),
    *(Job("slices", fault) for fault in ("none", *FAULTS)),
    *(Job("whole", fault) for fault in ("none", "rate", "decay", "beta", "doubled")),
    *(Job("whole", fault, is_foreach=True) for fault in ("none", "rate", "decay")),
]
# What is said of the rank with the fault: where to look, and why.
TOLD = {
    "rate": ("mul_", "It is given 0.9985; the reference gives 0.999"),
    "decay": ("mul_", "The rank never gives it 0.999, as the reference does."),
    "beta": ("lerp_", "It is given 0.5; the reference gives 0.1 to the function."),
    "doubled": ("", "No update of the reference has input."),
    "stale": ("mul_", "The rank never calls add_, addcdiv_, addcmul_, lerp_"),
}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[Job, dict[int, tuple[str, str]]]:
    folder = tmp_path_factory.mktemp("sharded")
    dump_all(folder, JOBS)
    return {job: verdict(folder, job) for job in JOBS if job.parts != "none"}


def verdict(folder: Path, job: Job) -> dict[int, tuple[str, str]]:
    layout = parse_layout({"rank_size": 2, "tp": 1, "pp": 1}, "")
    reference = Job("none", is_foreach=job.is_foreach)
    npu, bench = (folder / one.folder / "dump" / "step0" for one in (job, reference))
    config = BuildConfig(npu, bench, npu_layout=layout, bench_layout=layout)
    result = build(config, folder / "out" / job.folder, workers=1)
    with closing(sqlite3.connect(result.path)) as connection:
        rows = worded(
            connection.execute(
                "SELECT rank, conclusion, sentence FROM verdict WHERE rank IS NOT NULL"
            )
        )
    return {rank: (conclusion, sentence) for rank, conclusion, sentence in rows}


def faulty(parts: str) -> list[Job]:
    return [job for job in JOBS if job.parts == parts and job.fault != "none"]


@pytest.mark.parametrize("job", [*faulty("whole"), *faulty("slices")], ids=str)
def test_the_rank_that_updates_otherwise_is_told(
    job: Job, verdicts: dict[Job, dict[int, tuple[str, str]]]
) -> None:
    where, why = TOLD[job.fault]
    conclusion, sentence = verdicts[job][RANK]
    assert conclusion == "undecided"  # its parts are others, so nothing is certain
    assert sentence.startswith("Nothing certain; look first at ")
    place, _, told = sentence.partition(": ")
    assert where in place
    assert why in told
    assert "although everything before it agrees" not in sentence


@pytest.mark.parametrize("job", [one for one in JOBS if one.parts != "none"], ids=str)
def test_nobody_is_told_without_a_fault(
    job: Job, verdicts: dict[Job, dict[int, tuple[str, str]]]
) -> None:
    for rank, (conclusion, sentence) in verdicts[job].items():
        if job.fault != "none" and rank == RANK:
            continue
        assert sentence.startswith("No fault beyond rounding in ")
        assert "goes through other parts of parameters than the reference" in sentence
        # Nobody recorded what a slice could be compared with; of whole parameters all is known.
        is_open = job.parts == "slices"
        assert conclusion == ("undecided" if is_open else "clean")
        assert ("are slices and were not compared." in sentence) == is_open
