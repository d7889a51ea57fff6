"""What SingleSave writes is what the table of saved tensors reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest
import torch

from msprobe_builder.command.main import main
from msprobe_collector import SingleSave
from msprobe_collector.errors import CollectorError


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    SingleSave._instance = None
    yield
    SingleSave._instance = None


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def run(folder: Path, change: float = 0.0) -> None:
    SingleSave._instance = None
    SingleSave(folder)
    for step in range(2):
        for micro in range(2):
            x = torch.full((2, 3), float(step + micro))
            SingleSave.save({"hidden": x + (change if step else 0.0), "pair": [x, x + 1]})
        SingleSave.step()


def test_files_lie_where_the_document_says(tmp_path: Path) -> None:
    run(tmp_path)
    expected = []
    for step in range(2):
        for micro in range(2):
            place = f"step{step}/rank0/micro_step{micro}"
            expected += [
                *(f"data/hidden/{place}/hidden.{suffix}" for suffix in ("json", "npy")),
                *(f"data/pair/{place}/pair.{one}" for one in ("0.npy", "1.npy", "json")),
            ]
    assert files(tmp_path) == sorted(expected)
    folder = tmp_path / "data" / "pair" / "step1" / "rank0" / "micro_step1"
    assert np.array_equal(np.load(folder / "pair.1.npy"), np.full((2, 3), 3.0, np.float32))
    [first, _] = json.loads((folder / "pair.json").read_text())["data"]
    norm = pytest.approx(2.0 * 6**0.5)
    assert first == {"max": 2.0, "min": 2.0, "mean": 2.0, "norm": norm, "shape": [2, 3]}


def test_the_table_names_the_first_that_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path / "npu", change=0.5)
    run(tmp_path / "bench")
    paths = {"npu_path": str(tmp_path / "npu"), "bench_path": str(tmp_path / "bench")}
    (tmp_path / "compare.json").write_text(json.dumps(paths))
    command = ["table", "-i", str(tmp_path / "compare.json"), "-o", str(tmp_path / "out")]
    assert main(command) == 0
    assert "step 1" in capsys.readouterr().out
    [book] = (tmp_path / "out").rglob("hidden*.xlsx")
    assert openpyxl.load_workbook(book).active is not None


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (torch.ones(2, dtype=torch.bfloat16), np.float32),
        (torch.ones(2, dtype=torch.float16), np.float16),
        (torch.arange(2), np.int64),
        (torch.ones(2, requires_grad=True), np.float32),
        (torch.tensor(True), np.bool_),
        (torch.empty(0), np.float32),
    ],
)
def test_types_are_kept_as_far_as_numpy_has_them(
    tmp_path: Path, value: torch.Tensor, dtype: type
) -> None:
    SingleSave(tmp_path)
    SingleSave.save_ex({"x": value})
    assert np.load(tmp_path / "data" / "x" / "step0" / "rank0" / "x.npy").dtype == dtype


@pytest.mark.parametrize("data", [[1], {"x": 1}, {"x": [1]}, {"../x": torch.ones(1)}, {3: 4}])
def test_what_cannot_be_saved_does_not_stop_the_training(tmp_path: Path, data: Any) -> None:
    SingleSave(tmp_path)
    SingleSave.save(data)
    assert not list(tmp_path.rglob("*.npy"))


def test_dictionaries_and_settings(tmp_path: Path) -> None:
    SingleSave(tmp_path)
    SingleSave.save_ex({"x": {"q": torch.ones(1), "k": torch.zeros(1)}}, micro_batch=4)
    SingleSave.save_config({"lr": 0.1})
    place = "data/x/step0/rank0/micro_step4"
    assert files(tmp_path) == [
        "configurations.json",
        *(f"{place}/x.{one}" for one in ("json", "k.npy", "q.npy")),
    ]


def test_without_a_path_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(CollectorError, match="call SingleSave"):
        SingleSave.save({"x": torch.ones(1)})
    with pytest.raises(CollectorError, match="fmk is 'jax'"):
        SingleSave(tmp_path, fmk="jax")
