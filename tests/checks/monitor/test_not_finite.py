"""NaN in both runs is told beside an agreement, and micro-batches do not hide it."""

from __future__ import annotations

import math
from itertools import permutations
from pathlib import Path

import pytest

from msprobe_builder.trend.reference_monitor import reference_rows
from msprobe_checks.monitor.compare import compare_monitors
from msprobe_checks.monitor.explain import verdict

HEAD = "step,kind,name,norm,mean,max,min,zeros,nans,count"
BATCHES = ("1,0,1,-1,0,0", "nan,nan,nan,nan,0,4", "2,0,3,-2,0,0")
GOOD, BAD, INFINITE = "1,0.5,2,-1,0,0,8", "nan,nan,nan,nan,0,2,8", "inf,0.5,inf,-1,0,0,8"


def record(folder: Path, rows: list[str]) -> Path:
    place = folder / "monitor" / "rank0"
    place.mkdir(parents=True)
    lines = [f"{step},weight,w,{row}" for step, row in enumerate(rows)]
    (place / "values_step0.csv").write_text("\n".join([HEAD, *lines]) + "\n")
    return folder


@pytest.mark.parametrize(
    ("rows", "agreeing", "count", "step"),
    [
        ([GOOD, BAD], "agree within 0.01 at steps 0 to 1 (1 row)", "1 row", 1),
        ([BAD, BAD], "cannot tell whether the runs agree: no row", "2 rows", 0),
        ([INFINITE], "cannot tell whether the runs agree: no row", "1 row", 0),
        ([GOOD, INFINITE, BAD], "agree within 0.01 at steps 0 to 2 (1 row)", "2 rows", 1),
        ([GOOD, GOOD, INFINITE], "agree within 0.01 at steps 0 to 2 (2 rows)", "1 row", 2),
    ],
)
def test_what_is_nan_in_both_runs_is_told(
    rows: list[str], agreeing: str, count: str, step: int, tmp_path: Path
) -> None:
    a, b = record(tmp_path / "a", rows), record(tmp_path / "b", rows)
    words = f"both hold NaN or infinity in {count}, first in the weight of w of step {step}."
    said = verdict(compare_monitors(a, b))
    assert words in said
    assert agreeing in said


def test_finite_runs_agree_without_more_words(tmp_path: Path) -> None:
    a, b = record(tmp_path / "a", [GOOD]), record(tmp_path / "b", [GOOD])
    assert verdict(compare_monitors(a, b)).endswith("(1 row).")


def test_nan_in_one_run_alone_is_a_departure(tmp_path: Path) -> None:
    a, b = record(tmp_path / "a", [GOOD, BAD]), record(tmp_path / "b", [GOOD, GOOD])
    assert "part at step 1" in verdict(compare_monitors(a, b))


@pytest.mark.parametrize("order", permutations(BATCHES))
def test_nan_of_one_micro_batch_is_that_of_the_step(order: tuple[str, ...], tmp_path: Path) -> None:
    folder = tmp_path / "a_01-01-01-rank0-x"
    folder.mkdir()
    lines = [f'0,a.w,0,{row},"[4]"' for row in order]
    head = "vpp_stage,name,step,norm,mean,max,min,zeros,nans,shape"
    (folder / "grad_reduced_0-9.csv").write_text("\n".join([head, *lines]) + "\n")
    [row] = reference_rows(folder)
    assert all(math.isnan(value) for value in row[3:7])
    assert row[8] == 4
