"""Slices that differ or moved, in words."""

from __future__ import annotations

import pytest

from msprobe_builder.base.codes import SLICES
from msprobe_builder.facts.wording import tell
from msprobe_builder.metrics.where import where_words

Moves = dict[int, int]


def said(
    shape: tuple[int, ...], rows: set[int], columns: set[int], moved: Moves, across: Moves
) -> str:
    masks = [sum(1 << one for one in slices) for slices in (rows, columns)]
    sources = [[moves.get(place, -1) for place in range(SLICES)] for moves in (moved, across)]
    return tell(where_words(shape, masks[0], masks[1], *sources))


ONLY: list[tuple[tuple[int, ...], set[int], set[int], str]] = [
    ((512, 64), {3}, set(), "differs only in rows 96–127"),
    ((512, 64), {3, 4, 7}, set(), "differs only in rows 96–159 and 224–255"),
    ((16, 64), {5}, set(), "differs only in row 5"),
    ((512, 64), set(), {15}, "differs only in columns 60–63"),
    ((512, 64), {0}, {1}, "differs only in rows 0–31 and columns 4–7"),
    ((100,), set(), {14}, "differs only in elements 98–99"),  # 15 slices of 7, the last has 2
    ((2, 4, 16, 8), {2, 3, 10, 11}, set(), "differs only in index 1 of dimension 1"),
    ((2, 4, 16, 8), set(range(8)), set(), "differs only in index 0 of dimension 0"),
    ((1, 32, 8), {1}, set(), "differs only in indices 2–3 of dimension 1"),
    ((2, 4, 16, 8), set(), {7}, "differs only in index 7 of dimension 3"),
    (
        (3, 5, 7),
        {1, 4},
        set(),
        "differs only in rows 1 and 4 of 15, counted through all dimensions but the last",
    ),
    ((512, 64), set(), set(), ""),
    ((), set(), set(), ""),
]


@pytest.mark.parametrize(("shape", "rows", "columns", "words"), ONLY)
def test_where_alone_tensors_differ(
    shape: tuple[int, ...], rows: set[int], columns: set[int], words: str
) -> None:
    assert said(shape, rows, columns, {}, {}) == words


MOVED: list[tuple[tuple[int, ...], Moves, Moves, str]] = [
    ((512, 64), {1: 2, 2: 1}, {}, "rows 32–63 and 64–95 exchanged"),
    ((512, 64), {1: 3, 2: 4, 3: 1, 4: 2}, {}, "rows 32–95 and 96–159 exchanged"),
    ((32, 64), {4: 8, 6: 10, 7: 11, 8: 4, 10: 6, 11: 7}, {}, "rows 8–15 and 16–23 exchanged"),
    ((512, 64), {}, {0: 15, 15: 0}, "columns 0–3 and 60–63 exchanged"),
    ((2, 4, 16, 8), {2: 4, 3: 5, 4: 2, 5: 3, 10: 12, 11: 13, 12: 10, 13: 11}, {},
     "indices 1 and 2 of dimension 1 exchanged"),
    ((16, 8), {place: (place - 1) % 16 for place in range(16)}, {}, "rows 0–15 shifted up by 1"),
    ((16, 8), {place: (place + 2) % 16 for place in range(16)}, {}, "rows 0–15 shifted down by 2"),
    ((16, 8), {place: place - 1 for place in range(1, 16)}, {}, "rows 0–15 shifted up by 1"),
    ((2, 8, 5), {p: p // 8 * 8 + (p - 1) % 8 for p in range(16)}, {},
     "indices 0–7 of dimension 1 shifted up by 1"),
    ((512, 64), {1: 2, 2: 5, 5: 1}, {}, "rows 32–95 and 160–191 in another order"),
    ((16, 8), {0: 1, 1: 0, 4: 7, 7: 4}, {}, "rows 0 and 1; rows 4 and 7 exchanged"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "moved", "across", "words"), MOVED)
def test_what_stands_elsewhere(
    shape: tuple[int, ...], moved: Moves, across: Moves, words: str
) -> None:
    assert said(shape, set(moved), set(across), moved, across) == words
