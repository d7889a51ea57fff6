"""The files of one rank: a table, event files of TensorBoard, and alerts."""

from __future__ import annotations

import base64
import csv
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from msprobe_builder.base.publish import remove_left_overs, replaced
from msprobe_collector.errors import CollectorError
from msprobe_collector.monitor.alerts import Alert
from msprobe_collector.monitor.row import STATISTICS, Row

COLUMNS = ("step", "kind", "name", *STATISTICS, "count")
SKETCH = "sketch"  # the column behind them, of float32 in base64
_ALERT_COLUMNS = ("step", "rule", "kind", "name", "norm", "usual", "sentence")
_STEPS_OF_A_PART = 64


class Writer:
    """Writes steps as they come, so that a stopped training leaves them."""

    def __init__(
        self, directory: Path, formats: Sequence[str], first: int, *, with_sketches: bool = False
    ) -> None:
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
        remove_left_overs(directory)
        self._parts: list[Any] = []
        if "csv" in formats:
            self._parts.append(_Table(directory / f"values_step{first}.csv", with_sketches))
        if "parquet" in formats:
            self._parts.append(_Parquet(directory, with_sketches))
        if "tensorboard" in formats:
            self._parts.append(_Events(directory))
        self._directory, self._first = directory, first
        self._alerts: TextIO | None = None

    def step(self, step: int, rows: Sequence[Row], alerts: Sequence[Alert]) -> None:
        """Add a step."""
        for part in self._parts:
            part.step(step, rows)
        if not alerts:
            return
        if self._alerts is None:
            path = self._directory / f"alerts_step{self._first}.csv"
            self._alerts = _new_text(path, _ALERT_COLUMNS)
        writer = csv.writer(self._alerts)
        for one in alerts:
            cells = (one.step, one.rule, one.kind, one.name, one.value, one.usual, one.sentence)
            writer.writerow(cells)
        self._alerts.flush()

    def close(self) -> None:
        """Finish the files."""
        for part in self._parts:
            part.close()
        if self._alerts is not None:
            self._alerts.close()


def write_place(
    directory: Path,
    place: Mapping[str, Any],
    lines: Mapping[str, tuple[tuple[int, ...], str]],
) -> None:
    """Where the rank stands among the others, see ``coordinates.py``.

    And where it communicates: by each of ``lines`` the ranks of the group and the reduction.
    """
    content = dict(place)
    told = {
        name: {"ranks": ranks, "operation": operation}
        for name, (ranks, operation) in lines.items()
        if ranks
    }
    if told:
        content["communication"] = told
    with replaced(directory / "place.json") as stream:
        stream.write(json.dumps(content).encode())


def _new_text(path: Path, columns: Sequence[str]) -> TextIO:
    file = path.open("w", encoding="utf-8", newline="")
    csv.writer(file).writerow(columns)
    return file


def _written(row: Row) -> str:
    if row.sketch is None:
        return ""
    return base64.b64encode(row.sketch.astype("<f4").tobytes()).decode()


class _Table:
    def __init__(self, path: Path, with_sketches: bool) -> None:
        self._columns = (*COLUMNS, SKETCH) if with_sketches else COLUMNS
        self._file = _new_text(path, self._columns)
        self._writer = csv.writer(self._file)

    def step(self, step: int, rows: Sequence[Row]) -> None:
        # Nine digits are what float32 holds.
        self._writer.writerows(
            (
                *(step, row.kind, row.name, *(f"{x:.9g}" for x in row.statistics)),
                *(row.numbers.count, _written(row))[: len(self._columns) - len(COLUMNS) + 1],
            )
            for row in rows
        )
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class _Parquet:
    """Parts of 64 steps, each a whole file: one that is cut off could not be read."""

    def __init__(self, directory: Path, with_sketches: bool) -> None:
        self._columns = (*COLUMNS, SKETCH) if with_sketches else COLUMNS
        try:
            import pyarrow.parquet  # type: ignore[import-untyped]
        except ImportError as error:
            raise CollectorError(
                "Format parquet needs pyarrow; install it or choose csv in monitor.formats."
            ) from error
        self._pyarrow: Any = pyarrow
        self._directory = directory
        self._steps: list[tuple[int, Sequence[Row]]] = []

    def step(self, step: int, rows: Sequence[Row]) -> None:
        if len(self._steps) >= _STEPS_OF_A_PART and self._steps[-1][0] != step:
            self._write()
        self._steps.append((step, rows))

    def _write(self) -> None:
        lines = [
            (step, row.kind, row.name, *row.statistics, row.numbers.count, _written(row))
            for step, rows in self._steps
            for row in rows
        ]
        path = self._directory / f"values_step{self._steps[0][0]}.parquet"
        self._steps = []
        columns = dict(zip(self._columns, map(list, zip(*lines, strict=True)), strict=False))
        with replaced(path) as stream:
            self._pyarrow.parquet.write_table(self._pyarrow.table(columns), stream)

    def close(self) -> None:
        if self._steps:
            self._write()


class _Events:
    """One event for each step, with all its scalars, by TensorBoard's own writer."""

    def __init__(self, directory: Path) -> None:
        try:
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError as error:
            raise CollectorError(
                "Format tensorboard needs tensorboard; install it or leave it out of "
                "monitor.formats."
            ) from error
        self._event, self._summary = Event, Summary
        self._writer = EventFileWriter(str(directory))

    def step(self, step: int, rows: Sequence[Row]) -> None:
        summary = self._summary()
        for row in rows:
            begin = f"{row.kind}/{row.name or '(model)'}/"
            names = STATISTICS[:1] if row.kind == "learning_rate" else STATISTICS
            for statistic, value in zip(names, row.statistics, strict=False):
                tag = begin[:-1] if row.kind == "learning_rate" else begin + statistic
                summary.value.add(tag=tag, simple_value=value)
        self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=summary))
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()
