"""Records of a monitor: ``monitor/rank*/values_step*.csv`` or ``.parquet``, or the reference's."""

from __future__ import annotations

import base64
import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.limits import HIGHEST_NUMBER, LARGEST_JSON
from msprobe_builder.base.texts import storable
from msprobe_builder.files.parquet import read_parquet_rows
from msprobe_builder.files.regular import opened_table, read_part
from msprobe_builder.sketch.definition import FLAT
from msprobe_builder.trend.reference_monitor import ROUNDING, rank_of, reference_rows

# In the order in which a step comes by them.
KINDS = (
    *("weight", "input", "activation", "activation_gradient", "local_gradient", "communication"),
    *("gradient", "learning_rate", "optimizer_state", "updated_weight"),
)
STATISTICS = ("norm", "mean", "max", "min", "zeros", "nans")
_COLUMNS = ("step", "kind", "name", *STATISTICS, "count")
_SKETCH = "sketch"
_COUNT = len(STATISTICS)  # its place behind the name
_VALUES = re.compile(r"values_step(\d{1,9})\.(csv|parquet)\Z")
_RANK = re.compile(r"rank(\d{1,9})\Z")
# What goes between two ranks: beside the rows of calls, for checks of one run.
PAIR = re.compile(r"(.+) (given to|got from) (\d{1,9})\Z")
_ORDER = {kind: place for place, kind in enumerate(KINDS)}


@dataclass(frozen=True)
class RankValues:
    """What one rank recorded, a row for each step, kind and name, in the order of the steps.

    ``target`` is a place in ``targets``; ``values`` has a column for each of ``STATISTICS``.
    """

    targets: tuple[tuple[str, str], ...]  # kind and name
    step: NDArray[np.int64]
    target: NDArray[np.int64]
    values: NDArray[np.float64]
    count: NDArray[np.int64]
    rounding: float = 0.0  # by which a number may be off, because so few decimals were written
    sketch: NDArray[np.float32] | None = None  # (rows, FLAT), NaN where a row has none

    def rows(self, kept: NDArray[Any]) -> RankValues:
        """Some of them, by their numbers or by which to keep."""
        return replace(
            self,
            step=self.step[kept],
            target=self.target[kept],
            values=self.values[kept],
            count=self.count[kept],
            sketch=None if self.sketch is None else self.sketch[kept],
        )

    def steps(self) -> NDArray[np.int64]:
        """The steps it has, rising."""
        return np.unique(self.step)


def monitored_ranks(path: Path) -> dict[int, Path]:
    """Directories of the ranks of a record, given as dump_path or as what lies in it.

    Empty when there is none; UsageError for two records of one rank.
    """
    for root in (path / "monitor", path):
        if not root.is_dir():
            continue
        found = {
            int(name[1]): entry
            for entry in sorted(root.iterdir())
            if (name := _RANK.match(entry.name)) and entry.is_dir() and _files(entry)
        }
        if found:
            return {rank: found[rank] for rank in sorted(found) if rank <= HIGHEST_NUMBER}
    return _reference_ranks(path) if path.is_dir() else {}


def _reference_ranks(path: Path) -> dict[int, Path]:
    found: dict[int, Path] = {}
    for entry in (path, *sorted(path.iterdir())):
        rank = rank_of(entry)
        if rank is None or rank > HIGHEST_NUMBER:
            continue
        if rank in found:
            raise UsageError(
                f"{path} holds two records of rank {rank}, {found[rank].name} and {entry.name}; "
                "give a directory with those of one run."
            )
        found[rank] = entry
    return dict(sorted(found.items()))


def require_ranks(path: Path) -> dict[int, Path]:
    """The same; UsageError when there are none."""
    if not path.is_dir():
        kind = "is no directory" if path.exists() else "does not exist"
        raise UsageError(f"{path} {kind}; give the dump_path of a monitor.")
    ranks = monitored_ranks(path)
    if not ranks:
        raise UsageError(
            f"{path} holds no monitor/rank*/values_step*.csv; record with the key monitor."
        )
    return ranks


def read_rank(directory: Path) -> RankValues:
    """All steps of a rank; BuildError when a file is damaged.

    A training that was resumed writes another file from the step at which it began again; what
    earlier files say of that step and later ones is gone. So are rows of a line cut off.
    """
    targets: dict[tuple[str, str], int] = {}
    parts: list[RankValues] = []
    files = _files(directory)
    if not files:
        parts.append(_columns(directory, reference_rows(directory), targets))
    for number, (first, path) in enumerate(files):
        rows = (
            read_parquet_rows(path, _COLUMNS, "record of a monitor", (_SKETCH,))
            if path.suffix == ".parquet"
            else _csv(path)
        )
        part = _columns(path, rows, targets)
        ends = [
            later for later, other in files[number + 1 :] if other.suffix == path.suffix
        ]  # parts of parquet follow each other without overlap
        keep = part.step < min(ends) if ends else np.ones(len(part.step), dtype=bool)
        parts.append(part.rows(keep & (part.step >= first)))
    whole = _joined(parts, tuple(targets), 0.0 if files else ROUNDING)
    # The last row of a step and target counts; both stay in the order of the file.
    latest = dict(
        zip(
            zip(whole.step.tolist(), whole.target.tolist(), strict=True),
            range(len(whole.step)),
            strict=True,
        )
    )
    rows_kept = np.sort(np.fromiter(latest.values(), dtype=np.int64))
    return whole.rows(rows_kept[np.argsort(whole.step[rows_kept], kind="stable")])


def _joined(
    parts: Sequence[RankValues], targets: tuple[tuple[str, str], ...], rounding: float
) -> RankValues:
    sketch = None
    if any(one.sketch is not None for one in parts):
        sketch = np.concatenate(
            [_no_sketches(len(one.step)) if one.sketch is None else one.sketch for one in parts]
        )
    return RankValues(
        targets,
        np.concatenate([one.step for one in parts]),
        np.concatenate([one.target for one in parts]),
        np.concatenate([one.values for one in parts]),
        np.concatenate([one.count for one in parts]),
        rounding,
        sketch,
    )


def _no_sketches(count: int) -> NDArray[np.float32]:
    return np.full((count, FLAT), np.nan, np.float32)


def order_of(target: tuple[str, str]) -> int:
    """When a step comes by a kind."""
    return _ORDER[target[0]]


def _files(directory: Path) -> list[tuple[int, Path]]:
    """Files by their first step; those of one format, a table before others."""
    found = [
        (int(name[1]), entry)
        for entry in directory.iterdir()
        if (name := _VALUES.match(entry.name)) and entry.is_file()
    ]
    tables = [one for one in found if one[1].suffix == ".csv"]
    return sorted(tables or found)


def _csv(path: Path) -> Iterator[Sequence[Any]]:
    with _readable(path), opened_table(path, LARGEST_JSON) as file:
        rows = csv.reader(file)
        head = next(rows, [])
        last: list[str] | None = None
        columns = (*_COLUMNS, _SKETCH)
        if tuple(head) not in (_COLUMNS, columns):
            if ",".join(columns).startswith(",".join(head)) and next(rows, None) is None:
                return  # killed before the first step
            raise BuildError(f"{path} is no record of a monitor: its columns are others.")
        for row in rows:
            if last is not None:
                yield last
            last = row
        if last is not None and len(last) == len(head) and _ends_whole(path):
            yield last


def _ends_whole(path: Path) -> bool:
    return read_part(path, path.stat().st_size - 1, 1) == b"\n"


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BuildError(f"Cannot read {path}: {error.strerror}.") from error


def _columns(
    path: Path, rows: Iterator[Sequence[Any]], targets: dict[tuple[str, str], int]
) -> RankValues:
    steps, numbers, values, counts = [], [], [], []
    sketches: list[str] = []
    try:
        for step, kind, name, *more in rows:
            statistics, (count, *sketch) = more[:_COUNT], more[_COUNT:]
            if kind not in _ORDER or len(sketch) > 1:
                raise ValueError(kind)
            steps.append(int(step))
            numbers.append(targets.setdefault((kind, storable(name)), len(targets)))
            values.append([float(one) for one in statistics])
            counts.append(int(count))
            sketches += sketch
        held = _sketches(sketches, len(steps))
        table = np.array(values, dtype=np.float64).reshape(-1, len(STATISTICS))
        columns = [np.array(one, dtype=np.int64) for one in (steps, numbers, counts)]
    except (ValueError, TypeError, OverflowError, csv.Error) as error:
        raise BuildError(
            f"{path} is damaged in row {len(steps) + 1}; remove what follows."
        ) from error
    if len(columns[0]) and not 0 <= columns[0].min() <= columns[0].max() <= HIGHEST_NUMBER:
        raise BuildError(f"{path} is damaged: a step is no number from 0 to {HIGHEST_NUMBER}.")
    return RankValues((), columns[0], columns[1], table, columns[2], sketch=held)


def _sketches(texts: Sequence[str], count: int) -> NDArray[np.float32] | None:
    """What stands in the last column; ValueError where that is none."""
    if not any(texts):
        return None
    if len(texts) != count:
        raise ValueError("some rows have no such column")
    found = _no_sketches(count)
    for row, text in enumerate(texts):
        if text:
            found[row] = np.frombuffer(base64.b64decode(text, validate=True), "<f4", FLAT)
    return found
