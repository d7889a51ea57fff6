"""Which calls are given what a call has put out."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.parameter_table import ParameterTable

Int = NDArray[np.int64]


class Consumers:
    """The calls that are given what a call has put out, in the order of execution."""

    def __init__(self, nodes: Int, starts: Int) -> None:
        self._nodes, self._starts = (
            array("i", column.astype(np.int32).tobytes()) for column in (nodes, starts)
        )

    def of(self, node: int) -> Sequence[int]:
        """Those of one call, none of -1; a call is there as often as it is given something."""
        return self._nodes[self._starts[node] : self._starts[node + 1]] if node >= 0 else ()


def consumers_of(table: ParameterTable, producer: Int, nodes: int) -> Consumers:
    """The calls behind each of ``nodes``; ``producer`` is the row that each row came from."""
    rows = np.flatnonzero((producer >= 0) & (table.section == Section.INPUT))
    source = table.node[producer[rows]]
    order = np.argsort(source, kind="stable")
    starts = np.searchsorted(source[order], np.arange(nodes + 1))
    return Consumers(table.node[rows[order]], starts)


def makers(table: ParameterTable, producer: Int, rows: Int) -> Int:
    """The row that a call has put out of each input, behind modules that hand it on, or -1."""
    found = producer[rows]
    while len(handed := np.flatnonzero((found >= 0) & (table.section[found] == Section.INPUT))):
        found[handed] = producer[found[handed]]
    return np.asarray(found)
