"""Writing what the configurations of both runs differ in."""

from __future__ import annotations

import sqlite3

from msprobe_builder.database.read.configuration import Configuration


def write_configuration(connection: sqlite3.Connection, found: Configuration) -> None:
    """Put it in the place of what the file says of configurations."""
    connection.execute("DELETE FROM configuration_difference")
    connection.execute("DELETE FROM configuration")
    total = sum(part.differences for part in found.parts)
    connection.execute(
        "INSERT INTO configuration VALUES (1, NULL, ?, ?, ?)",
        (found.outcome, total, found.sentence),
    )
    for number, part in enumerate(found.parts, 2):
        connection.execute(
            "INSERT INTO configuration VALUES (?, ?, ?, ?, ?)",
            (number, part.part, part.outcome, part.differences, part.sentence),
        )
        connection.executemany(
            "INSERT INTO configuration_difference VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (number, place, one.level, one.name, one.npu_value, one.bench_value, one.sentence)
                for place, one in enumerate(part.shown, 1)
            ],
        )
