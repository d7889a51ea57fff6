"""What of a trend is on screen: a window, or the difference of two, in columns of steps."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.database.trends.read import (
    MOST_CELLS,
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
    axes = read_axes(connection)
    if window.targets and max(window.targets) >= len(axes.names):
        raise not_found(
            "unknown_target",
            f"The file has no target {max(window.targets)}.",
            "Choose a number below that of the targets that trend answers.",
        )
    steps = [step for step in axes.steps if window.first_step <= step <= window.last_step]
    cells = len(window.targets) * len(window.ranks) * len(steps)
    if cells > MOST_CELLS:
        raise bad_request(
            "window_too_large",
            f"The window holds {cells} values.",
            f"Ask for at most {MOST_CELLS}.",
        )
    found = read_window(connection, window.statistic, window.targets, window.ranks, steps)
    if other is not None:
        names = [(axes.kinds[one], axes.names[one]) for one in window.targets]
        others = find_targets(other, names)
        found = _minus(found, _of_other(other, others, window, steps), window.difference)
    return _binned(steps, found, window.columns)


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
