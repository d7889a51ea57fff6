"""Which task two dumps are compared by, and what the database then says."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder import BuildConfig, BuildError, build
from tests.builder.metrics.small_dump import Record, call, tensor, write_dump, write_npy

NAME = "Torch.add.0.forward"


def _statistics(directory: Path) -> Path:
    return write_dump(directory, {NAME: call([tensor([1.0])], [tensor([2.0])])})


def _md5(directory: Path, checksum: str | None = "0a1b2c3d") -> Path:
    output: Record = tensor([2.0], md5=checksum)
    return write_dump(directory, {NAME: call([tensor([1.0], md5="00000001")], [output])})


def _tensor(directory: Path) -> Path:
    output = tensor([2.0], data_name="out.npy")
    write_dump(directory, {NAME: call([], [output])}, task="tensor")
    write_npy(directory, "out.npy", [2.0])
    return directory


def _structure(directory: Path) -> Path:
    return write_dump(directory, {}, task="structure", parents={NAME: None})


MAKERS = {
    "statistics": (_statistics, "holds statistics"),
    "md5": (_md5, "holds statistics with md5 checksums"),
    "tensor": (_tensor, "holds real data (task tensor)"),
    "structure": (_structure, "holds structure without data"),
}


def _query(database: Path, query: str) -> list[Any]:
    with closing(sqlite3.connect(database)) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.parametrize("compares", [True, False])
@pytest.mark.parametrize("task", MAKERS)
def test_the_task_comes_from_the_dumps(tmp_path: Path, task: str, compares: bool) -> None:
    make, _ = MAKERS[task]
    npu, bench = make(tmp_path / "npu"), make(tmp_path / "bench")
    built = build(BuildConfig(npu, bench if compares else None), tmp_path / "out")
    assert _query(built.path, "SELECT value FROM meta WHERE key = 'task'") == [(task,)]
    bands = _query(built.path, "SELECT name, low, high FROM grade ORDER BY grade")
    bounds: dict[str, list[float]] = {
        "statistics": [0, 0.2, 0.4, 0.6, 0.8, 1],
        "tensor": [0, 0.05, 0.1, 0.15, 0.2, 1],
        "md5": [0, 1, 1],
        "structure": [],
    }
    expected = bounds[task]
    words = ("ok", "severe") if task == "md5" else ("ok", "slight", "moderate", "serious", "severe")
    assert bands[0] == ("ungraded", None, None)
    assert bands[1:-1] == list(zip(words, expected[:-1], expected[1:], strict=False))
    assert bands[-1] == ("unmatched", None, None)
    graded = compares and task != "structure"
    assert built.grades["ok"] == graded
    assert _query(built.path, f"SELECT grade FROM node_view WHERE name = '{NAME}'") == (
        [("ok",), ("ungraded",)] if graded else [("ungraded",)] * (1 + compares)
    )


@pytest.mark.parametrize("bench", MAKERS)
@pytest.mark.parametrize("npu", MAKERS)
def test_mixed_kinds_are_refused(tmp_path: Path, npu: str, bench: str) -> None:
    if npu == bench:
        return
    (make, words), (make_other, other_words) = MAKERS[npu], MAKERS[bench]
    left, right = make(tmp_path / "npu"), make_other(tmp_path / "bench")
    with pytest.raises(BuildError) as raised:
        build(BuildConfig(left, right), tmp_path / "out")
    assert str(raised.value) == (
        f"{left} {words} and {right} {other_words}; compare dumps of the same kind."
    )
    assert not list((tmp_path / "out").glob("*"))


def test_other_tasks_are_refused(tmp_path: Path) -> None:
    npu = write_dump(tmp_path / "npu", {}, task="overflow_check", parents={NAME: None})
    with pytest.raises(BuildError, match=r"dump.json is of task 'overflow_check'; dump again"):
        build(BuildConfig(npu), tmp_path / "out")


def test_ranks_of_another_task_are_left_out(tmp_path: Path) -> None:
    for side in ("npu", "bench"):
        _statistics(tmp_path / side / "rank0")
        _md5(tmp_path / side / "rank1")
    built = build(BuildConfig(tmp_path / "npu", tmp_path / "bench"), tmp_path / "out", workers=1)
    [(place, reason)] = built.failed
    assert place.rank == 1
    assert "md5" in reason
    assert "statistics" in reason
    assert _query(built.path, "SELECT DISTINCT rank FROM graph") == [(0,)]


def test_md5_grades_by_equality_alone(tmp_path: Path) -> None:
    different, unknown, equal = "deadbeef", None, "0A1B2C3D"
    npu = _md5(tmp_path / "npu")
    for checksum, md5_equal, error in ((different, 0, 1), (unknown, None, 0), (equal, 1, 0)):
        bench = _md5(tmp_path / f"bench{checksum}", checksum)
        built = build(BuildConfig(npu, bench), tmp_path / "out", name=f"{checksum}.vis.db")
        rows = _query(
            built.path,
            "SELECT md5_equal, error, max_relative_err FROM tensor_view"
            " WHERE side = 'npu' AND direction = 'output'",
        )
        assert rows == [(md5_equal, None if md5_equal is None else error, 0.0)]
        nodes = _query(
            built.path, f"SELECT error, grade FROM node_view WHERE name = '{NAME}' AND side = 'npu'"
        )
        assert nodes == [(error, "severe" if error else "ok")]


@pytest.mark.parametrize("task", ["statistics", "md5", "structure"])
def test_torch_and_pandas_are_not_imported(tmp_path: Path, task: str) -> None:
    npu = MAKERS[task][0](tmp_path / "npu")
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from msprobe_builder import BuildConfig, build\n"
        f"npu = Path({str(npu)!r})\n"
        "build(BuildConfig(npu, npu), npu.parent / 'out')\n"
        "print(sorted({'torch', 'pandas'} & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert done.stdout == "[]\n"
