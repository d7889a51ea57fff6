"""How a tensor differs, by how much, and two numbers side by side: facts that all causes share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.facts.fact import Fact, Facts, fact
from msprobe_builder.facts.words import STATISTIC, multiple
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.verdict.differences.mask_values import mask_values

Float = NDArray[np.float64]

_DIGITS, _ALL_DIGITS = 6, 17
_WORST = 10.0  # finite here, not there
_HIDDEN = 4.0  # times: so little of a difference shows in the norm


def differing(
    npu: ParameterTable,
    bench: ParameterTable,
    row: int,
    other: int,
    relative: float = 0.0,
    where: Facts = (),
) -> Fact:
    """How a tensor differs: where that is known, else by the statistic that says most.

    ``row`` is of ``npu``, ``other`` of ``bench``, -1 where it has no counterpart; ``relative`` is
    the relative difference that sketches or elements tell, ``where`` the place.
    """
    if min(row, other) < 0:
        return fact("differs.unknown")
    debug, reference = npu.statistics[:, row], bench.statistics[:, other]
    elements = bench.numel[[other]]
    mask_value = mask_values(debug[:, None], reference[:, None], elements)[:, 0]
    if mask_value.any():
        shown = int(np.argmin(mask_value))
        if np.isfinite([debug[shown], reference[shown]]).all():
            return _of_statistic(shown, debug, reference)
    finite, finite_there = np.isfinite(debug[:2]).all(), np.isfinite(reference[:2]).all()
    if finite_there and not finite:
        return fact("differs.not_finite")
    if finite and not finite_there:
        return fact("differs.finite")
    with np.errstate(all="ignore"):
        ratio = debug[3] / reference[3]
        change = np.abs(debug - reference)
    is_other_norm = np.isfinite(ratio) and reference[3] > 0 and abs(ratio - 1) > 1e-3
    if where or relative > (_HIDDEN * abs(ratio - 1) if is_other_norm else 0):
        place = fact("differs.where", where=where) if where else None
        share = float(f"{100 * relative:.2g}")  # sketches tell no more
        return fact("differs.relative", share=share, where=place)
    if is_other_norm:
        return fact("differs.norm", times=float(ratio))
    known = np.flatnonzero(np.isfinite(change))
    if not len(known) or not change[known].max() > 0:
        return fact("differs.unknown")
    worst = int(known[np.argmax(change[known] / np.fmax(np.abs(reference[known]), 1e-30))])
    return _of_statistic(worst, debug, reference)


def _of_statistic(number: int, debug: Float, reference: Float) -> Fact:
    both = {"own": float(debug[number]), "theirs": float(reference[number])}
    return fact("differs.statistic", statistic=STATISTIC[number], **both)


def size_of(error: float, expected: float) -> Fact:
    """How many times what is expected an error is."""
    if error >= _WORST or expected <= 0:
        return fact("size.no_rounding")
    return fact("size", times=multiple(error / expected))


def shortened(debug: str, reference: str) -> tuple[str, str]:
    """Two numbers with as many digits as tell them apart, six at least; all else as it is."""
    try:
        for digits in range(_DIGITS, _ALL_DIGITS):
            left, right = _rounded(debug, digits), _rounded(reference, digits)
            if left != right:
                return left, right
    except ValueError:
        pass  # no numbers
    return debug, reference


def _rounded(number: str, digits: int) -> str:
    value = float(number)
    is_short = number.lstrip("-").isdecimal() or len(number) <= digits + len("-0.")
    return number if is_short else f"{value:.{digits}g}"
