"""Errors, grades and roll-ups of nodes that are measured again."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from math import isnan

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Grade
from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.cells import MAX_NODE, integer

_GRADED = (Grade.OK, Grade.SLIGHT, Grade.MODERATE, Grade.SERIOUS, Grade.SEVERE)
_COUNTS = tuple(grade.name.lower() for grade in Grade)


def delete_comparisons(connection: sqlite3.Connection, npu_nodes: Iterable[int]) -> None:
    """Take away what was measured of the pairs of some nodes."""
    connection.executemany(
        "DELETE FROM comparison WHERE npu_node = ?", [(node,) for node in npu_nodes]
    )


def store_grades(connection: sqlite3.Connection, rows: Iterable[tuple[int, float, int]]) -> None:
    """Set error, NaN for none, and grade of nodes."""
    connection.executemany(
        "UPDATE node SET error = ?, grade = ? WHERE node_id = ?",
        [(None if isnan(error) else error, grade, node) for node, error, grade in rows],
    )


def grade_bench(connection: sqlite3.Connection, nodes: Iterable[int]) -> None:
    """Bench nodes are only matched or unmatched."""
    connection.executemany(
        "UPDATE node SET grade = iif(EXISTS (SELECT 1 FROM match WHERE bench_node = node_id), ?, ?)"
        " WHERE node_id = ?",
        [(int(Grade.UNGRADED), int(Grade.UNMATCHED), node) for node in nodes],
    )


def add_to_rollup(connection: sqlite3.Connection, node: int, difference: NDArray[np.int64]) -> None:
    """Change the counts of grades below a node; DamagedError when it has none."""
    row = connection.execute(
        f"SELECT {', '.join(_COUNTS)} FROM rollup WHERE node_id = ?", (node,)
    ).fetchone()
    if row is None:
        raise DamagedError(f"node {node} has no row in table rollup")
    stored = np.array([integer(count, 0, MAX_NODE) for count in row])
    counts = (stored + difference).tolist()
    worst = max((grade for grade in _GRADED if counts[grade]), default=Grade.UNGRADED)
    connection.execute(
        f"UPDATE rollup SET worst_grade = ?, {', '.join(f'{name} = ?' for name in _COUNTS)}"
        " WHERE node_id = ?",
        (int(worst), *counts, node),
    )
