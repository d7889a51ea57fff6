"""MindSpore dumps: their types and files, and what they can be compared with."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder import BuildConfig, BuildError, build
from msprobe_builder.base.options import BuildOptions
from tests.builder.metrics.small_dump import Record, call, tensor, write_dump, write_npy

CELL = "Cell.network.fc.Dense.forward.0"
ADD = "Mint.add.0.forward"
PARENTS: dict[str, str | None] = {ADD: CELL, CELL: None}


def _cell(
    directory: Path, output: list[float], *, task: str = "statistics", framework: str | None
) -> Path:
    def record(name: str, array: list[float]) -> Record:
        result = tensor(array, dtype="Float32", kind="mindspore.Tensor", data_name=f"{name}.npy")
        del result["requires_grad"]
        return result

    records = {
        name: call([record(f"{name}.in", [1.0, 2.0])], [record(f"{name}.out", output)])
        for name in (ADD, CELL)
    }
    write_dump(directory, records, task=task, framework=framework, parents=PARENTS)
    if task == "tensor":
        for name in records:
            write_npy(directory, f"{name}.in.npy", [1.0, 2.0])
            write_npy(directory, f"{name}.out.npy", output)
    return directory


def _torch(directory: Path, framework: str | None) -> Path:
    records = {"Torch.add.0.forward": call([], [tensor([1.0])])}
    return write_dump(directory, records, framework=framework)


@pytest.mark.parametrize("framework", ["mindspore", None])
@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_two_dumps_of_mindspore(tmp_path: Path, task: str, framework: str | None) -> None:
    npu = _cell(tmp_path / "npu", [3.0, 4.0], task=task, framework=framework)
    bench = _cell(tmp_path / "bench", [3.0, 5.0], task=task, framework=framework)
    built = build(BuildConfig(npu, bench), tmp_path / "out")
    with closing(sqlite3.connect(built.path)) as connection:
        nodes = connection.execute(
            "SELECT name, parent, error FROM node_view WHERE side = 'npu' AND parent IS NOT NULL"
        ).fetchall()
        [rows] = connection.execute(
            "SELECT count(*), min(dtype), max(requires_grad), max(requires_grad_equal),"
            " min(one_thousandth_ratio) FROM tensor_view WHERE side = 'npu'"
        ).fetchall()
    error = pytest.approx(0.2 if task == "statistics" else 0.5)
    assert nodes == [(CELL, "DefaultModel", error), (ADD, CELL, error)]
    assert rows == (4, "Float32", None, None, 0.5 if task == "tensor" else None)


@pytest.mark.parametrize("mindspore", ["mindspore", None])
@pytest.mark.parametrize("pytorch", ["pytorch", "mindtorch", None])
def test_mindspore_against_pytorch_by_names_alone_needs_layer_mapping(
    tmp_path: Path, mindspore: str | None, pytorch: str | None
) -> None:
    npu = _cell(tmp_path / "npu", [1.0], framework=mindspore)
    bench = _torch(tmp_path / "bench", pytorch)
    config = BuildConfig(npu, bench, options=BuildOptions(exact=True))
    with pytest.raises(BuildError) as raised:
        build(config, tmp_path / "out")
    assert str(raised.value) == (
        f"{npu} is a dump of mindspore and {bench} one of {pytorch or 'pytorch'}; "
        "compare them with --layer_mapping."
    )
    options = replace(BuildOptions(), layer_mapping=True)
    assert build(replace(config, options=options), tmp_path / "out").is_comparison


@pytest.mark.parametrize(("left", "right"), [("pytorch", "mindtorch"), (None, "pytorch")])
def test_frameworks_with_the_names_of_pytorch_are_compared(
    tmp_path: Path, left: str | None, right: str
) -> None:
    npu, bench = _torch(tmp_path / "npu", left), _torch(tmp_path / "bench", right)
    built: Any = build(BuildConfig(npu, bench), tmp_path / "out")
    assert built.grades["ok"] == 1
