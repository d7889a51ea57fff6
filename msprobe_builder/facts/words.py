"""Words that stand in many facts."""

from __future__ import annotations

from collections.abc import Sequence

from msprobe_builder.facts.fact import Fact, fact

THIS_RUN = fact("this_run")
THE_REFERENCE = fact("the_reference")

SIDE = (fact("side.npu"), fact("side.bench"))  # what they are called where nobody names them

UNUSUAL = "unusual"  # what half precision explains worst, where nobody is suspect
HIDDEN = "cannot_tell.hidden"  # nothing is off by more than rounding, which may hide a fault
FOLLOWS = "follows_from_elsewhere"  # what a step and rank says without a suspect of its own

STATISTIC = (  # in the order of base.codes.STATISTICS
    fact("statistic.max"),
    fact("statistic.min"),
    fact("statistic.mean"),
    fact("statistic.norm"),
)

GRADE = {  # by the word of base.codes.Grade
    "ungraded": fact("grade.ungraded"),
    "ok": fact("grade.ok"),
    "slight": fact("grade.slight"),
    "moderate": fact("grade.moderate"),
    "serious": fact("grade.serious"),
    "severe": fact("grade.severe"),
    "unmatched": fact("grade.unmatched"),
}

_BEYOND_DOUBT = 1000


def standing_at(name: str, *, is_unrecorded: bool) -> Fact | str:
    """A suspect, or what runs before it: there a fault lies that nobody recorded."""
    return fact("accused.before", name=name) if is_unrecorded else name


def statistics(values: Sequence[float]) -> Fact:
    """Maximum, minimum, mean and norm of a tensor."""
    largest, least, mean, norm = values
    return fact("statistics", max=largest, min=least, mean=mean, norm=norm)


def multiple(times: float) -> Fact:
    """How many times something is: two digits; what is beyond all doubt needs none."""
    if times > _BEYOND_DOUBT:
        return fact("times.beyond", times=_BEYOND_DOUBT)
    return fact("times", times=f"{times:.2g}" if times < 99.5 else f"{float(f'{times:.2g}'):,.0f}")
