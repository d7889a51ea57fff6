"""What the configurations of both runs differ in, as lines, as JSON and as a part of the report."""

from __future__ import annotations

import html
from dataclasses import asdict
from typing import Any

from msprobe_builder.database.read.configuration import Configuration
from msprobe_builder.export.wrapped import wrapped

_SHOWN = 4  # beside what the sentence says


def configuration_lines(found: Configuration | None) -> list[str]:
    """The sentence and the first differences; nothing where no configurations were given."""
    if found is None:
        return []
    lines = wrapped("Config", found.sentence)
    differing = [(part, one) for part in found.parts for one in part.shown]
    differing.sort(key=lambda pair: (pair[0].part == "random", pair[1].level != "error"))
    untold = [pair for pair in differing if pair[1].sentence not in found.sentence]
    for part, one in untold[:_SHOWN]:
        lines += wrapped(one.level.capitalize(), f"{part.part}: {one.sentence}")
    told = len(differing) - len(untold[_SHOWN:])
    more = sum(part.differences for part in found.parts) - told
    if more > 0:
        lines.append(f"          and {more:,} more")
    return lines


def configuration_json(found: Configuration | None) -> dict[str, Any] | None:
    """The same for a program, as docs/verdict.md describes it."""
    return None if found is None else asdict(found)


def configuration_section(found: Configuration | None) -> str:
    """A heading, the sentence and a table in HTML; empty where no configurations were given."""
    if found is None:
        return ""
    rows = "".join(
        f"<tr><td>{html.escape(one.level)}</td><td>{html.escape(part.part)}</td>"
        f"<td>{html.escape(one.name)}</td><td>{_value(one.npu_value)}</td><td>{_value(one.bench_value)}</td></tr>"
        for part in found.parts
        for one in part.shown
    )
    more = sum(part.differences - len(part.shown) for part in found.parts)
    head = "".join(f"<th>{one}</th>" for one in ("", "part", "name", "debug", "reference"))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    section = f"<h2>Configurations</h2><p>{html.escape(found.sentence)}</p>"
    section += f'<div class="wide">{table}</div>' if rows else ""
    return section + (f"<p>and {more:,} more</p>" if more else "")


def _value(value: str | None) -> str:
    return '<span class="soft">not there</span>' if value is None else html.escape(value)
