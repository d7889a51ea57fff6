"""Tables as Parquet that somebody else made."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.limits import MOST_ROWS
from msprobe_builder.files.parquet import read_parquet_rows

arrow: Any = pytest.importorskip("pyarrow")
parquet: Any = pytest.importorskip("pyarrow.parquet")
Make = Callable[[Path], object]


def written(**columns: Any) -> Make:
    return lambda path: parquet.write_table(arrow.table(columns), path, compression="zstd")


def cut(path: Path) -> None:
    written(a=[1, 2, 3], b=["x"] * 3)(path)
    path.write_bytes(path.read_bytes()[:-9])


def changed(path: Path) -> None:
    written(a=list(range(1000)), b=["x"] * 1000)(path)
    content = bytearray(path.read_bytes())
    content[4:60] = b"\xff" * 56
    path.write_bytes(content)


def a_folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (written(a=np.zeros(MOST_ROWS + 1, np.int8), b=np.zeros(MOST_ROWS + 1, np.int8)), "rows"),
        (written(a=[1]), "is no table"),
        (written(a=[1], c=["x"]), "is no table"),
        (cut, "is no table"),
        (changed, "is no table|cannot be read"),
        (lambda path: path.write_bytes(b""), "is no table"),
        (lambda path: path.write_bytes(b"PAR1" * 4), "is no table|cannot be read"),
        (os.mkfifo, "no regular file"),
        (a_folder, "a directory"),
        (lambda path: path.symlink_to("/dev/zero"), "no regular file"),
        (lambda path: path.symlink_to("nowhere"), "does not exist"),
    ],
)
def test_what_is_no_table_is_said(make: Make, said: str, tmp_path: Path) -> None:
    path = tmp_path / "values_step0.parquet"
    make(path)
    with pytest.raises(BuildError, match=said):
        for _ in read_parquet_rows(path, ("a", "b"), "table"):
            pass


def test_rows_come_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    written(b=["x", "y"], a=[1, 2], c=[None, None])(path)
    assert list(read_parquet_rows(path, ("a", "b"), "table")) == [(1, "x"), (2, "y")]
