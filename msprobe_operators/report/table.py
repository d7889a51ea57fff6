"""Rows of a check as CSV, JSON and a summary in words."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from math import isfinite
from pathlib import Path
from typing import Any, Protocol

from msprobe_builder.base.publish import written_together
from msprobe_builder.base.spreadsheet import harmless
from msprobe_builder.facts.fact import Fact, fact, plain
from msprobe_builder.facts.wording import ENGLISH, tell

_MOST_REASONS = 5
_STATUSES = {
    "passed": fact("operator.passed"),
    "failed": fact("operator.failed"),
    "not tested": fact("operator.not_tested"),
    "steady": fact("operator.steady_status"),
    "amplifies": fact("operator.amplifies_status"),
}


class Row(Protocol):
    """A dataclass of which something is said."""

    @property
    def said(self) -> Fact: ...


def write_rows(rows: Sequence[Any], kind: type, stem: Path) -> list[Path]:
    """Write ``stem``.csv and ``stem``.json, or neither.

    Texts that a spreadsheet would compute stay texts.

    The table is in the language spoken, the JSON in English with the facts beside it.
    """
    lines = io.StringIO(newline="")
    writer = csv.writer(lines)
    writer.writerow([*(field.name for field in fields(kind)), "sentence"])
    for row in rows:
        values = (*_values(row, kind, None).values(), tell(row.said))
        writer.writerow(map(harmless, values))
    content = [
        _finite(_values(row, kind, ENGLISH))
        | {"sentence": tell(row.said, ENGLISH), "facts": plain([row.said])}
        for row in rows
    ]
    text = json.dumps(content, indent=1) + "\n"
    with written_together(stem.parent) as folder:
        for suffix, whole in ((".csv", f"\ufeff{lines.getvalue()}"), (".json", text)):
            path = folder / f"{stem.name}{suffix}"
            path.write_bytes(whole.encode("utf-8", "backslashreplace"))
    return [stem.with_suffix(suffix) for suffix in (".csv", ".json")]


def counted(values: Sequence[str]) -> list[Fact]:
    """``3 failed, 120 passed``: how often each value occurs."""
    counts = Counter(values)
    return [
        fact("operator.status_count", count=count, status=status_fact(value))
        for value, count in sorted(counts.items())
    ]


def untested_lines(rows: Sequence[Any]) -> list[str]:
    """How many calls were not tested and why, the most frequent reasons first."""
    reasons: dict[str, Fact] = {}
    counts: Counter[str] = Counter()
    for row in rows:
        if row.status == "not tested" and row.reason is not None:
            reasons.setdefault(tell(row.reason), row.reason)
            counts[tell(row.reason)] += 1
    lines = [
        tell(fact("operator.untested_because", count=count, reason=reasons[text]))
        for text, count in counts.most_common(_MOST_REASONS)
    ]
    left = len(counts) - len(lines)
    return [*lines, tell(fact("operator.more_reasons", count=left))] if left else lines


def status_fact(status: str) -> Fact:
    """What a status is called."""
    return _STATUSES[status]


def _values(row: Row, kind: type, language: str | None) -> dict[str, Any]:
    """The fields of a row, with a text in place of what is said."""
    found = {field.name: getattr(row, field.name) for field in fields(kind)}
    return found | {"reason": tell(found["reason"] or "", language)}


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: it is written as a text."""
    return {
        key: str(value) if isinstance(value, float) and not isfinite(value) else value
        for key, value in row.items()
    }
