"""Micro-steps: the forward-backward rounds within one weight update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from msprobe_builder.dump.names import Direction, Kind, Name

Node = TypeVar("Node")


def count_rounds(
    top: Sequence[Node], name_of: Callable[[Node], Name], recomputed: Callable[[Node], bool]
) -> tuple[list[int], int]:
    """Micro-step of each child of the root in order, and how many there are.

    A forward module starts a new round once something else than a forward module was seen
    since the last start. APIs and collections join the round they stand in; forward modules
    that only recompute belong to the running backward.
    """
    micro_step = 0
    started = backward_seen = False
    result = []
    for entry in top:
        name = name_of(entry)
        if name.kind is Kind.MODULE and not recomputed(entry):
            if name.direction is not Direction.FORWARD:
                backward_seen = True
            elif backward_seen:
                micro_step += started
                started, backward_seen = True, False
            else:
                started = True
        result.append(micro_step)
    return result, micro_step + 1
