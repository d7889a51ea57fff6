"""A compiled function is given sizes ahead of its tensors once they have changed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe_builder import BuildConfig, build
from tests.builder.metrics.small_dump import call, number, tensor, write_dump
from tests.worded import worded

COMPILED = "Torch.CompiledFunction.0.forward"


def _pairs(tmp_path: Path, npu: list[Any], bench: list[Any]) -> tuple[dict[str, str], list[Any]]:
    """Which input of the partner each tensor is compared with, and what the verdict says."""
    outputs = [tensor(np.arange(6.0))]
    debug, reference = (
        write_dump(tmp_path / side, {COMPILED: call(inputs, outputs)})
        for side, inputs in (("npu", npu), ("bench", bench))
    )
    built = build(BuildConfig(debug, reference), tmp_path / "out", name="a.vis.db")
    with closing(sqlite3.connect(built.path)) as connection:
        pairs = connection.execute(
            "SELECT name, matched FROM tensor_view"
            " WHERE side = 'npu' AND direction = 'input' AND matched IS NOT NULL"
        )
        return dict(pairs), worded(connection.execute("SELECT conclusion, sentence FROM verdict"))


ROWS = tensor(np.arange(24.0).reshape(4, 6))
COLUMN = tensor(np.arange(4.0).reshape(4, 1) - 7)


@pytest.mark.parametrize("sizes", range(3))
@pytest.mark.parametrize("others", range(3))
def test_tensors_behind_sizes_belong_together(tmp_path: Path, sizes: int, others: int) -> None:
    ahead, there = ([number(4 + one) for one in range(count)] for count in (sizes, others))
    pairs, verdict = _pairs(tmp_path, [*ahead, ROWS, COLUMN], [*there, ROWS, COLUMN])
    assert pairs == {f"input.{sizes + one}": f"input.{others + one}" for one in range(2)}
    assert "tensor where the other has none" not in str(verdict)


def test_a_tensor_that_is_lacking_is_no_size(tmp_path: Path) -> None:
    """As much must follow: here the second tensor is left out, so places count."""
    pairs, verdict = _pairs(tmp_path, [number(4), ROWS], [ROWS, COLUMN])
    assert pairs == {"input.1": "input.1"}
    assert "tensor where the other has none" in str(verdict)


def test_what_follows_the_tensors_keeps_its_place(tmp_path: Path) -> None:
    pairs, verdict = _pairs(tmp_path, [ROWS, number(4), COLUMN], [ROWS, COLUMN, number(4)])
    assert pairs == {"input.0": "input.0"}
    assert "tensor where the other has none" in str(verdict)
