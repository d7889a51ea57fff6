"""Writing what the configurations of both runs differ in."""

from __future__ import annotations

import sqlite3

from msprobe_builder.database.read.configuration import Configuration
from msprobe_builder.facts.fact import encode


def write_configuration(connection: sqlite3.Connection, found: Configuration) -> None:
    """Put it in the place of what the file says of configurations."""
    connection.execute("DELETE FROM configuration_difference")
    connection.execute("DELETE FROM configuration")
    total = sum(part.differences for part in found.parts)
    connection.execute(
        "INSERT INTO configuration VALUES (1, NULL, ?, ?, ?)",
        (found.outcome, total, encode(found.said)),
    )
    for number, part in enumerate(found.parts, 2):
        connection.execute(
            "INSERT INTO configuration VALUES (?, ?, ?, ?, ?)",
            (number, part.part, part.outcome, part.differences, encode(part.said)),
        )
        differences = [
            (one.level, one.name, one.npu_value, one.bench_value, encode(one.said))
            for one in part.shown
        ]
        differences = [
            (one.level, one.name, one.npu_value, one.bench_value, encode(one.said))
            for one in part.shown
        ]
        connection.executemany(
            "INSERT INTO configuration_difference VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(number, place, *one) for place, one in enumerate(differences, 1)],
        )
