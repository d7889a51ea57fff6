"""Arguments as people nest them: lists, mappings, named tuples, dataclasses."""

from __future__ import annotations

import dataclasses
from typing import Any

from msprobe_collector.record.framework import Item
from msprobe_collector.write.records import Leaf

_DEPTH_LIMIT = 400
_LONGEST_LIST = 1024


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
        if isinstance(value, (list, tuple)) and not hasattr(kind, "_fields"):
            if len(value) > _LONGEST_LIST and not isinstance(value[0], self.kind):
                return None  # data, not arguments: torch.tensor([...])
            return [
                self.describe(part, extend(path, position), leaves, depth + 1, born)
                for position, part in enumerate(value)
            ]
        parts = self._parts(value)
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
        if isinstance(value, list | tuple) and isinstance(record, list):
            pairs = zip(record, value, strict=True)
            return [self.attach(*pair, f"{path}.{n}") for n, pair in enumerate(pairs)]
        parts = self._parts(value) if isinstance(record, dict) else None
        if parts is not None:
            return {
                str(key): self.attach(record.get(str(key)), part, f"{path}.{key}")
                for key, part in parts
            }
        return record

    def _parts(self, value: Any) -> list[tuple[Any, Any]] | None:
        """The named parts of a mapping, named tuple or dataclass, None for anything else."""
        if isinstance(value, dict):
            return list(value.items())
        fields = getattr(type(value), "_fields", None)
        if fields is not None and isinstance(value, tuple):
            return list(zip(fields, value, strict=True))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            if isinstance(value, self.module_kind):
                return None
            return [(f.name, getattr(value, f.name, None)) for f in dataclasses.fields(value)]
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


def collect(kind: type[Any], value: Any, found: list[Any], depth: int = 0) -> None:
    """The tensors in nested arguments, in the order in which they would be described."""
    if isinstance(value, kind):
        found.append(value)
    elif isinstance(value, dict):
        for part in value.values():
            collect(kind, part, found, depth + 1)
    elif isinstance(value, list | tuple) and depth < _DEPTH_LIMIT:
        for part in value:
            collect(kind, part, found, depth + 1)
