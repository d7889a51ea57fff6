"""What the configurations of both runs differ in, and whether the runs may be compared."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from msprobe_builder.database.read.cells import INT32, integer, optional_text, text
from msprobe_builder.facts.fact import Facts, decode
from msprobe_builder.facts.wording import tell

MAX_DIFFERENCES = 200  # of one part


@dataclass(frozen=True)
class ConfigurationDifference:
    """One thing that is not alike; a value is None on the side that lacks it."""

    level: str  # warning, error
    name: str
    npu_value: str | None
    bench_value: str | None
    said: Facts

    @property
    def sentence(self) -> str:
        """What is said of it."""
        return tell(self.said)


@dataclass(frozen=True)
class ConfigurationPart:
    """One part of the configurations."""

    part: str  # env, pip, hyperparameters, dataset, weights, random
    outcome: str  # pass, warning, error, unknown
    differences: int
    said: Facts  # the first difference
    shown: tuple[ConfigurationDifference, ...]  # the worst first

    @property
    def sentence(self) -> str:
        """What is said of it."""
        return tell(self.said)


@dataclass(frozen=True)
class Configuration:
    """What all parts come to."""

    outcome: str  # pass, warning, error
    said: Facts
    parts: tuple[ConfigurationPart, ...]

    @property
    def sentence(self) -> str:
        """What is said of it."""
        return tell(self.said)


def read_configuration(connection: sqlite3.Connection) -> Configuration | None:
    """None when no configurations were given with the dumps."""
    rows = connection.execute(
        "SELECT configuration_id, part, outcome, differences, sentence FROM configuration"
        " ORDER BY configuration_id"
    ).fetchall()
    whole = next((row for row in rows if row[1] is None), None)
    if whole is None:
        return None
    parts = tuple(
        ConfigurationPart(
            text(part),
            text(outcome),
            integer(differences, 0, INT32),
            decode(text(sentence)),
            _read_differences(connection, integer(number)),
        )
        for number, part, outcome, differences, sentence in rows
        if part is not None
    )
    return Configuration(text(whole[2]), decode(text(whole[4])), parts)


def _read_differences(
    connection: sqlite3.Connection, part: int
) -> tuple[ConfigurationDifference, ...]:
    rows = connection.execute(
        "SELECT level, name, npu_value, bench_value, sentence FROM configuration_difference"
        " WHERE configuration_id = ? ORDER BY place LIMIT ?",
        (part, MAX_DIFFERENCES),
    )
    return tuple(
        ConfigurationDifference(
            text(level),
            text(name),
            optional_text(npu),
            optional_text(bench),
            decode(text(sentence)),
        )
        for level, name, npu, bench, sentence in rows
    )
