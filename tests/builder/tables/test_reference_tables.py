"""Tables beside those that msprobe 8.3.3 wrote of the same dumps, cell by cell."""

from __future__ import annotations

import csv
import io
import lzma
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from msprobe_builder.database.open import opened
from msprobe_builder.database.read.executed import read_places
from msprobe_builder.database.read.meta import read_task
from msprobe_builder.tables.columns import columns_of
from msprobe_builder.tables.read import read_rows
from tests.conftest import REPOSITORY, BuildDatabase

REFERENCE = REPOSITORY / "tests" / "data" / "reference"
RUNS = {
    "statistics": ("llama_statistics_wrong_attention_scale", "llama_statistics"),
    "md5": ("llama_md5_wrong_attention_scale", "llama_md5"),
    "tensor": ("llama_tensor_wrong_attention_scale", "llama_tensor"),
    "nan": ("llama_statistics_nan_weight", "llama_statistics"),
}
# It reads the key "value" of a memory format, which has none; ours shows what the dump says.
FORMATS = {f"Torch.ones_like.{call}.forward.input.memory_format" for call in (0, 1)}
OF_FORMATS = {"NPU Dtype", "Bench Dtype", "NPU MD5", "BENCH MD5"}
OF_FORMATS |= {
    f"{side} {one}" for side in ("NPU", "Bench") for one in ("max", "min", "mean", "l2norm")
}
WORDS = {"Err_message", "mark"}  # compared apart


@dataclass(frozen=True)
class Tables:
    """Both tables, rows as cells by name of column, in their order."""

    theirs: list[dict[str, str]]
    ours: list[dict[str, object]]


@pytest.fixture(scope="module", params=RUNS)
def tables(
    request: pytest.FixtureRequest, dumps: Path, build_database: BuildDatabase
) -> tuple[str, Tables]:
    case: str = request.param
    text = lzma.decompress((REFERENCE / f"table_{case}.csv.xz").read_bytes()).decode()
    theirs = list(csv.DictReader(io.StringIO(text)))
    database = build_database(*(dumps / run / "step0" / "rank" for run in RUNS[case]))
    with opened(database) as connection:
        task = read_task(connection)
        columns = columns_of(task, stack="NPU_Stack_Info" in theirs[0])
        assert (*columns.names, "mark") == tuple(theirs[0])
        [place] = read_places(connection)
        ours: list[dict[str, object]] = [
            {**dict(zip(columns.names, row.cells, strict=True)), "mark": row.mark}
            for row in read_rows(connection, place, task, columns, marked=True)
        ]
    return case, Tables(theirs, ours)


def same(theirs: str, ours: object) -> bool:
    """Equal as text, or as numbers to nine digits; percent to 1e-9: it rounds on the way."""
    if theirs == str(ours):
        return True
    try:
        one, other = float(theirs.removesuffix("%")), float(str(ours).removesuffix("%"))
    except ValueError:
        return False
    step = 1e-9 if theirs.endswith("%") else 1e-12
    return abs(one - other) <= 1e-9 * max(abs(one), abs(other)) + step


def test_every_cell_is_the_same(tables: tuple[str, Tables]) -> None:
    case, found = tables
    ours = {str(row["NPU Name"]): row for row in found.ours}
    assert len(ours) == len(found.ours) == len(found.theirs)
    different: Counter[str] = Counter()
    for row in found.theirs:
        name = row["NPU Name"]
        for column, cell in row.items():
            if column in WORDS or (name in FORMATS and column in OF_FORMATS):
                continue
            if column == "NPU_Stack_Info" and ".backward." in name:
                continue  # ours is that of the forward call
            if case == "tensor" and column == "MaxRelativeErr" and cell != "unsupported":
                # It divides in the type of the tensor, float32 here.
                error = abs(float(cell) - float(str(ours[name][column])))
                different[column] += error > 1e-5 * abs(float(cell)) + 1e-7
                continue
            different[column] += not same(cell, ours[name][column])
    assert +different == Counter()


def test_order_of_execution_is_that_of_the_dump(tables: tuple[str, Tables]) -> None:
    """Of forward calls; gradients of parameters and backward modules stand where they ended."""

    def calls(rows: list[dict[str, str]] | list[dict[str, object]]) -> list[str]:
        names = (str(row["NPU Name"]) for row in rows)
        return [name for name in names if ".forward." in name]

    assert calls(tables[1].ours) == calls(tables[1].theirs)


def test_marks_follow_the_documented_rules(tables: tuple[str, Tables]) -> None:
    case, found = tables
    theirs = {row["NPU Name"]: row["mark"] for row in found.theirs}
    ours = {str(row["NPU Name"]): str(row["mark"]) for row in found.ours}
    if case == "nan":  # it marks nothing: its NaN is a text by then
        assert set(theirs.values()) == {""}
        overflowing = {
            row["NPU Name"]
            for row in found.theirs
            if {row["NPU max"], row["NPU min"]} & {"Nan", "inf", "-inf"}
        }
        assert {name for name, mark in ours.items() if mark == "red"} == overflowing
        return
    assert {name: mark for name, mark in ours.items() if mark} == {
        name: mark for name, mark in theirs.items() if mark
    }
    said = {str(row["NPU Name"]): row.get("Err_message", "") for row in found.ours}
    assert all(said[name] for name, mark in ours.items() if mark)
