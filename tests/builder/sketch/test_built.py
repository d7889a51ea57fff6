"""Two dumps with sketches, compared as a user does it."""

from __future__ import annotations

import csv
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe_builder.command.main import main
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.across import read_across
from msprobe_builder.database.read.graphs import read_graphs
from msprobe_builder.database.read.measures import read_measures
from msprobe_builder.facts.fact import decode
from msprobe_builder.facts.wording import tell
from msprobe_builder.sketch.definition import NUMBERS
from msprobe_builder.sketch.layout import NAME
from tests.builder.sketch.sketched_dumps import Array, write_dump


def built(npu: Path, bench: Path, folder: Path) -> Path:
    request = {"npu_path": str(npu), "bench_path": str(bench)}
    (folder / "compare.json").write_text(json.dumps(request))
    assert main(["-i", str(folder / "compare.json"), "-o", str(folder / "out")]) == 0
    [path] = (folder / "out").glob("*.vis.db")
    return path


def compared(path: Path, columns: str) -> dict[str, Any]:
    """Columns of the view by the name of the call."""
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute(
            f"SELECT node, {columns} FROM tensor_view WHERE side = 'npu' AND direction = 'output'"
        ).fetchall()
    return {name.split(".")[1]: values for name, *values in rows}


def grades(path: Path) -> dict[str, str]:
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT name, grade FROM node_view WHERE side = 'npu'").fetchall()
    return {name.split(".")[1]: grade for name, grade in rows if "." in name}


def drawn(shape: tuple[int, ...], seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def swapped(array: Array, one: slice, other: slice) -> Array:
    result = array.copy()
    result[one], result[other] = array[other], array[one]
    return result


BASE = drawn((512, 64))
ROW = BASE.copy()
ROW[100] = drawn((64,), 5)
COLUMN = BASE.copy()
COLUMN[:, 9] *= 1.5
# What differs, its true relative difference, words, and the least grade.
KINDS: dict[str, tuple[Array, str]] = {
    "same": (BASE, ""),
    "noise": (BASE * (1 + 1e-7 * drawn(BASE.shape, 1)), ""),
    "heads": (
        swapped(BASE, slice(32, 64), slice(64, 96)),
        "rows 32–63 and 64–95 exchanged",
    ),
    "row": (ROW, "differs only in rows 96–127"),
    "column": (COLUMN, "differs only in columns 8–11"),
    "factor": (1.35 * BASE, "differs by nothing but a factor: 1.35 times the reference"),
    "offset": (BASE + np.float32(0.25), "differs by nothing but an offset of 0.25"),
    "shifted": (np.roll(BASE, 32, 0), "rows 0–511 shifted up by 32"),
    "other": (drawn(BASE.shape, 2), ""),
}


def test_each_kind_of_difference_is_measured_named_and_graded(tmp_path: Path) -> None:
    npu = write_dump(tmp_path / "npu", {name: array for name, (array, _) in KINDS.items()})
    bench = write_dump(tmp_path / "bench", dict.fromkeys(KINDS, BASE))
    path = built(npu, bench, tmp_path)
    found = compared(path, "relative_difference, cosine, factor_share, offset_share, note")
    graded = grades(path)
    for name, (array, words) in KINDS.items():
        relative, cosine, factor, offset, note = found[name]
        truth = float(np.linalg.norm(array - BASE) / np.linalg.norm(BASE))
        true_cosine = float((array * BASE).sum() / np.linalg.norm(array) / np.linalg.norm(BASE))
        assert relative == pytest.approx(truth, rel=0.6, abs=3e-7), name
        assert cosine == pytest.approx(true_cosine, abs=0.35), name
        assert tell(decode(note or "")) == words, name
        assert (factor > 0.99) == (name == "factor"), name
        assert (offset > 0.99) == (name == "offset"), name
        assert (graded[name] == "ok") == (truth < 1e-6), name


def test_shares_in_slices_stand_in_the_database(tmp_path: Path) -> None:
    npu = write_dump(tmp_path / "npu", {"row": ROW, "same": BASE})
    bench = write_dump(tmp_path / "bench", {"row": BASE, "same": BASE})
    with closing(sqlite3.connect(built(npu, bench, tmp_path))) as database:
        slices = [one for (one,) in database.execute("SELECT slices FROM comparison")]
    assert slices[1] is None
    assert slices[0][:16] == bytes([0, 0, 0, 255, *[0] * 12])  # row 100 is in 96 … 127
    assert abs(sum(slices[0][16:]) - 255) <= 8


# What stands in a sketch instead, whether its pair is compared by it, and what the build says.
HOSTILE: dict[str, tuple[dict[str, Any], bool, str]] = {
    "not a number": ({"numbers": np.nan}, False, ""),
    "infinite": ({"numbers": np.inf}, False, ""),
    "huge": ({"numbers": 3.4e38}, False, "foreign_sketch"),
    "all zero": ({"numbers": 0}, False, "foreign_sketch"),
    "of another tensor": ({"numbers": 100 * np.arange(NUMBERS)}, False, "foreign_sketch"),
    "counted NaN": ({"nans": 7}, True, ""),
    "counted infinities": ({"infinities": (1 << 32) - 1}, True, ""),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_numbers_touch_no_other_pair(case: str, tmp_path: Path) -> None:
    fields, is_told, code = HOSTILE[case]
    arrays = {"one": ROW, "bad": ROW, "two": COLUMN}
    reference = dict.fromkeys(arrays, BASE)
    npu = write_dump(tmp_path / "npu", arrays, instead={"bad": fields})
    bench = write_dump(tmp_path / "bench", reference)
    path = built(npu, bench, tmp_path)
    found = compared(path, "relative_difference, NULL, error, note")
    alone = tmp_path / "alone"
    alone.mkdir()
    good = compared(
        built(write_dump(alone / "npu", arrays), bench, alone), "relative_difference, error, note"
    )
    for name in ("one", "two"):
        assert found[name][0] == good[name][0]
    relative, error = found["bad"][0], found["bad"][2]
    # NaN on one side only is the worst there is; a sketch that tells nothing leaves statistics.
    assert (relative == "NaN") is is_told
    assert (error == 1.0) is is_told
    assert is_told or relative is None
    with closing(sqlite3.connect(path)) as database:
        codes = [one for (one,) in database.execute("SELECT code FROM diagnostic")]
    assert (code in codes) if code else ("foreign_sketch" not in codes)


PLACES_OF: dict[str, list[tuple[int, int, int, int]]] = {
    "positions that no record has": [(0, 1, 0, 0), (0, 1, 5, 1), (1, 0, 0, 1), (1, 1, 9, 0)],
    "sections that there are not": [(0, 1, 0, 0), (1, 77, 0, 1), (1, 4, 0, 1)],
    "fewer places than tensors": [(0, 1, 0, 0)],
}


@pytest.mark.parametrize("case", PLACES_OF)
def test_tensors_without_a_sketch_are_compared_by_their_statistics(
    case: str, tmp_path: Path
) -> None:
    npu = write_dump(tmp_path / "npu", {"one": ROW, "two": ROW}, places=PLACES_OF[case])
    bench = write_dump(tmp_path / "bench", {"one": BASE, "two": BASE})
    found = compared(built(npu, bench, tmp_path), "relative_difference, norm_relative_err")
    assert found["one"][0] > 0.01
    assert found["two"][0] is None
    assert found["two"][1] is not None


def test_another_shape_or_a_side_without_sketches_compares_statistics(tmp_path: Path) -> None:
    npu = write_dump(tmp_path / "npu", {"one": BASE, "two": ROW})
    bench = write_dump(tmp_path / "bench", {"one": BASE.reshape(64, 512), "two": BASE})
    found = compared(built(npu, bench, tmp_path), "relative_difference")
    assert found.get("one", [None]) == [None]
    assert found["two"][0] > 0.01
    (bench / NAME).unlink()
    other = tmp_path / "without"
    other.mkdir()
    assert compared(built(npu, bench, other), "relative_difference")["two"] == [None]


def test_every_way_out_of_a_file_tells_the_difference(tmp_path: Path) -> None:
    moved = KINDS["heads"][0]
    npu = write_dump(tmp_path / "npu", {"heads": moved, "same": BASE})
    bench = write_dump(tmp_path / "bench", {"heads": BASE, "same": BASE})
    path = built(npu, bench, tmp_path)
    [relative] = compared(path, "relative_difference")["heads"]
    words = "rows 32–63 and 64–95 exchanged"
    exported = tmp_path / "tensors.csv"
    assert main(["export", str(path), "--table", "tensors", "-o", str(exported)]) == 0
    with exported.open(encoding="utf-8") as file:
        [row] = [one for one in csv.DictReader(file) if "heads" in one["npu_node"]]
    assert float(row["relative_difference"]) == relative
    assert main(["table", str(path), "--own", "--format", "csv", "-o", str(tmp_path)]) == 0
    [table] = [one for one in tmp_path.glob("*.csv") if one != exported]
    with table.open(encoding="utf-8") as file:
        [line] = [one for one in csv.DictReader(file) if "heads" in one["NPU Name"]]
    assert float(line["Relative Difference"]) == relative
    assert words in line["Err_message"]
    assert line["Corrected Result"] == ("Warning" if relative > 0.5 else "")
    report = tmp_path / "report.html"
    assert main(["report", str(path), "-o", str(report)]) == 0
    text = report.read_text(encoding="utf-8")
    assert words in text
    assert "relative difference" in text
    with opened(path) as connection:
        [graph, *_] = read_graphs(connection)
        scaled = read_measures(connection, graph).scaled
        [across] = read_across(connection, "Torch.heads.0.forward", 0)
    assert scaled.max() == pytest.approx(relative)
    assert across.worst[-1] == relative
