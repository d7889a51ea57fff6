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
from msprobe_builder.dump.argument_gradients import ARGUMENT_GRADIENTS
from msprobe_builder.dump.examples import NAME, Records, WrittenAlike
from msprobe_builder.files.regular import is_packed, open_regular, version_of

_WINDOW = 1 << 20
_SPACE = re.compile(r"[ \t\n\r]*")
_AFTER_NUMBER = re.compile(r"[ \t\n\r,}]")
# What stands between two records, each on lines of its own: a break of line is in no JSON text, so
# that the same once more is between two records again, or the pieces are no JSON.
_BETWEEN = re.compile(r',[ \t]*\n[ \t]*"')

# Reads what stands between two records from the text of many.
_ReadRecords = Callable[[str, str], Records]


class DumpReader:
    """Iterates over the records of the ``data`` object; the other keys land in ``header``.

    The header is complete once the iteration is. Raises BuildError when the file is no JSON
    object, is cut off or has no ``data`` object.

    With ``by_example`` most records of a statistics dump come as :class:`Several`, or one alone as
    :class:`Written`, to be decoded with :meth:`collect`.
    """

    def __init__(self, path: Path, *, by_example: bool = False) -> None:
        self.header: dict[str, Any] = {}
        self.twice: list[str] = []  # keys that an object inside a record repeats
        self.is_cut_off = False  # the recorder was killed while it appended to the file
        self._path = path
        self._text = ""
        self._position = 0
        self._at_end = False
        self._decode = json.JSONDecoder(object_pairs_hook=self.collect).raw_decode
        self._by_example = by_example

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

    def collect(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """An object from its keys and values; repeated keys are told in ``twice``."""
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
            read = self._reader()
            for name in self._keys():
                yield name, self._value()
                # Most records follow in the usual form; what does not is left to this loop.
                yield from self._usual(read)
        if self._peek():
            if self.header.get(ARGUMENT_GRADIENTS) is not True:  # of another recorder
                raise self._broken("goes on after its end")
            self.is_cut_off = True
        if not seen_data:
            raise self._broken("has no key 'data'")

    def _reader(self) -> _ReadRecords:
        """What reads the text of many records."""
        if self._by_example and self.header.get("task") == "statistics":
            return WrittenAlike(self.collect, self.twice).records
        return self._decoded

    def _usual(self, read: _ReadRecords) -> Iterator[tuple[str, Any]]:
        """The records from here on that are objects on lines of their own.

        Begins and ends behind a record.
        """
        while found := _BETWEEN.match(self._text, self._position):
            between = "}" + found[0]
            last = self._text.rfind(between, found.end())
            if last < 0:
                if self._read_more():
                    continue
                return
            records = self._text[found.end() : last]
            count = yield from read(records, between)
            if count is not None:
                taken = records.split(between, count)[:count]
                self._position += sum(len(one) + len(between) for one in taken)
                return
            self._position = last + 1

    def _decoded(self, text: str, between: str) -> Records:
        """Name and record of all that stand in a text, and how many if something else follows."""
        decode = json.JSONDecoder(object_pairs_hook=self.collect).decode
        for count, one in enumerate(text.split(between)):
            name = NAME.match(one)
            if name is None:
                return count
            twice = len(self.twice)
            try:
                record = decode(one[name.end() :] + "}")
            except ValueError:  # no record of its own
                del self.twice[twice:]
                return count
            yield name[1], record
        return None

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
        if is_packed(self._path):
            return BuildError(f"{self._path} is compressed; unpack it.")
        return BuildError(
            f"{self._path} {what}; dump this step again, or leave the directory out of the build."
        )
