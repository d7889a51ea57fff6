"""Rows as SQLite takes them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np

_BLOCK = 4096  # numbers that are Python objects at a time: they take eight times their column


def insert_rows(
    connection: sqlite3.Connection, table: str, places: str, columns: list[Any]
) -> None:
    """Insert rows given by columns: arrays, lists or any iterables of equal length."""
    values = [_objects(column) if isinstance(column, np.ndarray) else column for column in columns]
    # Table and places are our own; the rows are bound.
    statement = f"INSERT INTO {table} VALUES ({places})"
    connection.executemany(statement, zip(*values, strict=False))


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
