"""Writing from whom NaN and infinity were received."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from msprobe_builder.base.codes import Overflow
from msprobe_builder.metrics.beginning import Part

_ABOVE = """
WITH RECURSIVE above (node_id) AS (
    SELECT parent_id FROM node WHERE node_id = ?
    UNION ALL SELECT parent_id FROM node JOIN above USING (node_id)
) SELECT node_id FROM above WHERE node_id IS NOT NULL
"""
# A module is where it began only if a call inside is.
_LOWERED = """
UPDATE node SET overflow = :high WHERE node_id = :node AND overflow = :critical
    AND NOT EXISTS (SELECT 1 FROM node AS inner WHERE inner.overflow = :critical
        AND inner.node_id BETWEEN node.node_id + 1 AND node.subtree_end)
"""
_WORST = """
UPDATE rollup SET worst_overflow = (SELECT max(inner.overflow) FROM node
    JOIN node AS inner ON inner.node_id BETWEEN node.node_id + 1 AND node.subtree_end
    WHERE node.node_id = rollup.node_id) WHERE node_id = ?
"""


def write_received(connection: sqlite3.Connection, givers: Mapping[int, int]) -> None:
    """Store from which calls others received what they put out, and lower their level."""
    levels = {"high": int(Overflow.HIGH), "critical": int(Overflow.CRITICAL)}
    for node, giver in givers.items():
        connection.execute(
            "UPDATE not_finite SET part = ?, giver_id = ? WHERE node_id = ?",
            (int(Part.RECEIVED), giver, node),
        )
        connection.execute(_LOWERED, {"node": node, **levels})
    for node in givers:
        for (above,) in connection.execute(_ABOVE, (node,)).fetchall():
            connection.execute(_LOWERED, {"node": above, **levels})
            connection.execute(_WORST, (above,))
