"""Red and yellow rows: where a call makes its outputs worse than its inputs were."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log10

from msprobe_builder.base.codes import Section
from msprobe_builder.dump.task import Task
from msprobe_builder.tables.rows import Row

RED, YELLOW = "red", "yellow"
_HUGE = 1e10
_OUTPUTS = (Section.OUTPUT, Section.PARAMETERS_GRAD)


@dataclass(frozen=True)
class _Rule:
    """A mark that ``holds`` of an output and one of the inputs gives, with its reason."""

    mark: str
    reason: str
    holds: Callable[[Row, Row], bool]


def _both(*values: float | None) -> bool:
    return all(value is not None for value in values)


def _fell(before: float | None, after: float | None, by: float) -> bool:
    return before is not None and after is not None and before - after > by


def _grew(output: Row, given: Row) -> bool:
    after, before = output.largest, given.largest
    if after is None or before is None or after <= 1 or before <= 1:
        return False
    return log10(after) - log10(before) >= 1


_GREW = _Rule(YELLOW, "The largest difference is ten times that of an input.", _grew)
_RULES = {
    Task.TENSOR: (
        _Rule(
            RED,
            "Over 90 % of an input are within 1/1000, and less than 60 % of this output.",
            lambda output, given: (
                _both(output.ratio, given.ratio)
                and (given.ratio or 0) > 0.9
                and (output.ratio or 0) < 0.6
            ),
        ),
        _GREW,
        _Rule(
            YELLOW,
            "10 % less of this output than of an input are within 1/1000.",
            lambda output, given: _fell(given.ratio, output.ratio, 0.1),
        ),
        _Rule(
            YELLOW,
            "The cosine similarity is 0.1 below that of an input.",
            lambda output, given: _fell(given.cosine, output.cosine, 0.1),
        ),
    ),
    Task.STATISTICS: (
        _GREW,
        _Rule(
            YELLOW,
            "The maximum is off by over 10 %, that of an input by less than 1 %.",
            lambda output, given: (
                _both(output.relative, given.relative)
                and (output.relative or 0) > 0.1
                and (given.relative or 0) < 0.01
            ),
        ),
    ),
}


def mark(rows: list[Row], task: Task) -> list[str]:
    """Set the mark of each row of one call; returns why, one text per row."""
    given = [row for row in rows if row.section not in _OUTPUTS]
    reasons = []
    for row in rows:
        found = list(_alone(row, task))
        if row.section == Section.OUTPUT:
            found += [
                (rule.mark, rule.reason)
                for rule in _RULES.get(task, ())
                if any(rule.holds(row, one) for one in given)
            ]
        marks = [colour for colour, _ in found]
        row.mark = RED if RED in marks else YELLOW if marks else ""
        reasons.append(" ".join(reason for colour, reason in found if colour == row.mark))
    return reasons


def _alone(row: Row, task: Task) -> list[tuple[str, str]]:
    """Marks that a row gets whatever the inputs are."""
    found = []
    if row.overflows:
        found.append((RED, "The maximum or minimum is NaN or infinite."))
    if row.largest is not None and row.largest > _HUGE:
        found.append((RED, "The largest difference is over 1e10."))
    is_output = row.section == Section.OUTPUT
    if task is Task.STATISTICS and is_output and (row.relative or 0) > 0.5:
        found.append((RED, "The maximum is off by over 50 %."))
    if row.differs_in_grad and task is not Task.MD5:
        found.append((YELLOW, "requires_grad differs."))
    return found
