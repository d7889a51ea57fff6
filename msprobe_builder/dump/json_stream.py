"""Reading dump.json one record at a time.

Dumps are written by Python's ``json.dump``: bare ``NaN``, ``Infinity`` and ``-Infinity`` are
part of the dialect, so only the standard library's decoder reads them. It decodes one record
after the other from a moving window of text; the file is never held as a whole.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.files import open_regular, version_of
from msprobe_builder.dump.outlines import Place

_WINDOW = 1 << 20
_SPACE = re.compile(r"[ \t\n\r]*")
_AFTER_NUMBER = re.compile(r"[ \t\n\r,}]")
# What stands between two records: from behind the one to the beginning of the other.
_NEXT = re.compile(r'[ \t\n\r]*,[ \t\n\r]*"([^"\\\x00-\x1f]*)"[ \t\n\r]*:[ \t\n\r]*(?=\{)')


class DumpReader:
    """Iterates over the records of the ``data`` object; the other keys land in ``header``.

    The header is complete once the iteration is. Raises BuildError when the file is no JSON
    object, is cut off or has no ``data`` object.

    With ``outlines`` some records of a statistics dump come without their floating-point numbers:
    ``numbers`` holds these then, as they are written and until the next record, and is None for
    all others. :meth:`read_in_full` has the whole record.
    """

    def __init__(self, path: Path, *, outlines: bool = False) -> None:
        self.header: dict[str, Any] = {}
        self.twice: list[str] = []  # keys that an object inside a record repeats
        self._path = path
        self._text = ""
        self._position = 0
        self._at_end = False
        self._decode = json.JSONDecoder(object_pairs_hook=self._collect).raw_decode
        self.numbers: list[str] | None = None
        self.place = Place("", 0, 0)
        self._may_outline = outlines

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        try:
            descriptor = open_regular(self._path)
            with os.fdopen(descriptor, encoding="utf-8-sig") as self._file:
                began = version_of(os.fstat(descriptor))
                yield from self._top()
                # Two halves of different dumps can make one that looks whole.
                now = version_of(os.fstat(descriptor)), version_of(self._path.stat())
                if now != (began, began):
                    raise BuildError(
                        f"{self._path} was changed while it was read; build again when it is"
                        " finished."
                    )
        except OSError as error:
            raise BuildError(f"Cannot read {self._path}: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise self._broken("is not UTF-8 text") from error
        except RecursionError as error:
            raise self._broken("nests values too deeply to be read") from error

    _file: TextIO

    def _collect(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        content = dict(pairs)
        if len(content) < len(pairs):
            seen: set[str] = set()
            self.twice += [key for key, _ in pairs if key in seen or seen.add(key)]  # type: ignore[func-returns-value]
        return content

    def _top(self) -> Iterator[tuple[str, Any]]:
        if self._peek() != "{":
            raise self._broken("does not hold a JSON object")
        seen_data = False
        for key in self._keys():
            if key != "data":
                self.header[key] = self._value()
                continue
            seen_data = True
            if self._peek() != "{":
                raise self._broken("has a key 'data' that is not an object")
            numbers, decode = self._usual_decoder()
            for name in self._keys():
                yield name, self._value()
                # Most records follow in the usual form; what does not is left to the loop.
                self.numbers = numbers
                while found := _NEXT.match(self._text, self._position):
                    if numbers:
                        numbers.clear()
                    begin = found.end()
                    try:
                        value, end = decode(self._text, begin)
                    except ValueError:  # cut off by the end of the window
                        break
                    self._position = end
                    self.place = Place(self._text, begin, end)
                    yield found[1], value
                self.numbers = None
        if self._peek():
            raise self._broken("goes on after its end")
        if not seen_data:
            raise self._broken("has no key 'data'")

    def _usual_decoder(self) -> tuple[list[str] | None, Callable[[str, int], tuple[Any, int]]]:
        """The decoder of records in the usual form, and where it puts numbers, if it does."""
        if not self._may_outline or self.header.get("task") != "statistics":
            return None, self._decode
        numbers: list[str] = []
        # These decoders' own functions for numbers, so that no call of ours is made for each.
        apart = json.JSONDecoder(parse_float=numbers.append, parse_constant=numbers.append)
        return numbers, apart.raw_decode

    def read_in_full(self) -> tuple[Any, list[float]]:
        """The record that came as an outline, and its floating-point numbers: the same objects."""
        numbers: list[float] = []

        def noted(text: str) -> float:
            number = float(text)
            numbers.append(number)
            return number

        decoder = json.JSONDecoder(
            parse_float=noted, parse_constant=noted, object_pairs_hook=self._collect
        )
        return decoder.raw_decode(self.place.text, self.place.begin)[0], numbers

    def _keys(self) -> Iterator[str]:
        """Keys of the object that begins here; the caller takes each value."""
        self._position += 1
        if self._peek() == "}":
            self._position += 1
            return
        while True:
            if self._peek() != '"':
                raise self._broken("is cut off or damaged")
            key = self._value()
            if self._peek() != ":":
                raise self._broken("is cut off or damaged")
            self._position += 1
            yield key
            mark = self._peek()
            self._position += 1
            if mark == "}":
                return
            if mark != ",":
                raise self._broken("is cut off or damaged")

    def _peek(self) -> str:
        """The next character that is not white space, '' at the end of the file."""
        while True:
            self._position = _SPACE.match(self._text, self._position).end()  # type: ignore[union-attr]
            if self._position < len(self._text):
                return self._text[self._position]
            if not self._read_more():
                return ""

    def _value(self) -> Any:
        self._peek()
        while True:
            try:
                value, end = self._decode(self._text, self._position)
            except ValueError as error:
                if self._read_more():
                    continue
                raise self._broken("is cut off or damaged") from error
            # A number cut by the end of the window ("1.5e" of "1.5e9") may go on in the next one.
            is_cut = isinstance(value, int | float) and not _AFTER_NUMBER.match(self._text, end)
            if is_cut and self._read_more():
                continue
            self._position = end
            return value

    def _read_more(self) -> bool:
        """Drop what was consumed and read on; the window doubles while one value fills it."""
        if self._at_end:
            return False
        rest = self._text[self._position :]
        more = self._file.read(max(_WINDOW, len(rest)))
        self._at_end = not more
        self._text = rest + more
        self._position = 0
        return not self._at_end

    def _broken(self, what: str) -> BuildError:
        return BuildError(
            f"{self._path} {what}; dump this step again, or leave the directory out of the build."
        )
