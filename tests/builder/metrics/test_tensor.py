"""Real data end to end: files in, metrics and notes out."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe_builder import BuildConfig, BuildError, build
from msprobe_builder.metrics.tensor_file import TensorFileError, open_tensor
from tests.builder.metrics.small_dump import Record, call, tensor, write_dump, write_npy
from tests.worded import worded

NAME = "Functional.gelu.0.forward"


def _dump(directory: Path, arrays: dict[str, Any], **replaced: Any) -> Path:
    """One call with one output per array, stored under ``name.npy``."""
    outputs = [tensor(array, data_name=f"{name}.npy", **replaced) for name, array in arrays.items()]
    write_dump(directory, {NAME: call([], outputs)}, task="tensor")
    for name, array in arrays.items():
        write_npy(directory, f"{name}.npy", array)
    return directory


def _rows(database: Path, columns: str) -> list[Any]:
    with closing(sqlite3.connect(database)) as connection:
        query = f"SELECT {columns} FROM tensor_view WHERE side = 'npu' ORDER BY ordinal"
        return worded(connection.execute(query))


def _build(tmp_path: Path, npu: Path, bench: Path) -> Any:
    return build(BuildConfig(npu, bench), tmp_path / "out", name="a.vis.db")


def test_all_metrics_are_stored(tmp_path: Path) -> None:
    npu = _dump(tmp_path / "npu", {"a": [1.0, 2.0, 4.0], "b": [1.0, 1.0]})
    bench = _dump(tmp_path / "bench", {"a": [1.0, 2.0, 2.0], "b": [1.0, 1.0]})
    built = _build(tmp_path, npu, bench)
    columns = (
        "cosine, euclidean_distance, max_abs_err, max_elementwise_relative_err,"
        "one_thousandth_ratio, five_thousandths_ratio, max_relative_err, error, note"
    )
    first, second = _rows(built.path, columns)
    cosine = 13 / (21**0.5 * 3)
    assert first[:8] == pytest.approx((cosine, 2, 2, 1, 2 / 3, 2 / 3, 1, 1 / 3))
    assert second == (1, 0, 0, 0, 1, 1, 0, 0, None)


def test_files_that_cannot_be_compared_get_a_note_and_a_diagnostic(tmp_path: Path) -> None:
    names = ("gone", "damaged", "shape", "good")
    arrays = {name: np.ones(4) for name in names}
    npu, bench = _dump(tmp_path / "npu", arrays), _dump(tmp_path / "bench", arrays)
    (npu / "dump_tensor_data" / "gone.npy").unlink()
    (bench / "dump_tensor_data" / "damaged.npy").write_bytes(b"\x93NUMPY")
    write_npy(bench, "shape.npy", np.ones(5))
    built = _build(tmp_path, npu, bench)
    rows = _rows(built.path, "note, cosine, error")
    assert [note and note.partition(":")[0] for note, _, _ in rows] == [
        *("missing", "unreadable", "shape", None)
    ]
    assert [value for _, *value in rows] == [[None, None]] * 3 + [[1.0, 0.0]]
    assert {(d.code, d.count, d.side) for d in built.diagnostics} == {
        ("tensor_missing", 1, 0),
        ("tensor_unreadable", 1, 1),
        ("tensor_shape", 1, None),
    }


def test_tensors_that_were_never_saved_are_not_called_missing(tmp_path: Path) -> None:
    """What msprobe_collector writes of sparse tensors: a record without the name of a file."""
    record = {NAME: call([], [tensor([1.0])])}
    sides = [write_dump(tmp_path / side, record, task="tensor") for side in ("npu", "bench")]
    for directory in sides:
        (directory / "dump_tensor_data").mkdir()
    built = _build(tmp_path, *sides)
    assert _rows(built.path, "note") == [("unsaved: debug, dump.json names no file",)]
    assert [(d.code, d.count) for d in built.diagnostics] == [("tensor_unsaved", 1)]


@pytest.mark.skipif("os.geteuid() != 0", reason="only root can become somebody without rights")
@pytest.mark.parametrize("closed", ["a.npy", "."])
def test_a_file_that_may_not_be_read_is_not_called_damaged(closed: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "dump_tensor_data"
        data.mkdir()
        np.save(data / "a.npy", np.ones(2))
        Path(folder).chmod(0o755)
        (data / closed).chmod(0o600)
        os.seteuid(65534)
        try:
            with pytest.raises(TensorFileError, match=r"a\.npy may not be read") as refused:
                open_tensor(data, "a.npy")
        finally:
            os.seteuid(0)
    assert refused.value.code == "denied"


def test_hostile_file_names_are_not_opened(tmp_path: Path) -> None:
    secret = tmp_path / "secret.npy"
    np.save(secret, np.ones(2))
    records = []
    for name in ("../secret.npy", str(secret), "sub/x.npy"):
        records.append(tensor(np.ones(2), data_name=name))
    sides = []
    for side in ("npu", "bench"):
        directory = write_dump(tmp_path / side, {NAME: call([], records)}, task="tensor")
        (directory / "dump_tensor_data").mkdir()
        sides.append(directory)
    built = _build(tmp_path, *sides)
    notes = _rows(built.path, "note, cosine")
    assert all(note.startswith("refused:") and value is None for note, value in notes)
    assert [(d.code, d.count) for d in built.diagnostics] == [("tensor_refused", 3)]


def test_a_dump_without_its_files_is_still_built(tmp_path: Path) -> None:
    record: dict[str, Record] = {NAME: call([], [tensor([1.0], data_name="a.npy")])}
    npu = write_dump(tmp_path / "npu", record, task="tensor")
    bench = write_dump(tmp_path / "bench", record, task="tensor")
    built = _build(tmp_path, npu, bench)
    assert _rows(built.path, "note, max_relative_err") == [
        ("missing: debug, the dump has no dump_tensor_data", 0.0)
    ]
    assert built.grades["ungraded"] == 2  # nothing is known of the call


def test_large_tensors_in_threads_equal_small_ones(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    arrays = {str(i): random.normal(size=(3, 120_000)) for i in range(3)}
    npu = _dump(tmp_path / "npu", arrays)
    bench = _dump(tmp_path / "bench", {k: v * (1 + 0.002 * (v > 0)) for k, v in arrays.items()})
    built = build(BuildConfig(npu, bench), tmp_path / "out", name="a.vis.db", workers=2)
    rows = _rows(built.path, "one_thousandth_ratio, five_thousandths_ratio")
    for (one, five), array in zip(rows, arrays.values(), strict=True):
        assert one == pytest.approx((array <= 0).mean())
        assert five == 1.0


def test_without_torch_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    records = {NAME: call([], [tensor([1.0], data_name="a.pt")])}
    npu = write_dump(tmp_path / "npu", records, task="tensor")
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from pathlib import Path\n"
        "from msprobe_builder import BuildConfig, BuildError, build\n"
        f"npu = Path({str(npu)!r})\n"
        "try:\n    build(BuildConfig(npu, npu), npu.parent / 'out')\n"
        "except BuildError as error:\n    print(error)\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout
    assert shown == (f"{npu} holds .pt files, which torch reads; install torch 2.10 or newer.\n")
    assert not list(tmp_path.glob("out/*"))


def test_an_old_torch_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch, "__version__", "2.9.1+cpu")
    records = {NAME: call([], [tensor([1.0], data_name="a.pt")])}
    npu = write_dump(tmp_path / "npu", records, task="tensor")
    with pytest.raises(BuildError, match=r"^torch 2.9.1\+cpu cannot read .* safely; install "):
        _build(tmp_path, npu, npu)
