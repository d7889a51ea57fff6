"""The place of a node as a picture that stands in the page: no script, nothing from elsewhere."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from msprobe_builder.base.codes import Grade, words
from msprobe_builder.database.read.around import PlaceRow
from msprobe_builder.facts.fact import fact
from msprobe_builder.facts.wording import tell

_ROW, _GAP, _INDENT, _WIDTH = 24, 3, 18, 900
_GRADES = words(Grade)
_LONGEST = 90


def picture(rows: Sequence[PlaceRow], colours: Mapping[str, str]) -> str:
    """Boxes as in the viewer, the node in a frame; ``colours`` are ``#rrggbb`` by grade."""
    parts = [_box(row, place, colours) for place, row in enumerate(rows)]
    height = len(rows) * (_ROW + _GAP) + _GAP
    return (
        f'<svg class="place" viewBox="0 0 {_WIDTH} {height}" role="img"'
        f' aria-label="{html.escape(tell(fact("report.where")))}">{"".join(parts)}</svg>'
    )


def _box(row: PlaceRow, place: int, colours: Mapping[str, str]) -> str:
    x, y = 2 + row.depth * _INDENT, _GAP + place * (_ROW + _GAP)
    width = _WIDTH - x - 2
    fill = colours.get(_GRADES[row.grade], "#ffffff")
    edge = 'stroke="#1a56db" stroke-width="2.5"' if row.is_it else 'stroke="#9a9aa4"'
    name = row.name if len(row.name) <= _LONGEST else f"…{row.name[-_LONGEST:]}"
    error = "" if row.error is None else f"{row.error:.3g}"
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{_ROW}" rx="4" fill="{fill}" {edge}></rect>'
        f'<text x="{x + 8}" y="{y + 16}">{html.escape(name)}</text>'
        f'<text x="{_WIDTH - 12}" y="{y + 16}" text-anchor="end">{error}</text>'
    )
