"""What of a trend is on screen: a window, or the difference of two, in columns of steps."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.database.trends.read import (
    MOST_CELLS,
    TrendAxes,
    find_targets,
    read_axes,
    read_window,
)
from tb_graph_ascend.problems import bad_request, not_found

DIFFERENCES = ("relative", "absolute")

Values = tuple[NDArray[np.float64], NDArray[np.bool_]]


@dataclass(frozen=True)
class Window:
    """What is asked for; targets by number, steps from the first to the last."""

    statistic: str
    targets: tuple[int, ...]
    ranks: tuple[int, ...]
    first_step: int
    last_step: int
    columns: int
    difference: str


def read_columns(
    connection: sqlite3.Connection, other: sqlite3.Connection | None, window: Window
) -> tuple[list[int], Values]:
    """The first step of each column, and values of shape (targets, ranks, columns).

    With another file they are those of this one minus the other's, of targets of one kind and name.
    """
    axes = _axes_of(connection, window)
    steps = _steps_of(axes, window)
    cells = len(window.targets) * len(window.ranks) * len(steps)
    if cells > MOST_CELLS:
        raise bad_request(
            "window_too_large",
            f"The window holds {cells} values.",
            f"Ask for at most {MOST_CELLS}.",
        )
    return _binned(steps, _read(connection, other, window, axes, steps), window.columns)


def read_moves(
    connection: sqlite3.Connection, other: sqlite3.Connection | None, window: Window
) -> NDArray[np.float64]:
    """How much each target moves within a window: 0 where it stays or nothing was recorded.

    Of one run its range beside its root mean square, of two runs their largest difference; infinity
    where a value is no longer finite. Where values are many, evenly chosen steps stand for all.
    """
    axes = _axes_of(connection, window)
    steps = _steps_of(axes, window)
    most = max(_FEWEST_STEPS, _MOST_MOVES // max(1, len(window.targets) * len(window.ranks)))
    steps = steps[:: -(-len(steps) // most) or 1]
    values, there = (
        part.reshape(len(window.targets), len(window.ranks) * len(steps))
        for part in _read(connection, other, window, axes, steps)
    )
    known = np.where(there, values, 0.0)
    if other is not None:
        moves = np.abs(known).max(axis=1, initial=0.0)
    else:
        high = np.where(there, values, -np.inf).max(axis=1, initial=-np.inf)
        low = np.where(there, values, np.inf).min(axis=1, initial=np.inf)
        with np.errstate(all="ignore"):
            size = np.sqrt((known**2).sum(axis=1) / there.sum(axis=1))
            moves = np.where(size > 0, (high - low) / size, 0.0)
    is_odd = (there & ~np.isfinite(values)).any(axis=1)
    if other is None:  # what is never finite, such as a mask, stays as it is
        moves = np.where(is_odd, 0.0, moves)
        is_odd &= (there & np.isfinite(values)).any(axis=1)
    return np.asarray(np.where(is_odd, np.inf, moves), dtype=np.float64)


# Values that are read to say what moves, so that nobody waits for the order of rows.
_MOST_MOVES = 250_000
_FEWEST_STEPS = 8


def _axes_of(connection: sqlite3.Connection, window: Window) -> TrendAxes:
    axes = read_axes(connection)
    if window.targets and max(window.targets) >= len(axes.names):
        raise not_found(
            "unknown_target",
            f"The file has no target {max(window.targets)}.",
            "Choose a number below that of the targets that trend answers.",
        )
    return axes


def _steps_of(axes: TrendAxes, window: Window) -> list[int]:
    return [step for step in axes.steps if window.first_step <= step <= window.last_step]


def _read(
    connection: sqlite3.Connection,
    other: sqlite3.Connection | None,
    window: Window,
    axes: TrendAxes,
    steps: list[int],
) -> Values:
    """Values of shape (targets, ranks, steps), of two runs the differences."""
    found = read_window(connection, window.statistic, window.targets, window.ranks, steps)
    if other is None:
        return found
    names = [(axes.kinds[one], axes.names[one]) for one in window.targets]
    others = find_targets(other, names)
    return _minus(found, _of_other(other, others, window, steps), window.difference)


def _of_other(
    other: sqlite3.Connection, targets: NDArray[np.int64], window: Window, steps: list[int]
) -> Values:
    shape = len(targets), len(window.ranks), len(steps)
    values, there = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    known = np.flatnonzero(targets >= 0)
    if len(known):
        wanted = targets[known].tolist()
        part = read_window(other, window.statistic, wanted, window.ranks, steps)
        values[known], there[known] = part
    return values, there


def _minus(one: Values, other: Values, difference: str) -> Values:
    """NaN or infinity on both sides is no difference; on one side it is NaN."""
    (a, has_a), (b, has_b) = one, other
    with np.errstate(all="ignore"):
        found = a - b
        if difference == "relative":
            scale = np.maximum(np.abs(a), np.abs(b))
            found = np.where(scale > 0, found / scale, 0.0)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    odd = ~(np.isfinite(a) & np.isfinite(b))
    found = np.where(same, 0.0, np.where(odd, np.nan, found))
    return np.asarray(found, dtype=np.float64), np.asarray(has_a & has_b, dtype=bool)


def _binned(steps: list[int], found: Values, columns: int) -> tuple[list[int], Values]:
    """Neighbouring steps as one column where there are more of them than columns."""
    values, there = found
    if len(steps) <= columns:
        return steps, found
    width = -(-len(steps) // columns)
    count = -(-len(steps) // width)
    pad = [(0, 0), (0, 0), (0, count * width - len(steps))]
    shape = (*values.shape[:2], count, width)
    boxes = np.pad(values, pad, constant_values=np.nan).reshape(shape)
    known = np.pad(there, pad).reshape(shape)
    # What is farthest from zero stands for its neighbours, NaN and infinity before all.
    weight = np.where(np.isnan(boxes), np.inf, np.abs(boxes))
    place = np.where(known, weight, -1.0).argmax(axis=-1)[..., None]
    taken = np.take_along_axis(boxes, place, axis=-1)[..., 0]
    return steps[::width], (taken, np.asarray(known.any(axis=-1), dtype=bool))
