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


NAN = float("nan")
BAD: Row = ("w", "dd", NAN, NAN, NAN)


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (("w", "bb", 0.5, -0.25, 1.0), "here its checksum differs."),
        (("w", "bb", 0.505, -0.25, 1.0), "checksum differs, and its max is 0.5 against 0.505."),
        (("w", "bb", 0.5, -0.253, 1.0), "checksum differs, and its min is -0.25 against -0.253."),
        (("w", "bb", 0.9, -0.25, 1.0), "w: its max is 0.5 against 0.9."),
        (("w", "bb", 0.5, -0.25, 2.0), "w: the norm is 0.5 times the other's"),
        (BAD, "w: the norm is not finite"),
    ],
)
def test_the_first_that_differs_behind_equal_ones_is_named(
    tmp_path: Path, second: Row, words: str
) -> None:
    line = said(tmp_path, [[EQUAL]] * 4, [[EQUAL]] * 2 + [[second]] * 2)
    assert line.startswith("Verdict   the runs part at step 2, rank 0, w: ")
    assert words in " ".join(line.split())


def test_runs_that_never_were_equal_do_not_part_by_a_checksum(tmp_path: Path) -> None:
    assert "cannot tell" in said(tmp_path, [[EQUAL]] * 3, [[OTHER]] * 3)


@pytest.mark.parametrize("has_signs", [True, False])
def test_a_step_with_nan_does_not_part_from_itself(tmp_path: Path, has_signs: bool) -> None:
    rows = [[EQUAL], [BAD], [EQUAL]]
    a, b = (record(tmp_path / one, rows, has_signs) for one in ("a", "b"))
    lines = summary_lines(compare_gradients(a, b))
    assert "agree within the documented limits" in lines[-1]
    assert any("hold NaN or infinity on rank 0, first in w at step 1" in one for one in lines)


def test_nan_in_one_record_alone_parts(tmp_path: Path) -> None:
    assert "part at step 1" in said(tmp_path, [[EQUAL], [BAD]], [[EQUAL]] * 2)


INFINITE: Row = ("w", "bb", np.inf, -np.inf, np.inf)
OTHERWISE: Row = ("w", "cc", NAN, NAN, NAN)
BESIDE: Row = ("v", "dd", 0.5, -0.25, 1.0)
BESIDE_TURNED: Row = ("v", "ee", 0.5, -0.25, 1.0)


@pytest.mark.parametrize("pair", [(BAD, BAD), (BAD, OTHERWISE), (BAD, INFINITE)])
def test_nan_on_both_sides_is_no_agreement(tmp_path: Path, pair: tuple[Row, Row]) -> None:
    line = said(tmp_path, [[pair[0]]], [[pair[1]]])
    assert "1 gradient holds NaN or infinity on both sides, which is not told apart; " in line
    assert "cannot tell whether the gradients agree: nothing of 1 gradient" in line


@pytest.mark.parametrize("pair", [(BAD, BAD), (BAD, OTHERWISE)])
def test_nan_on_both_sides_is_told_beside_what_agrees(
    tmp_path: Path, pair: tuple[Row, Row]
) -> None:
    line = said(tmp_path, [[pair[0], BESIDE]], [[pair[1], BESIDE]])
    assert "agree within the documented limits (1 compared), but 1 gradient holds NaN" in line


def test_nan_on_both_sides_is_told_beside_norms(tmp_path: Path) -> None:
    line = said(tmp_path, [[BAD, BESIDE]], [[BAD, BESIDE_TURNED]])
    assert "1 gradient holds NaN or infinity on both sides" in line
    assert "cannot tell whether the gradients agree: all 1 norms do" in line


def test_a_checksum_that_is_not_there_is_no_equal_one(tmp_path: Path) -> None:
    row: Row = ("w", "", 0.5, -0.25, 1.0)
    assert "cannot tell whether the gradients agree: all 1 norms do" in said(
        tmp_path, [[row]], [[row]]
    )
