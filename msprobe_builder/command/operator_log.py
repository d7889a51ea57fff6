"""One line per operator that is not ok, in order of execution."""

from __future__ import annotations

from collections.abc import Iterator
from math import nan
from pathlib import Path

from msprobe_builder.base.printable import printable
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.lists import read_wrong_nodes
from msprobe_builder.export.wrapped import padded
from msprobe_builder.facts.fact import fact
from msprobe_builder.facts.wording import tell
from msprobe_builder.facts.words import GRADE

_GRADE = 8  # columns


def operator_lines(database: Path) -> Iterator[str]:
    """Lines for the npu nodes graded worse than ok."""
    with opened(database) as connection:
        for node in read_wrong_nodes(connection):
            error = nan if node.error is None else node.error
            yield tell(
                fact(
                    "log.operator",
                    step=node.step,
                    rank=node.rank,
                    grade=padded(GRADE[node.grade.name.lower()], _GRADE),
                    error=f"{error:.6f}",
                    name=printable(node.name),
                )
            )
