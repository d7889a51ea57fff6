"""Rows of a check as CSV, JSON and a summary in words."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, fields
from math import isfinite
from pathlib import Path
from typing import Any, Protocol

from msprobe_builder.base.spreadsheet import harmless


class Row(Protocol):
    """A dataclass with a sentence."""

    @property
    def sentence(self) -> str: ...


def write_rows(rows: Sequence[Any], kind: type, stem: Path) -> list[Path]:
    """Write ``stem``.csv and ``stem``.json; texts that a spreadsheet would compute stay texts."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    table, text = stem.with_suffix(".csv"), stem.with_suffix(".json")
    with table.open("w", encoding="utf-8-sig", errors="backslashreplace", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*(field.name for field in fields(kind)), "sentence"])
        for row in rows:
            values = [*asdict(row).values(), row.sentence]
            writer.writerow(map(harmless, values))
    content = [_finite(asdict(row)) | {"sentence": row.sentence} for row in rows]
    text.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return [table, text]


def counted(values: Sequence[str]) -> str:
    """``3 failed, 120 passed``: how often each value occurs."""
    counts = Counter(values)
    return ", ".join(f"{count:,} {value}" for value, count in sorted(counts.items()))


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: it is written as a text."""
    return {
        key: str(value) if isinstance(value, float) and not isfinite(value) else value
        for key, value in row.items()
    }
