"""One line per operator that is not ok, in order of execution."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msprobe_builder.base.printable import printable
from msprobe_builder.database.open import opened


def operator_lines(database: Path) -> Iterator[str]:
    """Lines for the npu nodes graded worse than ok."""
    with opened(database) as connection:
        rows = connection.execute(
            "SELECT step, rank, node_view.grade, node_view.error, node_view.name FROM node_view"
            " JOIN node USING (node_id)"
            " WHERE side = 'npu' AND node.grade BETWEEN 2 AND 5 ORDER BY step, rank, seq"
        )
        for step, rank, grade, error, name in rows:
            yield f"step {step} rank {rank}  {grade:<8}  error {error:.6f}  {printable(name)}"
