"""Two tables of one check on two devices beside each other: where does one of them fall behind?"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.facts.fact import Fact, fact, text_fact
from msprobe_builder.facts.wording import tell
from msprobe_builder.files.text_files import read_text_file

_WANTED = {"name", "direction", "status", "error", "times", "reason"}
_FURTHER = 2.0  # how many times as far off is worth a word
_LITTLE = 0.1  # of what rounding explains: nobody asks which of two is nearer
RIGHT, BEHIND, WRONG, UNTESTED = "both right", "falls behind", "wrong", "not tested"


@dataclass(frozen=True)
class _Found:
    """One row of a table: ``times`` is the error in units of what rounding explains."""

    status: str
    error: float
    times: float
    reason: str


@dataclass(frozen=True)
class JoinedRow:
    """One direction of one call on both devices."""

    name: str
    direction: str
    status: str
    first_times: float
    second_times: float
    first_error: float
    second_error: float
    reason: Fact

    @property
    def said(self) -> Fact:
        """What is said of it."""
        return fact("operator.of_two", call=f"{self.name}.{self.direction}", what=self.reason)

    @property
    def sentence(self) -> str:
        """The same in words."""
        return tell(self.said)


def join_tables(first: Path, second: Path) -> list[JoinedRow]:
    """The calls of both tables, those that fall behind first.

    UsageError where a file is no table of ``msprobe-operators check``, BuildError where the two
    have no call in common.
    """
    own, other = (_read(path) for path in (first, second))
    common = [key for key in own if key in other]
    if not common:
        raise BuildError(f"{first} and {second} have no call in common.")
    rows = [_joined(*key, own[key], other[key]) for key in common]
    order = (WRONG, BEHIND, UNTESTED, RIGHT)
    return sorted(rows, key=lambda row: order.index(row.status))


def left_out(first: Path, second: Path) -> tuple[int, int]:
    """How many calls the first table has alone, and the second."""
    own, other = (_read(path).keys() for path in (first, second))
    return len(own - other), len(other - own)


def _read(path: Path) -> dict[tuple[str, str], _Found]:
    if path.is_dir():
        path = path / "operator_check.csv"
    text = read_text_file(path, "give operator_check.csv of 'msprobe-operators check'")
    rows = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")))
    try:
        if not set(rows.fieldnames or ()) >= _WANTED:
            raise UsageError(
                f"{path} is no table of 'msprobe-operators check'; "
                "check the dump on each device and give both operator_check.csv."
            )
        return dict(_rows(path, rows))
    except csv.Error as error:
        raise BuildError(f"{path} is damaged ({error}); check the dump again.") from error


def _rows(path: Path, rows: csv.DictReader[str]) -> Iterator[tuple[tuple[str, str], _Found]]:
    for number, row in enumerate(rows, start=1):
        if None in row.values():
            raise BuildError(f"{path} is damaged: row {number} is cut off; check the dump again.")
        found = _Found(row["status"], _float(row["error"]), _float(row["times"]), row["reason"])
        yield (row["name"].lstrip("'"), row["direction"]), found


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return inf


def _joined(name: str, direction: str, a: _Found, b: _Found) -> JoinedRow:
    status, reason = _judged(a, b)
    return JoinedRow(name, direction, status, a.times, b.times, a.error, b.error, reason)


def _judged(a: _Found, b: _Found) -> tuple[str, Fact]:
    sides = (fact("checks.first"), a), (fact("checks.second"), b)
    untested = [(which, one) for which, one in sides if one.status not in ("passed", "failed")]
    if untested:
        which, one = untested[0]
        return UNTESTED, fact("operator.untested_on", which=which, reason=text_fact(one.reason))
    failed = [(which, one) for which, one in sides if one.status == "failed"]
    if len(failed) == 2:
        return WRONG, fact("operator.wrong_on_both", first=_size(a), second=_size(b))
    if failed:
        which, one = failed[0]
        return WRONG, fact(
            "operator.wrong_on_one", which=which, reason=text_fact(one.reason), times=_size(one)
        )
    further = max(sides, key=lambda side: side[1].times)
    nearest = min(a.times, b.times)
    times = further[1].times / nearest if nearest else inf
    if further[1].times > _LITTLE and times > _FURTHER:
        shown = f"{times:.3g}" if isfinite(times) else "∞"
        return BEHIND, fact("operator.further_off", which=further[0], times=shown)
    return RIGHT, fact("operator.right_on_both", first=a.times, second=b.times)


def _size(one: _Found) -> str:
    return f"{one.times:.3g}" if isfinite(one.times) else "∞"
