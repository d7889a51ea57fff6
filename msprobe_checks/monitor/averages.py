"""Whether the gradients that optimizers use are what the replicas' own come to together.

Sketches are linear, so the sketch of a sum is the sum of the sketches. Clipping, scaling and a mean
multiply all gradients of a step alike: each must be one multiple of the sum of those that backward
left on the ranks, and the same multiple for all parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from msprobe_builder.trend.monitor import RankValues
from msprobe_checks.monitor.rows import Floats, Rows, rows_of

_OFF = 0.02  # of its size: sums of half precision over many ranks are rounded by less
_MOST = 0.75  # share of parameters that must be right, or the program does something else
_EXACT = 2e-3  # relative, of multiples that are whole
_LEFT = 1e-3  # of the ranks' gradients that has to be left of them together, to tell a multiple


@dataclass(frozen=True)
class NotTogether:
    """The first step and parameter of which the gradient is not that of all ranks together."""

    step: int
    name: str
    ranks: tuple[int, ...]  # that use it
    off: float  # share of its size that is none of theirs together
    times: float | None  # instead: the whole multiple, or its inverse, of what others are
    company: int  # more parameters of that step


def first_not_together(
    group: Sequence[int], values: Mapping[int, RankValues]
) -> NotTogether | None:
    """Of the ranks of a group of replicas; None where all is right or nothing tells."""
    names: dict[str, int] = {}
    for rank in group:
        for _, name in values[rank].targets:
            names.setdefault(name, len(names))
    local = [rows_of(values[rank], "local_gradient", names) for rank in group]
    shared = reduce(np.intersect1d, [one.keys for one in local])
    if not len(shared):
        return None
    own = [one.at(shared) for one in local]
    together: Floats = sum((one.sketch for one in own), np.zeros_like(own[0].sketch))
    sizes: Floats = sum((one.norm for one in own), np.zeros(len(shared)))
    found: list[tuple[int, int, int, float, float]] = []  # step, name, rank, off, times
    for rank in group:
        used = rows_of(values[rank], "gradient", names)
        used = used.at(np.intersect1d(used.keys, shared))
        at = np.searchsorted(shared, used.keys)
        is_whole = used.count == own[0].count[at]  # of a shard nothing is told
        used, at = used.at(used.keys[is_whole]), at[is_whole]
        steps, places = np.divmod(used.keys, len(names))
        off, factor = _held_against(used, together[at], sizes[at])
        for step in np.unique(steps):
            here = np.flatnonzero(steps == step)
            times = _times(off[here], factor[here], len(group))
            is_right = (off[here] <= _OFF) & (times == 1)
            if is_right.mean() >= _MOST:
                found += [
                    (int(step), int(places[row]), rank, float(off[row]), float(multiple))
                    for row, multiple in zip(
                        here[~is_right].tolist(), times[~is_right].tolist(), strict=True
                    )
                    if off[row] > _OFF or np.isfinite(multiple)
                ]
    return _told(found, list(names)) if found else None


def _held_against(used: Rows, together: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """How far each is from a multiple of the sum, of its size, and that multiple, NaN for none."""
    with np.errstate(all="ignore"):
        squares = (together**2).sum(axis=1)
        factor = (used.sketch * together).sum(axis=1) / squares
        factor[np.sqrt(squares) <= _LEFT * sizes] = np.nan
        known = np.nan_to_num(factor)
        apart = np.linalg.norm(used.sketch - known[:, None] * together, axis=1)
        off = apart / np.maximum(used.norm, np.abs(known) * sizes)
    return np.where(np.isnan(factor) | ~np.isfinite(off), 0.0, off), factor


def _times(off: Floats, factor: Floats, most: int) -> Floats:
    """By parameter how many times the multiple of most it has; NaN where that tells nothing."""
    is_told = (off <= _OFF) & np.isfinite(factor)
    if not is_told.any():
        return np.full(len(off), np.nan)
    usual = float(np.median(factor[is_told]))
    with np.errstate(all="ignore"):
        found = factor / usual
        upright = np.where(np.abs(found) < 1, 1 / found, found)
        whole = np.round(upright)
        is_whole = (np.abs(upright / whole - 1) <= _EXACT) & (whole >= 1) & (whole <= most)
    times = np.where(is_whole, np.where(np.abs(found) < 1, 1 / whole, whole), np.nan)
    return np.where(np.isfinite(factor), times, 1.0)


def _told(found: list[tuple[int, int, int, float, float]], names: list[str]) -> NotTogether:
    step = min(one[0] for one in found)
    here = [one for one in found if one[0] == step]
    place = max(here, key=lambda one: (one[3] > _OFF, -one[1]))[1]
    own = [one for one in here if one[1] == place]
    off = max(one[3] for one in own)
    return NotTogether(
        step,
        names[place],
        tuple(sorted({one[2] for one in own})),
        off,
        None if off > _OFF else own[0][4],
        len({one[1] for one in here}) - 1,
    )
