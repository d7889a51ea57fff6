"""Which record made each tensor of a step: gathered as calls are recorded, written in rows.

A maker is known by the name of its record until that has a number. Backward calls may be written
after those that they send gradients to, so a row waits until all of its makers are over.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from msprobe_builder.dump.flow_layout import (
    MAKER_STRUCT,
    NAME,
    NONE,
    Maker,
    Mark,
)
from msprobe_collector.record.origins import Found, Makers, Share, Source
from msprobe_collector.write.flow_file import CountedFlow, Entries, FlowFile


class Numbered(NamedTuple):
    """A maker as the file has it."""

    kind: int
    maker: int
    section: int
    position: int


_RECORD, _SUM = int(Maker.RECORD), int(Mark.SUM)
# Section, kind, maker's section and marks of a row, each of 8 bits, are one number of 32 bits.
_KIND, _MAKER_SECTION, _MARKS = 8, 16, 24
_NOBODY = Numbered(Maker.UNRECORDED, NONE, 0, 0)


class FlowRows:
    """The rows of the present step and the file that they go to."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # the order of records, which gives their numbers
        self._file: FlowFile | CountedFlow | None = None
        self._numbers: dict[str, int] = {}  # of records
        self._added: list[str] = []  # records whose names are not written yet
        self._rows: list[int] = []  # seven of each row that can be written
        self._waiting: list[_Row] = []  # others
        self._latest: dict[str, Sequence[Makers]] = {}
        self._names: dict[str, int] = {}
        self._makers = 0

    def open(self, directory: Path, estimate: bool) -> None:
        self._file = CountedFlow() if estimate else FlowFile(directory / NAME)

    @property
    def size(self) -> int:
        """Bytes."""
        return 0 if self._file is None else self._file.size

    def add(self, name: str, makers: Sequence[Makers]) -> None:
        """A record was added to dump.json; call with ``lock`` held around both."""
        number = len(self._numbers)
        self._numbers[name] = number
        self._added.append(name)
        _pack(number, makers, self._numbers, self._rows, self._waiting)

    def set_latest(self, name: str, makers: Sequence[Makers]) -> None:
        """A record behind all others, which a later one of the same name replaces."""
        self._latest[name] = makers

    def flush(self, is_last: bool = False) -> None:
        """Append what is known; OSError when the disk takes no more."""
        if self._file is None:
            return
        with self.lock:
            packing = _Packing(self._numbers, self._names, self._makers, is_last)
            left = [row for row in self._waiting if not packing.add(row)]
            lasting = packing.taken(self._added, self._rows)
            behind = _Packing(self._numbers, packing.names, packing.makers, True)
            own: list[int] = []
            for number, latest in enumerate(self._latest.values(), len(self._numbers)):
                waiting: list[_Row] = []
                _pack(number, latest, self._numbers, own, waiting)
                for row in waiting:
                    behind.add(row)
            self._file.append(lasting, behind.taken(list(self._latest), own))
            self._added, self._rows, self._waiting = [], [], left
            self._names, self._makers = packing.names, packing.makers

    def close(self) -> None:
        """The step is over."""
        try:
            self.flush(is_last=True)
        finally:
            if self._file is not None:
                self._file.close()
            self.forget()

    def forget(self) -> None:
        """Write nothing any more of this step."""
        self._file = None
        self._numbers, self._names, self._makers = {}, {}, 0
        self._added, self._rows, self._waiting, self._latest = [], [], [], {}


_Row: TypeAlias = "tuple[int, int, int, Found]"  # record, section, position and makers


def _pack(
    record: int,
    makers: Sequence[Makers],
    numbers: dict[str, int],
    packed: list[int],
    left: list[_Row],
) -> None:
    """Rows of a record of which the maker is another, as nearly all are; the rest is ``left``."""
    for section, all_of_it in makers:
        position = -1
        for found in all_of_it:
            position += 1
            if found is None:
                continue
            first, marks, others = found
            number = None
            if not others:
                if type(first) is Share:
                    sender, place = first
                    if sender.is_over and sender.ordinals is None:
                        number, own = numbers.get(sender.name), sender.section
                elif first[0] == _RECORD:
                    _, name, own, place, _ = first
                    number = numbers.get(name)
            if number is None:
                left.append((record, section, position, found))
                continue
            last = section | _RECORD << _KIND | own << _MAKER_SECTION | marks << _MARKS
            packed += (record, position, number, place, NONE, 0, last)


class _Packing:
    """Rows as bytes, with the names and further makers that they need."""

    def __init__(
        self, numbers: dict[str, int], names: dict[str, int], makers: int, is_last: bool
    ) -> None:
        self._numbers = numbers
        self.names = dict(names)
        self.makers = makers
        self._is_last = is_last
        self._new_names: list[str] = []
        self._rows: list[int] = []  # seven of each row
        self._further: list[bytes] = []

    def taken(self, records: Sequence[str], others: Sequence[int]) -> Entries:
        """All of it, with other rows, of seven numbers each."""
        rows = _packed(others) + _packed(self._rows)
        return Entries(self._new_names, records, b"".join(self._further), rows)

    def add(self, row: _Row) -> bool:
        """Pack a row; False if a maker of it is yet to come."""
        record, section, position, found = row
        if not found.others:
            first = self._numbered(found.first)
            if first is None:
                return False
            further: list[Numbered] = []
        else:
            all_of_it = [self._numbered(one) for one in (found.first, *found.others)]
            if None in all_of_it:
                return False
            known = [one for one in all_of_it if one is not None and one is not _NOTHING]
            first, *further = dict.fromkeys(known) or [_NOBODY]
        if first is _NOTHING:
            first = _NOBODY
        marks = found.marks
        if marks & _SUM and not further:
            marks &= ~_SUM
        more = self.makers if further else NONE
        for one in further:
            self._further.append(MAKER_STRUCT.pack(one.maker, one.position, one.kind, one.section))
        self.makers += len(further)
        kind, maker, maker_section, maker_position = first
        last = section | kind << _KIND | maker_section << _MAKER_SECTION | marks << _MARKS
        self._rows += (record, position, maker, maker_position, more, len(further), last)
        return True

    def _numbered(self, source: Source) -> Numbered | None:
        """None while it may still come; _NOTHING for one that has sent nothing."""
        if isinstance(source, Share):
            return self._of_share(source)
        kind, name, section, position, _ = source
        if kind != Maker.RECORD:
            return Numbered(kind, self._name(name), 0, 0)
        number = self._numbers.get(name)
        if number is not None:
            return Numbered(kind, number, section, position)
        return self._without_record(name)

    def _of_share(self, share: Share) -> Numbered | None:
        sender = share.sender
        if not sender.is_over:
            return self._without_record(sender.name)
        number = self._numbers.get(sender.name)
        if number is None:
            return self._without_record(sender.name)
        ordinals = sender.ordinals
        position = share.input if ordinals is None else ordinals.get(share.input)
        if position is None:
            return _NOTHING
        return Numbered(Maker.RECORD, number, sender.section, position)

    def _without_record(self, name: str) -> Numbered | None:
        """A call that is not in dump.json, when that is certain."""
        if not self._is_last:
            return None
        return Numbered(Maker.UNRECORDED, self._name(name), 0, 0)

    def _name(self, name: str) -> int:
        if not name:
            return NONE
        number = self.names.get(name)
        if number is None:
            number = self.names[name] = len(self.names)
            self._new_names.append(name)
        return number


def _packed(numbers: Sequence[int]) -> bytes:
    """Little-endian, of 32 bits each."""
    return struct.pack(f"<{len(numbers)}I", *numbers)


_NOTHING = Numbered(Maker.UNKNOWN, NONE, 0, 1)  # no gradient came from there
