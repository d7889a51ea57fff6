"""Records of the reference tool's monitor as CSV: ``*-rank0-*/grad_reduced_0-99.csv``, ….

Its numbers have six decimals, so that small ones have few digits. Read is what the collector's
monitor records as well: outputs, weights before the update, gradients, states of the optimizer.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.limits import LARGEST_JSON
from msprobe_builder.files.regular import opened_table

ROUNDING = 1e-6  # a unit of the last decimal
_DIRECTORY = re.compile(r"\w+_\d\d-\d\d-\d\d-rank(\d{1,9})-\w+\Z")
_FILE = re.compile(r"([a-z_]+)_(\d{1,9})-\d{1,9}\.csv\Z")
_STATE = "optimizer_state"
# In the order in which a step comes by them.
_KINDS = {
    "param_origin": "weight",
    "actv": "activation",
    "grad_unreduced": "local_gradient",
    "grad_reduced": "gradient",
    "exp_avg": _STATE,
    "exp_avg_sq": _STATE,
}
_COLUMNS = {"vpp_stage", "name", "step", "shape"}
_OUTPUT = ".output"


def rank_of(directory: Path) -> int | None:
    """Whose record a directory holds; None when it is none of the reference tool's."""
    name = _DIRECTORY.match(directory.name)
    if name is None or not directory.is_dir():
        return None
    return int(name[1]) if any(_metric(entry) for entry in directory.iterdir()) else None


def reference_rows(directory: Path) -> Iterator[Sequence[Any]]:
    """Step, kind, name, the six statistics and the count of each record, step by step.

    Micro-batches are taken together. BuildError for a file that is none.
    """
    found: dict[tuple[int, str, str], list[float]] = {}
    for path in sorted(directory.iterdir(), key=lambda one: one.name):
        metric = _metric(path)
        for step, name, numbers in _lines(path) if metric else ():
            kind = _KINDS[metric]
            if kind == "activation":
                if not name.endswith(_OUTPUT):
                    continue
                name = name.removesuffix(_OUTPUT)
            if kind == _STATE:  # read before the update, so that it is of the step before
                step, name = step - 1, f"{name}:{metric}"
            key = (step, kind, name)
            found[key] = _together(found[key], numbers) if key in found else numbers
    order = {kind: place for place, kind in enumerate(_KINDS.values())}
    for key in sorted(found, key=lambda one: (one[0], order[one[1]])):
        square, total, high, low, zeros, nans, count = found[key]
        mean = total / count if count else math.nan
        yield (*key, math.sqrt(square), mean, high, low, zeros, nans, int(count))


def _metric(path: Path) -> str:
    name = _FILE.match(path.name)
    return name[1] if name and name[1] in _KINDS and path.is_file() else ""


def _lines(path: Path) -> Iterator[tuple[int, str, list[float]]]:
    with opened_table(path, LARGEST_JSON) as file:
        rows = csv.DictReader(file)
        if not set(rows.fieldnames or ()) >= _COLUMNS:
            raise BuildError(f"{path} is no record of a monitor: its columns are others.")
        for place, row in enumerate(rows, start=2):
            try:
                stage = int(row["vpp_stage"])
                name = f"{stage}.{row['name']}" if stage else row["name"]
                yield int(row["step"]), name, _numbers(row)
            except (ValueError, TypeError, AttributeError, OverflowError) as error:
                raise BuildError(f"{path} is damaged in line {place}; remove it.") from error


def _numbers(row: Mapping[str, str]) -> list[float]:
    """Squares, sum, maximum, minimum, zeros, NaN and count; what was not asked for is NaN."""
    count = math.prod(int(one) for one in row["shape"].strip("[]").split(",") if one.strip())
    norm, mean, high, low, zeros, nans = (
        float(row.get(one) or "nan") for one in ("norm", "mean", "max", "min", "zeros", "nans")
    )
    zeros = float(round(zeros * count)) if math.isfinite(zeros) else zeros  # a share there
    return [norm**2, mean * count, high, low, zeros, nans, count]


def _together(one: list[float], other: list[float]) -> list[float]:
    added = [a + b for a, b in zip(one, other, strict=True)]
    # As torch does: where one part holds NaN, the extremes of all are NaN.
    high, low = float(np.maximum(one[2], other[2])), float(np.minimum(one[3], other[3]))
    return [*added[:2], high, low, *added[4:]]
