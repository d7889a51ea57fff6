"""Numbers that may be absent, in columns that have no place for that."""

from __future__ import annotations


def number(value: float | None) -> float:
    """-1 for none; errors are never negative."""
    return -1.0 if value is None else value
