"""Pieces of a report's page; everything is escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from math import isnan

from msprobe_builder.facts.fact import Fact
from msprobe_builder.facts.wording import tell
from msprobe_builder.facts.words import GRADE

COLOUR = re.compile("#[0-9a-fA-F]{6}")
_MANY_COLUMNS = 12  # more of them make a sheet full
Cell = str | float | int | Fact | None


def heading(said: Fact) -> str:
    """A title of a part of the page."""
    return f"<h2>{escaped(said)}</h2>"


def soft(said: Fact | str) -> str:
    """A paragraph that is not the matter itself."""
    return f'<p class="soft">{escaped(said)}</p>'


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def graded(name: str, colours: Mapping[str, str]) -> str:
    """A grade on its colour; ``colours`` are of grades and bands by their names."""
    colour = colours.get(name, "")
    if not COLOUR.fullmatch(colour):
        colour = "#ffffff"
    word = escaped(GRADE.get(name, name))
    return f'<span class="grade" style="background: {colour}">{word}</span>'


def table(head: Sequence[Fact | str], rows: Iterable[Sequence[Cell]]) -> str:
    """A table; without a line of titles where all are empty."""
    titles = "".join(f"<th>{escaped(title)}</th>" for title in head)
    lines = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    header = f"<thead><tr>{titles}</tr></thead>" if any(head) else ""
    kind = ' class="dense"' if len(head) > _MANY_COLUMNS else ""
    content = f"<table{kind}>{header}<tbody>{lines}</tbody></table>"
    return f'<div class="wide" tabindex="0">{content}</div>'


def _cell(value: Cell) -> str:
    if isinstance(value, Markup):
        return f"<td>{value}</td>"
    if isinstance(value, int | float):
        return f'<td class="number">{number(value)}</td>'
    return f"<td>{escaped(value)}</td>"


def number(value: float) -> str:
    """A number as cells show it."""
    if isinstance(value, int):
        return str(value)
    return "NaN" if isnan(value) else f"{value:.6g}"


def escaped(value: object) -> str:
    """A text, a fact or several in words as HTML; nothing for None."""
    if isinstance(value, Fact | list | tuple):
        return html.escape(tell(value))
    return "" if value is None else html.escape(str(value))
