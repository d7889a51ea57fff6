"""Writing that weights have moved otherwise from one step to the next."""

from __future__ import annotations

import sqlite3

from msprobe_builder.base.codes import Strength
from msprobe_builder.database.read.cells import MAX_NODE, integer
from msprobe_builder.database.read.stacks import read_source
from msprobe_builder.database.write.suspects import add_suspect
from msprobe_builder.facts.fact import fact
from msprobe_builder.verdict.findings import RIVALLED, WEIGHTS, Cause
from msprobe_builder.verdict.steps.updates import Moved

_CAUSE = Cause.UPDATE.word
_OF_WEIGHTS = tuple(one.word for one in WEIGHTS)
_FIRST = """
SELECT min(node_id) FROM suspect JOIN node USING (node_id) JOIN graph USING (graph_id)
WHERE step = ? AND rank = ? AND side = 0 AND cause IN (?, ?)
"""
_WEIGHED = """
INSERT INTO weighed SELECT verdict_id, ?, ?, 1, ? FROM verdict WHERE step = ? AND rank = ?
"""


def write_moved(connection: sqlite3.Connection, moved: Moved, step: int, rank: int) -> None:
    """Store a doubt of the weights that a step begins with, until other steps are heard."""
    # What is too small for its update to tell may have been accused before.
    (first,) = connection.execute(_FIRST, (step, rank, *_OF_WEIGHTS)).fetchone()
    node = moved.node if first is None else min(moved.node, integer(first, 0, MAX_NODE))
    add_suspect(
        connection,
        node=node,
        strength=int(Strength.WEAK),
        cause=_CAUSE,
        error=moved.error,
        expected=moved.expected,
        source=read_source(connection, node),
        evidence=(*moved.told, fact("probability", percent=round(100 * RIVALLED))),
    )
    connection.execute(_WEIGHED, (_CAUSE, moved.weights, node, step, rank))
