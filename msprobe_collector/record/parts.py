"""What values consist of, found without running any code of theirs.

Fields are read where Python keeps them: in the dictionary of an object and in its slots.
Properties, ``__getattr__``, ``items`` and ``__iter__`` of a class may compute, fetch or count, so
none is asked. How values are read depends on their type, and is found out once for each.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, UserDict, deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from types import (
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any, NamedTuple, TypeAlias

MOST_PARTS = 1024  # of an object, or of a list that holds no tensors: more is data, no arguments
_DEEPEST = 64  # objects in objects
_KEYS = (str, int, float, bool, bytes, type(None))
_REMEMBERED = 4096  # types
_ABSENT: Any = object()

Parts: TypeAlias = "Sequence[Any] | dict[str, Any]"
Read: TypeAlias = "Callable[[Any], Parts]"


class Way(NamedTuple):
    """How values of a type are taken apart; ``read`` is None where they are not."""

    is_tensor: bool
    read: Read | None
    is_object: bool = False  # of which only what holds tensors is shown


class Opener:
    """Takes values apart; a framework says what its tensors are, and what is no value."""

    def __init__(self, tensor_kind: type[Any], module_kind: type[Any]) -> None:
        self._tensor_kind = tensor_kind
        self._closed = (type, module_kind, ModuleType, FunctionType)
        self._ways: dict[type[Any], Way] = {}

    def way(self, kind: type[Any]) -> Way:
        found = self._ways.get(kind)
        if found is None:
            if len(self._ways) >= _REMEMBERED:
                self._ways = {}  # somebody makes types as they go
            found = self._ways[kind] = self._way_of(kind)
        return found

    def parts(self, value: Any) -> Parts | None:
        """What ``value`` holds, by position or by name; None where nothing is shown of it."""
        way = self.way(type(value))
        if way.read is None:
            return None
        if not way.is_object:
            parts = way.read(value)
            return None if not isinstance(parts, dict) and self._are_data(parts) else parts
        try:
            found = self._with_tensors(value, set(), [MOST_PARTS], set())
        except _TooManyError:
            return None
        return found if isinstance(found, dict) else None

    def collect(self, value: Any, found: list[Any], deepest: int) -> None:
        """Append the tensors in nested values, in the order in which they would be described."""
        way = self.way(type(value))
        if way.is_tensor:
            found.append(value)
        elif way.read is not None and deepest > 0:
            parts = self.parts(value) or ()
            for part in parts.values() if isinstance(parts, dict) else parts:
                self.collect(part, found, deepest - 1)

    def _with_tensors(self, value: Any, around: set[int], left: list[int], seen: set[int]) -> Any:
        """The tensors in ``value`` in plain lists and dictionaries, None if there are none.

        Each once: an object may keep what it computed, or was given, by another name.
        """
        way = self.way(type(value))
        if way.is_tensor:
            is_new = id(value) not in seen
            seen.add(id(value))
            return value if is_new else None
        if way.read is None or id(value) in around:
            return None
        parts = way.read(value)
        if self._are_data(parts):
            return None
        left[0] -= len(parts)
        if left[0] < 0 or len(around) > _DEEPEST:
            raise _TooManyError
        around.add(id(value))
        found: Any
        if isinstance(parts, dict):
            inside = {k: self._with_tensors(p, around, left, seen) for k, p in parts.items()}
            found = {key: part for key, part in inside.items() if part is not None}
        else:
            found = [self._with_tensors(part, around, left, seen) for part in parts]
            if all(part is None for part in found):
                found = None
        around.discard(id(value))
        return found or None

    def _are_data(self, parts: Parts) -> bool:
        """Whether these are too many to be arguments, such as those of ``torch.tensor([…])``."""
        if len(parts) <= MOST_PARTS:
            return False
        first = next(iter(parts.values() if isinstance(parts, dict) else parts))
        return not self.way(type(first)).is_tensor

    def _way_of(self, kind: type[Any]) -> Way:
        line = _ancestors(kind)
        if issubclass(kind, self._tensor_kind):
            return Way(True, None)
        if any(closed in line for closed in self._closed):
            return Way(False, None)
        read = _reader_of_container(kind, line)
        if read is not None:
            return Way(False, read)
        fields = _reader_of_fields(line)
        names = _declared_names(kind, line)
        if names is not None:
            return Way(False, _by_names(names, fields, line))
        return Way(False, fields and _named(fields), is_object=True)


class _TooManyError(Exception):
    """More parts than anybody would look at."""


# -- containers -----------------------------------------------------------------------------------


def _reader_of_container(kind: type[Any], line: Sequence[type[Any]]) -> Read | None:
    """How a list, tuple, queue or mapping is read; those of a subclass run no code of it."""
    if kind in (list, tuple):
        return _itself
    if tuple in line:
        fields = _of_class(line, "_fields")
        return (
            _by_fields(fields) if isinstance(fields, tuple) else lambda v: list(tuple.__iter__(v))
        )
    if list in line:
        return lambda value: list(list.__iter__(value))
    if deque in line:
        return lambda value: list(deque.__iter__(value))
    if OrderedDict in line:
        return lambda value: by_text(OrderedDict.items(value))
    if dict in line:
        return lambda value: by_text(dict.items(value))
    if kind is MappingProxyType:
        return lambda value: by_text(value.items())
    if UserDict in line:  # such as what tokenizers return
        fields = _reader_of_fields(line)
        return fields and (lambda value: _held_by_user_dict(dict(fields(value)).get("data")))
    return None


def _itself(value: Any) -> Sequence[Any]:
    items: Sequence[Any] = value
    return items


def _by_fields(fields: tuple[str, ...]) -> Read:
    def read(value: Any) -> Parts:
        members = list(tuple.__iter__(value))
        if len(members) != len(fields):
            return members
        return dict(zip(fields, members, strict=True))

    return read


def _held_by_user_dict(held: Any) -> dict[str, Any]:
    return by_text(dict.items(held)) if dict in _ancestors(type(held)) else {}


def by_text(pairs: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    """The values of a mapping by what their keys are called."""
    found: dict[str, Any] = {}
    for position, (key, value) in enumerate(list(pairs)):
        text = key if type(key) is str else _text(key, position)
        while text in found:  # 1 and "1"
            text += "'"
        found[text] = value
    return found


def _text(key: Any, position: int) -> str:
    """Keys may be tensors or objects of the user, whose text nobody asked for."""
    kind = type(key)
    if kind in _KEYS or (kind is tuple and all(type(part) in _KEYS for part in key)):
        return str(key)
    line = _ancestors(kind)
    if str in line:
        return str.__str__(key)
    if int in line and Enum not in line:
        return int.__repr__(key)
    if Enum in line:
        return f"{kind.__name__}.{dict(_fields_of(key)).get('_name_', position)}"
    return f"{kind.__name__}{position}"


# -- fields ---------------------------------------------------------------------------------------


def _declared_names(kind: type[Any], line: Sequence[type[Any]]) -> list[str] | None:
    """The fields of a dataclass or class of attrs, None for any other class."""
    if isinstance(_of_class(line, "__dataclass_fields__"), dict):
        return [field.name for field in dataclasses.fields(kind)]
    fields = _of_class(line, "__attrs_attrs__")
    return [field.name for field in fields] if isinstance(fields, tuple) else None


def _by_names(names: Sequence[str], fields: Any, line: Sequence[type[Any]]) -> Read:
    """Declared fields in their order: null for one that is computed when it is asked for."""
    defaults = dict.fromkeys(names)
    for name in names:
        default = _of_class(line, name)
        if default is not _ABSENT and not hasattr(type(default), "__get__"):
            defaults[name] = default

    def read(value: Any) -> Parts:
        present = dict(fields(value)) if fields is not None else {}
        return {name: present.get(name, default) for name, default in defaults.items()}

    return read


def _named(fields: Any) -> Read:
    return lambda value: by_text(fields(value))


def _fields_of(value: Any) -> list[tuple[Any, Any]]:
    read = _reader_of_fields(_ancestors(type(value)))
    return read(value) if read is not None else []


def _reader_of_fields(line: Sequence[type[Any]]) -> Any:
    """How the fields of an object are read, None where it has none: pairs of name and value."""
    held = _of_class(line, "__dict__")
    # A class may put a property in its place.
    has_own = type(held) in (GetSetDescriptorType, MemberDescriptorType)
    slots = [
        (name, member)
        for kind in reversed(line)
        if "__slots__" in _dictionary(kind)
        for name, member in _dictionary(kind).items()
        if type(member) is MemberDescriptorType
    ]
    if not has_own and not slots:
        return None

    def read(value: Any) -> list[tuple[Any, Any]]:
        found = []
        for name, member in slots:
            try:
                found.append((name, member.__get__(value)))
            except AttributeError:  # not set
                continue
        own = held.__get__(value) if has_own else None
        if own is not None:
            found += dict.items(own)
        return found

    return read


def _ancestors(kind: type[Any]) -> tuple[type[Any], ...]:
    """The class and those it derives from, whatever its metaclass makes of that."""
    line: tuple[type[Any], ...] = _MRO.__get__(kind)
    return line


def _dictionary(kind: type[Any]) -> Any:
    return _DICTIONARY.__get__(kind)


def _of_class(line: Sequence[type[Any]], name: str) -> Any:
    """What a class has of this name, as it lies there."""
    return next((_dictionary(one)[name] for one in line if name in _dictionary(one)), _ABSENT)


_MRO: Any = type.__dict__["__mro__"]
_DICTIONARY: Any = type.__dict__["__dict__"]
