"""A comparison of checkpoints as JSON and as lines."""

from __future__ import annotations

import math
from typing import Any

from msprobe_builder.export.wrapped import line
from msprobe_builder.facts.fact import Fact, fact, plain
from msprobe_builder.facts.wording import ENGLISH, tell
from msprobe_checks.checkpoint.compare import Comparison, Similarity
from msprobe_checks.one_sided import FIRST, SECOND, first_few

_SHOWN = 5  # differing parameters that are named
_LONGEST = 200  # characters of a name


def similarity_json(comparison: Comparison) -> dict[str, Any]:
    """By parameter: ``l2``, ``cos``, ``numel``, ``shape``, ``max_relative_difference`` and more.

    Numbers that JSON has no word for are their names as text.
    """
    return {one.name: _entry(one) for one in comparison.parameters}


def _entry(one: Similarity) -> dict[str, Any]:
    first, second = one.shapes
    shape = second if second is not None else first
    assert shape is not None
    entry: dict[str, Any] = {
        "l2": _number(one.l2),
        "cos": _number(one.cosine),
        "numel": math.prod(shape),
        "shape": list(shape) if first in (None, second) or second is None else None,
        "max_relative_difference": _number(one.relative),
        "relative_l2": _number(one.share),
    }
    if entry["shape"] is None:
        assert first is not None
        entry["shape"] = [list(first), list(second or ())]
    if one.not_numbers:
        entry["nan_in_both"] = one.not_numbers
    if one.is_one_sided:
        entry["only_in"] = "first" if second is None else "second"
    if one.cause is not None:
        entry["cause"] = tell(one.cause, ENGLISH)
        entry["cause_facts"] = plain([one.cause])
    return entry


def _shown(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _number(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)


def summary_lines(comparison: Comparison) -> list[str]:
    """What was compared, the verdict in one sentence, and the first parameters that differ."""
    first, second = comparison.kinds
    compared = fact("checkpoint.compared", first=first, second=second)
    lines = [line(fact("label.compared"), compared)]
    lines += [line(fact("label.note"), note) for note in comparison.notes]
    for which, place in ((FIRST, 1), (SECOND, 0)):
        alone = [_shown(one.name) for one in comparison.parameters if one.shapes[place] is None]
        if alone:
            lines.append(tell(fact("checkpoint.only_in", which=which, names=first_few(alone))))
    both = [one for one in comparison.parameters if not one.is_one_sided]
    wrong = [one for one in both if not one.is_rounding]
    alone_count = len(comparison.parameters) - len(both)
    if comparison.unread and wrong:
        lines.append(line(fact("label.note"), _unread(comparison)))
    lines.append(line(fact("label.verdict"), _verdict(comparison, both, wrong, alone_count)))
    return lines + [line("", _named(one)) for one in wrong[1:_SHOWN]]


def _unread(comparison: Comparison) -> Fact:
    names = first_few([_shown(name) for name in comparison.unread])
    return fact("checkpoint.but_unread", count=len(comparison.unread), names=names)


def _verdict(
    comparison: Comparison, both: list[Similarity], wrong: list[Similarity], alone: int
) -> Fact:
    """Of ``both`` parameters that both checkpoints have, and ``alone`` that one has."""
    if not both:
        return fact("checkpoint.nothing_in_common")
    if wrong:
        first = _named(wrong[0])
        return fact("checkpoint.differ", differing=len(wrong), count=len(both), first=first)
    but = [_unread(comparison)] if comparison.unread else []
    but += [fact("checkpoint.but_alone", count=alone)] if alone else []
    elements = sum(min(math.prod(shape or ()) for shape in one.shapes) for one in both)
    nans = [one for one in both if one.not_numbers]
    if nans:
        count = sum(one.not_numbers for one in nans)
        elements -= count
        but.append(fact("checkpoint.but_nan", count=count, name=_shown(nans[0].name)))
    padded = sum(one.cause is not None for one in both)
    if padded:
        but.append(fact("checkpoint.but_padding", count=padded))
    clauses = fact("checkpoint.but", clauses=but) if but else None
    if not elements:
        return fact("checkpoint.nothing_compared", count=len(both), but=clauses)
    return fact("checkpoint.agree", count=len(both), elements=elements, but=clauses)


def _named(one: Similarity) -> Fact | str:
    """A parameter and why it differs."""
    name, why = _shown(one.name), _reason(one)
    return name if why is None else fact("checkpoint.because", name=name, why=why)


def _reason(one: Similarity) -> Fact | None:
    if one.cause is not None:
        return one.cause
    if one.l2 is not None and one.cosine is None:
        # Of two tensors that differ one is zero: by that of the second nothing can be divided.
        return fact("checkpoint.zero", which=SECOND if one.share is None else FIRST)
    if one.share is None or one.cosine is None:
        first, second = (str(list(shape or ())) for shape in one.shapes)
        return fact("checkpoint.shapes", first=first, second=second) if one.l2 is None else None
    return fact("checkpoint.distance", share=one.share, cosine=one.cosine)
