"""The first step and place at which two monitored trainings part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.errors import UsageError
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.trend.monitor import (
    PAIR,
    STATISTICS,
    RankValues,
    order_of,
    read_rank,
    require_ranks,
)

TOLERANCE = 0.01
# From which on elements are others though norm and mean are the same: half precision on two
# devices is less apart, other tokens or exchanged rows are more.
ELEMENTS = 0.1
_EQUAL = 1e-6  # relative; sketches of sums in another order are less apart
_NORM, _MEAN = STATISTICS.index("norm"), STATISTICS.index("mean")
_NANS = STATISTICS.index("nans")


@dataclass(frozen=True)
class Departure:
    """One place at which the runs are apart at one step; ``apart`` is relative."""

    step: int
    rank: int
    kind: str
    name: str
    apart: float
    first: float  # norms
    second: float
    elements: float = float("nan")  # relative distance of the elements, NaN without sketches

    @property
    def ratio(self) -> float:
        """How many times the other's norm; NaN where that says nothing."""
        return self.first / self.second if self.second else float("nan")


@dataclass(frozen=True)
class RankPair:
    """Rows that both runs have, aligned, in the order of execution."""

    rank: int
    targets: tuple[tuple[str, str], ...]
    step: NDArray[np.int64]
    target: NDArray[np.int64]
    first: NDArray[np.float64]
    second: NDArray[np.float64]
    apart: NDArray[np.float64]
    count: NDArray[np.int64]  # of numbers that a row is of
    only_first: tuple[tuple[str, str], ...]
    only_second: tuple[tuple[str, str], ...]
    # Rows of another number of values, which are not compared: step, target and how many times.
    resized: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]
    alone: int  # rows of steps or targets that the other run does not have
    elements: NDArray[np.float64]  # by row the relative distance, NaN without sketches of both
    sketches: tuple[NDArray[np.float32], NDArray[np.float32]] | None

    @property
    def is_bad(self) -> NDArray[np.bool_]:
        """By row whether both runs hold NaN or infinity there."""
        found = [
            ~np.isfinite(side[:, [_NORM, _MEAN]]).all(axis=1) | (side[:, _NANS] > 0)
            for side in (self.first, self.second)
        ]
        is_both: NDArray[np.bool_] = found[0] & found[1]
        return is_both

    def departure(self, row: int) -> Departure:
        """One row."""
        kind, name = self.targets[self.target[row]]
        return Departure(
            int(self.step[row]),
            self.rank,
            kind,
            name,
            float(self.apart[row]),
            float(self.first[row, _NORM]),
            float(self.second[row, _NORM]),
            float(self.elements[row]),
        )


@dataclass(frozen=True)
class MonitorComparison:
    """``departures`` are those of the first step at which the runs are apart."""

    ranks: tuple[RankPair, ...]
    tolerance: float
    departures: tuple[Departure, ...]
    agreeing: tuple[str, ...]  # kinds that agree at that step and rank
    earliest: Departure | None  # that is not equal digit by digit
    first_step: int
    last_step: int
    notes: tuple[Fact, ...]


def compare_monitors(first: Path, second: Path, tolerance: float = TOLERANCE) -> MonitorComparison:
    """Compare two records; UsageError when they have nothing in common."""
    a, b = require_ranks(first), require_ranks(second)
    both = sorted(a.keys() & b.keys())
    if not both:
        raise UsageError(f"{first} and {second} have no rank in common.")
    notes = []
    unmatched = sorted(a.keys() ^ b.keys())
    if unmatched:
        notes.append(fact("monitor.one_has_rank", ranks=unmatched[:8]))
    read = [(rank, _of_calls(read_rank(a[rank])), _of_calls(read_rank(b[rank]))) for rank in both]
    held = [one for one in read if all(len(values.step) for values in one[1:])]
    pairs = [pair for pair in (pair_ranks(*one) for one in held) if len(pair.step)]
    empty = sorted({rank for rank, *_ in read} - {pair.rank for pair in pairs})
    if empty:
        notes.append(fact("monitor.nothing_common", ranks=empty[:8]))
    if not pairs:
        raise UsageError(f"{first} and {second} have no step and name in common.")
    resized = sum(len(pair.resized[0]) for pair in pairs)
    if resized:
        notes.append(fact("monitor.other_sizes", count=resized))
    beyond = list(_departures(pairs, tolerance))
    found: tuple[Departure, ...] = ()
    agreeing: tuple[str, ...] = ()
    if beyond:
        start = min(beyond, key=_moment)
        found = tuple(sorted((one for one in beyond if one.step == start.step), key=_moment))
        agreeing = _agreeing(pairs, found[0])
    return MonitorComparison(
        tuple(pairs),
        tolerance,
        found,
        agreeing,
        min(_departures(pairs, 0.0), key=_moment, default=None),
        min(int(pair.step.min()) for pair in pairs),
        max(int(pair.step.max()) for pair in pairs),
        tuple(notes),
    )


def _moment(one: Departure) -> tuple[int, int]:
    """Python keeps the order of execution, in which rows stand, among equal ones."""
    return one.step, order_of((one.kind, one.name))


def _agreeing(pairs: list[RankPair], first: Departure) -> tuple[str, ...]:
    """Kinds that a step comes by before the first departure."""
    kinds = dict.fromkeys(
        pair.targets[target][0]
        for pair in pairs
        for target in np.unique(pair.target[pair.step == first.step]).tolist()
    )
    here = order_of((first.kind, ""))
    return tuple(
        sorted((k for k in kinds if order_of((k, "")) < here), key=lambda k: order_of((k, "")))
    )


def _departures(pairs: list[RankPair], tolerance: float) -> Iterator[Departure]:
    """Rows that are further apart, or of which the elements are; 0 asks for any difference."""
    most = max(ELEMENTS, tolerance) if tolerance else _EQUAL
    for pair in pairs:
        beyond = (pair.apart > tolerance) | (pair.elements > most)
        yield from map(pair.departure, np.flatnonzero(beyond).tolist())


def _of_calls(values: RankValues) -> RankValues:
    """Without what goes between two ranks, as the calls that do so have rows of their own."""
    kept = np.array([PAIR.match(name) is None for _, name in values.targets], dtype=bool)
    return values if kept.all() else values.rows(kept[values.target])


def pair_ranks(rank: int, a: RankValues, b: RankValues) -> RankPair:
    known = {target: place for place, target in enumerate(a.targets)}
    renumbered = np.array([known.get(one, -1) for one in b.targets], dtype=np.int64)
    width = len(a.targets) + 1
    keys = a.step * width + a.target
    other = b.step * width + renumbered[b.target]
    other[renumbered[b.target] < 0] = -1
    order = np.argsort(other, kind="stable")
    place = np.searchsorted(other[order], keys)
    place = order[np.minimum(place, len(order) - 1)]
    same = other[place] == keys
    sized = same & (a.count == b.count[place])
    others = same & ~sized
    with np.errstate(divide="ignore"):
        times = a.count[others] / b.count[place[others]]
    first, second = a.values[sized], b.values[place[sized]]
    sketches = None
    if a.sketch is not None and b.sketch is not None:
        sketches = a.sketch[sized], b.sketch[place[sized]]
    return RankPair(
        rank,
        a.targets,
        a.step[sized],
        a.target[sized],
        first,
        second,
        rows_apart(first, second, a.count[sized], max(a.rounding, b.rounding)),
        a.count[sized],
        tuple(one for one in a.targets if one not in set(b.targets)),
        tuple(one for one in b.targets if one not in known),
        (a.step[others], a.target[others], times),
        len(a.step) + len(b.step) - 2 * int(same.sum()),
        elements_apart(first, second, sketches),
        sketches,
    )


def elements_apart(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    sketches: tuple[NDArray[np.float32], NDArray[np.float32]] | None,
) -> NDArray[np.float64]:
    """By row how far the elements are apart, relative to the larger norm; NaN without sketches."""
    if sketches is None:
        return np.full(len(first), np.nan)
    ours, others = (one.astype(np.float64) for one in sketches)
    with np.errstate(all="ignore"):
        scale = np.maximum(np.abs(first[:, _NORM]), np.abs(second[:, _NORM]))
        apart = np.linalg.norm(ours - others, axis=1)
        found: NDArray[np.float64] = np.where(scale > 0, apart / scale, apart)
    return found


def rows_apart(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    count: NDArray[np.int64],
    rounding: float,
) -> NDArray[np.float64]:
    """How far apart rows are, relative to the size of what they measure.

    The larger of the norms' difference and the means' difference over the root mean square, as far
    as they are more than what was rounded; infinite where one run has NaN or infinity and the other
    has not.
    """

    def more(column: int) -> NDArray[np.float64]:
        return np.maximum(np.abs(first[:, column] - second[:, column]) - rounding, 0.0)

    with np.errstate(all="ignore"):
        norms = more(_NORM)
        scale = np.maximum(np.abs(first[:, _NORM]), np.abs(second[:, _NORM]))
        means = more(_MEAN) * np.sqrt(count)
        found = np.where(scale > 0, np.maximum(norms, means) / scale, 0.0)
    finite = np.isfinite(first[:, [_NORM, _MEAN]]).all(axis=1)
    also = np.isfinite(second[:, [_NORM, _MEAN]]).all(axis=1)
    found[finite != also] = np.inf
    found[~finite & ~also] = 0.0
    found[(first[:, _NANS] > 0) != (second[:, _NANS] > 0)] = np.inf
    return found
