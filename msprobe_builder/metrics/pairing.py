"""Which parameter of a node is compared with which of its partner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.side import Side
from msprobe_builder.match.matching import Matching

Int = NDArray[np.int64]


@dataclass(frozen=True)
class Pairs:
    """Rows of the two parameter tables that belong together, ordered by npu row."""

    npu: Int
    bench: Int

    def __len__(self) -> int:
        return len(self.npu)


def no_pairs() -> Pairs:
    """Nothing to compare."""
    return Pairs(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def pair_tensors(npu: ParameterTable, bench: ParameterTable, partner: Int) -> Pairs:
    """Pair tensors of matched nodes by section and position within it.

    ``partner`` is the bench node of each npu node, -1 without. A tensor that stands where the
    other side has none, or no tensor, is in no pair.
    """
    return pair_at_places(
        npu, bench, partner, np.flatnonzero(npu.is_tensor), np.flatnonzero(bench.is_tensor)
    )


def with_chosen(pairs: Pairs, npu: Side, bench: Side, matching: Matching, texts: Texts) -> Pairs:
    """``pairs`` but for values that a mapping joins with others of the partner call."""
    node_of = {name: node for node, name in enumerate(npu.tree.names)}
    wanted: dict[tuple[int, str], tuple[int, str]] = {}
    for pair in matching.values:
        node = node_of.get(pair.npu_call, -1)
        if node >= 0 and matching.npu[node] >= 0:
            wanted[node, pair.npu] = int(matching.npu[node]), pair.bench
    rows = _rows(npu.table, {node for node, _ in wanted}, texts)
    others = _rows(bench.table, {node for node, _ in wanted.values()}, texts)
    taken: dict[int, int] = {}
    for own, other in wanted.items():
        if own in rows and other in others:
            taken.setdefault(others[other], rows[own])
    chosen = {row: other for other, row in taken.items()}
    kept = ~np.isin(pairs.npu, list(chosen)) & ~np.isin(pairs.bench, list(chosen.values()))
    left = np.concatenate([pairs.npu[kept], np.array(list(chosen), dtype=np.int64)])
    right = np.concatenate([pairs.bench[kept], np.array(list(chosen.values()), dtype=np.int64)])
    order = np.argsort(left)
    return Pairs(left[order], right[order])


def _rows(table: ParameterTable, nodes: set[int], texts: Texts) -> dict[tuple[int, str], int]:
    """Tensors of some nodes, by node and name."""
    found = np.flatnonzero(np.isin(table.node, list(nodes)) & table.is_tensor)
    return {(int(table.node[row]), texts.values[table.name_id[row]]): int(row) for row in found}


def pair_arguments(npu: ParameterTable, bench: ParameterTable, partner: Int) -> Pairs:
    """The same for everything that is no tensor."""
    return pair_at_places(
        npu, bench, partner, np.flatnonzero(~npu.is_tensor), np.flatnonzero(~bench.is_tensor)
    )


def pair_at_places(
    npu: ParameterTable, bench: ParameterTable, partner: Int, rows: Int, others: Int
) -> Pairs:
    """Pair chosen rows of matched nodes, tensors or not, by section and position within it."""
    rows = rows[partner[npu.node[rows]] >= 0]
    if not len(rows) or not len(others):
        return no_pairs()
    sizes, bench_sizes = _sizes_ahead(npu, bench, partner)
    width = 1 + max(npu.position.max(initial=0), bench.position.max(initial=0))
    width += max(sizes.max(initial=0), bench_sizes.max(initial=0))
    key = _key(partner[npu.node[rows]], npu, width, rows) + sizes[rows]
    other = _key(bench.node[others], bench, width, others) + bench_sizes[others]
    order = np.argsort(other)
    place = np.searchsorted(other, key, sorter=order)
    row = order[np.minimum(place, len(order) - 1)]
    found = other[row] == key
    return Pairs(rows[found], others[row[found]])


def _sizes_ahead(npu: ParameterTable, bench: ParameterTable, partner: Int) -> tuple[Int, Int]:
    """By how many places each row of both tables stands too early for its partner.

    A compiled function is given the sizes that change ahead of its tensors, and one run compiles it
    for any size where the other has seen a single one. So it is where one side alone is given more
    than tensors first, and as much follows on both.
    """
    (begin, end), (other_begin, other_end) = npu.inputs, bench.inputs
    partner = partner[: len(begin)]
    mine = np.flatnonzero((partner >= 0) & (partner < len(other_begin)) & (end > begin))
    theirs = partner[mine]
    more = begin[mine] - other_begin[theirs]
    found = (more != 0) & (end[mine] - begin[mine] == other_end[theirs] - other_begin[theirs])
    late, other_late = np.zeros_like(begin), np.zeros_like(other_begin)
    late[mine[found]] = np.maximum(-more[found], 0)
    other_late[theirs[found]] = np.maximum(more[found], 0)
    return (
        late[npu.node] * (npu.section == Section.INPUT),
        other_late[bench.node] * (bench.section == Section.INPUT),
    )


def _key(node: Int, table: ParameterTable, width: int, rows: Int) -> Int:
    return (node * 4 + table.section[rows]) * width + table.position[rows]
