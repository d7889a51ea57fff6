"""Who differs in what several ranks or stages should have alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Disagreement
from msprobe_builder.facts.fact import Fact
from msprobe_builder.graph.provenance import Apart

Float = NDArray[np.float64]

# They are computed by the same code from the same numbers; this leaves room for atomics.
_TOLERANCE = 1e-4
_SHOWN = [0, 1, 3]  # max, min and norm: a mean may consist of rounding alone


def tolerances(epsilon: Float) -> Float:
    """How far equal computations may be apart, in sizes of the tensor."""
    return np.maximum(_TOLERANCE, epsilon)


def distances(own: Float, shown: Float) -> Float:
    """How far max, min or norm are apart, in sizes of the shown tensor: 0…1, shape (…, n).

    Of arrays of shape (…, 4, n). NaN or infinity on one side only is a distance of 1.
    """
    own, shown = own[..., _SHOWN, :], shown[..., _SHOWN, :]
    size = np.abs(np.where(np.isfinite(shown), shown, 0.0)).max(axis=-2, keepdims=True)
    same = (own == shown) | (np.isnan(own) & np.isnan(shown))
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        away = np.where(same, 0.0, np.abs(own - shown) / size)
    away = np.where(np.isnan(away), 1.0, np.minimum(away, 1.0))
    result: Float = away.max(axis=-2)
    return result


def recorded_by_all(stack: Float, missing: NDArray[np.integer[Any]]) -> Float:
    """Statistics of shape (members, 4, n), NaN for all where one member did not record them.

    ``missing`` has by row a bit for each statistic that some member lacks.
    """
    lacking = missing >> np.arange(4, dtype=missing.dtype)[:, None] & 1 > 0
    return np.where(lacking, np.nan, stack)


def apart(
    parts: Float,
    ranks: Sequence[int],
    kind: Disagreement,
    tolerance: float,
    notes: Sequence[Fact | None] = (),
) -> tuple[Apart, ...]:
    """The members of a group that are not as the first one, which is shown.

    ``parts`` has shape (members, 4); ``ranks`` names each, ``notes`` says of some why they differ
    though their statistics do not. Of three or more the fewer are suspected.
    """
    away = distances(parts.T[None].transpose(2, 1, 0), parts[0][None, :, None])[:, 0]
    is_apart = [
        bool(distance > tolerance or (notes and notes[place]))
        for place, distance in enumerate(away.tolist())
    ]
    others = sum(is_apart)
    is_one = others and distances(parts[is_apart].T[None], parts[is_apart][0][None, :, None]).max()
    suspects: list[int | None] = [None] * len(ranks)
    if others * 2 < len(ranks):
        suspects = [*ranks]
    elif others == len(ranks) - 1 and len(ranks) > 2 and is_one <= tolerance:
        suspects = [ranks[0]] * len(ranks)
    return tuple(
        Apart(
            rank,
            kind,
            ranks[0],
            (float(own[0]), float(own[1]), float(own[2]), float(own[3])),
            float(distance),
            suspect,
            note=notes[place] if notes else None,
        )
        for place, (rank, own, distance, suspect) in enumerate(
            zip(ranks, parts, away.tolist(), suspects, strict=True)
        )
        if is_apart[place]
    )
