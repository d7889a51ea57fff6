"""Records that are written alike but for their numbers, as nearly all of a large dump are.

The layers of a model, and its micro-batches, make the same calls: what a record says beside its
statistics was read before. Its text is taken apart at the floating-point numbers; where the rest
is letter for letter that of an earlier record, the example, only the numbers are read. What is not
certain to be the same is decoded in full.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

# Numbers that are values of an object and have a fraction or an exponent, as JSON writes them.
# What stands first is asked first, as most values are texts.
_NUMBER = re.compile(
    r'": (?=[-0-9NI])'
    r"(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)|NaN|-?Infinity)"
)
# The name of a record that is an object, as it stands behind its first quotation mark.
NAME = re.compile(r'([^"\\\x00-\x1f]*)": (?=\{)')
_LARGEST = 32 << 20  # characters that all examples may have; others are read in full
_APART = "\0"  # stands in no valid JSON


class Alike(NamedTuple):
    """What records that are written alike have: a number, the first, and their text.

    In the text, without its last brace, each number is replaced by what stands in no JSON.
    """

    number: int
    record: Any
    rest: str
    numbers: int  # how many


class Written(NamedTuple):
    """A record that has an example, with its own numbers as they are written."""

    alike: Alike
    numbers: list[str]

    def text(self) -> str:
        """All of it."""
        return _joined(self.alike.rest, self.numbers)


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
        self._examples: dict[str, Alike] = {}
        self._size = 0
        self._collect = collect
        self._twice = twice

    def records(self, text: str, between: str) -> Iterator[tuple[str, Written | Any]]:
        """Name and record of all that stand in a text, with ``between`` from one to the next.

        The first comes without its opening quotation mark, the last without its closing brace.
        Ends before what is no such record. Records that cannot be examples come decoded.
        """
        if _APART in text:
            return
        # All at once: for each record alone it would take half as long again.
        pieces = _NUMBER.split(text)
        numbers, at = pieces[1::2], 0
        for one in _APART.join(pieces[::2]).split(between):
            name = NAME.match(one)
            if name is None:
                return
            rest = one[name.end() :]
            alike = self._examples.get(rest)
            if alike is not None:
                end = at + alike.numbers
                yield name[1], Written(alike, numbers[at:end])
            else:
                end = at + rest.count(_APART)
                before = len(self._twice)
                try:
                    record = self._first(rest, numbers[at:end])
                except ValueError:  # no record of its own
                    del self._twice[before:]
                    return
                yield name[1], record
            at = end

    def _first(self, rest: str, numbers: list[str]) -> Written | Any:
        """A record that is written as none before; decoded as it is where it is no example.

        Raises ValueError when it is not one JSON value.
        """
        before = len(self._twice)
        record, objects = decode_noting(_joined(rest, numbers), self._collect)
        if (
            # A number elsewhere, in a list or a text, would be taken for what it is not.
            [written for written, _ in objects] != numbers
            or len(self._twice) > before
            or self._size + len(rest) > _LARGEST
        ):
            return record
        self._size += len(rest)
        alike = self._examples[rest] = Alike(len(self._examples), record, rest, len(numbers))
        return Written(alike, numbers)


def _joined(rest: str, numbers: list[str]) -> str:
    """The text of a record from what is not a number in it and the numbers."""
    first, *others = rest.split(_APART)
    written = (f'": {number}{other}' for number, other in zip(numbers, others, strict=True))
    return "".join((first, *written, "}"))


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
