"""Texts in tables that a spreadsheet program would run as formulas; names come from dumps."""

from __future__ import annotations

from typing import TypeVar

Value = TypeVar("Value")

FORMULA = ("=", "+", "-", "@", "\t", "\r")


def harmless(value: Value) -> Value | str:
    """A text that looks like a formula with an apostrophe before it, anything else as it is."""
    if isinstance(value, str) and value.startswith(FORMULA):
        return f"'{value}"
    return value
