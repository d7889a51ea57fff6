"""Records of gradients: ``rank*/grad_summary_*.csv`` and the signs beside them."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.limits import HIGHEST_NUMBER, LARGEST_TEXT_FILE
from msprobe_builder.files.arrays import mapped_array
from msprobe_builder.files.regular import opened_table
from msprobe_checks.gradients.file_names import plain_name

_SUMMARY = re.compile(r"grad_summary_(\d{1,9})\.csv\Z")
_MOST_ELEMENTS = 1 << 62
_RANK = re.compile(r"rank_?(\d{1,9})\Z")


@dataclass(frozen=True)
class Gradient:
    """One row of a summary."""

    name: str
    high: float
    low: float
    norm: float
    shape: tuple[int, ...]
    checksum: str | None


@dataclass(frozen=True)
class RankRecord:
    """What one rank recorded: the summary file of each step."""

    directory: Path
    steps: dict[int, Path]


def read_ranks(path: Path) -> dict[int, RankRecord]:
    """The ranks of a record; UsageError when there are none."""
    if not path.is_dir():
        raise UsageError(f"{path} is no directory; give the dump_path of a gradient record.")
    found = {}
    for entry in sorted(path.iterdir()):
        name = _RANK.match(entry.name)
        if name and entry.is_dir() and int(name[1]) <= HIGHEST_NUMBER:
            found[int(name[1])] = RankRecord(entry, _steps(entry))
    if not any(record.steps for record in found.values()):
        raise UsageError(f"{path} holds no rank*/grad_summary_*.csv; record with task grad_probe.")
    return found


def _steps(directory: Path) -> dict[int, Path]:
    names = {
        int(found[1]): entry
        for entry in directory.iterdir()
        if (found := _SUMMARY.match(entry.name)) and entry.is_file()
    }
    return dict(sorted(names.items()))


def read_summary(path: Path) -> dict[str, Gradient]:
    """The rows of a step by parameter, in order; BuildError when the file is damaged."""
    try:
        with opened_table(path, LARGEST_TEXT_FILE) as file:
            rows = [
                {key.lower(): value for key, value in row.items() if key}
                for row in csv.DictReader(file)
            ]
        return {row["param_name"]: _gradient(row) for row in rows}
    except OSError as error:
        raise BuildError(f"Cannot read {path}: {error.strerror}.") from error
    except (KeyError, ValueError, TypeError, AttributeError, csv.Error) as error:
        raise BuildError(
            f"{path} is damaged: it is no table with the columns param_name, max, min, norm, shape."
        ) from error


def _gradient(row: Mapping[str, str]) -> Gradient:
    shape = row["shape"].strip()
    if not re.fullmatch(r"\[[0-9, ]*\]|torch\.Size\(\[[0-9, ]*\]\)", shape):
        raise ValueError(shape)
    sizes = tuple(int(size) for size in re.findall(r"\d+", shape))
    if prod(sizes) > _MOST_ELEMENTS:
        raise ValueError(shape)
    return Gradient(
        row["param_name"],
        float(row["max"]),
        float(row["min"]),
        float(row["norm"]),
        sizes,
        row.get("md5") or None,  # an empty cell is no checksum
    )


def read_signs(
    record: RankRecord, step: int, gradient: Gradient
) -> tuple[NDArray[np.bool_], NDArray[np.bool_] | None] | None:
    """Which elements are positive and which negative (None where the file does not tell).

    None without a file; BuildError when it does not fit the summary.
    """
    stem = plain_name(gradient.name)
    count = prod(gradient.shape)
    for suffix in ("", ".bits"):
        path = record.directory / f"step{step}" / f"{stem}{suffix}.npy"
        if path.is_file():
            content = _array(path)
            if suffix:
                if content.dtype != np.uint8 or content.shape != (2, (count + 7) // 8):
                    raise BuildError(
                        f"{path} is damaged: it does not fit the shape in its summary."
                    )
                positive, negative = (
                    np.unpackbits(one, count=count).astype(bool) for one in content
                )
                return positive, negative
            if content.dtype != np.bool_ or content.size != count:
                raise BuildError(f"{path} is damaged: it does not fit its summary.")
            return content.reshape(-1), None
    return None


def read_sketch(record: RankRecord, step: int, name: str) -> NDArray[np.float64] | None:
    """The sketch of a gradient's direction, where one was recorded."""
    path = record.directory / f"step{step}" / f"{plain_name(name)}.sketch.npy"
    if not path.is_file():
        return None
    content = _array(path)
    if content.dtype != np.float32 or content.ndim != 1:
        raise BuildError(f"{path} is damaged: it holds no sketch.")
    return content.astype(np.float64)


def _array(path: Path) -> NDArray[Any]:
    try:
        return mapped_array(path)
    except (OSError, ValueError, EOFError) as error:
        raise BuildError(f"{path} is damaged: it is no array of numpy.") from error
