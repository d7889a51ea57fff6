"""The communication calls of one step and side: whom they address, and what they exchange."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from math import isinf, isnan
from typing import NamedTuple

from msprobe_builder.base.codes import Section
from msprobe_builder.link.signatures import Binding, Function, function_of

# A parameter and the path below it: tensor 1 of a list is ("tensor_list", "1").
Place = tuple[str, str]


class Leaf(NamedTuple):
    """What is known of a tensor's content; None where a statistic was not recorded."""

    dtype: str
    statistics: tuple[float | None, float | None, float | None, float | None]
    md5: str | None
    ordinal: int = -1  # among what its call was given and put out

    def same_data(self, other: Leaf) -> bool | None:
        """Whether both hold the same data, None when it cannot be told.

        Max and min must be equal; mean and norm may differ by rounding, because the order of
        summation depends on how a tensor lies in memory.
        """
        if self.md5 is not None and other.md5 is not None:
            return self.md5 == other.md5
        loose = any("16" in leaf.dtype or "float8" in leaf.dtype for leaf in (self, other))
        tolerance = 2e-2 if loose else 1e-5
        known = False
        for index, (a, b) in enumerate(zip(self.statistics, other.statistics, strict=True)):
            if a is None or b is None:
                continue
            known = True
            if a == b or (isnan(a) and isnan(b)):
                continue
            apart = abs(a - b)
            allowed = tolerance * max(abs(a), abs(b), self.scale(index))
            if index < 2 or isinf(apart) or not apart <= allowed:
                return False
        return True if known else None

    def scale(self, index: int) -> float:
        """What a difference of a statistic is measured against besides its own size."""
        high, low = self.statistics[:2]
        if index == 2 and high is not None and low is not None:
            return max(abs(high), abs(low))
        return 0.0


@dataclass(frozen=True, eq=False)
class Call:
    """One call: its arguments as text by parameter, its tensors before and after."""

    node: int
    rank: int
    name: str
    number: int
    function: Function
    arguments: dict[Place, str]
    before: dict[Place, Leaf]
    after: dict[Place, Leaf]
    is_recorded: bool  # a barrier has no arguments, any other call without them has no record

    @property
    def is_asynchronous(self) -> bool:
        """Whether the data may not have come when the output was recorded."""
        return self.name in ("irecv", "batch_isend_irecv") or (
            self.arguments.get(("async_op", "")) == "True"
        )

    def received(self, place: Place) -> Leaf | None:
        """What a buffer holds after the call; None when nothing is known to have come."""
        leaf = self.after.get(place)
        if leaf is None or not self.is_asynchronous:
            return leaf
        before = self.before.get(place)
        return None if before is not None and before.same_data(leaf) else leaf

    def number_at(self, parameter: str, path: str = "") -> int | None:
        """An argument that is a whole number."""
        text = self.arguments.get((parameter, path), "")
        digits = text.removeprefix("-")
        return int(text) if digits.isdecimal() and len(digits) < 10 else None


class Group(NamedTuple):
    """A process group; ``ranks`` is None when the dump does not say who is in it."""

    key: str
    ranks: tuple[int, ...] | None


def group_of(call: Call, ranks: tuple[int, ...]) -> Group:
    """The group of a call; without one all ``ranks`` of the step."""
    text = call.arguments.get(("group", ""))
    if text is None:
        return Group(group_key(ranks), ranks)
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        return Group(text, None)
    if isinstance(listed, list) and all(type(rank) is int for rank in listed):
        return Group(group_key(tuple(listed)), tuple(listed))
    return Group(text, None)


def group_key(ranks: tuple[int, ...]) -> str:
    """How the collector names a group: the CRC-32 of the text of its ranks."""
    return format(zlib.crc32(str(list(ranks)).encode()), "08x")


@dataclass(frozen=True)
class Recorded:
    """A communication call as it was recorded; ``tensor`` is None of any other argument."""

    node: int
    rank: int
    stem: str
    number: int
    parameters: list[tuple[Section, str, str | None, Leaf | None]]  # name, value, tensor


def communication_calls(recorded: Iterable[Recorded]) -> list[Call]:
    """What is known of the calls of one step and side, each rank's in order of execution."""
    return _in_order([call for one in recorded if (call := _call(one)) is not None])


def _in_order(calls: list[Call]) -> list[Call]:
    """Calls of one function of one rank by their number, in the places they take together.

    The order of nodes is that of the tree, in which a recomputed module may have moved.
    """
    numbered: dict[tuple[int, str], list[Call]] = {}
    for call in calls:
        numbered.setdefault((call.rank, call.name), []).append(call)
    ordered = {
        key: iter(sorted(same, key=lambda call: call.number)) for key, same in numbered.items()
    }
    return [next(ordered[call.rank, call.name]) for call in calls]


def _call(recorded: Recorded) -> Call | None:
    """The call; None of a function that is no communication."""
    known = function_of(recorded.stem)
    if known is None:
        return None
    name, function = known
    rows = recorded.parameters
    binding = Binding(function, [one[1] for one in rows if one[0] == Section.INPUT])
    call = Call(
        recorded.node,
        recorded.rank,
        name,
        recorded.number,
        function,
        arguments={},
        before={},
        after={},
        is_recorded=bool(rows) or "barrier" in name,
    )
    for section, parameter, value, leaf in rows:
        is_input = section == Section.INPUT
        place = binding.input(parameter) if is_input else binding.output(parameter)
        if leaf is not None:
            (call.before if is_input else call.after)[place] = leaf
        elif is_input and value is not None:
            call.arguments[place] = value
    return call
