"""The names of calls, made where they are asked for.

Layers and micro-batches call the same over and over: of a million calls the names and their parts
take two hundred megabytes as texts, and twenty as columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import eq
from typing import TYPE_CHECKING, TypeVar, overload

from msprobe_builder.dump.names import Direction, Kind, Name, format_name

if TYPE_CHECKING:
    from msprobe_builder.graph.calls import Calls

Item = TypeVar("Item")

_KINDS, _DIRECTIONS = tuple(Kind), tuple(Direction)
_BLOCK = 4096


class _OfCalls(Sequence[Item]):
    """Something of each node that follows from columns."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls

    def __len__(self) -> int:
        return len(self.calls.stem)

    @overload
    def __getitem__(self, node: int) -> Item: ...
    @overload
    def __getitem__(self, node: slice) -> list[Item]: ...
    def __getitem__(self, node: int | slice) -> Item | list[Item]:
        if isinstance(node, slice):
            return [self._of(one) for one in range(*node.indices(len(self)))]
        return self._of(node)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, type(self)) and other.calls is self.calls:
            return True
        is_alike = isinstance(other, Sequence) and len(other) == len(self)
        return is_alike and all(map(eq, self, other))  # type: ignore[call-overload]

    __hash__ = None  # type: ignore[assignment]

    def _of(self, node: int) -> Item:
        raise NotImplementedError


class ParsedNames(_OfCalls[Name]):
    """The names taken apart."""

    def __iter__(self) -> Iterator[Name]:
        calls = self.calls
        for first in range(0, len(self), _BLOCK):
            rows = slice(first, first + _BLOCK)
            columns = (calls.kind, calls.stem, calls.direction, calls.call)
            for kind, stem, direction, call in zip(
                *(column[rows].tolist() for column in columns), strict=True
            ):
                yield Name(_KINDS[kind], calls.stems[stem], _DIRECTIONS[direction], call)

    def _of(self, node: int) -> Name:
        calls = self.calls
        return Name(
            _KINDS[calls.kind.item(node)],
            calls.stems[calls.stem.item(node)],
            _DIRECTIONS[calls.direction.item(node)],
            calls.call.item(node),
        )


class WrittenNames(_OfCalls[str]):
    """The names as dumps have them."""

    def __iter__(self) -> Iterator[str]:
        return map(format_name, ParsedNames(self.calls))

    def _of(self, node: int) -> str:
        return format_name(ParsedNames(self.calls)[node])
