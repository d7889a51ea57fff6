"""docs/metrics.md and docs/design/metrics.md against the code: names, edge cases, colours."""

from __future__ import annotations

import re
from dataclasses import astuple
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe_builder.base.codes import METRICS, Grade
from msprobe_builder.dump.task import Task
from msprobe_builder.metrics.elementwise import tensor_errors
from msprobe_builder.metrics.grading import PROFILES
from msprobe_builder.metrics.statistics import statistic_errors
from msprobe_builder.metrics.tensor_file import PIECE, StoredTensor
from msprobe_builder.operators.operator import Kind
from msprobe_builder.operators.table import rows

DOCS = Path(__file__).parents[2] / "docs"
TEXT = "".join((DOCS / name).read_text("utf-8") for name in ("metrics.md", "design/metrics.md"))
# Metrics of the user's document beside those that hold numbers.
FLAGS = ("md5_equal", "requires_grad_equal", "error")


def _tables() -> dict[str, list[list[str]]]:
    """Rows of each table by its header line."""
    result: dict[str, list[list[str]]] = {}
    for block in re.findall(r"(?:^\|.*\|\n)+", TEXT, flags=re.M):
        lines = block.splitlines()
        cells = [
            [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]
        ]
        result.setdefault(lines[0], []).extend(cells)
    return result


def _value(cell: str) -> Any:
    """A value of an edge case: numbers, nan, inf, lists of them."""
    return eval(cell.strip("`"), {"__builtins__": {}, "nan": nan, "inf": inf})  # noqa: S307


TABLES = _tables()
DEFINITIONS = TABLES["| name | column | formula | unit | range |"]
STATISTICS = TABLES["| n | b | diff | relative error | why |"]
REAL_DATA = next(rows for head, rows in TABLES.items() if "EucDist" in head)


def test_every_metric_column_is_defined_once() -> None:
    columns = [row[1].strip("`") for row in DEFINITIONS]
    assert sorted(columns) == sorted((*METRICS, *FLAGS))
    assert all(all(row) for row in DEFINITIONS)


@pytest.mark.parametrize("row", STATISTICS, ids=" ".join)
def test_edge_cases_of_statistics(row: list[str]) -> None:
    n, b, diff, relative = (_value(cell) for cell in row[:4])
    found = statistic_errors(np.array([n]), np.array([b]))
    assert [one.item() for one in found] == pytest.approx([diff, relative], nan_ok=True)


@pytest.mark.parametrize("row", REAL_DATA, ids=" ".join)
def test_edge_cases_of_real_data(row: list[str]) -> None:
    npu, bench = (np.array(_value(cell)) for cell in row[:2])
    expected = [float(cell.replace("∞", "inf")) for cell in row[2:]]
    n, b = StoredTensor(npu.shape, npu), StoredTensor(bench.shape, bench)
    found = astuple(tensor_errors([(n.piece((...,)), b.piece((...,)))]))
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-30, nan_ok=True)


def test_ranges_and_colours_are_those_of_the_profiles() -> None:
    rows = TABLES["| grade | statistics | real data | md5 | colour |"]
    assert {row[0] for row in rows} == {grade.name.lower() for grade in Grade}
    for task, column in ((Task.STATISTICS, 1), (Task.TENSOR, 2), (Task.MD5, 3)):
        bands = {band.name: band for band in PROFILES[task]}
        for row in rows:
            name, cell, colour = row[0], row[column], row[4].strip("`")
            if cell == "–":
                assert name not in bands
                continue
            assert bands[name].colour == colour
            bounds = [float(number) for number in re.findall(r"[\d.]+", cell)]
            assert bounds == [x for x in (bands[name].low, bands[name].high) if x is not None]


def test_constants_are_those_of_the_code() -> None:
    assert f"{PIECE:,} elements" in TEXT
    assert all(f"`{one.name}`" in TEXT for one in rows() if one.kind is Kind.EMPTY)
