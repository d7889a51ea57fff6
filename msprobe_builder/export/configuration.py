"""What the configurations of both runs differ in, as lines, as JSON and as a part of the report."""

from __future__ import annotations

from typing import Any

from msprobe_builder.database.read.configuration import (
    Configuration,
    ConfigurationDifference,
    ConfigurationPart,
)
from msprobe_builder.export.report_markup import Markup, escaped, table
from msprobe_builder.export.report_words import SEVERITIES, SIDES
from msprobe_builder.export.wrapped import wrapped
from msprobe_builder.facts.fact import fact, plain, within
from msprobe_builder.facts.wording import ENGLISH, tell

_SHOWN = 4  # beside what the conclusion names


def configuration_lines(found: Configuration | None) -> list[str]:
    """The conclusion and the first differences; nothing where no configurations were given."""
    if found is None:
        return []
    lines = wrapped(fact("label.config"), found.said)
    differing = [(part, one) for part in found.parts for one in part.shown]
    differing.sort(key=lambda pair: (pair[0].part == "random", pair[1].level != "error"))
    told_of = set(within(found.said))
    untold = [pair for pair in differing if not told_of.intersection(pair[1].said)]
    for part, one in untold[:_SHOWN]:
        label = fact("label.error") if one.level == "error" else fact("label.warning")
        lines += wrapped(label, fact("configuration.of_part", part=part.part, what=list(one.said)))
    told = len(differing) - len(untold[_SHOWN:])
    more = sum(part.differences for part in found.parts) - told
    if more > 0:
        lines += wrapped("", fact("verdict.more", count=more))
    return lines


def configuration_json(found: Configuration | None) -> dict[str, Any] | None:
    """The same for a program, as docs/verdict.md describes it."""
    if found is None:
        return None
    parts = [
        _said(one) | {"shown": [_said(difference) for difference in one.shown]}
        for one in found.parts
    ]
    return _said(found) | {"parts": parts}


def _said(one: Configuration | ConfigurationPart | ConfigurationDifference) -> dict[str, Any]:
    told = dict(vars(one))
    said = told.pop("said")
    return told | {"sentence": tell(said, ENGLISH), "facts": plain(said)}


def configuration_section(found: Configuration | None) -> str:
    """The conclusion and a table in HTML; empty where no configurations were given."""
    if found is None:
        return ""
    rows = [
        (
            *(SEVERITIES.get(one.level, one.level), part.part, one.name),
            *(_value(one.npu_value), _value(one.bench_value)),
        )
        for part in found.parts
        for one in part.shown
    ]
    more = sum(part.differences - len(part.shown) for part in found.parts)
    head = [fact("head.part"), fact("head.name"), *SIDES.values()]
    section = f"<p>{escaped(tell(found.said))}</p>"
    section += table(["", *head], rows) if rows else ""
    return section + (f"<p>{escaped(fact('report.more', count=more))}</p>" if more else "")


def _value(value: str | None) -> str:
    if value is not None:
        return value
    return Markup(f'<span class="soft">{escaped(fact("report.not_there"))}</span>')
