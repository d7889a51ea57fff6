"""Call sites: the lines of the user's code that made a call.

Two versions of one code share most of their lines, in whatever order these stand. A line that both
sides have says which calls belong together and which do not; a line of one side alone says nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.stack import Frame, is_framework
from msprobe_builder.graph.side import Side

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

# A line in a helper is told apart by who called the helper: rotary embedding of queries and keys.
_FRAMES = 2

_Lines = tuple[tuple[str | None, str], ...]


class Sites(NamedTuple):
    """The call site of each call of both sides, and whose partner was called elsewhere."""

    npu: Int
    bench: Int
    elsewhere: Bool


def shared_sites(npu: Side, bench: Side) -> tuple[Int, Int]:
    """The call site of each forward call by number, 0 where the other side does not have it.

    Numbers of lines and paths of files do not count: the lines may have moved.
    """
    ids: dict[_Lines, int] = {}
    debug, reference = _sites(npu, ids), _sites(bench, ids)
    return np.where(np.isin(debug, reference), debug, 0), np.where(
        np.isin(reference, debug), reference, 0
    )


def at_other_sites(debug: Int, reference: Int) -> Bool:
    """Where two calls were made by different lines, and both sides have both lines."""
    return np.asarray((debug > 0) & (reference > 0) & (debug != reference))


def _sites(side: Side, ids: dict[_Lines, int]) -> Int:
    result = np.zeros(len(side.tree), dtype=np.int64)
    stacks = side.dump.stacks
    numbers = [
        ids.setdefault(lines, len(ids) + 1) if (lines := _lines(stack)) else 0
        for stack in stacks.stacks
    ]
    calls = side.tree.calls
    stack = stacks.of_calls(calls.stems, calls.stem, calls.kind, calls.direction, calls.call)
    known = np.flatnonzero(calls.is_forward_call & (stack >= 0))
    result[known] = np.array(numbers, dtype=np.int64)[stack[known]]
    return result


def _lines(stack: tuple[Frame, ...]) -> _Lines:
    """Function and text of the innermost lines of the user's code; empty where not known."""
    own = [frame for frame in stack if frame.file and not is_framework(frame.file)]
    lines = tuple((frame.function, frame.source) for frame in own[:_FRAMES] if frame.source)
    return lines if len(lines) == min(len(own), _FRAMES) else ()
