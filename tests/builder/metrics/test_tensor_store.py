"""Tensors that lie in one file, written by hand and read back; damaged ones are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe_builder.metrics.tensor_file import TensorFileError, open_tensor

NUMBERS = np.arange(6, dtype=np.float32).reshape(2, 3)
ENTRY = {"offset": 64, "dtype": "torch.float32", "shape": [2, 3]}


def store(path: Path, entry: Any) -> Path:
    (path / "tensors.bin").write_bytes(bytes(64) + NUMBERS.tobytes())
    (path / "index.json").write_text(json.dumps({"x.pt": entry}))
    return path


def test_a_tensor_is_found_by_its_name(tmp_path: Path) -> None:
    found = open_tensor(store(tmp_path, ENTRY), "x.pt")
    assert found.shape == (2, 3)
    assert found.piece((...,)).tolist() == NUMBERS.ravel().tolist()


def test_types_of_torch_are_read_bit_by_bit(tmp_path: Path) -> None:
    # 1.5 and -2 in bfloat16 are the upper halves of the same numbers in float32.
    halves = np.array([0x3FC0, 0xC000], np.uint16)
    (tmp_path / "tensors.bin").write_bytes(halves.tobytes())
    entry = {"offset": 0, "dtype": "torch.bfloat16", "shape": [2]}
    (tmp_path / "index.json").write_text(json.dumps({"x.pt": entry}))
    assert open_tensor(tmp_path, "x.pt").piece((...,)).tolist() == [1.5, -2]


@pytest.mark.parametrize("shape", [[], [0, 4]])
def test_scalars_and_empty_tensors(shape: list[int], tmp_path: Path) -> None:
    found = open_tensor(store(tmp_path, {**ENTRY, "shape": shape}), "x.pt")
    assert found.shape == tuple(shape)
    assert found.piece((...,)).size == (0 if shape else 1)


@pytest.mark.parametrize(
    "change",
    [
        {"offset": -64},
        {"offset": 65},
        {"offset": True},
        {"offset": None},
        {"shape": [2, -3]},
        {"shape": [1 << 40, 1 << 40]},
        {"shape": "23"},
        {"dtype": "torch.object"},
        {"dtype": "O"},
        {"dtype": 3},
    ],
)
def test_a_damaged_index_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(TensorFileError) as problem:
        open_tensor(store(tmp_path, {**ENTRY, **change}), "x.pt")
    assert problem.value.code == "unreadable"


def test_a_tensor_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(TensorFileError) as problem:
        open_tensor(store(tmp_path, ENTRY), "y.pt")
    assert problem.value.code == "missing"


def test_an_index_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    store(elsewhere, ENTRY)
    here = tmp_path / "here"
    here.mkdir()
    (here / "index.json").symlink_to(elsewhere / "index.json")
    (here / "tensors.bin").symlink_to(elsewhere / "tensors.bin")
    with pytest.raises(TensorFileError) as problem:
        open_tensor(here, "x.pt")
    assert problem.value.code == "unreadable"
