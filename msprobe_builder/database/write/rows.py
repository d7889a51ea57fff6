"""Rows as SQLite takes them."""

from __future__ import annotations

import sqlite3
from typing import Any

import numpy as np


def insert_rows(
    connection: sqlite3.Connection, table: str, places: str, columns: list[Any]
) -> None:
    """Insert rows given by columns: arrays, lists or any iterables of equal length."""
    lists = [column.tolist() if isinstance(column, np.ndarray) else column for column in columns]
    # Table and places are our own; the rows are bound.
    statement = f"INSERT INTO {table} VALUES ({places})"
    connection.executemany(statement, zip(*lists, strict=False))


def clean(text: str) -> str:
    """Text that SQLite can hold: lone surrogates, which JSON allows, become escapes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text
