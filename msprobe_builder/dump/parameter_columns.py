"""Parameters as columns: what differs from one to the next in arrays, what many share once."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts

Int = NDArray[np.int64]

NO_TEXT = -1
STATISTICS = ("Max", "Min", "Mean", "Norm")
ALL_MISSING = 0b1111
_WIDTH = 4  # numbers of a row
_RUN = 3  # numbers of a run
_BLOCK = 1 << 16  # rows at a time, whose places take as much memory as their statistics
# How many statistics a row has, by which are missing.
_RECORDED = np.array([len(STATISTICS) - one.bit_count() for one in range(16)], dtype=np.int8)


class ParameterKind(NamedTuple):
    """What many parameters have alike; text ids, NO_TEXT where there is none."""

    is_tensor: bool
    type_id: int
    dtype_id: int
    shape_id: int
    value_id: int
    requires_grad: int
    numel: float


class ParameterColumns:
    """Parameters, records one after the other, to be read as columns of one element each.

    Text columns hold ids of ``texts``, NO_TEXT where there is none.
    """

    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self.md5: dict[int, str] = {}
        self.file: dict[int, str] = {}
        self._rows = array("i")  # section, name, kind and missing; records may have them in common
        self._runs = array("q")  # record, the first of its rows and how many, in order
        self._numbers = array("d")  # statistics that are recorded
        self._length = 0
        self._row_of = np.empty(0, dtype=np.int64)  # of each parameter, once it was asked for
        self._kinds: dict[ParameterKind, int] = {}

    def __len__(self) -> int:
        return self._length

    @property
    def record(self) -> Int:
        """Number of the call."""
        runs = np.frombuffer(self._runs, dtype=np.int64).reshape(-1, _RUN)
        return np.asarray(np.repeat(runs[:, 0], runs[:, 2]), dtype=np.int64)

    @property
    def section(self) -> Int:
        """Section of the record."""
        return self._column(0)

    @property
    def name_id(self) -> Int:
        """Dotted name."""
        return self._column(1)

    @property
    def missing(self) -> Int:
        """Bit i says that statistic i was not recorded."""
        return self._column(3)

    @property
    def is_tensor(self) -> NDArray[np.bool_]:
        """Whether it is a tensor, not an argument."""
        return self._of_kinds(0).astype(bool)

    @property
    def type_id(self) -> Int:
        """The Python type."""
        return self._of_kinds(1)

    @property
    def types(self) -> list[int]:
        """The Python types that occur, each once."""
        return list(dict.fromkeys(kind.type_id for kind in self._kinds))

    @property
    def dtype_id(self) -> Int:
        """The element type of a tensor."""
        return self._of_kinds(2)

    @property
    def shape_id(self) -> Int:
        """The shape of a tensor, the value of what takes part in matching like one."""
        return self._of_kinds(3)

    @property
    def value_id(self) -> Int:
        """The value of an argument."""
        return self._of_kinds(4)

    @property
    def requires_grad(self) -> Int:
        """0 or 1, -1 when not recorded."""
        return self._of_kinds(5)

    @property
    def numel(self) -> NDArray[np.float64]:
        """Elements of a tensor, NaN when the shape is unknown."""
        numel = np.array([kind.numel for kind in self._kinds], dtype=np.float64)
        return np.asarray(numel[self._column(2)], dtype=np.float64)

    def statistic_columns(self, order: Int | None = None) -> NDArray[np.float64]:
        """Statistics with shape (4, n), order of STATISTICS, of the rows in an ``order``.

        A missing value is NaN with its bit set in ``missing``, a NaN of the dump is NaN without.
        """
        numbers = np.asarray(self._numbers, dtype=np.float64)
        missing = self.missing.astype(np.int8)
        counts = _RECORDED[missing]
        first = np.cumsum(counts, dtype=np.int64)
        first -= counts
        if order is not None:
            first, missing = first[order], missing[order]
        result = np.full((len(STATISTICS), len(first)), np.nan)
        for begin in range(0, len(first), _BLOCK):
            rows = slice(begin, begin + _BLOCK)
            place, lacking = first[rows], missing[rows]
            for bit, column in enumerate(result[:, rows]):
                known = (lacking & 1 << bit) == 0
                column[known] = numbers[place[known]]
                place = place + known
        return result

    def _column(self, place: int) -> Int:
        rows = np.frombuffer(self._rows, dtype=np.int32).reshape(-1, _WIDTH)
        if len(self._row_of) != len(self):
            runs = np.frombuffer(self._runs, dtype=np.int64).reshape(-1, _RUN)
            counts = runs[:, 2]
            self._row_of = np.repeat(runs[:, 1] - np.cumsum(counts) + counts, counts)
            self._row_of += np.arange(len(self))
        return np.asarray(rows[self._row_of, place], dtype=np.int64)

    def _of_kinds(self, place: int) -> Int:
        of_kind = np.array([kind[place] for kind in self._kinds], dtype=np.int64)
        return np.asarray(of_kind[self._column(2)], dtype=np.int64)

    def append(
        self,
        record: int,
        section: int,
        name_id: int,
        kind: ParameterKind,
        statistics: Sequence[float] = (),
        missing: int = ALL_MISSING,
    ) -> None:
        """Append one parameter, its texts in ``texts`` already.

        ``statistics`` are those that are not missing.
        """
        first = self._begin_record()
        self._append_row(section, name_id, kind, statistics, missing)
        self._end_record(record, first)

    def _row_count(self) -> int:
        return len(self._rows) // _WIDTH

    def _append_row(
        self,
        section: int,
        name_id: int,
        kind: ParameterKind,
        statistics: Sequence[float] = (),
        missing: int = ALL_MISSING,
    ) -> None:
        number = self._kinds.setdefault(kind, len(self._kinds))
        self._append_known_row(section, name_id, number, statistics, missing)

    def _append_known_row(
        self, section: int, name_id: int, kind: int, statistics: Sequence[float], missing: int
    ) -> None:
        """The same with the number of a kind that is known."""
        self._rows.extend((section, name_id, kind, missing))
        self._numbers.extend(statistics)
        self._length += 1

    def _begin_record(self) -> int:
        """The first row of a record whose rows are appended now."""
        return self._row_count()

    def _end_record(self, record: int, first: int) -> None:
        """The rows from ``first`` on are those of a record."""
        self._runs.extend((record, first, self._row_count() - first))

    def _repeat(self, record: int, first: int, count: int, statistics: bytes) -> None:
        """Append a record that differs from one before in its statistics, float64, alone."""
        self._runs.extend((record, first, count))
        self._numbers.frombytes(statistics)
        self._length += count
