"""A row of parameters as the record of dump.json it could have been read from.

The inverse of :mod:`msprobe_builder.dump.parameters`: reading a record made here gives the same
names, values and order again.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction, Kind, Name
from msprobe_builder.dump.parameter_columns import STATISTICS
from msprobe_builder.dump.parameters import Section, shown
from msprobe_builder.graph.parameter_table import ParameterTable

_LONGEST_LITERAL = 10_000  # longer texts are no shapes or numbers
_PEER_KEYS = ("tensor", "op", "peer", "tag", "group_id")  # of a P2POp
_SPECIAL_NUMBERS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": -float("inf")}


class RecordWriter:
    """Makes records of the rows of one table."""

    def __init__(
        self,
        table: ParameterTable,
        texts: Texts,
        *,
        with_statistics: bool,
        file_of: Callable[[int], str | None] = lambda _: None,
    ) -> None:
        self._table, self._texts, self._file_of = table, texts, file_of
        self._with_statistics = with_statistics
        self._literals: dict[int, Any] = {}

    def call(self, name: Name, rows: Iterable[int], *, is_recompute: bool) -> dict[str, Any]:
        """The record of a module or API call."""
        leaves: dict[Section, dict[str, Any]] = {section: {} for section in Section}
        for row in rows:
            section = Section(int(self._table.section[row]))
            leaves[section][self._name(row)] = self._value(row)
        is_backward = name.direction is Direction.BACKWARD
        inputs, named = _arguments(leaves[Section.INPUT])
        result: dict[str, Any] = {"input_args": inputs, "input_kwargs": named}
        if is_backward and not named:
            result = {"input": inputs}
        outputs, named = _arguments(leaves[Section.OUTPUT])
        # Outputs with names of their own come from an object in place of a list.
        result["output"] = {**_numbered(outputs), **named} if named else outputs
        if leaves[Section.PARAMETERS] or (name.kind is Kind.MODULE and not is_backward):
            result["parameters"] = leaves[Section.PARAMETERS]
        if is_recompute or not is_backward:
            result["is_recompute"] = is_recompute
        return result

    def gradients(self, rows: Iterable[int]) -> dict[str, Any]:
        """The record of a module's parameter gradients."""
        return {self._name(row): [self._value(row)] for row in rows}

    def _name(self, row: int) -> str:
        """The name below the section's own word: ``input.mask`` is the input ``mask``."""
        return self._texts.values[int(self._table.name_id[row])].partition(".")[2]

    def _value(self, row: int) -> Any:
        table = self._table
        kind = self._text(table.type_id[row])
        if table.is_tensor[row]:
            return self._tensor(row, kind)
        value_id = int(table.value_id[row])
        if value_id < 0:
            return None if kind is None else {"type": kind}
        text = self._texts.values[value_id]
        if kind is None:
            value = self._literal(value_id)
            return text if isinstance(value, list | dict) else value
        if kind == "str":
            return {"type": kind, "value": text}
        if kind == "float" and text in _SPECIAL_NUMBERS:
            return {"type": kind, "value": _SPECIAL_NUMBERS[text]}
        key = "group_ranks" if kind.endswith("ProcessGroup") else "value"
        return {"type": kind, key: self._literal(value_id)}

    def _tensor(self, row: int, kind: str | None) -> dict[str, Any]:
        table = self._table
        shape_id = int(table.shape_id[row])
        result: dict[str, Any] = {
            "type": kind,
            "dtype": self._text(table.dtype_id[row]),
            "shape": None if shape_id < 0 else self._literal(shape_id),
        }
        if shape_id < 0 and np.isfinite(table.numel[row]):
            result["numel"] = int(table.numel[row])
        if self._with_statistics:
            for bit, key in enumerate(STATISTICS):
                is_missing = int(table.missing[row]) >> bit & 1
                result[key] = None if is_missing else float(table.statistics[bit, row])
        if table.requires_grad[row] >= 0:
            result["requires_grad"] = bool(table.requires_grad[row])
        if row in table.md5:
            result["md5"] = table.md5[row]
        file = self._file_of(row)
        if file is not None:
            result["data_name"] = file
        return result

    def _text(self, text_id: Any) -> str | None:
        return None if text_id < 0 else self._texts.values[int(text_id)]

    def _literal(self, text_id: int) -> Any:
        """What a text was made from, if JSON can hold it; else the text itself."""
        if text_id not in self._literals:
            self._literals[text_id] = _literal(self._texts.values[text_id])
        return self._literals[text_id]


def _literal(text: str) -> Any:
    if len(text) > _LONGEST_LITERAL:
        return text
    try:
        value = json.loads(json.dumps(ast.literal_eval(text)))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return text
    return value if value is not None and shown(value) == text else text


def _arguments(leaves: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Values by position, as deeply nested as they were, and the others by their dotted names.

    A position that holds nothing is an empty list: it has no parameters.
    """
    listed: list[Any] = []
    named: dict[str, Any] = {}
    for name, value in leaves.items():
        parts = name.split(".")
        depth = next((at for at, part in enumerate(parts) if not _is_position(part)), len(parts))
        # Behind the positions an object may follow, whose keys stay one dotted name.
        path, key = [int(part) for part in parts[:depth]], ".".join(parts[depth:])
        if named or not path or not _place(listed, path, key, value):
            named[name] = value
    return _with_peer_operations(listed), named


def _with_peer_operations(value: Any) -> Any:
    """Nested lists in which calls between two ranks look as a collector writes them."""
    if isinstance(value, list):
        return [_with_peer_operations(one) for one in value]
    if not isinstance(value, dict) or "type" in value or tuple(value)[:2] != _PEER_KEYS[:2]:
        return value
    tensor, *rest = value.values()
    is_peer = tuple(value) == _PEER_KEYS[: len(value)] and all(map(_is_plain, rest))
    if not is_peer or not isinstance(tensor, dict) or "shape" not in tensor:
        return value
    plain = {key: value[key]["value"] for key in tuple(value)[1:]}
    return {"class_type": "torch.distributed.P2POp", "tensor": tensor, **plain}


def _is_plain(argument: Any) -> bool:
    """Whether an argument is a text or number that can stand without its type."""
    if not isinstance(argument, dict) or argument.get("type") not in ("str", "int"):
        return False
    return bool(type(argument.get("value")).__name__ == argument["type"])


def _is_position(part: str) -> bool:
    return part.isascii() and part.isdigit() and (part == "0" or part[0] != "0") and len(part) < 5


def _place(listed: list[Any], path: list[int], key: str, value: Any) -> bool:
    """Put a value at the end of nested lists; False where it would not be the last one."""
    level = listed
    for step, position in enumerate(path):
        is_last = step + 1 == len(path)
        if position < len(level) - 1 or (position == len(level) - 1 and is_last and not key):
            return False
        while len(level) < position:
            level.append([])
        fresh: Any = value if is_last and not key else {} if is_last else []
        if position == len(level):
            level.append(fresh)
        elif type(level[position]) is not type(fresh) or (is_last and "type" in level[position]):
            return False
        level = level[position]
    if key:
        assert isinstance(level, dict)
        level[key] = value
    return True


def _numbered(values: list[Any]) -> dict[str, Any]:
    return {str(place): value for place, value in enumerate(values)}
