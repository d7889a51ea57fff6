"""The pass by which torch's pipelines find out shapes, before their first step: no training.

It runs the stages on memory that nobody has written, and counts as the first call of everything.
Recordings that hold it are read as if it had not been: its calls are told by their stacks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from msprobe_builder.dump.construct import Construct
from msprobe_builder.dump.names import (
    Direction,
    Name,
    format_name,
    parse_gradients,
    parse_name,
)
from msprobe_builder.dump.stack import Frame, Stacks

_FILE = "torch/distributed/pipelining/schedules.py"
_FUNCTIONS = {"_initialize_stage", "_initialize_stages"}

Value = TypeVar("Value")
Renamed = Callable[[str], str | None]  # None for what is left out


def without_shape_pass(
    records: dict[str, int], construct: Construct, stacks: Stacks
) -> tuple[dict[str, int], Construct, Stacks, tuple[str, ...]]:
    """The same without the calls of such a pass, later ones numbered from 0; and those calls."""
    passes = {number for number, stack in enumerate(stacks.stacks) if any(map(_finds, stack))}
    if not passes:
        return records, construct, stacks, ()
    calls: dict[str, list[int]] = {}
    for name, number in stacks.of_name.items():
        parsed = parse_name(name)
        if number in passes and parsed.direction is Direction.FORWARD:
            calls.setdefault(parsed.stem, []).append(parsed.call)
    for own in calls.values():
        own.sort()

    def renamed(name: str) -> str | None:
        return _renamed(name, calls)

    parent = _kept(construct.parent, renamed)
    construct = replace(
        construct,
        parent={name: above and renamed(above) for name, above in parent.items()},
        micro_step=construct.micro_step and _kept(construct.micro_step, renamed),
    )
    left_out = tuple(name for name in records if renamed(name) is None)
    stacks = replace(stacks, of_name=_kept(dict(stacks.of_name), renamed))
    return _kept(records, renamed), construct, stacks, left_out


def _finds(frame: Frame) -> bool:
    """Whether a frame is within such a pass."""
    file = (frame.file or "").replace("\\", "/")
    return frame.function in _FUNCTIONS and file.endswith(_FILE)


def _renamed(name: str, calls: dict[str, list[int]]) -> str | None:
    """The name without the calls that are left out, by their stem and in order."""
    gradients = parse_gradients(name)
    if gradients:
        stem, call = gradients
        before = _before(calls.get(stem, ()), call or 0)
        return f"{stem}.parameters_grad.{(call or 0) - before}" if before else name
    parsed: Name = parse_name(name)
    own = calls.get(parsed.stem, [])
    if parsed.direction is Direction.NONE or not own:
        return name
    before = _before(own, parsed.call)
    if before < len(own) and own[before] == parsed.call:
        return None
    return format_name(parsed._replace(call=parsed.call - before))


def _before(calls: Iterable[int], call: int) -> int:
    return bisect_left([*calls], call)


def _kept(of_name: dict[str, Value], renamed: Renamed) -> dict[str, Value]:
    names = ((renamed(name), value) for name, value in of_name.items())
    return {name: value for name, value in names if name is not None}
