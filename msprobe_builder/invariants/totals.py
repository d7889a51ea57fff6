"""What ranks exchange as parts of one tensor: all of it together is what they gave together.

Where a part stands in the tensor shows in no statistic of it, so that is not checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

from msprobe_builder.facts.fact import fact
from msprobe_builder.invariants.run import Run, Tensor, classes, given_to, is_on_its_way, left_by
from msprobe_builder.invariants.tolerances import of_sum
from msprobe_builder.invariants.violation import Check, Found, Violation
from msprobe_builder.link.pairing import Together

_NORMS = 1e-5  # what the order of summation makes of a norm


class _Form(NamedTuple):
    """Where a function takes its tensor and puts the result."""

    given: str
    result: str
    is_whole: bool = False  # all ranks get the same, of all that was given
    reduces: bool = False


_GATHERING = _Form("input_tensor", "output_tensor", is_whole=True)
_SCATTERING = _Form("input", "output", reduces=True)
_FORMS = {
    "all_gather_into_tensor": _GATHERING,
    "all_gather_single": _GATHERING,
    "_all_gather_base": _GATHERING,
    "reduce_scatter_tensor": _SCATTERING,
    "reduce_scatter_single": _SCATTERING,
    "_reduce_scatter_base": _SCATTERING,
    "all_to_all_single": _Form("input", "output"),
}


class _Total(NamedTuple):
    """Statistics of several tensors as if they were one."""

    largest: float
    least: float
    mean: float
    norm: float
    size: float  # the root of the mean square


def check_totals(run: Run, together: Sequence[Together], found: Found) -> None:
    """Hold the statistics of what came out on all ranks against those of what went in."""
    for group in together:
        form = _FORMS.get(group.calls[0].name)
        if form is None:
            continue
        check = Check.REDUCTION if form.reduces else Check.TRANSFER
        holds = _holds(run, group, form)
        result = (form.result, "")
        if holds is False and is_on_its_way(run, [(call, result) for call in group.calls]):
            holds = None
        found.count(check, is_known=holds is not None)
        if holds is False:
            found.violations += [
                Violation(one.node, check, (fact("no_total"),)) for one in group.calls
            ]


def _holds(run: Run, group: Together, form: _Form) -> bool | None:
    given, results = (_tensors(run, group, form, is_given=is_given) for is_given in (True, False))
    if len(given) < len(group.members) or len(results) < len(group.members):
        return None
    alike = classes(dict(enumerate(results))) if form.is_whole else {}
    before, after = _total(given), _total(results)
    if alike is None or before is None or after is None:
        return None
    if len(set(alike.values())) > 1:
        return False
    count = len(given)
    if form.reduces:
        operation = group.calls[0].arguments.get(("op", ""), "SUM").rpartition(".")[2].upper()
        if operation not in ("SUM", "AVG"):
            return None
        terms = 1 if operation == "AVG" else count
        sizes = [one.size / sqrt(one.elements) for one in given]
        allowed = of_sum(sizes, given[0].dtype)
        return abs(after.mean - before.mean * terms) <= allowed
    is_same = (before.largest, before.least) == (after.largest, after.least)
    times = sqrt(count) if form.is_whole else 1.0
    is_same &= abs(before.norm * times - after.norm) <= _NORMS * after.norm
    return is_same and abs(before.mean - after.mean) <= of_sum([after.size], "float32")


def _tensors(run: Run, group: Together, form: _Form, *, is_given: bool) -> list[Tensor]:
    found = []
    for call in group.calls:
        one = (
            given_to(run, call, (form.given, ""))
            if is_given
            else left_by(run, call, (form.result, ""))
        )
        if one is not None and one.elements:
            found.append(one)
    return found


def _total(tensors: Sequence[Tensor]) -> _Total | None:
    count = sum(one.elements for one in tensors)
    parts = [(one.largest, one.least, one.mean, one.norm, one.elements) for one in tensors]
    known = [
        (largest, least, mean * elements, norm)
        for largest, least, mean, norm, elements in parts
        if largest is not None and least is not None and mean is not None and norm is not None
    ]
    if len(known) < len(parts) or not known:
        return None
    largest, least, sums, norms = zip(*known, strict=True)
    norm = sqrt(sum(one * one for one in norms))
    return _Total(max(largest), min(least), sum(sums) / count, norm, norm / sqrt(count))
