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
from msprobe_collector.one_pass import loaded
from msprobe_collector.record.origins import Found, Makers, Share, Source
from msprobe_collector.write.flow_file import CountedFlow, Entries, FlowFile


class Numbered(NamedTuple):
    """A maker as the file has it."""

    kind: int
    maker: int
    section: int
    position: int


_RECORD, _SUM = int(Maker.RECORD), int(Mark.SUM)
_ROW = struct.Struct("<7I")
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
        self._rows = bytearray()  # of what can be written
        self._waiting: list[_Row] = []  # others
        self._latest: dict[str, Sequence[Makers]] = {}
        self._names = _Names({}, [])
        self._makers = 0
        self._number_rows = None if loaded.compiled is None else loaded.compiled.number_rows
        self._gather()
        self._pack = _pack if loaded.compiled is None else _pack_compiled

    def _gather(self) -> None:
        """What every record is added to, at once for the compiled module."""
        numbers, added = self._names
        everything = (self._added, self._numbers, numbers, added, self._rows, self._waiting, Share)
        self._gathered = everything

    def open(self, directory: Path, estimate: bool) -> None:
        self._file = CountedFlow() if estimate else FlowFile(directory / NAME)

    @property
    def size(self) -> int:
        """Bytes."""
        return 0 if self._file is None else self._file.size

    def add(self, name: str, makers: Sequence[Makers]) -> None:
        """A record was added to dump.json; call with ``lock`` held around both."""
        if self._number_rows is not None:
            self._number_rows(name, makers, self._gathered)
            return
        number = len(self._numbers)
        self._numbers[name] = number
        self._added.append(name)
        _pack(number, makers, self._numbers, self._names, self._rows, self._waiting)

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
            names = _Names(dict(self._names.numbers), [])
            behind = _Packing(self._numbers, names, packing.makers, True)
            own = bytearray()
            for number, latest in enumerate(self._latest.values(), len(self._numbers)):
                waiting: list[_Row] = []
                self._pack(number, latest, self._numbers, names, own, waiting)
                for row in waiting:
                    behind.add(row)
            self._file.append(lasting, behind.taken(list(self._latest), own))
            self._added, self._rows, self._waiting = [], bytearray(), left
            self._names.added.clear()
            self._makers = packing.makers
            self._gather()

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
        self._numbers, self._names, self._makers = {}, _Names({}, []), 0
        self._added, self._rows, self._waiting, self._latest = [], bytearray(), [], {}
        self._gather()


class _Names(NamedTuple):
    """The names of makers that are no records."""

    numbers: dict[str, int]
    added: list[str]  # those that are not written yet

    def number(self, name: str) -> int:
        if not name:
            return NONE
        number = self.numbers.get(name)
        if number is None:
            number = self.numbers[name] = len(self.numbers)
            self.added.append(name)
        return number


_Row: TypeAlias = "tuple[int, int, int, Found]"  # record, section, position and makers


def _pack(
    record: int,
    makers: Sequence[Makers],
    numbers: dict[str, int],
    names: _Names,
    packed: bytearray,
    left: list[_Row],
) -> None:
    """Rows of a record that have one maker which is over, as nearly all do; others are ``left``."""
    for section, all_of_it in makers:
        for position, found in enumerate(all_of_it):
            if found is None:
                continue
            first, marks, others = found
            number: int | None = None
            kind, own, place = _RECORD, 0, 0
            if others:
                pass
            elif type(first) is Share:
                sender, given = first
                if sender.is_over:
                    ordinals, own = sender.ordinals, sender.section
                    sent = given if ordinals is None else ordinals.get(given)
                    if sent is not None:
                        number, place = numbers.get(sender.name), sent
            else:
                kind, made_by, own, place, _ = first
                if kind == _RECORD:
                    number = numbers.get(made_by)
                else:
                    number, own, place = names.number(made_by), 0, 0
            if number is None:
                left.append((record, section, position, found))
                continue
            last = section | kind << _KIND | own << _MAKER_SECTION | (marks & ~_SUM) << _MARKS
            packed += _ROW.pack(record, position, number, place, NONE, 0, last)


def _pack_compiled(
    record: int,
    makers: Sequence[Makers],
    numbers: dict[str, int],
    names: _Names,
    packed: bytearray,
    left: list[_Row],
) -> None:
    """As :func:`_pack`."""
    loaded.compiled.pack_rows(record, makers, numbers, *names, packed, left, Share)


class _Packing:
    """Rows as bytes, with the further makers that they need."""

    def __init__(self, numbers: dict[str, int], names: _Names, makers: int, is_last: bool) -> None:
        self._numbers = numbers
        self._names = names
        self.makers = makers
        self._is_last = is_last
        self._rows = bytearray()
        self._further: list[bytes] = []

    def taken(self, records: Sequence[str], others: bytearray) -> Entries:
        """All of it, behind rows of others."""
        names = list(self._names.added)
        return Entries(names, records, b"".join(self._further), bytes(others + self._rows))

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
        self._rows += _ROW.pack(record, position, maker, maker_position, more, len(further), last)
        return True

    def _numbered(self, source: Source) -> Numbered | None:
        """None while it may still come; _NOTHING for one that has sent nothing."""
        if isinstance(source, Share):
            return self._of_share(source)
        kind, name, section, position, _ = source
        if kind != Maker.RECORD:
            return Numbered(kind, self._names.number(name), 0, 0)
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
        return Numbered(Maker.UNRECORDED, self._names.number(name), 0, 0)


_NOTHING = Numbered(Maker.UNKNOWN, NONE, 0, 1)  # no gradient came from there
