"""Which planted cases are tried, and what share of them must be judged rightly.

``--planted`` is ``none``, ``all``, a number from 0 to 6, or ``commit``: all controls, and the
seventh of the faults that the commit in work chooses. A share is judged when all processes have
ended, and fails as a test does.
"""

from __future__ import annotations

import functools
import hashlib
import math
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Protocol

import pytest

PARTS = 7
NONE, ALL, COMMIT = "none", "all", "commit"
CHOICES = (NONE, ALL, COMMIT, *map(str, range(PARTS)))
# Share of cases of a kind in which the best suspect is the culprit.
AIMS = {"same": 0.97, "noise": 0.95, "bf16": 0.90}
_SHARE = "share"


class RecordShare(Protocol):
    """Count a case of a kind."""

    def __call__(self, kind: str, *, is_right: bool) -> None: ...


@functools.cache
def chosen_part(planted: str) -> int | None:
    """The part of the faults that is tried; None for all of them or for none."""
    if planted in (NONE, ALL):
        return None
    return int(head(), 16) % PARTS if planted == COMMIT else int(planted)


@functools.cache
def head() -> str:
    """The commit in work; 0 where there is no repository."""
    try:
        answer = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return "0"
    return answer.stdout.strip()


def is_tried(item: pytest.Item, planted: str) -> bool:
    """Whether a case of the bank is tried; all other tests are."""
    is_control = item.get_closest_marker("control") is not None
    if not is_control and item.get_closest_marker("planted") is None:
        return True
    if planted == NONE:
        return False
    part = chosen_part(planted)
    return is_control or part is None or part_of(item.name) == part


def part_of(name: str) -> int:
    """The part that a case belongs to, whatever other cases there are."""
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % PARTS


def described(planted: str) -> str:
    """What is tried, in words."""
    if planted in (NONE, ALL):
        return f"planted cases: {planted}"
    chosen = f" by commit {head()[:8]}" if planted == COMMIT else ""
    part = chosen_part(planted)
    return f"planted cases: all controls, and part {part} of {PARTS}{chosen} (--planted={part})"


class Shares:
    """Gathers in the process that reports, and fails the run where a share is too small."""

    def __init__(self, planted: str) -> None:
        self._is_whole = planted == ALL
        self._right: Counter[str] = Counter()
        self._tried: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties if report.when == "call" else ():
            if name == _SHARE:
                kind, is_right = str(value).split()
                self._tried[kind] += 1
                self._right[kind] += is_right == "right"

    def _lines(self) -> Iterator[tuple[bool, str]]:
        for kind, tried in sorted(self._tried.items()):
            aim = AIMS[kind]
            # Of some, so many may miss by chance.
            chance = 0.0 if self._is_whole else 2 * math.sqrt(tried * aim * (1 - aim))
            right = self._right[kind]
            yield (
                right >= tried * aim - chance,
                f"{kind}: the culprit first in {right} of {tried} planted cases, aim {aim:.0%}",
            )

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        for is_enough, line in self._lines():
            report = pytest.TestReport(
                nodeid=f"tests/faults/test_planted.py::share[{line.partition(':')[0]}]",
                location=("tests/faults/test_planted.py", 0, "share"),
                keywords={},
                outcome="passed" if is_enough else "failed",
                longrepr=None if is_enough else line,
                when="call",
            )
            session.config.hook.pytest_runtest_logreport(report=report)
        if session.testsfailed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for _, line in self._lines():
            terminalreporter.write_line(line)


def counter(record: Callable[[str, object], None]) -> RecordShare:
    """What a test counts its case with, given ``record_property``."""

    def count(kind: str, *, is_right: bool) -> None:
        record(_SHARE, f"{kind} {'right' if is_right else 'wrong'}")

    return count
