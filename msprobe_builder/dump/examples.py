"""Records that are written alike but for their numbers, as nearly all of a large dump are.

The layers of a model, and its micro-batches, make the same calls: what a record says beside its
statistics was read before. Its text is taken apart at the floating-point numbers; where the rest
is letter for letter that of an earlier record, the example, only the numbers are read. What is not
certain to be the same is decoded in full.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Callable, Generator, Iterator, Sequence, Set
from math import isfinite
from typing import Any, NamedTuple

from msprobe_builder.dump import compiled

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
BYTES = 8  # of a float64


# Name and record of many, or of the first of Several; at last how many there were before what is no
# such record, if something.
Records = Generator[tuple[str, Any], None, int | None]


class Alike(NamedTuple):
    """What records that are written alike have: a number, the first, and their text.

    In the text, without its last brace, each number is replaced by what stands in no JSON.
    """

    number: int
    record: Any
    rest: str
    numbers: int  # how many
    is_recompute: bool


class Several(NamedTuple):
    """Records that follow each other and have examples, with the numbers of all as float64."""

    names: list[str]
    alike: list[Alike]
    numbers: bytes


class Written(NamedTuple):
    """A record that has an example, with its own numbers as float64."""

    alike: Alike
    numbers: bytes

    def text(self) -> str:
        """All of it, numbers as Python writes those that they are."""
        return _joined(self.alike.rest, list(map(_text_of, array("d", self.numbers))))


def apart(several: Several) -> Iterator[tuple[str, Written]]:
    """Name and record of each."""
    at = 0
    for name, alike in zip(several.names, several.alike, strict=True):
        end = at + BYTES * alike.numbers
        yield name, Written(alike, several.numbers[at:end])
        at = end


class Example(NamedTuple):
    """What all records like this one have: rows of parameters, and how numbers belong to them."""

    first: int
    length: int
    constants: tuple[tuple[slice, bytes], ...]  # numbers that are read, but are no statistics
    statistics: tuple[slice | bytes, ...]  # where those are, or one that all have, such as a 0
    is_plain: bool  # all numbers are statistics, in the order of the rows

    def picked(self, numbers: bytes) -> bytes:
        """The statistics of a record that has these numbers."""
        pieces = self.statistics
        return b"".join([one if type(one) is bytes else numbers[one] for one in pieces])  # type: ignore[index]


class WrittenAlike:
    """How the records of a dump are written, each way once."""

    def __init__(self, collect: Callable[[list[tuple[str, Any]]], Any], twice: list[str]) -> None:
        """``collect`` makes objects as ``object_pairs_hook`` does, and tells ``twice`` of keys."""
        self._examples: dict[str, Alike] = {}
        self._size = 0
        self._collect = collect
        self._twice = twice

    def records(self, text: str, between: str) -> Records:
        """Name and record of all that stand in a text, with ``between`` from one to the next.

        The first comes without its opening quotation mark, the last without its closing brace.
        Ends before what is no such record, and then returns how many there were. Records that
        have an example come as Several, under the name of the first; others that cannot be
        examples come decoded.
        """
        if _APART in text:
            return 0
        if compiled.compiled is None:
            return (yield from self._split(text, between))
        return (yield from self._apart(text, between))

    def _split(self, text: str, between: str) -> Records:
        # All at once: for each record alone it would take half as long again.
        pieces = _NUMBER.split(text)
        written, at = pieces[1::2], 0
        # What one call puts out others are given, so three of four texts stand there before.
        number_of = {one: float(one) for one in set(written)}
        numbers = array("d", list(map(number_of.__getitem__, written))).tobytes()
        names: list[str] = []
        known: list[Alike] = []
        begun, ends_at = 0, None  # the first number of those, and the record that is none
        for count, one in enumerate(_APART.join(pieces[::2]).split(between)):
            name = NAME.match(one)
            if name is None:
                ends_at = count
                break
            rest = one[name.end() :]
            alike = self._examples.get(rest)
            if alike is not None:
                names.append(name[1])
                known.append(alike)
                at += alike.numbers
                continue
            if names:
                yield names[0], Several(names, known, numbers[BYTES * begun : BYTES * at])
                names, known = [], []
            begun = at + rest.count(_APART)
            try:
                record = self._first(rest, written[at:begun])
            except ValueError:
                return count
            yield name[1], record
            at = begun
        if names:
            yield names[0], Several(names, known, numbers[BYTES * begun : BYTES * at])
        return ends_at

    def _apart(self, text: str, between: str) -> Records:
        """The same by the compiled module, from one record that is new to the next."""
        count = place = 0
        while place >= 0:
            names, known, numbers, unknown, place = compiled.compiled.apart(
                text, between, self._examples, place
            )
            if names:
                yield names[0], Several(names, known, numbers)
            count += len(names)
            if unknown is None:
                return None if place < 0 else count
            name, rest, written = unknown
            try:
                record = self._first(rest, written)
            except ValueError:
                return count
            yield name, record
            count += 1
        return None

    def _first(self, rest: str, numbers: list[str]) -> Written | Any:
        """A record that is written as none before; decoded as it is where it is no example.

        Raises ValueError when it is not one JSON value.
        """
        before = len(self._twice)
        try:
            record, objects = decode_noting(_joined(rest, numbers), self._collect)
        except ValueError:
            del self._twice[before:]
            raise
        if (
            # A number elsewhere, in a list or a text, would be taken for what it is not.
            [written for written, _ in objects] != numbers
            or len(self._twice) > before
            or self._size + len(rest) > _LARGEST
        ):
            return record
        self._size += len(rest)
        alike = self._examples[rest] = Alike(
            len(self._examples), record, rest, len(numbers), record.get("is_recompute") is True
        )
        return Written(alike, array("d", map(float, numbers)).tobytes())


def _text_of(number: float) -> str:
    """A number as Python's JSON has it."""
    return repr(number) if isfinite(number) else json.dumps(number)


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


def example_of(
    numbers: bytes,
    taken: Sequence[float],
    places: Sequence[int],
    read: Set[int],
    first: int,
    length: int,
) -> Example:
    """What records like this one have.

    ``places`` tells which of the numbers became the statistics ``taken``, in the order of the
    parameters, of which there are ``length`` from row ``first`` on; -1 is one that follows from
    the rest of the text. ``read`` tells which numbers are read at all.
    """
    where = [slice(at, at + BYTES) for at in range(0, len(numbers), BYTES)]
    constants = [where[place] for place in sorted(read - set(places))]
    return Example(
        first,
        length,
        tuple((at, numbers[at]) for at in constants),
        tuple(
            where[place] if place >= 0 else array("d", (number,)).tobytes()
            for place, number in zip(places, taken, strict=True)
        ),
        list(places) == list(range(len(where))),
    )
