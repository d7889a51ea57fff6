"""Records that are written alike but for their numbers, as nearly all of a large dump are.

The layers of a model, and its micro-batches, make the same calls: what a record says beside its
statistics was read before. Its text is taken apart at the floating-point numbers; where the rest
is letter for letter that of an earlier record, the example, only the numbers are read. What is not
certain to be the same is decoded in full.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

# Numbers that are values of an object and have a fraction or an exponent, as JSON writes them.
_NUMBER = re.compile(
    r'": (-?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)|NaN|-?Infinity)'
)
_LARGEST = 32 << 20  # characters that all examples may have; others are read in full
_APART = "\0"  # stands in no valid JSON


class Written(NamedTuple):
    """A record that has an example: which one, what that says, and its own numbers as written."""

    example: int
    record: Any
    numbers: list[str]


class Example(NamedTuple):
    """What all records like this one have: rows of parameters, and how numbers belong to them."""

    first: int
    length: int
    constants: tuple[tuple[int, str], ...]  # place and text of the numbers that are no statistics
    statistics: tuple[int, ...]  # places of those that are


class WrittenAlike:
    """How the records of a dump are written, each way once."""

    def __init__(self, collect: Callable[[list[tuple[str, Any]]], Any], twice: list[str]) -> None:
        """``collect`` makes objects as ``object_pairs_hook`` does, and tells ``twice`` of keys."""
        self._examples: dict[str, tuple[int, Any, int]] = {}  # the last: how many numbers
        self._size = 0
        self._collect = collect
        self._twice = twice

    def read(self, text: str) -> Written | Any:
        """A record from its text; decoded as it is where it cannot be an example.

        Raises ValueError when the text is not one JSON value.
        """
        pieces = _NUMBER.split(text)
        rest, numbers = _APART.join(pieces[::2]), pieces[1::2]
        known = self._examples.get(rest)
        if known is not None and known[2] == len(numbers):
            return Written(known[0], known[1], numbers)
        before = len(self._twice)
        value, objects = decode_noting(text, self._collect)
        if (
            # A number elsewhere, in a list or a text, would be taken for what it is not.
            [written for written, _ in objects] != numbers
            or len(self._twice) > before
            or self._size + len(rest) > _LARGEST
        ):
            return value
        self._size += len(rest)
        number = len(self._examples)
        self._examples[rest] = number, value, len(numbers)
        return Written(number, value, numbers)


def decode_noting(
    text: str, collect: Callable[[list[tuple[str, Any]]], Any]
) -> tuple[Any, list[tuple[str, float]]]:
    """The value of a text, and its floating-point numbers: as written, and the very objects.

    Raises ValueError when the text is not one JSON value.
    """
    objects: list[tuple[str, float]] = []

    def noted(written: str) -> float:
        number = float(written)
        objects.append((written, number))
        return number

    decoder = json.JSONDecoder(parse_float=noted, parse_constant=noted, object_pairs_hook=collect)
    return decoder.decode(text), objects


def example_of(numbers: list[str], places: list[int], first: int, length: int) -> Example | None:
    """What records like this one have; None when their numbers are not in the order of the rows.

    ``places`` tells which of the numbers became statistics, in the order of the parameters, of
    which there are ``length`` from row ``first`` on.
    """
    if not all(one < later for one, later in pairwise(places)):
        return None
    statistics = set(places)
    constants = ((at, text) for at, text in enumerate(numbers) if at not in statistics)
    return Example(first, length, tuple(constants), tuple(places))
