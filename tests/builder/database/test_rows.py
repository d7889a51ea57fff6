"""Columns of any length become as many rows, in their order."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import repeat

import numpy as np
import pytest

from msprobe_builder.database.write.rows import OrNull, insert_rows


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 32, 5000])
def test_every_row_is_inserted_once(count: int) -> None:
    words = [f"row {number}" for number in range(count)]
    numbers = np.arange(count) * 0.5
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(
            "CREATE TABLE place (number REAL, word TEXT, side INTEGER, again INT, note BLOB)"
        )
        sides = OrNull(np.arange(count) % 3, 0)
        notes = [bytearray(b"note") if number % 2 else None for number in range(count)]
        insert_rows(connection, "place", [numbers, words, sides, repeat(7), notes])
        rows = connection.execute("SELECT * FROM place ORDER BY rowid").fetchall()
    assert rows == [
        (number / 2, f"row {number}", number % 3 or None, 7, b"note" if number % 2 else None)
        for number in range(count)
    ]
