"""Calls without a partner of which nobody can say that the other side lacks them."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Reason
from msprobe_builder.graph.part import Part, inputs_of
from msprobe_builder.match.matching import Matching

Int = NDArray[np.int64]

_OPEN = (Reason.UNDECIDED, Reason.OTHER_SHAPE)


def undecided_calls(matching: Matching, npu: Part, bench: Part) -> Int:
    """Pairs of calls, of shape (2, n), that may be one, though what they are given speaks against.

    Each is the nearest of the other and of nobody else, of the same operator, and none has a
    partner. One that makes of the same sizes another one is left out: there another size begins.
    """
    nearest = [
        dict(zip(one.node[chosen].tolist(), one.candidate[chosen].tolist(), strict=True))
        for one in (matching.npu_unmatched, matching.bench_unmatched)
        for chosen in [np.isin(one.reason, _OPEN)]
    ]
    times = [Counter(one.values()) for one in nearest]
    found = []
    for node, other in nearest[0].items():
        if nearest[1].get(other) != node or times[0][other] > 1 or times[1][node] > 1:
            continue
        if npu.calls.stems[npu.calls.stem[node]] == bench.calls.stems[bench.calls.stem[other]]:
            given = [_sizes(part, one) for part, one in ((npu, node), (bench, other))]
            put_out = [_all_sizes(part, one) for part, one in ((npu, node), (bench, other))]
            if given[0] != given[1] or put_out[0] == put_out[1]:
                found.append((node, other))
    return np.array(found, dtype=np.int64).reshape(-1, 2).T


def of_one_origin(
    pairs: Int, partner: Int, parts: tuple[Part, Part], made_by: tuple[Int, Int]
) -> Int:
    """Those of such pairs whose first tensors were made by calls that are, or may be, one."""
    found = pairs.T.tolist()
    likely = {(node, other) for node, other in found}

    def maker(side: int, node: int) -> int:
        rows = inputs_of(parts[side].table, node)[:1]
        made = int(made_by[side][rows[0]]) if len(rows) else -1
        return int(parts[side].table.node[made]) if made >= 0 else -1

    chosen = []
    for node, other in found:
        own, theirs = maker(0, node), maker(1, other)
        if min(own, theirs) < 0 or partner[own] == theirs or (own, theirs) in likely:
            chosen.append((node, other))
    return np.array(chosen, dtype=np.int64).reshape(-1, 2).T


def rows_of(pairs: Int, npu: Part, bench: Part) -> tuple[Int, Int]:
    """The rows of such calls that bear the same name within their call."""
    own, theirs = [], []
    for node, other in pairs.T.tolist():
        there = {int(bench.table.name_id[row]): row for row in _rows(bench, other)}
        for row in _rows(npu, node):
            if (found := there.get(int(npu.table.name_id[row]))) is not None:
                own.append(row)
                theirs.append(found)
    return np.array(own, dtype=np.int64), np.array(theirs, dtype=np.int64)


def _rows(part: Part, node: int) -> list[int]:
    first, last = np.searchsorted(part.table.node, [node, node + 1]).tolist()
    return [row for row in range(first, last) if part.table.is_tensor[row]]


def _sizes(part: Part, node: int) -> list[float]:
    return [float(one) for one in part.table.numel[inputs_of(part.table, node)]]


def _all_sizes(part: Part, node: int) -> list[float]:
    return [float(one) for one in part.table.numel[_rows(part, node)]]
