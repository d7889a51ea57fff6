"""One line per operator that is not ok, in order of execution."""

from __future__ import annotations

from collections.abc import Iterator
from math import nan
from pathlib import Path

from msprobe_builder.base.printable import printable
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.lists import read_wrong_nodes


def operator_lines(database: Path) -> Iterator[str]:
    """Lines for the npu nodes graded worse than ok."""
    with opened(database) as connection:
        for node in read_wrong_nodes(connection):
            grade, error = node.grade.name.lower(), nan if node.error is None else node.error
            place = f"step {node.step} rank {node.rank}"
            yield f"{place}  {grade:<8}  error {error:.6f}  {printable(node.name)}"
