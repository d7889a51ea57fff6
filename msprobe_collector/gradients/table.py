"""The table of one step of a record of gradients, whatever framework they come from."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from msprobe_builder.base.publish import temporary_name
from msprobe_collector.config.gradients import GradientSettings


def header(settings: GradientSettings) -> list[str]:
    """The column names of a level, as documented."""
    names = ["param_name"]
    if settings.level == "L0":
        names.append("MD5")
    if settings.level == "L2":
        names += [*intervals(settings.bounds), "=0"]
    return [*names, "max", "min", "norm", "shape"]


def intervals(bounds: Sequence[float]) -> list[str]:
    """``(-inf, -1]``, ``(-1, 0]`` and so on."""
    ends = ["-inf", *map(str, bounds), "inf"]
    return [f"({low}, {high}{')' if high == 'inf' else ']'}" for low, high in pairwise(ends)]


def write_table(path: Path, settings: GradientSettings, rows: Iterable[Sequence[Any]]) -> None:
    """All rows at once: a stopped run leaves whole files."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(header(settings))
    writer.writerows(rows)
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    temporary = path.with_name(temporary_name(path.name))
    temporary.write_text("\ufeff" + text.getvalue(), encoding="utf-8", newline="")
    temporary.replace(path)
