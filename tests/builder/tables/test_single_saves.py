"""Trees of arrays that were saved under tags, compared tag by tag."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from msprobe_builder.command.main import main

HEAD = [
    *("step", "rank", "micro_step", "id", "shape1", "shape2"),
    *("相同元素百分比(%)", "首个不匹配元素索引", "最大绝对误差", "最大相对误差"),
    *("误差在千分之一内元素占比(%)", "误差在百分之一内元素占比(%)"),
]


def save(root: Path, tag: str, name: str, array: object, micro: int = 0, rank: int = 0) -> Path:
    directory = root / "data" / tag / "step0" / f"rank{rank}" / f"micro_step{micro}"
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{tag}{name}.npy"
    np.save(path, np.asarray(array))
    return path


def compare(folder: Path) -> tuple[int, dict[str, list[list[str]]]]:
    config = folder / "compare.json"
    config.write_text(json.dumps({f"{s}_path": str(folder / s) for s in ("npu", "bench")}))
    out = folder / "out"
    status = main(["table", "-i", str(config), "-o", str(out), "--format", "csv", "--quiet"])
    tables = {}
    for path in sorted(out.iterdir()):
        with path.open(newline="", encoding="utf-8") as stream:
            tables[path.stem] = list(csv.reader(stream))
    return status, tables


def test_each_tag_has_a_table_with_the_documented_columns(tmp_path: Path) -> None:
    for side, scale in (("npu", 1.005), ("bench", 1.0)):
        exact = np.array([[1.0, 2.0], [3.0, 4.0]])
        save(tmp_path / side, "loss", "", [2.0])
        save(tmp_path / side, "logits", ".0", exact)
        other = exact.copy()
        other[1] *= scale
        save(tmp_path / side, "logits", ".10", other)
        save(tmp_path / side, "logits", ".2", exact, micro=1, rank=3)
    status, tables = compare(tmp_path)
    assert status == 0
    assert list(tables) == ["logits", "loss"]
    head, *rows = tables["logits"]
    assert head == HEAD
    assert [row[:4] for row in rows] == [
        ["0", "0", "0", "0"], ["0", "0", "0", "10"], ["0", "3", "1", "2"],
    ]  # fmt: skip
    assert rows[0][4:] == ["[2, 2]", "[2, 2]", "100.0", "", "0.0", "0.0", "100.0", "100.0"]
    same, first, absolute, relative, thousandth, hundredth = rows[1][6:]
    assert (same, first, thousandth, hundredth) == ("50.0", "2", "50.0", "100.0")
    assert float(absolute) == pytest.approx(0.02)
    assert float(relative) == pytest.approx(0.005 / 1.005)


def test_what_differs_in_shape_or_has_no_number_is_compared_as_far_as_it_goes(
    tmp_path: Path,
) -> None:
    for name, npu, bench in (
        (".0", [1.0, 2.0, 3.0], [1.0, 2.0]),
        (".1", [[1.0, 2.0]], [1.0, 2.0]),
        (".2", [np.nan, np.inf], [np.nan, -np.inf]),
        (".3", [0.0, 1.0], [np.nan, 1.0]),
        (".4", np.zeros((0, 3)), np.zeros((0, 3))),
    ):
        save(tmp_path / "npu", "x", name, npu)
        save(tmp_path / "bench", "x", name, bench)
    save(tmp_path / "npu", "x", ".5", [1.0])
    _, tables = compare(tmp_path)
    rows = {row[3]: row[4:] for row in tables["x"][1:]}
    whole = ["100.0", "", "0.0", "0.0", "100.0", "100.0"]
    assert rows["0"] == ["[3]", "[2]", *whole]
    assert rows["1"] == ["[1, 2]", "[2]", *whole]
    assert rows["2"][2:] == ["50.0", "1", "inf", "inf", "50.0", "50.0"]
    assert rows["3"][2:] == ["50.0", "0", "inf", "inf", "50.0", "50.0"]
    assert rows["4"][2:] == whole
    assert rows["5"] == ["[1]", "N/A", *["N/A"] * 6]


def test_large_arrays_are_read_in_pieces(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    bench = random.standard_normal((70, 1000))
    npu = np.concatenate([bench, bench[:1]])  # one row more
    npu[69, 999] += 1.0
    save(tmp_path / "npu", "x", "", npu)
    save(tmp_path / "bench", "x", "", bench)
    _, tables = compare(tmp_path)
    _, row = tables["x"]
    assert row[7] == str(70 * 1000 - 1)
    assert float(row[8]) == pytest.approx(1.0)
    assert float(row[6]) == pytest.approx(100 * (1 - 1 / 70_000))


def test_a_hostile_file_is_left_out_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for side in ("npu", "bench"):
        save(tmp_path / side, "x", ".0", [1.0])
        save(tmp_path / side, "x", ".1", np.array([object()], dtype=object))
        save(tmp_path / side, "x", ".2", [1.0]).write_bytes(b"\x93NUMPY")
    status, tables = compare(tmp_path)
    assert status == 3
    assert [row[6] for row in tables["x"][1:]] == ["100.0", "N/A", "N/A"]
    said = capsys.readouterr().err
    assert said.count("An array was left out: ") == 4
    file = tmp_path / "npu" / "data" / "x" / "step0" / "rank0" / "micro_step0" / "x.1.npy"
    assert f"An array was left out: {file}: x.1.npy" in said  # and why


def test_trees_without_a_common_tag_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(tmp_path / "npu", "a", "", [1.0])
    save(tmp_path / "bench", "b", "", [1.0])
    config = tmp_path / "compare.json"
    config.write_text(json.dumps({f"{s}_path": str(tmp_path / s) for s in ("npu", "bench")}))
    assert main(["table", "-i", str(config), "-o", str(tmp_path / "out")]) == 1
    assert "no tag in common" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
