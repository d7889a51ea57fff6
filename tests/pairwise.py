"""Few of many combinations, such that each two values of two parameters meet in one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

Row = dict[str, Any]


def covering(
    values: Mapping[str, Sequence[Any]], is_possible: Callable[[Row], bool] = lambda _: True
) -> list[Row]:
    """Rows that cover all pairs which possible rows have; the same ones each time."""
    rows = [dict(zip(values, one, strict=True)) for one in product(*values.values())]
    rows = [row for row in rows if is_possible(row)]
    left = {pair for row in rows for pair in _pairs(row)}
    found = []
    while left:
        best = max(rows, key=lambda row: len(left & set(_pairs(row))))
        found.append(best)
        left -= set(_pairs(best))
    return found


def _pairs(row: Row) -> Iterator[tuple[tuple[str, Any], tuple[str, Any]]]:
    return combinations(sorted(row.items()), 2)
