"""Rules that tell of trouble while the training runs."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from msprobe_collector.monitor.row import Row

_REMEMBERED = 16  # norms of each tensor
_ENOUGH = 3  # of them, before a norm can be unusual
_ENDS = {"jump": "is {:.3g} times", "vanishing": "has fallen to 1/{:.3g} of"}


@dataclass(frozen=True)
class Alert:
    """One breach of a rule."""

    step: int
    rule: str
    kind: str
    name: str
    value: float  # the norm
    usual: float  # the median of the norms before, NaN where there is none
    sentence: str


class Rules:
    """Judges row after row; ``limits`` has a factor for each rule that is on."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        self._limits = limits
        self._norms: dict[tuple[str, str], deque[float]] = {}

    def judge(self, step: int, row: Row) -> Alert | None:
        """The first rule that a row breaks. What is not finite is not remembered as usual."""
        norm = row.numbers.norm
        what = f"{row.kind.replace('_', ' ')} of {row.name or 'the model'}"
        if not math.isfinite(norm):
            if "nan" not in self._limits:
                return None
            found = f"{row.numbers.nans} NaN" if row.numbers.nans else "infinity"
            sentence = f"the {what} holds {found} of {row.numbers.count} values."
            return Alert(step, "nan", row.kind, row.name, norm, math.nan, sentence)
        before = self._norms.setdefault((row.kind, row.name), deque(maxlen=_REMEMBERED))
        usual = median(before) if len(before) >= _ENOUGH else math.nan
        before.append(norm)
        rule, factor = _broken(norm, usual)
        if rule not in self._limits or factor < self._limits[rule]:
            return None
        end = _ENDS[rule].format(factor) if math.isfinite(factor) else "has fallen to zero from"
        if row.kind == "learning_rate":
            end = (
                f"the {what} {end} the median of the steps before, {norm:.3g} against {usual:.3g}."
            )
        else:
            end = (
                f"the norm of the {what} {end} the median of the steps before, "
                f"{norm:.3g} against {usual:.3g}."
            )
        return Alert(step, rule, row.kind, row.name, norm, usual, end)


def _broken(norm: float, usual: float) -> tuple[str, float]:
    """The rule that may be broken, and by what factor; nothing is said of what was zero before."""
    if not usual > 0:
        return "jump", 0.0
    if norm >= usual:
        return "jump", norm / usual
    return "vanishing", usual / norm if norm else math.inf
