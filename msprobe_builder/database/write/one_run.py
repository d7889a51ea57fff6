"""Writing what a run without a reference is checked by, and what does not hold."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from msprobe_builder.database.write.suspects import add_suspect
from msprobe_builder.facts.fact import Facts, encode
from msprobe_builder.invariants.violation import Violation


def write_place(
    connection: sqlite3.Connection, step: int, rank: int, said: Facts, checked: int
) -> None:
    """Store what was checked of one rank alone, which is not yet a verdict."""
    connection.execute(
        "INSERT INTO verdict (step, rank, conclusion, sentence, compared) VALUES (?, ?, ?, ?, ?)",
        (step, rank, "undecided", encode(said), checked),
    )


def add_suspects(
    connection: sqlite3.Connection,
    violations: Iterable[tuple[Violation, str | None]],
    first_node: int = 0,
) -> None:
    """Store what does not hold, behind the suspects of its step and rank, with its source line."""
    for one, source in violations:
        add_suspect(
            connection,
            node=one.node + first_node,
            strength=int(one.strength),
            cause=one.check.value,
            error=one.error,
            expected=one.expected,
            source=source,
            evidence=one.evidence,
            ranks=one.ranks,
        )
