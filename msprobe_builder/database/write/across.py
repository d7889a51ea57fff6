"""What is known only of all steps and ranks together: settled last, and again after more come.

The tables ``suspect_alone`` and ``verdict_alone`` keep what a rank said before the others were
heard, so that all can be heard anew.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

# What judging across ranks may change, and where the first words are kept.
_KEPT = (
    ("suspect", "suspect_id", ("strength", "evidence")),
    ("verdict", "verdict_id", ("conclusion", "sentence")),
)


@contextmanager
def keeping_first_words(connection: sqlite3.Connection) -> Iterator[None]:
    """Keep beside what the block changes of the suspects and the verdicts of single ranks."""
    run = connection.execute
    for table, key, columns in _KEPT:
        listed = ", ".join((key, *columns))
        run(f"CREATE TEMP TABLE {table}_before AS SELECT {listed} FROM {table}")
    yield
    for table, key, columns in _KEPT:
        old, new = (", ".join(f"{side}.{one}" for one in columns) for side in ("old", "new"))
        run(
            f"INSERT INTO {table}_alone ({key}, {', '.join(columns)}) SELECT {key}, {old}"
            f" FROM temp.{table}_before AS old JOIN {table} AS new USING ({key})"
            f" WHERE ({old}) IS NOT ({new})"
        )
        run(f"DROP TABLE temp.{table}_before")


def forget_across(connection: sqlite3.Connection) -> None:
    """Take back what was found of all ranks together: links, their findings, the last verdict."""
    from msprobe_builder.invariants.violation import Check
    from msprobe_builder.link.communication import FINDINGS
    from msprobe_builder.verdict.findings import Cause

    run = connection.execute
    run("DELETE FROM communication")
    found = (*FINDINGS, "overflow_origin")
    run(f"DELETE FROM diagnostic WHERE code IN ({', '.join('?' * len(found))})", found)
    run("DELETE FROM verdict WHERE step IS NULL")
    between = [one.value for one in Check if one is not Check.ADDITION]  # ranks that were there
    between.append(Cause.UPDATE.word)
    run(f"DELETE FROM suspect WHERE cause IN ({', '.join('?' * len(between))})", between)
    run("DELETE FROM weighed WHERE kind = ?", between[-1:])
    run("UPDATE suspect SET overall = NULL WHERE overall IS NOT NULL")
    for table, key, columns in _KEPT:
        values = ", ".join(f"{one} = kept.{one}" for one in columns)
        run(
            f"UPDATE {table} SET {values} FROM {table}_alone AS kept"
            f" WHERE kept.{key} = {table}.{key}"
        )
        run(f"DELETE FROM {table}_alone")
