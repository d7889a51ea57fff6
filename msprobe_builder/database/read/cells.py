"""Single values out of a database that may hold anything in any column."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import repeat
from math import nan
from typing import Any

from msprobe_builder.database.problems import DamagedError

UINT32 = 2**32 - 1
INT32 = 2**31 - 1  # what the browser holds columns in
MAX_NODE = 2**53  # exact in float64, which carries whole columns
_LISTED = re.compile(r"[0-9]{1,10}(?:,[0-9]{1,10})*")
_FLOATS = {float, type(None)}
_FLAGS = {0: False, 1: True, None: None}


def integer(value: object, low: int = 0, high: int = UINT32) -> int:
    """A whole number within bounds."""
    if type(value) is int and low <= value <= high:
        return value
    raise DamagedError(f"{_shown(value)} stands where a number from {low} to {high} belongs")


def integers(column: Sequence[Any], low: int = 0, high: int = UINT32) -> Sequence[int]:
    """A column of the same, as it is."""
    if set(map(type, column)) == {int} and low <= min(column) and max(column) <= high:
        return column
    return [integer(value, low, high) for value in column]  # says which one is none


def optional_integer(value: object, low: int = 0, high: int = UINT32) -> int | None:
    """The same, or NULL."""
    return None if value is None else integer(value, low, high)


def flag(value: object) -> bool | None:
    """A yes or no, or NULL."""
    return None if value is None else bool(integer(value, 0, 1))


def flags(column: Sequence[Any]) -> Iterable[bool | None]:
    """A column of the same."""
    return map(_FLAGS.__getitem__ if set(column) <= _FLAGS.keys() else flag, column)


def number(value: object, is_nan: int = 0) -> float | None:
    """A float or NULL; SQLite has no NaN, so a NULL with ``is_nan`` set is one."""
    if value is None:
        return nan if is_nan else None
    if isinstance(value, int | float):
        return float(value)
    raise DamagedError(f"{_shown(value)} stands where a number belongs")


def are_floats(column: Sequence[Any]) -> bool:
    """Whether a column holds nothing but floats and NULL."""
    return set(map(type, column)) <= _FLOATS


def numbers(column: Sequence[Any]) -> Iterable[float | None]:
    """A column of floats or NULL, none of which is NaN."""
    return column if are_floats(column) else map(number, column)


def text(value: object) -> str:
    """A text; NULL is the empty one."""
    return optional_text(value) or ""


def optional_text(value: object) -> str | None:
    """A text or NULL."""
    if value is None or isinstance(value, str):
        return value
    raise DamagedError(f"{_shown(value)} stands where a text belongs")


def listed(value: object) -> tuple[int, ...]:
    """Whole numbers with commas between, each once and in order; NULL is none."""
    parts = optional_text(value)
    if parts is None:
        return ()
    if _LISTED.fullmatch(parts) is None:
        raise DamagedError(f"{_shown(value)} stands where numbers with commas between belong")
    return tuple(sorted({int(part) for part in parts.split(",")}))


def texts(column: Sequence[Any]) -> Iterable[str]:
    """A column of texts, where NULL is the empty one."""
    kinds = set(map(type, column))
    return column if kinds == {str} else repeat("") if kinds == {type(None)} else map(text, column)


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else shown[:39] + "…"
