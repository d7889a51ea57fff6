"""Writing a suspect that is found when all steps and ranks are there."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from msprobe_builder.facts.fact import Facts, encode

_NEXT_PLACE = """
INSERT INTO suspect (node_id, place, strength, cause, error, expected, followers, source, evidence,
    ranks)
SELECT :node, 1 + (SELECT count(*) FROM suspect JOIN node USING (node_id) WHERE graph_id = (
    SELECT graph_id FROM node WHERE node_id = :node)), :strength, :cause, :error, :expected, 0,
    :source, :evidence, :ranks
"""


def add_suspect(
    connection: sqlite3.Connection,
    *,
    node: int,
    strength: int,
    cause: str,
    error: float | None,
    expected: float | None,
    source: str | None,
    evidence: Facts,
    ranks: Iterable[int] = (),
) -> None:
    """Store it behind the suspects of its step and rank."""
    connection.execute(
        _NEXT_PLACE,
        {
            "node": node,
            "strength": strength,
            "cause": cause,
            "error": error,
            "expected": expected,
            "source": source,
            "evidence": encode(evidence),
            "ranks": ",".join(map(str, ranks)) or None,
        },
    )
