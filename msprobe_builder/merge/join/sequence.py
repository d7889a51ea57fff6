"""Joining sequences of calls that share some members."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

_MAX_CELLS = 4_000_000

T = TypeVar("T")


def common_subsequence(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Positions of a longest common subsequence; of very long sequences only a common one."""
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    pairs = [(position, position) for position in range(start)]
    pairs += _between(a, b, range(start, len(a) - end), range(start, len(b) - end))
    pairs += [(len(a) - end + offset, len(b) - end + offset) for offset in range(end)]
    return pairs


def _between(
    a: Sequence[Hashable], b: Sequence[Hashable], range_a: range, range_b: range
) -> list[tuple[int, int]]:
    """Pairs of what both ranges hold; what one of them lacks cannot be in a pair."""
    shared = {a[i] for i in range_a} & {b[j] for j in range_b}
    places_a = [i for i in range_a if a[i] in shared]
    places_b = [j for j in range_b if b[j] in shared]
    keys = [a[i] for i in places_a], [b[j] for j in places_b]
    is_short = len(places_a) * len(places_b) <= _MAX_CELLS
    inner = _longest(*keys) if is_short else _first_come(*keys)
    return [(places_a[i], places_b[j]) for i, j in inner]


def _longest(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    if not a or not b:
        return []
    length = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a) - 1, -1, -1):
        row, below = length[i], length[i + 1]
        for j in range(len(b) - 1, -1, -1):
            row[j] = below[j + 1] + 1 if a[i] == b[j] else max(below[j], row[j + 1])
    pairs = []
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif length[i + 1][j] >= length[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _first_come(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Take each next member of ``a`` at its next place in ``b``; linear, not the longest."""
    places: dict[Hashable, list[int]] = {}
    for j in range(len(b) - 1, -1, -1):
        places.setdefault(b[j], []).append(j)
    pairs = []
    reached = -1
    for i, key in enumerate(a):
        later = places.get(key)
        while later and later[-1] <= reached:
            later.pop()
        if later:
            reached = later.pop()
            pairs.append((i, reached))
    return pairs


def supersequence(
    a: Sequence[T], b: Sequence[T], keys_a: Sequence[Hashable], keys_b: Sequence[Hashable]
) -> list[tuple[T | None, T | None]]:
    """All members of both in order, common ones once; between them those of ``a`` come first."""
    result: list[tuple[T | None, T | None]] = []
    i = j = 0
    for next_i, next_j in [*common_subsequence(keys_a, keys_b), (len(a), len(b))]:
        result += [(member, None) for member in a[i:next_i]]
        result += [(None, member) for member in b[j:next_j]]
        if next_i < len(a) and next_j < len(b):
            result.append((a[next_i], b[next_j]))
        i, j = next_i + 1, next_j + 1
    return result
