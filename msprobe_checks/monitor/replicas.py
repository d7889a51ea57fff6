"""Whether the ranks of one monitored training that hold the same parameters keep them the same.

With sketches also whether they update them by the gradients of all of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.files.text_files import read_text_file
from msprobe_builder.trend.monitor import RankValues, order_of, read_rank, require_ranks
from msprobe_checks.monitor.averages import NotTogether, first_not_together
from msprobe_checks.monitor.compare import RankPair, elements_apart, pair_ranks, rows_apart
from msprobe_checks.monitor.exchanges import Broken, Exchange, WrongExchange, wrong_exchanges
from msprobe_checks.monitor.transfers import wrong_transfers

_PLACE = "place.json"
# What all replicas have alike at each step, whatever data each was given.
_ALIKE = frozenset({"weight", "gradient", "learning_rate", "updated_weight"})
TOLERANCE = 1e-6
_EQUAL = 1e-5  # of elements, whose sketches are rounded sums


@dataclass(frozen=True)
class Parted:
    """The first step and place at which replicas are not alike."""

    step: int
    kind: str
    name: str
    apart: float  # relative, the most
    ranks: tuple[int, ...]  # that are not like most; all of them where none are most
    others: tuple[int, ...]  # that are
    company: int  # more places of that step


@dataclass(frozen=True)
class Replicas:
    """What was compared; ``parted`` is None where all are alike, ``together`` where all add up."""

    groups: tuple[tuple[int, ...], ...]
    axes: tuple[str, ...]
    rows: int
    alone: int  # rows that one of two ranks has
    bad: int  # rows that hold NaN or infinity on both
    steps: tuple[int, int]
    parted: Parted | None
    together: NotTogether | None
    exchange: WrongExchange | None


def compare_replicas(run: Path, tolerance: float = TOLERANCE) -> Replicas:
    """Hold the ranks of ``run`` that are replicas against the first of them.

    UsageError where it has none; BuildError where a file is damaged.
    """
    folders = require_ranks(run)
    places = {rank: _place(folder) for rank, folder in folders.items()}
    groups = _groups(places)
    if not groups:
        raise UsageError(
            f"{run} holds no ranks that train the same parameters along an axis that is known;"
            " give a second run to compare it with."
        )
    held = {rank for group in groups for rank in group}
    held |= {one for *_, lines in places.values() for line in lines.values() for one in line.ranks}
    values = {rank: read_rank(folders[rank]) for rank in sorted(held & folders.keys())}
    pairs: list[tuple[tuple[int, ...], RankPair]] = []
    for group in groups:
        first = _alike(values[group[0]])
        pairs += [(group, pair_ranks(rank, _alike(values[rank]), first)) for rank in group[1:]]
    rows = sum(len(pair.step) for _, pair in pairs)
    if not rows:
        raise UsageError(f"The replicas of {run} have no step and name in common.")
    axes = {axis for group in groups for axis in places[group[0]][1]}
    found = [pair.step for _, pair in pairs if len(pair.step)]
    return Replicas(
        tuple(groups),
        tuple(sorted(axes)),
        rows,
        sum(pair.alone + len(pair.resized[0]) for _, pair in pairs),
        sum(int(pair.is_bad.sum()) for _, pair in pairs),
        (min(int(one.min()) for one in found), max(int(one.max()) for one in found)),
        _parted(pairs, tolerance),
        min(
            (one for group in groups if (one := first_not_together(group, values)) is not None),
            key=lambda one: one.step,
            default=None,
        ),
        _exchanged_wrong({rank: one[2] for rank, one in places.items()}, values),
    )


def _exchanged_wrong(
    lines: Mapping[int, Mapping[str, Exchange]], values: Mapping[int, RankValues]
) -> WrongExchange | None:
    order = list(Broken)
    found = [*wrong_exchanges(lines, values), *wrong_transfers(lines, values)]
    return min(found, key=lambda one: (one.step, order.index(one.broken)), default=None)


# Coordinates, axes of replicas, and what lines do that communicate.
_Place = tuple[dict[str, int], tuple[str, ...], dict[str, Exchange]]


def _place(folder: Path) -> _Place:
    path = folder / _PLACE
    if not path.is_file():
        return {}, (), {}
    try:
        content: Any = json.loads(read_text_file(path, "record again with this version"))
        coordinates = {str(name): int(at) for name, at in content["coordinates"].items()}
        lines = {
            str(name): Exchange(tuple(int(one) for one in line["ranks"]), str(line["operation"]))
            for name, line in content.get("communication", {}).items()
        }
        return coordinates, tuple(str(axis) for axis in content["replicas"]), lines
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise BuildError(f"{path} is damaged ({type(error).__name__}); remove it.") from error


def _groups(places: Mapping[int, _Place]) -> list[tuple[int, ...]]:
    """Ranks that differ in nothing but the place along axes of replicas."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for rank, (coordinates, axes, _) in sorted(places.items()):
        if axes:
            fixed = {name: at for name, at in coordinates.items() if name not in axes}
            found.setdefault((axes, *sorted(fixed.items())), []).append(rank)
    return [tuple(ranks) for ranks in found.values() if len(ranks) > 1]


def _alike(values: RankValues) -> RankValues:
    """The rows that replicas have alike."""
    kept = np.array([kind in _ALIKE for kind, _ in values.targets], dtype=bool)
    rows = kept[values.target] if len(kept) else np.zeros(0, dtype=bool)
    return values.rows(rows)


def _parted(pairs: list[tuple[tuple[int, ...], RankPair]], tolerance: float) -> Parted | None:
    beyond = [
        (int(pair.step[row]), order_of(pair.targets[pair.target[row]]), place, row)
        for place, (_, pair) in enumerate(pairs)
        for row in np.flatnonzero((pair.apart > tolerance) | (pair.elements > _EQUAL)).tolist()
    ]
    if not beyond:
        return None
    step, _, place, row = min(beyond)
    group, pair = pairs[place]
    target = pair.targets[pair.target[row]]
    told, count, sketched = _values_at(group, pairs, step, target)
    numbers = np.array(list(told.values()))
    each = np.repeat(numbers, len(numbers), axis=0), np.tile(numbers, (len(numbers), 1))
    apart_by = rows_apart(*each, np.full(len(each[0]), count), 0.0)
    alike = (apart_by <= tolerance).reshape(len(numbers), -1)
    if len(sketched) == len(told):
        sums = np.array([sketched[rank] for rank in told])
        sides = np.repeat(sums, len(sums), axis=0), np.tile(sums, (len(sums), 1))
        alike &= ~(elements_apart(*each, sides) > _EQUAL).reshape(alike.shape)
    most = alike[int(np.argmax(alike.sum(axis=1)))]
    odd = tuple(rank for rank, is_like in zip(told, most.tolist(), strict=True) if not is_like)
    is_clear = 2 * int(most.sum()) > len(told)
    here = {pairs[at][1].targets[pairs[at][1].target[one]] for s, _, at, one in beyond if s == step}
    apart = max(
        np.fmax(float(pairs[at][1].apart[one]), float(pairs[at][1].elements[one]))
        for s, _, at, one in beyond
        if s == step and pairs[at][1].targets[pairs[at][1].target[one]] == target
    )
    ranks = odd if is_clear else group
    others = tuple(rank for rank in group if rank not in ranks)
    kind, name = target
    return Parted(step, kind, name, apart, ranks, others, len(here) - 1)


def _values_at(
    group: tuple[int, ...],
    pairs: list[tuple[tuple[int, ...], RankPair]],
    step: int,
    target: tuple[str, str],
) -> tuple[dict[int, NDArray[np.float64]], int, dict[int, NDArray[np.float32]]]:
    """What each rank of a group holds there, in their order, of how many numbers, and sketches."""
    told: dict[int, NDArray[np.float64]] = {}
    sketched: dict[int, NDArray[np.float32]] = {}
    count = 1
    for of, pair in pairs:
        if of is not group or target not in pair.targets:
            continue
        number = pair.targets.index(target)
        for row in np.flatnonzero((pair.step == step) & (pair.target == number)).tolist():
            told[pair.rank], told[group[0]] = pair.first[row], pair.second[row]
            count = int(pair.count[row])
            if pair.sketches is not None:
                sketched[pair.rank], sketched[group[0]] = (one[row] for one in pair.sketches)
    return dict(sorted(told.items())), count, sketched
