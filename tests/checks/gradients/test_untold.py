"""What was not recorded of gradients is told, and is no agreement."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from msprobe_checks.gradients.similarity import compare_gradients
from msprobe_checks.gradients.write import summary_lines

Row = tuple[str, str, float, float, float]  # name, checksum, max, min, norm
HEAD = "param_name,MD5,max,min,norm,shape"
EQUAL: Row = ("w", "aa", 0.5, -0.25, 1.0)
OTHER: Row = ("w", "bb", 0.5, -0.25, 1.0)
TURNED: Row = ("w", "bb", 0.25, -0.5, 1.0)


def record(folder: Path, steps: Sequence[Sequence[Row]], signs: bool = False) -> Path:
    for step, rows in enumerate(steps):
        place = folder / "rank0"
        (place / f"step{step}").mkdir(parents=True, exist_ok=True)
        lines = [f'{name},{md5},{high},{low},{norm},"[4]"' for name, md5, high, low, norm in rows]
        (place / f"grad_summary_{step}.csv").write_text("\n".join([HEAD, *lines]) + "\n")
        for name, *_ in rows if signs else ():
            np.save(place / f"step{step}" / f"{name}.npy", np.ones(4, dtype=bool))
    return folder


def said(folder: Path, a: Sequence[Sequence[Row]], b: Sequence[Sequence[Row]]) -> str:
    first, second = record(folder / "a", a), record(folder / "b", b)
    return summary_lines(compare_gradients(first, second))[-1]


def test_equal_checksums_are_equal_gradients(tmp_path: Path) -> None:
    assert "agree within the documented limits (2 compared)." in said(
        tmp_path, [[EQUAL]] * 2, [[EQUAL]] * 2
    )


def test_norms_alone_are_no_agreement(tmp_path: Path) -> None:
    line = said(tmp_path, [[EQUAL]] * 2, [[OTHER]] * 2)
    assert "cannot tell whether the gradients agree: all 2 norms do" in line


def test_what_is_told_of_some_is_not_said_of_all(tmp_path: Path) -> None:
    same = ("v", "cc", 1.0, 0.0, 1.0)
    line = said(tmp_path, [[EQUAL, same]], [[OTHER, same]])
    assert "(1 compared), but of 1 of 2 gradients no signs are recorded on both sides" in line


@pytest.mark.parametrize("missing", ["a", "b"])
def test_signs_that_one_side_lacks_are_missed(tmp_path: Path, missing: str) -> None:
    for name, row in (("a", EQUAL), ("b", OTHER)):
        record(tmp_path / name, [[row]], signs=name != missing)
    line = summary_lines(compare_gradients(tmp_path / "a", tmp_path / "b"))[-1]
    assert "cannot tell whether the gradients agree" in line


@pytest.mark.parametrize("first", [0, 1, 3])
def test_a_turned_sign_shows_in_the_extremes(tmp_path: Path, first: int) -> None:
    line = said(tmp_path, [[EQUAL]] * 4, [[EQUAL]] * first + [[TURNED]] * (4 - first))
    assert f"part at step {first}, rank 0, w: its largest and smallest element are" in line


def test_extremes_that_are_opposites_anyway_tell_nothing(tmp_path: Path) -> None:
    even, odd = ("w", "aa", 0.5, -0.5, 1.0), ("w", "bb", 0.5, -0.5, 1.0)
    assert "cannot tell whether the gradients agree" in said(tmp_path, [[even]], [[odd]])
