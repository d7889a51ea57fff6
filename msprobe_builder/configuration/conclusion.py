"""What a comparison of configurations comes to."""

from __future__ import annotations

from msprobe_builder.configuration.compare import ConfigurationComparison, Sheet
from msprobe_builder.configuration.levels import ERROR, PASS, WARNING
from msprobe_builder.facts.fact import Fact, fact

_REQUIRED = ("env", "pip", "hyperparameters", "dataset", "weights")
# Parts whose differences do not follow from each other, so that a second one may be the cause.
_SETTINGS = ("env", "pip", "hyperparameters")
_SAID = 3  # of them in a conclusion


def unknown_parts(comparison: ConfigurationComparison) -> list[str]:
    """Parts that ought to be alike and that no two packs hold."""
    seen = {one.name for one in comparison.sheets}
    return [name for name in _REQUIRED if name not in seen]


def outcome(comparison: ConfigurationComparison) -> str:
    """``error``: do not compare the runs yet; ``warning``: look at a difference first; ``pass``."""
    worst = comparison.outcome
    if worst == PASS and (comparison.missing or not _compared(comparison)):
        return WARNING
    return worst


def _compared(comparison: ConfigurationComparison) -> int:
    return sum(one.compared for one in comparison.sheets)


def conclusion(comparison: ConfigurationComparison) -> Fact:
    """May the runs be compared?"""
    if not comparison.sheets:
        return fact("configuration.nothing_in_common")
    wrong = [one for one in comparison.sheets if one.outcome == ERROR and one.name in _REQUIRED]
    if wrong:
        return fact("configuration.do_not_compare", differences=_differences(wrong))
    if not _compared(comparison):
        return fact("configuration.nothing_compared")
    doubts = [
        one for one in comparison.sheets if one.outcome != PASS
    ]  # calls that draw otherwise, too
    unseen = unknown_parts(comparison)
    return fact(
        "configuration.may_compare",
        count=_compared(comparison),
        parts=[one.name for one in comparison.sheets],
        doubt=fact("configuration.doubt", differences=_differences(doubts)) if doubts else None,
        unseen=fact("configuration.unseen", parts=unseen) if unseen else None,
    )


def _differences(sheets: list[Sheet]) -> Fact | list[Fact]:
    """What differs, the worst of each part first: the first few settings, or the first value."""
    of_settings = [one for each in sheets if each.name in _SETTINGS for one in each.differences]
    of_settings.sort(key=lambda one: one.level != ERROR)
    found = of_settings or list(sheets[0].differences[:1])
    said = [one.said for one in found[:_SAID]]
    left = len(found) - len(said)
    return fact("and_more", names=said, more=left) if left else said
