"""The rows of a table, read from a database one call at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Container, Iterator
from functools import lru_cache

from msprobe_builder.database.read.executed import Place, read_calls
from msprobe_builder.database.read.stacks import read_stack
from msprobe_builder.dump.task import Task
from msprobe_builder.facts.fact import text_fact
from msprobe_builder.facts.wording import tell
from msprobe_builder.tables.columns import MESSAGE, Columns
from msprobe_builder.tables.marks import mark
from msprobe_builder.tables.rows import Row, rows_of
from msprobe_builder.tables.verdicts import UNKNOWN

_STACKS_KEPT = 4096


def read_rows(
    connection: sqlite3.Connection,
    place: Place,
    task: Task,
    columns: Columns,
    *,
    marked: bool,
    only: Container[int] | None = None,
) -> Iterator[Row]:
    """Rows of one step and rank in order of execution; ``marked`` ones say why.

    ``only`` restricts them to calls of these nodes, by their ids.
    """

    @lru_cache(maxsize=_STACKS_KEPT)
    def stack_of(stack_id: int) -> str:
        return str([_frame(*frame) for frame in _frames(connection, stack_id)])

    message = columns.names.index(MESSAGE) if MESSAGE in columns.names else -1
    # The documented columns of the other tables are made of the statistics.
    metrics = task is Task.TENSOR or columns.has_own
    for call in read_calls(connection, place, only, metrics=metrics):
        with_stack = columns.has_stack and call.stack_id is not None
        stack = stack_of(call.stack_id) if with_stack and call.stack_id is not None else UNKNOWN
        rows = rows_of(call, columns, task, stack)
        if marked:
            for row, reasons in zip(rows, mark(rows, task), strict=True):
                if reasons and message >= 0:
                    said = str(row.cells[message])
                    row.cells[message] = tell([text_fact(said), *reasons] if said else reasons)
        yield from rows


def _frames(connection: sqlite3.Connection, stack_id: int) -> Iterator[tuple[str, int, str, str]]:
    for frame in read_stack(connection, stack_id):
        yield frame.file, frame.line, frame.function, frame.source


def _frame(file: str, line: int, function: str, source: str) -> str:
    """An entry of stack.json, as it was dumped."""
    return f"File {file}, line {line}, in {function}, \n {source}" if file else source
