"""Rows as SQLite takes them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

import numpy as np

_BLOCK = 4096  # numbers that are Python objects at a time: they take eight times their column
BLOCK = 16 * _BLOCK  # rows whose columns are made for storing them, at a time
_TOGETHER = 16  # rows of one statement: beginning and ending it costs as much as a row


def insert_rows(
    connection: sqlite3.Connection, table: str, places: str, columns: list[Any]
) -> None:
    """Insert rows given by columns: arrays, lists or any iterables of equal length."""
    values = [_objects(column) if isinstance(column, np.ndarray) else column for column in columns]
    numbers = chain.from_iterable(zip(*values, strict=False))
    # Table and places are our own; the rows are bound.
    statement, row = f"INSERT INTO {table} VALUES ", f"({places})"
    rest: list[Any] = []
    blocks = _blocks(numbers, _TOGETHER * len(columns), rest)
    connection.executemany(statement + ", ".join([row] * _TOGETHER), blocks)
    connection.executemany(statement + row, zip(*[iter(rest)] * len(columns), strict=True))


def _blocks(values: Iterator[Any], size: int, rest: list[Any]) -> Iterator[tuple[Any, ...]]:
    """As many values at a time; those that are left over are put in ``rest``."""
    while len(block := tuple(islice(values, size))) == size:
        yield block
    rest.extend(block)


def _objects(column: np.ndarray[Any, Any]) -> Iterable[Any]:
    blocks = range(0, len(column), _BLOCK)
    return chain.from_iterable(column[at : at + _BLOCK].tolist() for at in blocks)


def clean(text: str) -> str:
    """Text that SQLite can hold: lone surrogates, which JSON allows, become escapes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text
