"""Which parameter of a node is compared with which of its partner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.graph.parameter_table import ParameterTable

Int = NDArray[np.int64]


@dataclass(frozen=True)
class Pairs:
    """Rows of the two parameter tables that belong together, ordered by npu row."""

    npu: Int
    bench: Int

    def __len__(self) -> int:
        return len(self.npu)


def pair_tensors(npu: ParameterTable, bench: ParameterTable, partner: Int) -> Pairs:
    """Pair tensors of matched nodes by section and position within it.

    ``partner`` is the bench node of each npu node, -1 without.
    """
    width = 1 + max(npu.position.max(initial=0), bench.position.max(initial=0))
    key = _key(partner[npu.node], npu, width)
    other = _key(bench.node, bench, width)
    order = np.argsort(other)
    candidates = np.flatnonzero(npu.is_tensor & (partner[npu.node] >= 0))
    if not len(other) or not len(candidates):
        nothing = np.empty(0, dtype=np.int64)
        return Pairs(nothing, nothing)
    place = np.searchsorted(other, key[candidates], sorter=order)
    row = order[np.minimum(place, len(order) - 1)]
    found = (other[row] == key[candidates]) & bench.is_tensor[row]
    return Pairs(candidates[found], row[found])


def _key(node: Int, table: ParameterTable, width: int) -> Int:
    return (node * 4 + table.section) * width + table.position
