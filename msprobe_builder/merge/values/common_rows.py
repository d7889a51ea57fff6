"""Which rows of the tables of several ranks are the same parameter of the same call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.side import Side

Int = NDArray[np.int64]


def common_rows(sides: Sequence[Side]) -> tuple[list[Int], list[tuple[str, list[int]]]]:
    """Rows of each rank that all ranks have, in the order of the first.

    Of the others the names of their calls with the places of the ranks that have them.
    """
    if _are_alike(sides):
        every = np.arange(len(sides[0].table), dtype=np.int64)
        return [every for _ in sides], []
    keyed = [_rows_by_key(side) for side in sides]
    shared = [key for key in keyed[0] if all(key in other for other in keyed[1:])]
    common = set(shared)
    held: dict[str, set[int]] = {}
    for place, own in enumerate(keyed):
        for key in own.keys() - common:
            held.setdefault(key[0], set()).add(place)
    alone = [(name, sorted(places)) for name, places in sorted(held.items())]
    return [np.array([own[key] for key in shared], dtype=np.int64) for own in keyed], alone


def _are_alike(sides: Sequence[Side]) -> bool:
    """Whether all ranks have the same parameters in the same order, each once, as most do."""
    first, table = sides[0].tree.names, sides[0].table
    if len({*first}) < len(first):
        return False
    for other in sides[1:]:
        if other.tree.names != first or len(other.table) != len(table):
            return False
        for one in ("node", "section", "name_id"):
            if not np.array_equal(getattr(table, one), getattr(other.table, one)):
                return False
    order = np.lexsort((table.name_id, table.section, table.node))
    keys = np.stack([table.node, table.section, table.name_id])[:, order]
    return bool((np.diff(keys, axis=1) != 0).any(axis=0).all())


def _rows_by_key(side: Side) -> dict[tuple[str, int, int], int]:
    names = side.tree.names
    table: ParameterTable = side.table
    return {
        (names[node], section, name): row
        for row, (node, section, name) in enumerate(
            zip(table.node.tolist(), table.section.tolist(), table.name_id.tolist(), strict=True)
        )
    }
