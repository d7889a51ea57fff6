"""Red and yellow rows: where a call makes its outputs worse than its inputs were."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log10

from msprobe_builder.base.codes import Section
from msprobe_builder.dump.task import Task
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.tables.rows import Row

RED, YELLOW = "red", "yellow"
_HUGE = 1e10
_OUTPUTS = (Section.OUTPUT, Section.PARAMETERS_GRAD)


@dataclass(frozen=True)
class _Rule:
    """A mark that ``holds`` of an output and one of the inputs gives, with its reason."""

    mark: str
    reason: Fact
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


_GREW = _Rule(YELLOW, fact("mark.grew"), _grew)
_RULES = {
    Task.TENSOR: (
        _Rule(
            RED,
            fact("mark.few_within"),
            lambda output, given: (
                _both(output.ratio, given.ratio)
                and (given.ratio or 0) > 0.9
                and (output.ratio or 0) < 0.6
            ),
        ),
        _GREW,
        _Rule(
            YELLOW,
            fact("mark.less_within"),
            lambda output, given: _fell(given.ratio, output.ratio, 0.1),
        ),
        _Rule(
            YELLOW,
            fact("mark.cosine"),
            lambda output, given: _fell(given.cosine, output.cosine, 0.1),
        ),
    ),
    Task.STATISTICS: (
        _GREW,
        _Rule(
            YELLOW,
            fact("mark.maximum_of_input"),
            lambda output, given: (
                _both(output.relative, given.relative)
                and (output.relative or 0) > 0.1
                and (given.relative or 0) < 0.01
            ),
        ),
    ),
}


def mark(rows: list[Row], task: Task) -> list[list[Fact]]:
    """Set the mark of each row of one call; returns why, for each row."""
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
        reasons.append([reason for colour, reason in found if colour == row.mark])
    return reasons


def _alone(row: Row, task: Task) -> list[tuple[str, Fact]]:
    """Marks that a row gets whatever the inputs are."""
    found = []
    if row.overflows:
        found.append((RED, fact("mark.not_finite")))
    if row.largest is not None and row.largest > _HUGE:
        found.append((RED, fact("mark.huge")))
    is_output = row.section == Section.OUTPUT
    if task is Task.STATISTICS and is_output and (row.relative or 0) > 0.5:
        found.append((RED, fact("mark.maximum")))
    if row.differs_in_grad and task is not Task.MD5:
        found.append((YELLOW, fact("mark.requires_grad")))
    return found
