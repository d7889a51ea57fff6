"""Joining sequences of calls that share some members."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

import numpy as np

from msprobe_builder.base.sequence import align

T = TypeVar("T")


def common_subsequence(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Positions of a longest common subsequence; of very long sequences only a common one.

    Of equal members the first are common: what one rank does more of it does at the end.
    """
    token: dict[Hashable, int] = {}
    backwards = (
        np.array([token.setdefault(one, len(token)) for one in reversed(keys)], dtype=np.int64)
        for keys in (a, b)
    )
    x, y = align(*backwards)
    last = len(a) - 1 - x, len(b) - 1 - y
    return list(zip(*(one[::-1].tolist() for one in last), strict=True))


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
