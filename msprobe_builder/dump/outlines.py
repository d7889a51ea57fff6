"""Records that differ in nothing but their statistics, as nearly all of a large dump do.

The layers of a model, and its micro-batches, make the same calls: what a record says beside its
statistics was read before. The decoder puts floating-point numbers aside as text and leaves the
outline of a record; a known outline has the parameters of the record it was learnt from, with
these numbers as statistics in the same order. What is not certain to be the same is read in full.
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

# Where null stands for a statistic, or may, as an escape can hide a key.
_NULL_STATISTIC = re.compile(r'"(?:Max|Min|Mean|Norm)"\s*:\s*null|\\')


class Place(NamedTuple):
    """Where a record is written: ``text[begin:end]``."""

    text: str
    begin: int
    end: int


class Known(NamedTuple):
    """What all records of an outline have: rows of parameters, and how numbers belong to them."""

    first: int
    length: int
    numbers: int
    constants: tuple[tuple[int, str], ...]  # place and text of the numbers that are no statistics
    colons: int  # with more of them a key would be there twice
    has_null: bool


class Outlines:
    """The outlines of one kind of records of a dump."""

    def __init__(self) -> None:
        self._known: dict[bytes, list[Known]] = {}

    def find(self, outline: Any, numbers: Sequence[str], place: Place) -> Known | None:
        """What a record of this outline has; None when it must be read."""
        for known in self._known.get(marshal.dumps(outline, 2), ()):
            if (
                len(numbers) == known.numbers
                and all(numbers[number] == text for number, text in known.constants)
                and place.text.count(":", place.begin, place.end) == known.colons
                # A number and a null leave the same outline, so they must not change places.
                and not (known.has_null and _NULL_STATISTIC.search(*place))
            ):
                return known
        return None

    def learn(
        self,
        outline: Any,
        numbers: Sequence[str],
        place: Place,
        rows: tuple[int, int],
        statistics: Sequence[int],
    ) -> None:
        """Take a record as the example of its outline.

        ``rows`` are the first and the number of its parameters, ``statistics`` the places of
        those numbers that are statistics, in the order of the parameters.
        """
        is_statistic = set(statistics)
        constants = tuple(
            (number, text) for number, text in enumerate(numbers) if number not in is_statistic
        )
        has_null = place.text.find("null", place.begin, place.end) >= 0
        in_order = all(one < later for one, later in pairwise(statistics))
        # A null may have been where another number is that is no statistic.
        if not in_order or (has_null and constants):
            return
        colons = place.text.count(":", place.begin, place.end)
        known = Known(*rows, len(numbers), constants, colons, has_null)
        self._known.setdefault(marshal.dumps(outline, 2), []).append(known)
