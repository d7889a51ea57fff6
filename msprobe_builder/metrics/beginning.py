"""A call with which NaN or infinity began, or came in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from msprobe_builder.facts.fact import Facts


class Part(IntEnum):
    """What a call did with NaN or infinity; values are stored."""

    MADE = 0
    GIVEN = 1  # and no call is known that made it
    RECEIVED = 2  # from another rank


@dataclass(frozen=True)
class Beginning:
    """A call with which NaN or infinity began on a rank."""

    node: int
    part: Part
    why: Facts
