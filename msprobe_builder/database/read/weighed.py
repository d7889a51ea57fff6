"""What the verdicts of a file weighed: kinds of clues, and what explained some of them."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from msprobe_builder.database.read.cells import integer, optional_text, text

_MOST = 2**53  # clues that anything can count
_WEIGHED = """
SELECT kind, sum(fired) AS fired, sum(decided),
       (SELECT name FROM weighed AS one JOIN node_name USING (node_id)
        WHERE one.kind = weighed.kind ORDER BY verdict_id LIMIT 1)
FROM weighed GROUP BY kind ORDER BY fired DESC, kind
"""


@dataclass(frozen=True)
class WeighedKind:
    """A kind over all steps and ranks; ``first`` is the first node that it decided on, if any."""

    kind: str
    fired: int
    decided: int
    first: str | None


def read_weighed(connection: sqlite3.Connection) -> list[WeighedKind]:
    """All that held of anything, the most frequent first."""
    return [
        WeighedKind(
            text(kind), integer(fired, 0, _MOST), integer(decided, 0, _MOST), optional_text(first)
        )
        for kind, fired, decided, first in connection.execute(_WEIGHED)
    ]
