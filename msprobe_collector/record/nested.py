"""Arguments as people nest them: lists, mappings, named tuples, dataclasses.

Only kinds of which it is known that looking into them runs no code of the user.
"""

from __future__ import annotations

import dataclasses
from collections import UserDict, deque
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from msprobe_collector.record.framework import Item
from msprobe_collector.write.records import Leaf

_DEPTH_LIMIT = 400
_LONGEST_LIST = 1024
_SINGLE = frozenset({type(None), bool, int, float, str})


class NestedDescriber:
    """Records of nested values; a framework says what its tensors and single values are."""

    kind: type[Any]  # of tensors
    module_kind: type[Any]  # of what is no value although it may have fields

    def tensor(self, tensor: Any, path: str | None = None, born: bool = False) -> Item:
        raise NotImplementedError

    def saved(self, tensor: Any, item: Item, path: str) -> Item:
        """Save ``tensor``; its record with the name it is found under."""
        raise NotImplementedError

    def single(self, value: Any, path: str | None, leaves: list[Any]) -> Any:
        """The record of a value of the framework's own, None if it has none."""
        raise NotImplementedError

    def describe(
        self,
        value: Any,
        path: str | None,
        leaves: list[Any],
        depth: int = 0,
        born: bool = False,
    ) -> Any:
        """The record of ``value``; its tensors are appended to ``leaves`` in order.

        With a ``path`` each tensor is also saved under ``path`` plus its position. What a call
        that was seen returned is ``born``. Call inside ``unseen``.
        """
        if isinstance(value, self.kind):
            leaves.append(value)
            return self.tensor(value, path, born)
        if value is None:
            return None
        kind = type(value)
        if kind in (int, float, bool, str):
            return Leaf(type=kind.__name__, value=value)
        if depth > _DEPTH_LIMIT:
            return None
        if kind not in (list, tuple, dict):
            found = plain_value(value)
            if found is None:
                found = self.single(value, path, leaves)
            if found is not None:
                return found
        members = _members(value)
        if members is not None:
            if len(members) > _LONGEST_LIST and not isinstance(members[0], self.kind):
                return None  # data, not arguments: torch.tensor([...])
            return [
                self.describe(part, extend(path, position), leaves, depth + 1, born)
                for position, part in enumerate(members)
            ]
        parts = named_parts(value, self.module_kind)
        if parts is not None:
            return {
                str(key): self.describe(part, extend(path, key), leaves, depth + 1, born)
                for key, part in parts
            }
        return None

    def attach(self, record: Any, value: Any, path: str) -> Any:
        """Save the tensors of ``value``, which ``record`` describes, and name their files."""
        if isinstance(value, self.kind) and isinstance(record, dict):
            return self.saved(value, record, path)
        members = _members(value) if isinstance(record, list) else None
        if members is not None:
            pairs = zip(record, members, strict=True)
            return [self.attach(*pair, f"{path}.{n}") for n, pair in enumerate(pairs)]
        parts = named_parts(value, self.module_kind) if isinstance(record, dict) else None
        if parts is not None:
            return {
                str(key): self.attach(record.get(str(key)), part, f"{path}.{key}")
                for key, part in parts
            }
        return record


def _members(value: Any) -> Sequence[Any] | None:
    """What a list, tuple or queue holds, None for anything else."""
    if isinstance(value, (list, tuple)):
        return None if hasattr(type(value), "_fields") else value
    return list(deque.__iter__(value)) if issubclass(type(value), deque) else None


def named_parts(value: Any, module_kind: type[Any]) -> list[tuple[Any, Any]] | None:
    """The parts of a mapping, named tuple, dataclass or class of attrs, None for anything else."""
    kind = type(value)
    if isinstance(value, dict) or kind is MappingProxyType:
        return list(value.items())
    if issubclass(kind, UserDict):  # such as what tokenizers return
        held = getattr(value, "data", None)
        return list(held.items()) if isinstance(held, dict) else None
    fields = getattr(kind, "_fields", None)
    if fields is not None and isinstance(value, tuple):
        return list(zip(fields, value, strict=True))
    if issubclass(kind, (type, module_kind)):
        return None
    if dataclasses.is_dataclass(kind):
        return [(f.name, getattr(value, f.name, None)) for f in dataclasses.fields(kind)]
    fields = getattr(kind, "__attrs_attrs__", None)
    if isinstance(fields, tuple):
        return [(f.name, getattr(value, f.name, None)) for f in fields]
    return None


def extend(path: str | None, part: object) -> str | None:
    return None if path is None else f"{path}.{part}"


def plain_value(value: Any) -> Item | None:
    """The record of a value that Python itself knows, None for anything else."""
    if isinstance(value, bool | int | float | str):  # subclasses: enums, numpy scalars
        for kind in (bool, int, float, str):
            if isinstance(value, kind):
                return {"type": type(value).__name__, "value": kind(value)}
    if isinstance(value, slice):
        bounds = [
            part if isinstance(part, int) else None
            for part in (value.start, value.stop, value.step)
        ]
        return {"type": "slice", "value": bounds}
    if value is ...:
        return {"type": "ellipsis", "value": "..."}
    return None


def collect(
    kind: type[Any], module_kind: type[Any], value: Any, found: list[Any], depth: int = 0
) -> None:
    """The tensors in nested arguments, in the order in which they would be described."""
    if isinstance(value, kind):
        found.append(value)
        return
    if type(value) in _SINGLE or depth > _DEPTH_LIMIT:
        return
    parts = _members(value)
    if parts is None:
        parts = [part for _, part in named_parts(value, module_kind) or ()]
    for part in parts:
        collect(kind, module_kind, part, found, depth + 1)
