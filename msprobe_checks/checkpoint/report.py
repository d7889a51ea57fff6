"""A comparison of checkpoints as JSON and as one sentence."""

from __future__ import annotations

import math
from typing import Any

from msprobe_checks.checkpoint.compare import Comparison, Similarity

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
    if one.is_one_sided:
        entry["only_in"] = "first" if second is None else "second"
    if one.cause:
        entry["cause"] = one.cause
    return entry


def _shown(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _number(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)


def summary_lines(comparison: Comparison) -> list[str]:
    """What was compared, the verdict in one sentence, and the first parameters that differ."""
    both = [one for one in comparison.parameters if not one.is_one_sided]
    lines = [f"Compared  {comparison.kinds[0]} with {comparison.kinds[1]}"]
    lines += [f"Note      {note}" for note in comparison.notes]
    for side, place in (("first", 1), ("second", 0)):
        own = [one.name for one in comparison.parameters if one.shapes[place] is None]
        if own:
            more = f" and {len(own) - 3} more" if len(own) > 3 else ""
            lines.append(f"Only in the {side}: {', '.join(map(_shown, own[:3]))}{more}")
    wrong = [one for one in both if not one.is_rounding]
    if not both:
        return [
            *lines,
            "Verdict   cannot tell, because the checkpoints have no parameter in common.",
        ]
    if not wrong:
        alone = len(comparison.parameters) - len(both)
        but = (
            f", but {alone} {'is' if alone == 1 else 'are'} in one checkpoint only" if alone else ""
        )
        return [*lines, f"Verdict   all {len(both)} common parameters agree up to rounding{but}."]
    lines.append(
        f"Verdict   {len(wrong)} of {len(both)} common parameters differ beyond rounding, "
        f"first {_shown(wrong[0].name)}{_reason(wrong[0])}."
    )
    return lines + [f"          {_shown(one.name)}{_reason(one)}" for one in wrong[1:_SHOWN]]


def _reason(one: Similarity) -> str:
    if one.cause:
        return f": {one.cause}"
    if one.share is None or one.cosine is None:
        first, second = one.shapes
        return f": shape {list(first or ())} against {list(second or ())}" if one.l2 is None else ""
    return f": ‖a − b‖ is {one.share:.2g} of ‖b‖, cosine {one.cosine:.6g}"
