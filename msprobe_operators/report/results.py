"""What was found, one row for each operator at each place: bounded however long a run lasts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.facts.wording import tell
from msprobe_operators.call.place import Place
from msprobe_operators.judge.compare import Judgement, Status

# Places that are told apart; calls beyond them are counted with their operator alone.
_MOST_ROWS = 1 << 16


@dataclass
class Row:
    """All calls of one operator at one place."""

    operator: str
    module: str
    classes: str
    direction: str
    passed: int = 0
    failed: int = 0
    untested: int = 0
    worst_times: float = 0.0  # largest error in units of what is allowed
    worst_error: float = 0.0
    first_step: int | None = None  # the step of the first failure
    reason: Fact | None = None
    looked_for: str = "fault"  # or rounding, bad values

    @property
    def said(self) -> Fact:
        """What is said of these calls."""
        module = self.module or fact("operator.outside_modules")
        place = fact("operator.place", module=module, direction=self.direction)
        operator, reason = self.operator, self.reason
        if self.failed:
            tested = self.passed + self.failed
            counts = {"failed": self.failed, "tested": tested, "reason": reason}
            # That rounding grows, or a result leaves the range of its type, is no fault of a call.
            match self.looked_for:
                case "rounding":
                    return fact("operator.grows_in_calls", operator=operator, place=place, **counts)
                case "bad values":
                    return fact(
                        "operator.makes_bad_in_calls",
                        operator=operator,
                        place=place,
                        failed=self.failed,
                    )
            return fact("operator.wrong_in_calls", operator=operator, place=place, **counts)
        passed = self.passed
        if not passed:
            return fact("operator.untested_in", operator=operator, place=place, reason=reason)
        match self.looked_for:
            case "rounding":
                return fact(
                    "operator.steady_in_calls", operator=operator, place=place, passed=passed
                )
            case "bad values":
                return fact(
                    "operator.hands_bad_on_in_calls", operator=operator, place=place, passed=passed
                )
        return fact("operator.right_in_calls", operator=operator, place=place, passed=passed)

    @property
    def sentence(self) -> str:
        """The same in words."""
        return tell(self.said)


class Results:
    """Counts calls by operator and place, in order of their first call."""

    def __init__(self, looked_for: str = "fault") -> None:
        """``looked_for`` is fault, rounding or bad values: what a failed call shows."""
        self._looked_for = looked_for
        self._rows: dict[tuple[str, Place], Row] = {}

    def add(self, operator: str, place: Place, judgement: Judgement, step: int) -> None:
        """Count one judged call."""
        key = operator, place
        if key not in self._rows and len(self._rows) >= _MOST_ROWS:
            key = operator, Place("", "", place.direction)
        row = self._rows.get(key)
        if row is None:
            at = key[1]
            row = self._rows[key] = Row(
                operator, at.path, at.classes, at.direction, looked_for=self._looked_for
            )
        if judgement.status is Status.PASSED:
            row.passed += 1
            row.worst_times = max(row.worst_times, judgement.times)
            row.worst_error = max(row.worst_error, judgement.error)
        elif judgement.status is Status.FAILED:
            row.failed += 1
            if row.first_step is None:
                row.first_step, row.reason = step, judgement.reason
            row.worst_times = max(row.worst_times, judgement.times)
            row.worst_error = max(row.worst_error, judgement.error)
        else:
            row.untested += 1
            row.reason = row.reason or judgement.reason

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows.values())

    @property
    def failures(self) -> list[Row]:
        """Rows with a wrong call, in order of their first call."""
        return [row for row in self if row.failed]
