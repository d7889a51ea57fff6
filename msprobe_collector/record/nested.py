"""Records of arguments as people nest them: lists, mappings, dataclasses, objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msprobe_collector.record.framework import Item
from msprobe_collector.record.parts import Opener
from msprobe_collector.write.records import Leaf

_DEPTH_LIMIT = 380  # readers of dumps take 400, and some are around it
_FIELDS = ("Max", "Min", "Mean", "Norm")
# What a value is, not what its class makes of it.
_PLAIN: dict[type[Any], Callable[[Any], Any]] = {
    bool: bool,
    int: int.__int__,
    float: float.__float__,
    str: str.__str__,
}


class NestedDescriber:
    """Records of nested values; a framework says what its tensors and single values are."""

    opener: Opener
    within = ""  # the name of the call whose tensors are described

    def tensor(self, tensor: Any, path: str | None = None, born: bool = False) -> Item:
        raise NotImplementedError

    def saved(self, tensor: Any, item: Item, path: str) -> Item:
        """Save ``tensor``; its record with the name it is found under."""
        raise NotImplementedError

    def single(self, value: Any, path: str | None, leaves: list[Any]) -> Any:
        """The record of a value of the framework's own, None if it has none."""
        raise NotImplementedError

    def settle(self) -> None:
        raise NotImplementedError

    def keep_beside(self, gradient: Any) -> None:
        """See :class:`Describer`; where nothing is gained by it, nothing is done."""

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
        kind = type(value)
        if self.opener.way(kind).is_tensor:
            leaves.append(value)
            return self.tensor(value, path, born)
        if value is None:
            return None
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
        parts = self.opener.parts(value)
        if parts is None:
            return None
        if isinstance(parts, dict):
            return {
                key: self.describe(part, extend(path, key), leaves, depth + 1, born)
                for key, part in parts.items()
            }
        return [
            self.describe(part, extend(path, position), leaves, depth + 1, born)
            for position, part in enumerate(parts)
        ]

    def attach(self, record: Any, value: Any, path: str) -> Any:
        """Save the tensors of ``value``, which ``record`` describes, and name their files.

        One that was written to since then is not what the record says, and is not saved.
        """
        if self.opener.way(type(value)).is_tensor:
            if not isinstance(record, dict) or not self._is_as_described(value, record):
                return record
            return self.saved(value, record, path)
        parts = self.opener.parts(value)
        if isinstance(parts, dict):
            if not isinstance(record, dict) or record.keys() != parts.keys():
                return record
            return {k: self.attach(record[k], part, f"{path}.{k}") for k, part in parts.items()}
        if parts is None or not isinstance(record, list) or len(record) != len(parts):
            return record
        pairs = zip(record, parts, strict=True)
        return [self.attach(*pair, f"{path}.{n}") for n, pair in enumerate(pairs)]

    def _is_as_described(self, tensor: Any, record: Item) -> bool:
        now = self.tensor(tensor)
        self.settle()
        return all(repr(now.get(field)) == repr(record.get(field)) for field in _FIELDS)


def extend(path: str | None, part: object) -> str | None:
    return None if path is None else f"{path}.{part}"


def plain_value(value: Any) -> Item | None:
    """The record of a value that Python itself knows, None for anything else."""
    kind = type(value)  # of proxies, whose class is another and costs a computation to name
    for known, read in _PLAIN.items():
        if issubclass(kind, known):  # subclasses: enums, numpy scalars
            return {"type": kind.__name__, "value": read(value)}
    if kind is slice:
        bounds = [
            part if isinstance(part, int) else None
            for part in (value.start, value.stop, value.step)
        ]
        return {"type": "slice", "value": bounds}
    if value is ...:
        return {"type": "ellipsis", "value": "..."}
    return None


def collect(opener: Opener, value: Any, found: list[Any]) -> None:
    """The tensors in nested arguments, in the order in which they would be described."""
    opener.collect(value, found, _DEPTH_LIMIT)


def held(
    opener: Opener, value: Any, copy: Callable[[Any], Any], deepest: int = _DEPTH_LIMIT
) -> Any:
    """The containers of ``value`` as they are now, each tensor through ``copy``."""
    if opener.way(type(value)).is_tensor:
        return copy(value)
    parts = opener.parts(value) if deepest else None
    if parts is None:
        return value
    if isinstance(parts, dict):
        return {key: held(opener, part, copy, deepest - 1) for key, part in parts.items()}
    return [held(opener, part, copy, deepest - 1) for part in parts]
