"""The oracle: a whole build from the dumps, with its matching replaced by given pairs."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

import numpy as np

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.database.late_columns import complete
from msprobe_builder.database.layout import current_layout
from msprobe_builder.graph.side import Side
from msprobe_builder.match.matching import Matching, Unmatched, inverse
from msprobe_builder.pipeline import compare
from msprobe_builder.pipeline.build import store_pair
from msprobe_builder.pipeline.compare import PairJob
from msprobe_builder.pipeline.kept import Keeper

Pairs = dict[str, str]

NODES = (
    "SELECT side, name, matched, error, grade, worst_grade, ungraded, ok, slight, moderate,"
    " serious, severe, rollup.unmatched FROM node_view LEFT JOIN rollup USING (node_id)"
    " ORDER BY side, seq"
)
_COMPARED = ", ".join(
    f"comparison.{column}"
    for column in current_layout().column_names("comparison")
    if column not in ("npu_node", "note_id")
)
COMPARISONS = (
    f"SELECT own.name, other.name, {_COMPARED}, text.value FROM comparison"
    " JOIN node_name AS own ON own.node_id = npu_node JOIN match USING (npu_node)"
    " JOIN node_name AS other ON other.node_id = bench_node"
    " LEFT JOIN text ON text_id = note_id ORDER BY npu_node, npu_ordinal"
)


def rebuild(npu: Path, bench: Path, pairs: Pairs, target: Path) -> Path:
    """Build two ranks with exactly these pairs of names matched."""

    def given_matching(one: Side, other: Side, *_: object, **__: object) -> object:
        place = {name: node for node, name in enumerate(other.tree.names)}
        partner = np.array([place[pairs[n]] if n in pairs else -1 for n in one.tree.names])
        none = np.empty(0, np.int64)
        nothing = Unmatched(none, none, none, [])
        back = inverse(partner, len(place))
        found: list[Diagnostic] = []
        return Matching(partner, back, np.zeros(len(partner), np.int64), nothing, nothing), found

    with patch.object(compare, "match_nodes", given_matching):
        store_pair(PairJob(0, 0, npu, bench), target, lambda _: None, Keeper())
    with closing(sqlite3.connect(target, isolation_level=None)) as connection:
        complete(connection)
    return target


def matched(database: Path) -> Pairs:
    """Matched names of a database of one step and rank."""
    with closing(sqlite3.connect(database)) as connection:
        return dict(
            connection.execute(
                "SELECT name, matched FROM node_view WHERE side = 'npu' AND matched IS NOT NULL"
            )
        )


def content(database: Path) -> dict[str, list[tuple[object, ...]]]:
    """Everything that follows from the matches, without ids of texts."""
    with closing(sqlite3.connect(database)) as connection:
        return {
            "nodes": connection.execute(NODES).fetchall(),
            "comparisons": connection.execute(COMPARISONS).fetchall(),
        }


def check_sound(database: Path) -> None:
    """One to one, nothing left over, every unmatched node with a reason."""
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        wrong = (
            "SELECT * FROM node_view WHERE (grade = 'unmatched') != (matched IS NULL)"
            " OR (unmatched_reason IS NULL) != (matched IS NOT NULL)"
        )
        assert connection.execute(wrong).fetchall() == []
        stale = "SELECT * FROM comparison WHERE npu_node NOT IN (SELECT npu_node FROM match)"
        assert connection.execute(stale).fetchall() == []
