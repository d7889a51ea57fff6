"""Where NaN and infinity began."""

from __future__ import annotations

import sqlite3
from collections.abc import Container
from dataclasses import dataclass
from typing import Any

from msprobe_builder.base.codes import Kind, Section
from msprobe_builder.database.read.cells import MAX_NODE, integer, optional_integer, text
from msprobe_builder.database.read.names import stored_name
from msprobe_builder.facts.fact import Facts, decode
from msprobe_builder.metrics.beginning import Part

_SINCE = 14  # the version of the schema
_BEGINNINGS = """
SELECT not_finite.node_id, side, step, rank, not_finite.node_id - first_node, part, giver_id, why,
    kind, text.value, direction, call,
    EXISTS (SELECT 1 FROM node AS inner WHERE inner.kind = :api
        AND inner.node_id BETWEEN node.node_id + 1 AND node.subtree_end)
FROM not_finite JOIN node USING (node_id) JOIN graph USING (graph_id)
JOIN text ON text_id = stem_id ORDER BY side, step, not_finite.node_id
"""
_IS_BAD = (
    "SELECT 1 FROM tensor WHERE node_id = ?1 AND section IN (?2, ?3)"
    " AND (nan_flags != 0 OR max = 9e999 OR min = -9e999) LIMIT 1"
)
_NAMESAKES = """
SELECT other.node_id FROM node AS own JOIN graph AS here ON here.graph_id = own.graph_id
JOIN graph AS there ON there.step = here.step AND there.side = here.side
    AND there.rank != here.rank
JOIN node AS other ON other.graph_id = there.graph_id AND other.stem_id = own.stem_id
    AND other.direction = own.direction AND other.call IS own.call
WHERE own.node_id = ?
"""


@dataclass(frozen=True)
class StoredBeginning:
    """A call of a side, step and rank with which NaN or infinity began there.

    ``node`` is its id, ``seq`` its place in the order of execution; ``is_closed`` a call inside of
    which nothing was recorded.
    """

    node: int
    side: int
    step: int
    rank: int
    seq: int
    part: Part
    giver: int | None
    why: Facts
    kind: int
    name: str
    is_closed: bool


def holds_beginnings(connection: sqlite3.Connection) -> bool:
    """Whether a file was made by a version that looks for them."""
    [[version]] = connection.execute("PRAGMA main.user_version")
    return integer(version) >= _SINCE


def read_beginnings(connection: sqlite3.Connection) -> list[StoredBeginning]:
    """All of them, by side and step, those of each rank in order of execution."""
    return [_beginning(row) for row in connection.execute(_BEGINNINGS, {"api": int(Kind.API)})]


def _beginning(row: tuple[Any, ...]) -> StoredBeginning:
    node, side, step, rank, seq, part, giver, why, kind, stem, direction, call, is_open = row
    return StoredBeginning(
        integer(node, 0, MAX_NODE),
        integer(side, 0, 1),
        integer(step),
        integer(rank),
        integer(seq),
        Part(integer(part, 0, max(Part))),
        optional_integer(giver, 0, MAX_NODE),
        decode(text(why)),
        integer(kind, 0, max(Kind)),
        stored_name(kind, stem, direction, call),
        not is_open and kind != Kind.API,
    )


def find_giver(connection: sqlite3.Connection, node: int, makers: Container[int]) -> int | None:
    """The call of the same name on another rank that handed on what it was given, if there is one.

    ``makers`` are the calls that made some of their own.
    """
    sections = int(Section.OUTPUT), int(Section.PARAMETERS_GRAD)
    for (other,) in connection.execute(_NAMESAKES, (node,)).fetchall():
        is_bad = connection.execute(_IS_BAD, (other, *sections)).fetchone()
        if other not in makers and is_bad:
            return integer(other, 0, MAX_NODE)
    return None
