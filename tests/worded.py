"""Rows of a database in words: what it holds as facts as English sentences."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msprobe_builder.facts.fact import decode, is_encoded
from msprobe_builder.facts.wording import ENGLISH, tell


def worded(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows with a sentence in place of each cell that holds facts."""
    return [tuple(map(english, row)) for row in rows]


def english(cell: Any) -> Any:
    """A cell, in words where it holds facts."""
    return tell(decode(cell), ENGLISH) if isinstance(cell, str) and is_encoded(cell) else cell
