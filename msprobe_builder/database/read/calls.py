"""Recorded communication calls of one step and side."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from math import nan

from msprobe_builder.base.codes import Direction, Kind, Section
from msprobe_builder.database.read.cells import MAX_NODE, integer, number, optional_text, text
from msprobe_builder.link.calls import Leaf, Recorded
from msprobe_builder.operators.prefixes import COLLECTIVES

_CALLS = (
    "SELECT node_id, rank, stem_id, call FROM graph JOIN node ON node_id"
    " BETWEEN first_node AND first_node + node_count - 1"
    " WHERE side = ? AND step = ? AND kind = ? AND direction = ?"
    " AND stem_id IN (SELECT value FROM json_each(?)) ORDER BY rank, node_id"
)
_PARAMETERS = (
    "SELECT ordinal, section, name.value, NULL, dtype.value, max, min, mean, norm, nan_flags,"
    " md5, 1 FROM tensor JOIN text AS name ON name.text_id = name_id"
    " LEFT JOIN text AS dtype ON dtype.text_id = dtype_id WHERE node_id = ?1"
    " UNION ALL SELECT ordinal, section, name.value, content.value, NULL, NULL, NULL, NULL,"
    " NULL, 0, NULL, 0 FROM argument JOIN text AS name ON name.text_id = name_id"
    " LEFT JOIN text AS content ON content.text_id = value_id WHERE node_id = ?1"
    " ORDER BY ordinal"
)


def read_communication_calls(
    connection: sqlite3.Connection, side: int, step: int
) -> Iterator[Recorded]:
    """Forward calls of all ranks, those of each in order of execution."""
    # The text table is small against the nodes, and only a few of its rows are asked for.
    stems = {
        text_id: text(value)
        for prefix in sorted(COLLECTIVES)
        for text_id, value in connection.execute(
            "SELECT text_id, value FROM text WHERE value GLOB ? || '.*'", (prefix,)
        )
    }
    which = side, step, int(Kind.API), int(Direction.FORWARD), json.dumps([*stems])
    for node, rank, stem, call in connection.execute(_CALLS, which):
        yield Recorded(
            integer(node, 0, MAX_NODE),
            integer(rank),
            stems[stem],
            integer(call),
            list(_parameters(connection, node)),
        )


def _parameters(
    connection: sqlite3.Connection, node: int
) -> Iterator[tuple[Section, str, str | None, Leaf | None]]:
    """Section, name, and value or tensor of each parameter in the order of the record."""
    for ordinal, section, name, value, dtype, *numbers, flags, md5, is_tensor in connection.execute(
        _PARAMETERS, (node,)
    ):
        place = Section(integer(section, 0, len(Section) - 1)), text(name)
        if not is_tensor:
            yield *place, optional_text(value), None
            continue
        bits = integer(flags)
        high, low, mean, norm = (
            nan if bits >> bit & 1 else number(value) for bit, value in enumerate(numbers)
        )
        statistics = (high, low, mean, norm)
        leaf = Leaf(text(dtype), statistics, optional_text(md5), integer(ordinal))
        yield *place, None, leaf
