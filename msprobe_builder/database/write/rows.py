"""Rows as SQLite takes them."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

_BLOCK = 4096  # rows that are Python objects at a time: they take eight times their columns
BLOCK = 16 * _BLOCK  # rows whose columns are made for storing them, at a time
_TOGETHER = 16  # rows of one statement: beginning and ending it costs as much as a row


# SQLite stores NaN as NULL, and takes floats and bytearrays as they are: of None, and of bytes,
# Python asks all adapters each time, which takes as long as storing it.
_NULL = math.nan


class OrNull(NamedTuple):
    """A column of numbers of which one stands for NULL."""

    column: Any
    null: int


def insert_rows(connection: sqlite3.Connection, table: str, columns: list[Any]) -> None:
    """Insert rows given by columns: arrays, OrNull, lists or any iterables of equal length.

    ``table`` may name the columns.
    """
    # Table and columns are our own; the rows are bound.
    statement, row = f"INSERT INTO {table} VALUES ", f"({', '.join('?' * len(columns))})"
    together = statement + ", ".join([row] * _TOGETHER)
    for of_block in zip(*map(_parts, columns), strict=False):  # some iterables have no end
        size = min(map(len, of_block))
        # numpy makes objects of a column, and rows of objects, faster than iterators would.
        block = np.empty((size, len(columns)), dtype=object)
        for place, values in enumerate(of_block):
            block[:, place] = values[:size]
        whole = size - size % _TOGETHER
        rows = block[:whole].reshape(-1, _TOGETHER * len(columns))
        connection.executemany(together, rows.tolist())
        connection.executemany(statement + row, block[whole:].tolist())


def _parts(column: Any) -> Iterator[Any]:
    """A column in blocks."""
    if isinstance(column, OrNull):
        for part in _parts(np.asarray(column.column)):
            objects = np.array(part, dtype=object)
            objects[np.equal(part, column.null)] = _NULL
            yield objects
    elif isinstance(column, np.ndarray):
        yield from (column[at : at + _BLOCK] for at in range(0, len(column), _BLOCK))
    else:
        rest = iter(column)
        while part := list(islice(rest, _BLOCK)):
            yield [_NULL if one is None else one for one in part] if None in part else part


def clean(text: str) -> str:
    """Text that SQLite can hold: unmatched surrogates, which JSON allows, become escapes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text
