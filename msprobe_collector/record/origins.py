"""Who made a tensor, as it is known while a step is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, final

from msprobe_builder.dump.flow_layout import Maker, Mark, Place


class Origin(NamedTuple):
    """One maker; ``name`` is that of a record, a parameter, a buffer or a function."""

    kind: int
    name: str = ""
    section: int = Place.OUTPUT
    position: int = 0
    marks: int = 0  # of what it made


class Sender:
    """The backward call of a recorded call, which sends gradients to what the call was given."""

    __slots__ = ("is_over", "name", "ordinals", "section")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_over = False
        self.section = int(Place.OUTPUT)  # of its record, once that is made
        # By input, where its gradient stands in that section; None where all have one.
        self.ordinals: dict[int, int] | None = None


@final
class Share(NamedTuple):
    """What a backward call sends to one of the inputs of its call."""

    sender: Sender
    input: int


Source: TypeAlias = "Origin | Share"


class Found(NamedTuple):
    """The makers of a tensor: the latest, and others that made parts or terms of it."""

    first: Source
    marks: int = 0
    others: tuple[Source, ...] = ()


# A section and the makers of its tensors by position; None for one that has no row.
Makers: TypeAlias = "tuple[int, Sequence[Found | None]]"

OUTSIDE = Origin(Maker.OUTSIDE)
UNKNOWN = Found(Origin(Maker.UNKNOWN))
UNSEEN_WRITE = Origin(Maker.UNRECORDED, marks=Mark.IN_PLACE)
