"""The parameters of all calls of a dump, flattened into columns.

A record nests lists and objects; each leaf becomes one parameter with a dotted name
(``input.0.1``, ``input.mask``, ``output.0``, ``parameters.weight``). What differs from one to the
next stands in two growing arrays; what many have alike, type, dtype and shape, is stored once. A
dump of a million tensors so costs a hundred megabytes, and little time for each.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import inf, isinf, isnan
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Section as Section
from msprobe_builder.base.limits import DEEPEST_VALUE
from msprobe_builder.base.texts import Texts, storable

Int = NDArray[np.int64]

NO_TEXT = -1
STATISTICS = ("Max", "Min", "Mean", "Norm")
_NAN = float("nan")
_NO_STATISTICS = (_NAN,) * len(STATISTICS)
ALL_MISSING = 0b1111
_WIDTH = 5  # numbers of a row
# The collector puts these in place of statistics it has not finished; a crash can leave them.
_UNFINISHED = ("tensor_stat_index", "md5_index")


SECTION_KEYS = (
    ("input_args", Section.INPUT, "input"),
    ("input_kwargs", Section.INPUT, "input"),
    ("input", Section.INPUT, "input"),
    ("output", Section.OUTPUT, "output"),
    ("parameters", Section.PARAMETERS, "parameters"),
)
# A tensor with statistics as collectors write it has these keys and no others.
_PLAIN_KEYS = ("type", "dtype", "shape", *STATISTICS, "requires_grad")
_plain = itemgetter(*_PLAIN_KEYS)
_NUMBERED = {
    prefix: [f"{prefix}.{number}" for number in range(32)] for _, _, prefix in SECTION_KEYS
}


class ParameterKind(NamedTuple):
    """What many parameters have alike; text ids, NO_TEXT where there is none."""

    is_tensor: bool
    type_id: int
    dtype_id: int
    shape_id: int
    value_id: int
    requires_grad: int
    numel: float


class Parameters:
    """Parameters, records one after the other, to be read as columns of one element each.

    Text columns hold ids of ``texts``, NO_TEXT where there is none.
    """

    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self.md5: dict[int, str] = {}
        self.file: dict[int, str] = {}
        self.unreadable = 0
        self._rows = array("i")  # record, section, name, kind and missing of each
        self._statistics = array("d")
        self._kinds: dict[ParameterKind, int] = {}
        self._plain_kinds: dict[str, int] = {}  # by how type, dtype and shape are written
        self.odd_statistics = 0  # neither a number nor null; texts of numbers are read as such
        self._shapes: dict[tuple[Any, ...], tuple[int, float]] = {}

    def __len__(self) -> int:
        return len(self._rows) // _WIDTH

    @property
    def record(self) -> Int:
        """Number of the call."""
        return self._column(0)

    @property
    def section(self) -> Int:
        """Section of the record."""
        return self._column(1)

    @property
    def name_id(self) -> Int:
        """Dotted name."""
        return self._column(2)

    @property
    def missing(self) -> Int:
        """Bit i says that statistic i was not recorded."""
        return self._column(4)

    @property
    def is_tensor(self) -> NDArray[np.bool_]:
        """Whether it is a tensor, not an argument."""
        return self._of_kinds(0).astype(bool)

    @property
    def type_id(self) -> Int:
        """The Python type."""
        return self._of_kinds(1)

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
        return np.asarray(numel[self._column(3)], dtype=np.float64)

    def statistic_columns(self) -> NDArray[np.float64]:
        """Statistics with shape (4, n), order of STATISTICS.

        A missing value is NaN with its bit set in ``missing``, a NaN of the dump is NaN without.
        """
        return np.frombuffer(self._statistics, dtype=np.float64).reshape(-1, len(STATISTICS)).T

    def _column(self, place: int) -> Int:
        rows = np.frombuffer(self._rows, dtype=np.int32).reshape(-1, _WIDTH)
        return rows[:, place].astype(np.int64)

    def _of_kinds(self, place: int) -> Int:
        of_kind = np.array([kind[place] for kind in self._kinds], dtype=np.int64)
        return np.asarray(of_kind[self._column(3)], dtype=np.int64)

    def append(
        self,
        record: int,
        section: int,
        name_id: int,
        kind: ParameterKind,
        statistics: Sequence[float] = _NO_STATISTICS,
        missing: int = ALL_MISSING,
    ) -> None:
        """Append one parameter, its texts in ``texts`` already."""
        number = self._kinds.setdefault(kind, len(self._kinds))
        self._rows.extend((record, section, name_id, number, missing))
        self._statistics.extend(statistics)

    def add_record(self, record: int, data: dict[str, Any]) -> None:
        """Append every parameter of one call."""
        for key, section, prefix in SECTION_KEYS:
            value = data.get(key)
            if not value:
                continue
            if isinstance(value, list):
                names = _NUMBERED[prefix]
                for index, item in enumerate(value):
                    name = names[index] if index < len(names) else f"{prefix}.{index}"
                    self._add(record, section, name, item, 0)
            elif isinstance(value, dict):
                for name, item in value.items():
                    self._add(record, section, f"{prefix}.{name}", item, 0)
            else:
                self.unreadable += 1

    def add_gradients(self, record: int, data: dict[str, Any]) -> None:
        """Append the parameter gradients of one module, each in a list of one."""
        for name, value in data.items():
            items = value if isinstance(value, list) else [value]
            for index, item in enumerate(items):
                suffix = f".{index}" if len(items) > 1 else ""
                section = Section.PARAMETERS_GRAD
                self._add(record, section, f"parameters_grad.{name}{suffix}", item, 0)

    def _add(self, record: int, section: int, name: str, value: Any, depth: int) -> None:
        if isinstance(value, dict):
            if len(value) == len(_PLAIN_KEYS) and self._add_plain(record, section, name, value):
                return
            kind = value.get("type")
            if isinstance(kind, str):
                if "shape" in value and "dtype" in value:
                    self._add_tensor(record, section, name, kind, value)
                else:
                    self._add_argument(record, section, name, kind, value)
                return
            if "class_type" in value and isinstance(value.get("tensor"), dict):
                self._add_peer_operation(record, section, name, value, depth)
                return
            if depth >= DEEPEST_VALUE:
                self.unreadable += 1
                return
            for key, item in value.items():
                self._add(record, section, f"{name}.{key}", item, depth + 1)
        elif isinstance(value, list):
            if depth >= DEEPEST_VALUE:
                self.unreadable += 1
                return
            for index, item in enumerate(value):
                self._add(record, section, f"{name}.{index}", item, depth + 1)
        elif value is None:
            self._append(record, section, name, NO_TEXT, NO_TEXT)
        else:  # the collector writes no bare scalars, but nothing is lost if it does
            self._append(record, section, name, NO_TEXT, self.texts.id(shown(value)))

    def _add_plain(self, record: int, section: int, name: str, value: dict[str, Any]) -> bool:
        """Append a tensor that has what nearly all have, in a few steps; False for any other."""
        try:
            kind, dtype, shape, high, low, mean, norm, requires_grad = _plain(value)
            if not (type(high) is type(low) is type(mean) is type(norm) is float):
                return False
            written = f"{kind!r}{dtype!r}{shape!r}{requires_grad!r}"
        except (KeyError, RecursionError, ValueError):  # another record, or not to be written
            return False
        known = self._plain_kinds.get(written)
        if known is None:
            if not isinstance(kind, str):
                return False
            self._add_tensor(record, section, name, kind, value)
            self._plain_kinds[written] = self._rows[-2]
            return True
        self._rows.extend((record, section, self.texts.id(name), known, 0))
        self._statistics.extend((high, low, mean, norm))
        return True

    def _add_tensor(
        self, record: int, section: int, name: str, kind: str, value: dict[str, Any]
    ) -> None:
        index = len(self)
        type_id, name_id = self.texts.id(kind), self.texts.id(name)
        parts = value.get("placements")  # of a distributed tensor: what it is of the whole
        placed = self.texts.id(", ".join(map(shown, parts))) if isinstance(parts, list) else NO_TEXT
        dtype = value["dtype"]
        dtype_id = NO_TEXT if dtype is None else self.texts.id(shown(dtype))
        shape_id, numel = self._shape(value["shape"])
        if shape_id == NO_TEXT:  # merged along a dimension that is not known
            number = _number(value.get("numel"))
            numel = _NAN if number is None else number
        requires_grad = value.get("requires_grad")
        has_grad = int(requires_grad) if isinstance(requires_grad, bool) else -1
        missing = 0
        statistics = []
        for bit, key in enumerate(STATISTICS):
            number = value.get(key)
            if type(number) is not float:
                if number is not None and type(number) not in (int, bool):
                    self.odd_statistics += 1
                number = _read_statistic(number)
                if number is None:
                    missing |= 1 << bit
                    number = _NAN
            statistics.append(number)
        one = ParameterKind(True, type_id, dtype_id, shape_id, placed, has_grad, numel)
        self.append(record, section, name_id, one, statistics, missing)
        md5 = value.get("md5")
        if isinstance(md5, str):
            self.md5[index] = storable(md5)
        file = value.get("data_name")
        if isinstance(file, str) and file and file != "-1":
            self.file[index] = storable(file)

    def _add_argument(
        self, record: int, section: int, name: str, kind: str, value: dict[str, Any]
    ) -> None:
        content = next(
            (value[key] for key in ("value", "format", "group_ranks") if key in value), None
        )
        if content is None and len(value) > 1:
            content = {
                key: item for key, item in value.items() if key not in ("type", *_UNFINISHED)
            }
        text = NO_TEXT if content is None else self.texts.id(shown(content))
        like_a_shape = kind in ("torch.Size", "slice")  # takes part in matching like one
        shape_id = text if like_a_shape else NO_TEXT
        self._append(record, section, name, self.texts.id(kind), text, shape_id)

    def _add_peer_operation(
        self, record: int, section: int, name: str, value: dict[str, Any], depth: int
    ) -> None:
        """A P2POp: its tensor, then operation, peer, tag and group as arguments."""
        self._add(record, section, f"{name}.tensor", value["tensor"], depth + 1)
        for key in ("op", "peer", "tag", "group_id"):
            if key in value:
                text = self.texts.id(shown(value[key]))
                kind = self.texts.id(type(value[key]).__name__)
                self._append(record, section, f"{name}.{key}", kind, text)

    def _append(
        self,
        record: int,
        section: int,
        name: str,
        type_id: int,
        value_id: int,
        shape_id: int = NO_TEXT,
    ) -> None:
        """Append what is no tensor."""
        kind = ParameterKind(False, type_id, NO_TEXT, shape_id, value_id, -1, _NAN)
        self.append(record, section, self.texts.id(name), kind)

    def _shape(self, shape: Any) -> tuple[int, float]:
        if not isinstance(shape, list):
            return (NO_TEXT if shape is None else self.texts.id(shown(shape))), _NAN
        key = tuple(shape) if all(type(size) is int for size in shape) else (shown(shape),)
        known = self._shapes.get(key)
        if known is None:
            numel = 1.0
            for size in key:
                number = _number(size)
                numel *= _NAN if number is None else number
            known = self._shapes[key] = (self.texts.id(shown(shape)), numel)
        return known


def _number(value: Any) -> float | None:
    """A statistic as float64; None when it was not recorded as a number."""
    if isinstance(value, bool | int):
        try:
            return float(value)
        except OverflowError:
            return inf if value > 0 else -inf
    return None


def _read_statistic(value: Any) -> float | None:
    """The same, also of a number that was written as text: "NaN" must not pass as unrecorded."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return _number(value)


def shown(value: Any) -> str:
    """How a value that is not a tensor is shown: as Python would print it."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and (isnan(value) or isinf(value)):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    try:
        return str(value)
    except (RecursionError, ValueError):  # nested too deeply, or a number with too many digits
        return f"<{type(value).__name__} that cannot be shown>"
