"""The parameters of all calls of a dump, flattened into columns.

A record nests lists and objects; each leaf becomes one parameter with a dotted name
(``input.0.1``, ``input.mask``, ``output.0``, ``parameters.weight``). The columns are plain
growing arrays, so that a dump of a million tensors costs a few hundred megabytes, not many
gigabytes of dictionaries.
"""

from __future__ import annotations

from array import array
from enum import IntEnum
from math import inf, isinf, isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.texts import Texts

NO_TEXT = -1
MAX_DEPTH = 400
STATISTICS = ("Max", "Min", "Mean", "Norm")
_NAN = float("nan")
# The collector puts these in place of statistics it has not finished; a crash can leave them.
_UNFINISHED = ("tensor_stat_index", "md5_index")


class Section(IntEnum):
    """Where a parameter belongs; stored in ``tensor.section`` and ``argument.section``."""

    INPUT = 0
    OUTPUT = 1
    PARAMETERS = 2
    PARAMETERS_GRAD = 3


SECTION_KEYS = (
    ("input_args", Section.INPUT, "input"),
    ("input_kwargs", Section.INPUT, "input"),
    ("input", Section.INPUT, "input"),
    ("output", Section.OUTPUT, "output"),
    ("parameters", Section.PARAMETERS, "parameters"),
)


class Parameters:
    """Columns with one element per parameter, records one after the other.

    ``statistics`` are float64 with shape (4, n) in the order of STATISTICS; a missing value
    is NaN with its bit set in ``missing``, a NaN of the dump is NaN without. Text columns hold
    ids of ``texts``, NO_TEXT where there is none.
    """

    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self.record = array("i")
        self.section = array("b")
        self.is_tensor = array("b")
        self.name_id = array("i")
        self.type_id = array("i")
        self.dtype_id = array("i")
        self.shape_id = array("i")
        self.value_id = array("i")
        self.requires_grad = array("b")  # -1 when not recorded
        self.missing = array("b")
        self.stats = tuple(array("d") for _ in STATISTICS)
        self.md5: dict[int, str] = {}
        self.file: dict[int, str] = {}
        self.numel = array("d")  # elements of a tensor, NaN when the shape is unknown
        self.unreadable = 0
        self._shapes: dict[tuple[Any, ...], tuple[int, float]] = {}

    def __len__(self) -> int:
        return len(self.record)

    def statistic_columns(self) -> NDArray[np.float64]:
        """Statistics with shape (4, n), order of STATISTICS."""
        return np.array([np.frombuffer(column, dtype=np.float64) for column in self.stats])

    def add_record(self, record: int, data: dict[str, Any]) -> None:
        """Append every parameter of one call."""
        for key, section, prefix in SECTION_KEYS:
            value = data.get(key)
            if not value:
                continue
            if isinstance(value, list):
                for index, item in enumerate(value):
                    self._add(record, section, f"{prefix}.{index}", item, 0)
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
            if depth >= MAX_DEPTH:
                self.unreadable += 1
                return
            for key, item in value.items():
                self._add(record, section, f"{name}.{key}", item, depth + 1)
        elif isinstance(value, list):
            if depth >= MAX_DEPTH:
                self.unreadable += 1
                return
            for index, item in enumerate(value):
                self._add(record, section, f"{name}.{index}", item, depth + 1)
        elif value is None:
            self._append(record, section, False, name, NO_TEXT, NO_TEXT)
        else:  # the collector writes no bare scalars, but nothing is lost if it does
            self._append(record, section, False, name, NO_TEXT, self.texts.id(shown(value)))

    def _add_tensor(
        self, record: int, section: int, name: str, kind: str, value: dict[str, Any]
    ) -> None:
        index = self._append(record, section, True, name, self.texts.id(kind), NO_TEXT)
        dtype = value["dtype"]
        if dtype is not None:
            self.dtype_id[index] = self.texts.id(shown(dtype))
        self.shape_id[index], self.numel[index] = self._shape(value["shape"])
        if self.shape_id[index] == NO_TEXT:  # merged along a dimension that is not known
            numel = _number(value.get("numel"))
            self.numel[index] = _NAN if numel is None else numel
        requires_grad = value.get("requires_grad")
        if requires_grad is True or requires_grad is False:
            self.requires_grad[index] = requires_grad
        missing = 0
        for bit, (key, column) in enumerate(zip(STATISTICS, self.stats, strict=True)):
            number = value.get(key)
            if type(number) is not float:
                number = _number(number)
                if number is None:
                    missing |= 1 << bit
                    continue
            column[index] = number
        self.missing[index] = missing
        md5 = value.get("md5")
        if isinstance(md5, str):
            self.md5[index] = md5
        file = value.get("data_name")
        if isinstance(file, str) and file and file != "-1":
            self.file[index] = file

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
        index = self._append(record, section, False, name, self.texts.id(kind), text)
        if kind in ("torch.Size", "slice"):  # takes part in matching like a shape
            self.shape_id[index] = text

    def _add_peer_operation(
        self, record: int, section: int, name: str, value: dict[str, Any], depth: int
    ) -> None:
        """A P2POp: its tensor, then operation, peer, tag and group as arguments."""
        self._add(record, section, f"{name}.tensor", value["tensor"], depth + 1)
        for key in ("op", "peer", "tag", "group_id"):
            if key in value:
                text = self.texts.id(shown(value[key]))
                kind = self.texts.id(type(value[key]).__name__)
                self._append(record, section, False, f"{name}.{key}", kind, text)

    def _append(
        self, record: int, section: int, is_tensor: bool, name: str, type_id: int, value_id: int
    ) -> int:
        index = len(self.record)
        self.record.append(record)
        self.section.append(section)
        self.is_tensor.append(is_tensor)
        self.name_id.append(self.texts.id(name))
        self.type_id.append(type_id)
        self.dtype_id.append(NO_TEXT)
        self.shape_id.append(NO_TEXT)
        self.value_id.append(value_id)
        self.requires_grad.append(-1)
        self.missing.append(0 if is_tensor else 15)
        for column in self.stats:
            column.append(_NAN)
        self.numel.append(_NAN)
        return index

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
