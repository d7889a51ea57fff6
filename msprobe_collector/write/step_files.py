"""The files of a step, appended to and complete after every flush.

Each file ends with a closing tail. A flush overwrites the tail with the new entries and writes
it again, so the cost is that of the new entries. The tail goes last: a run that is killed while it
writes leaves all that was there before, and behind it what readers of ours pass over.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from msprobe_builder.base.publish import temporary_name
from msprobe_builder.sketch.layout import NAME as SKETCHES
from msprobe_builder.sketch.layout import ROW
from msprobe_collector.signals import pass_on_if_of_signal
from msprobe_collector.write.records import encode, encode_text, record_text
from msprobe_collector.write.sketch_file import (
    CountedSketches,
    Shown,
    SketchFile,
    packed_places,
    text_and_shown,
)


class AppendedObject:
    """A JSON object in a file that grows by whole entries."""

    def __init__(self, path: Path, head: str, tail: str) -> None:
        path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        self.path = path
        temporary = path.with_name(temporary_name(path.name))
        self._file = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o640)
        self._tail = tail.encode()
        self.size = 0  # bytes
        self.entries = 0  # lasting ones
        self._end = 0
        self._empty = True
        self._passing = b""
        self._end = self._replace_tail(head.encode(), b"")
        temporary.replace(path)  # no reader meets an empty file

    def append(self, entries: Sequence[str], provisional: Sequence[str] = ()) -> None:
        """Add ``entries``; ``provisional`` ones last until the next call replaces them."""
        lasting = b""
        if entries:
            lasting = (self._separator + ",\n".join(entries)).encode()
        passing = b""
        if provisional:
            start = ",\n" if entries else self._separator
            passing = (start + ",\n".join(provisional)).encode()
        if not lasting and passing == self._passing:
            return
        self._passing = b""  # if that fails
        self._end = self._replace_tail(lasting, passing)
        self._passing = passing
        self.entries += len(entries)
        self._empty = self._empty and not entries

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._file)

    @property
    def _separator(self) -> str:
        return "\n" if self._empty else ",\n"

    def _replace_tail(self, lasting: bytes, passing: bytes) -> int:
        """Write behind the last entry; where the new end is. A failure leaves the old file."""
        try:
            self._write(lasting + passing + self._tail, self._end)
        except OSError:
            with contextlib.suppress(OSError):
                self._write(self._tail, self._end)
            raise
        self.size = self._end + len(lasting + passing + self._tail)
        return self._end + len(lasting)

    def _write(self, content: bytes, position: int) -> None:
        if not os.fstat(self._file).st_nlink:
            raise OSError(errno.ENOENT, "it was deleted while it was written", str(self.path))
        tail = len(self._tail)
        if not self.size:
            self._put(content, position)
            return
        self._put(self._tail, position)  # in place of entries that passed
        self._put(content[tail:], position + tail)
        self._put(content[:tail], position)
        os.ftruncate(self._file, position + len(content))

    def _put(self, content: bytes, position: int) -> None:
        rest = memoryview(content)
        while rest:
            written = os.pwrite(self._file, rest, position)
            position += written
            rest = rest[written:]


class CountedObject:
    """Counts what :class:`AppendedObject` would write."""

    def __init__(self, head: str, tail: str) -> None:
        self.entries = 0
        self._lasting = len(head.encode()) + len(tail.encode())
        self._passing = 0

    def append(self, entries: Sequence[str], provisional: Sequence[str] = ()) -> None:
        """Count ``entries``; ``provisional`` ones are replaced by the next call."""
        self.entries += len(entries)
        self._lasting += sum(len(entry.encode()) + len(",\n") for entry in entries)
        self._passing = sum(len(entry.encode()) + len(",\n") for entry in provisional)

    @property
    def size(self) -> int:
        """Bytes."""
        return self._lasting + self._passing

    def close(self) -> None:
        """Nothing is open."""


class OpenCall(NamedTuple):
    """A call that has not returned: it stands in the files until the next flush."""

    name: str
    record: dict[str, Any]
    places: Sequence[tuple[str, str | None]]  # itself and those around it, each below another
    stack: int | None


class StepFiles:
    """dump.json, construct.json and stack.json of one step and rank, and sketch.bin if asked.

    ``take_rows`` gives the sketches that came since its last call; without it there are none.
    As an ``estimate`` nothing is written, only counted. Without ``extra_info`` there are no stacks,
    and nothing says who called whom.
    """

    def __init__(
        self,
        directory: Path,
        task: str,
        level: str,
        framework: str,
        saves_tensors: bool,
        estimate: bool = False,
        take_rows: Callable[[], npt.NDArray[Any]] | None = None,
        extra_info: bool = True,
    ) -> None:
        self.directory = directory
        header = {
            "task": task,
            "level": level,
            "framework": framework,
            "argument_gradients": True,  # see BackwardCalls
            "dump_data_dir": str(tensor_directory(directory)) if saves_tensors else None,
        }
        head = json.dumps(header, indent=1)[:-2] + ',\n "data": {'

        def opened(
            name: str, head: str, tail: str, is_there: bool = True
        ) -> AppendedObject | CountedObject:
            if estimate or not is_there:
                return CountedObject(head, tail)
            return AppendedObject(directory / name, head, tail)

        # dump.json comes last: where it is, the others are as well.
        self._construct = opened("construct.json", "{", "\n}", extra_info)
        self._stack = opened("stack.json", "{", "\n}", extra_info)
        self._dump = opened("dump.json", head, "\n }\n}")
        self._take_rows = take_rows
        self._sketches: SketchFile | CountedSketches | None = None
        if take_rows is not None:
            path = directory / SKETCHES
            self._sketches = CountedSketches() if estimate else SketchFile(path)
        # As text where possible: what waits as objects is gone through by every garbage collection.
        # Its name and record, or its text and None, and the sketches that it shows.
        self._data: list[tuple[str, Any, Shown]] = []
        self._written_latest: list[Any] = []
        self._added = 0
        self._latest: dict[str, Any] = {}
        self._parents: list[str] = []
        self._placed: set[str] = set()
        self._callers: list[tuple[str, int]] = []
        self._groups = 0

    def add_record(self, name: str, record: Any, is_final: bool = False) -> None:
        """Add a record, whose numbers may come until the next flush unless it ``is_final``."""
        if is_final:
            text, shown = self._told(name, record)
            self._data.append((text, None, shown))
        else:
            self._data.append((name, record, []))
        self._added += 1

    def _told(self, name: str, record: Any) -> tuple[str, Shown]:
        """An entry of dump.json, and which of its tensors have which sketch."""
        if self._sketches is None:
            return _entry(name, record), []
        text, shown = text_and_shown(name, record)
        return f"  {encode_text(name)}: {text}", shown

    def set_latest(self, name: str, record: Any) -> None:
        """A record that a later one of the same name replaces, until the step is over."""
        self._latest[name] = record

    def has_placed(self, child: str) -> bool:
        """Whether it is known who called ``child``, and who called that."""
        return child in self._placed

    def place(self, child: str, parent: str | None) -> None:
        """Note who called ``child``."""
        self._placed.add(child)
        self._parents.append(_place_entry(child, parent))

    def add_stack(self, name: str, stack: int) -> None:
        self._callers.append((name, stack))

    @property
    def calls(self) -> int:
        """Records of this step."""
        return self._added + len(self._latest)

    @property
    def waiting(self) -> int:
        return len(self._data) + len(self._callers)

    @property
    def size(self) -> int:
        """Bytes of the files."""
        return sum(file.size for file in self._files)

    @property
    def _files(self) -> list[Any]:
        files = [self._dump, self._construct, self._stack, self._sketches]
        return [file for file in files if file is not None]

    def flush(self, lines: Callable[[int], list[str]], open_calls: Sequence[OpenCall] = ()) -> None:
        """Append what came since the last flush; ``lines`` gives the text of a stack."""
        try:
            self._append_all(lines, open_calls)
        except Exception as error:
            pass_on_if_of_signal(error)
            self._written_latest = []
            for waiting in (self._data, self._parents, self._callers):
                waiting.clear()  # it would fail again
            raise

    def show(self, lines: Callable[[int], list[str]], open_calls: Sequence[OpenCall]) -> None:
        """Let readers find what waits for its numbers, without them, until the next flush."""
        waiting = [
            text if record is None else _unfinished_entry(text, record)
            for text, record, _ in self._data[:]
        ]
        latest = [_unfinished_entry(*entry) for entry in list(self._latest.items())]
        shown = [_unfinished_entry(one.name, one.record) for one in open_calls]
        self._append_places(lines, open_calls)
        self._dump.append([], waiting + latest + shown)
        self._written_latest = []

    def _append_all(
        self, lines: Callable[[int], list[str]], open_calls: Sequence[OpenCall]
    ) -> None:
        """What is appended goes off the lists after that: an interrupt loses nothing.

        A record comes after its place: a run that is killed in between leaves no record without.
        """
        self._append_places(lines, open_calls)
        data = self._data[:]
        told = [
            (text, shown) if record is None else self._told(text, record)
            for text, record, shown in data
        ]
        latest = list(self._latest.items())
        first = self._dump.entries
        self._dump.append(
            [text for text, _ in told],
            [_entry(*entry) for entry in latest]
            + [_entry(one.name, one.record) for one in open_calls],
        )
        del self._data[: len(data)]
        self._written_latest = latest
        if self._sketches is not None and self._take_rows is not None:
            places = packed_places(first, [shown for _, shown in told])
            self._sketches.append(self._take_rows(), places)

    def _append_places(
        self, lines: Callable[[int], list[str]], open_calls: Sequence[OpenCall]
    ) -> None:
        parents, callers = self._parents[:], self._callers[:]
        places = dict(place for one in open_calls for place in one.places)
        self._construct.append(parents, [_place_entry(*place) for place in places.items()])
        del self._parents[: len(parents)]
        groups = self._stack_groups(callers, lines)
        known = self._groups
        standing = [(one.name, one.stack) for one in open_calls if one.stack is not None]
        self._stack.append(groups, self._stack_groups(standing, lines))
        self._groups = known
        del self._callers[: len(callers)]

    def _stack_groups(
        self, callers: Sequence[tuple[str, int]], lines: Callable[[int], list[str]]
    ) -> list[str]:
        """Names that share a stack together, numbered on across flushes.

        Python may give one line of a frame several positions, so equal lines are one stack.
        """
        groups: dict[int, list[str]] = {}
        for name, stack in callers:
            groups.setdefault(stack, []).append(name)
        shared: dict[tuple[str, ...], list[str]] = {}
        for stack, names in groups.items():
            shared.setdefault(tuple(lines(stack)), []).extend(names)
        entries = []
        for text, names in shared.items():
            content = encode([names, text])
            entries.append(f' "{self._groups}": {content}')
            self._groups += 1
        return entries

    def close(self) -> None:
        """Finish the files; only now is it known which of the latest records are the last."""
        if self._sketches is not None:
            shown = [text_and_shown(*entry)[1] for entry in self._written_latest]
            places = packed_places(self._dump.entries, shown)
            self._sketches.append(np.empty(0, ROW), places)
        for file in self._files:
            file.close()


def _entry(name: str, record: Any) -> str:
    return f"  {encode_text(name)}: {record_text(record)}"


def _unfinished_entry(name: str, record: Any) -> str:
    """As :func:`_entry`; the text of what may change is not kept."""
    return f"  {encode_text(name)}: {encode(record)}"


def _place_entry(child: str, parent: str | None) -> str:
    return f" {encode_text(child)}: {_encode_parent(parent)}"


def _encode_parent(name: str | None) -> str:
    return "null" if name is None else encode_text(name)


def tensor_directory(directory: Path) -> Path:
    return directory / "dump_tensor_data"
