"""The place of a node as a picture that stands in the page: no script, nothing from elsewhere."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from msprobe_builder.base.codes import SLICES, Grade, words
from msprobe_builder.database.read.around import PlaceRow
from msprobe_builder.facts.fact import fact
from msprobe_builder.facts.wording import tell

_ROW, _GAP, _INDENT, _WIDTH = 24, 3, 14, 620
_GRADES = words(Grade)
_LONGEST = 62
_ROLES = (  # colours in the order of base.codes.CallRole
    *("#ececf0", "#e3f1e6"),  # not judged, clean
    *("#ff704d", "#ffdc7f", "#ffc62e"),  # suspect, carries it on, makes it worse
)
_CELL = 5
_MOST = 255  # of a share


def picture(rows: Sequence[PlaceRow], colours: Mapping[str, str]) -> str:
    """Boxes as in the viewer, the node in a frame, by their roles.

    ``colours`` are ``#rrggbb`` by grade, for a file without a verdict.
    """
    parts = [_box(row, place, colours) for place, row in enumerate(rows)]
    height = len(rows) * (_ROW + _GAP) + _GAP
    return (
        f'<svg class="place" viewBox="0 0 {_WIDTH} {height}" role="img"'
        f' aria-label="{html.escape(tell(fact("report.where")))}">{"".join(parts)}</svg>'
    )


def _box(row: PlaceRow, place: int, colours: Mapping[str, str]) -> str:
    x, y = 2 + row.depth * _INDENT, _GAP + place * (_ROW + _GAP)
    width = _WIDTH - x - 2
    by_grade = colours.get(_GRADES[row.grade], "#ffffff")
    fill = by_grade if row.role is None else _ROLES[row.role]
    edge = 'stroke="#1a56db" stroke-width="2.5"' if row.is_it else 'stroke="#9a9aa4"'
    name = row.name if len(row.name) <= _LONGEST else f"…{row.name[-_LONGEST:]}"
    error = "" if row.error is None else f"{row.error:.3g}"
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{_ROW}" rx="4" fill="{fill}" {edge}></rect>'
        f'<text x="{x + 8}" y="{y + 16}">{html.escape(name)}</text>'
        f'<text x="{_WIDTH - 12}" y="{y + 16}" text-anchor="end">{error}</text>'
    )


def difference_picture(slices: bytes) -> str:
    """Where two tensors differ: rows down, columns across, darker where more of it is."""
    rows, columns = slices[:SLICES], slices[SLICES:]
    cells = "".join(
        f'<rect x="{x * _CELL}" y="{y * _CELL}" width="{_CELL}" height="{_CELL}" fill="#c2341c"'
        f' fill-opacity="{(row * column) ** 0.5 / _MOST:.2f}"></rect>'
        for y, row in enumerate(rows)
        for x, column in enumerate(columns)
        if row and column
    )
    side = SLICES * _CELL
    words = html.escape(tell(fact("report.where_it_differs")))
    return (
        f'<svg class="small" viewBox="0 0 {side} {side}" role="img" aria-label="{words}">'
        f'<rect x="0" y="0" width="{side}" height="{side}" fill="#f4f4f7" stroke="#9a9aa4"></rect>'
        f"{cells}</svg>"
    )
