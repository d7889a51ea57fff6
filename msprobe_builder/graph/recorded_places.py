"""Tensors by where a recorder says that they are: record, section and position there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.flow_layout import Place
from msprobe_builder.graph.parameter_table import ParameterTable, positions
from msprobe_builder.graph.tree import Tree

Int = NDArray[np.int64]


class Places:
    """Rows by record, section and position among the tensors there."""

    def __init__(self, rows: Int, record: Int, section: Int) -> None:
        """Of the rows of tensors, with the record and section of each, as they were recorded."""
        section = section.astype(np.int64)
        keys = _key(record, section, positions(record, section))
        order = np.argsort(keys, kind="stable")
        self._keys, self._rows = keys[order], rows[order]

    def of(self, record: NDArray[Any], section: NDArray[Any], position: NDArray[Any]) -> Int:
        """The rows, -1 where the table has none."""
        keys = _key(record, section, position)
        if not len(self._keys):
            return np.full(len(keys), -1, dtype=np.int64)
        found = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        return np.where(self._keys[found] == keys, self._rows[found], -1)


def places_in(tree: Tree, table: ParameterTable) -> Places:
    """The places of a table."""
    record = tree.record[table.node].astype(np.int64)
    rows = np.flatnonzero(table.is_tensor & (record >= 0))
    return Places(rows, record[rows], table.section[rows])


def shown(rows: NDArray[Any], *, by_argument: bool) -> NDArray[Any]:
    """Of rows with ``record`` and ``section`` those that the table shows, by its sections.

    ``by_argument`` says that it shows gradients by argument where the dump has them.
    """
    if not by_argument:
        return np.asarray(rows[~np.isin(rows["section"], [there for there, _ in _INSTEAD])])
    rows = rows.copy()
    for there, here in _INSTEAD:
        are_instead = rows["section"] == there
        if not are_instead.any():
            continue
        is_replaced = np.isin(rows["record"], rows["record"][are_instead])
        rows["section"][are_instead] = here
        rows = rows[are_instead | ~(is_replaced & (rows["section"] == here))]
    return np.asarray(rows)


_INSTEAD = ((Place.INPUT_GRADIENTS, Place.OUTPUT), (Place.OUTPUT_GRADIENTS, Place.INPUT))


def _key(record: NDArray[Any], section: NDArray[Any], position: NDArray[Any]) -> NDArray[Any]:
    both = record.astype(np.uint64) << np.uint64(31) | position.astype(np.uint64)
    return np.asarray(both << np.uint64(3) | section.astype(np.uint64))
