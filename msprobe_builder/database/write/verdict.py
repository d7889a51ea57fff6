"""Writing the verdict on one step and rank, and that on the whole."""

from __future__ import annotations

import sqlite3

import numpy as np

from msprobe_builder.base.codes import CallRole
from msprobe_builder.database.write.rows import OrNull, clean, insert_rows
from msprobe_builder.facts.fact import encode
from msprobe_builder.verdict.ruling.across import Ruling
from msprobe_builder.verdict.ruling.all_ranks import AllRanks
from msprobe_builder.verdict.ruling.judged import Judgement


def write_judgement(connection: sqlite3.Connection, judgement: Judgement, nodes: int) -> None:
    """Store who is to blame and who inherits; ``nodes`` is the number of npu nodes.

    Node ids begin at 1, those of the reference behind those of the npu side.
    """
    connection.execute(
        "INSERT INTO verdict VALUES (1, ?, ?, ?, ?, ?, ?, NULL)",
        (
            judgement.step,
            judgement.rank,
            judgement.conclusion,
            clean(encode(judgement.said)),
            judgement.compared,
            judgement.noise,  # SQLite stores NaN as NULL
        ),
    )
    connection.executemany(
        "INSERT INTO suspect VALUES (?, ?, ?, NULL, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                place,
                one.node + 1 + (nodes if one.side else 0),
                place,
                int(one.strength),
                one.cause.word,
                one.error,
                one.expected,
                one.followers,
                one.source,
                clean(encode(one.evidence)),
                ",".join(map(str, one.ranks)) or None,
            )
            for place, one in enumerate(judgement.suspects, 1)
        ],
    )
    connection.executemany(
        "INSERT INTO weighed VALUES (1, ?, ?, ?, ?)",
        [
            (
                one.kind,
                one.fired,
                one.decided,
                None if one.node < 0 else one.node + 1 + (nodes if one.side else 0),
            )
            for one in judgement.weighed
        ],
    )
    rows = np.flatnonzero(judgement.role != CallRole.CLEAN)
    rows = rows[(judgement.role[rows] != CallRole.UNKNOWN) | np.isin(rows, list(judgement.reasons))]
    insert_rows(
        connection,
        "role",
        [
            rows + 1,
            judgement.role[rows],
            judgement.given[rows],
            judgement.shown[rows],
            judgement.expected[rows],
            OrNull(judgement.suspect[rows] + 1, 0),
            [judgement.reasons.get(node) for node in rows.tolist()],
        ],
    )
    insert_rows(connection, "propagation", list(judgement.edges + 1))


def write_ruling(
    connection: sqlite3.Connection,
    all_ranks: AllRanks,
    ruling: Ruling,
    proposal: str | None,
    compared: int | None = None,
) -> None:
    """Store the verdict on the whole file, and what it changes of places and suspects.

    ``proposal`` is the JSON of what to record next; ``compared`` is the number of calls that were,
    if it is not that of all places together.
    """
    connection.executemany(
        "UPDATE suspect SET overall = ? WHERE suspect_id = ?",
        [(number, one.suspect_id) for number, one in enumerate(ruling.standing, 1)],
    )
    connection.executemany(
        "UPDATE suspect SET strength = ?, evidence = ? WHERE suspect_id = ?",
        [
            (one.strength, clean(encode(one.evidence)), one.suspect_id)
            for one in all_ranks.accused
            if one.changed or one.otherwise is not None
        ],
    )
    changed = [one for one in all_ranks.places if one.changed]
    connection.executemany(
        "UPDATE verdict SET conclusion = ?, sentence = ? WHERE step = ? AND rank = ?",
        [(one.conclusion, clean(encode(one.said)), one.step, one.rank) for one in changed],
    )
    connection.execute(
        "INSERT INTO verdict (conclusion, sentence, compared, next_dump)"
        " SELECT ?, ?, coalesce(?, sum(compared)), ? FROM verdict",
        (ruling.conclusion, clean(encode(ruling.said)), compared, proposal),
    )
