"""What a comparison of configurations comes to: each part in a line, and one sentence."""

from __future__ import annotations

from msprobe_builder.configuration.compare import ConfigurationComparison, Sheet
from msprobe_builder.configuration.levels import ERROR, PASS, WARNING

_REQUIRED = ("env", "pip", "hyperparameters", "dataset", "weights")
# Parts whose differences do not follow from each other, so that a second one may be the cause.
_SETTINGS = ("env", "pip", "hyperparameters")
_SAID = 3  # of them in a sentence


def summary_lines(comparison: ConfigurationComparison) -> list[str]:
    """Each part, and whether the runs may be compared."""
    lines = [
        f"{sheet.outcome:<9} {sheet.name}" + (f": {sheet.first}" if sheet.first else "")
        for sheet in comparison.sheets
    ]
    lines += [f"{WARNING:<9} {name}: in one pack only" for name in comparison.missing]
    return [*lines, f"Verdict   {conclusion(comparison)}"]


def unknown_parts(comparison: ConfigurationComparison) -> list[str]:
    """Parts that ought to be alike and that no two packs hold."""
    seen = {one.name for one in comparison.sheets}
    return [name for name in _REQUIRED if name not in seen]


def outcome(comparison: ConfigurationComparison) -> str:
    """``error``: do not compare the runs yet; ``warning``: look at a difference first; ``pass``."""
    worst = comparison.outcome
    if worst == PASS and (comparison.missing or not comparison.sheets):
        return WARNING
    return worst


def conclusion(comparison: ConfigurationComparison) -> str:
    """One sentence: may the runs be compared?"""
    if not comparison.sheets:
        return "whether the runs may be compared cannot be told: the packs have no part in common."
    wrong = [one for one in comparison.sheets if one.outcome == ERROR and one.name in _REQUIRED]
    if wrong:
        return f"do not compare the runs yet: {_differences(wrong[0])}."
    doubts = [_differences(one) for one in comparison.sheets if one.outcome == WARNING]
    text = "nothing that was collected speaks against comparing the runs"
    if doubts:
        text += f", but look at this first: {doubts[0]}"
    unseen = unknown_parts(comparison)
    if unseen:
        text += f"; {', '.join(unseen)} cannot be told, because no two packs hold it"
    return text + "."


def _differences(sheet: Sheet) -> str:
    """What differs in a part, the worst first: the first few settings, or the first value."""
    said = sheet.differences[: _SAID if sheet.name in _SETTINGS else 1]
    left = len(sheet.differences) - len(said) if sheet.name in _SETTINGS else 0
    return ", ".join(one.text for one in said) + (f" and {left} more" if left else "")
