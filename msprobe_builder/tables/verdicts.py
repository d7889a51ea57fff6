"""Good or bad: the documented rules, and ours where a documented one is wrong.

The documented limits are absolute, so they reject what is equal to five digits but large, and
pass what is small and wrong; ours are relative to the largest number of the two tensors.
docs/design/tables.md lists every difference.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import inf, isfinite, isnan

from msprobe_builder.base.codes import METRICS, Section
from msprobe_builder.database.read.parameters import ParameterRow

UNKNOWN = "N/A"
REACHED, MISSED, UNDECIDED, UNMATCHED = "Yes", "No", "None", "Unmatched"
WARNING, PASS, DIFFERENT = "Warning", "pass", "Different"
BAD = frozenset({MISSED, WARNING, DIFFERENT})

# Of the document: cosine below and absolute error above both limits of a pair is a failure.
_LIMITS = ((0.99, 0.001), (0.9, 1.0))
_CHANGE = 0.5  # of a statistic, relative
_RELATIVE = METRICS.index("relative_difference")
_TINY = 1e-10
_SIZES = re.compile("[0-9]+")
_ONE_VALUE = 0.01  # relative error at which a single value fails; ours


def documented_accuracy(cosine: float | str | None, max_abs_err: float | str | None) -> str:
    """``Accuracy Reached or Not`` of two cells as the document evaluates them, top-down."""
    if cosine == "shape unmatched":
        return UNMATCHED
    if cosine is None or max_abs_err is None:
        return UNDECIDED
    if UNKNOWN in (cosine, max_abs_err):
        return MISSED
    try:
        similarity, error = float(cosine), float(max_abs_err)
    except ValueError:  # "unsupported"
        return UNDECIDED
    if any(similarity < low and error > high for low, high in _LIMITS[:1]):
        return MISSED
    low, high = _LIMITS[1]
    return MISSED if similarity < low or error > high else REACHED


def corrected_accuracy(row: ParameterRow) -> str:
    """The same limits on the error relative to the largest number of the two tensors.

    All zeros against anything else fail, and a single value is judged by its relative error.
    """
    if row.npu is None or row.bench is None or row.comparison is None:
        return UNDECIDED
    if row.npu.shape != row.bench.shape:
        return UNMATCHED
    cosine, distance, max_abs_err = row.comparison.metrics[8:11]
    if max_abs_err is None and distance is None:
        return UNDECIDED
    error = inf if max_abs_err is None or isnan(max_abs_err) else max_abs_err
    scale = _scale(row)
    if error == 0:
        return REACHED
    relative = error / scale if scale > 0 else inf
    if cosine is None or isnan(cosine) or _is_single(row.npu.shape):
        one_side_is_zero = not all(_magnitude(side.statistics) for side in (row.npu, row.bench))
        limit = 0.0 if one_side_is_zero else _ONE_VALUE
        return MISSED if relative > limit else REACHED
    (mild, small), (bad, large) = _LIMITS
    is_off = (cosine < mild and relative > small) or cosine < bad or relative > large
    return MISSED if is_off else REACHED


def documented_result(npu: Sequence[float | None], bench: Sequence[float | None]) -> bool:
    """Whether a statistic that both sides have changed by half, against the larger one."""
    for own, other in zip(npu, bench, strict=True):  # any() of a generator takes twice as long
        if own is None or other is None:
            continue
        if abs(own - other) / (abs(own if own > other else other) + _TINY) > _CHANGE:
            return True
    return False


def corrected_result(row: ParameterRow) -> str:
    """The same against the larger magnitude; a mean against the largest number of the tensor.

    So is a difference of the tensors of more than half of the reference, where that is known. A
    mean near zero is rounding noise, and of two negative numbers the larger one is the smaller.
    Not finite on one side alone is a change.
    """
    if row.npu is None or row.bench is None or row.comparison is None:
        return UNKNOWN
    relative = row.comparison.metrics[_RELATIVE]
    if relative is not None and not relative <= _CHANGE:
        return WARNING
    scale = _scale(row)
    for place, (npu, bench) in enumerate(
        zip(row.npu.statistics, row.bench.statistics, strict=True)
    ):
        if npu is None or bench is None:
            continue
        if not isfinite(npu) or not isfinite(bench):
            if npu != bench and not (isnan(npu) and isnan(bench)):
                return WARNING
            continue
        size = scale if place == 2 else max(abs(npu), abs(bench))
        if abs(npu - bench) > _CHANGE * (size + _TINY):
            return WARNING
    return ""


def section_word(section: int) -> str:
    """What a value is to its call."""
    return Section(section).name.lower()


def _scale(row: ParameterRow) -> float:
    assert row.npu is not None
    assert row.bench is not None
    return max(_magnitude(row.npu.statistics), _magnitude(row.bench.statistics))


def _is_single(shape: str) -> bool:
    """Whether a tensor of this shape has one element: its cosine says nothing but the sign."""
    return set(_SIZES.findall(shape)) <= {"1"}


def _magnitude(statistics: tuple[float | None, ...]) -> float:
    known = [abs(value) for value in statistics[:2] if value is not None and isfinite(value)]
    return max(known, default=0.0)
