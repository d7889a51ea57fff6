"""Calls without a partner of which nobody can say that the other side lacks them."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Reason
from msprobe_builder.graph.part import Part, inputs_of
from msprobe_builder.match.matching import Matching
from msprobe_builder.verdict.differences.consumers import consumers_of

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

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
        debug, reference = maker(0, node), maker(1, other)
        if min(debug, reference) < 0 or partner[debug] == reference or (debug, reference) in likely:
            chosen.append((node, other))
    return np.array(chosen, dtype=np.int64).reshape(-1, 2).T


def shifted(
    pairs: tuple[Int, Int],
    alone: tuple[Bool, Bool],
    parts: tuple[Part, Part],
    made_by: tuple[Int, Int],
    unit: float,
) -> tuple[list[int], list[int], list[int]]:
    """Calls of a running sum that are paired one aside: of either side one is left at an end.

    Where one term differs, another call may look nearer. That which is left is given what the
    partner of the next one is given, but for ``unit``. ``pairs`` are the partners of both sides,
    ``alone`` the calls without. Those that are left on both sides, and those of this run between
    them, whose partners are others, in one list each.
    """
    left: tuple[list[int], list[int], list[int]] = ([], [], [])
    names = [
        {part.calls.stems[one] for one in np.unique(part.calls.stem[unmatched]).tolist()}
        for part, unmatched in zip(parts, alone, strict=True)
    ]
    both = parts[0].calls.of_stems((names[0] & names[1]).__contains__) == 1
    starts = np.flatnonzero(alone[0] & both & parts[0].calls.is_forward_call)
    if not len(starts):
        return left
    users = [
        consumers_of(part.table, producer, len(part.tree))
        for part, producer in zip(parts, made_by, strict=True)
    ]

    def behind(side: int, node: int) -> int:
        """The next call of the same operator that is given what one puts out, -1 without."""
        stem = parts[side].calls.stem
        return next((one for one in users[side].of(node) if stem[one] == stem[node]), -1)

    for node in starts.tolist():
        between: list[int] = []
        own = behind(0, node)
        if own < 0 or not _is_given_alike(parts, node, int(pairs[0][own]), unit):
            continue
        while own >= 0 and (other := int(pairs[0][own])) >= 0 and len(between) < _MOST:
            between.append(own)
            last, own = behind(1, other), behind(0, own)
            if last >= 0 and alone[1][last]:
                left[0].append(node)
                left[1].append(last)
                left[2].extend(between)
            if last < 0 or pairs[1][last] != own:
                break
    return left


_MOST = 256  # calls of a running sum


def _is_given_alike(parts: tuple[Part, Part], node: int, other: int, unit: float) -> bool:
    """Whether two calls are given tensors of the same sizes and norms, one by one."""
    if other < 0:
        return False
    rows, there = (
        inputs_of(part.table, one) for part, one in zip(parts, (node, other), strict=True)
    )
    if (
        len(rows) != len(there)
        or (parts[0].table.shape_id[rows] != parts[1].table.shape_id[there]).any()
    ):
        return False
    debug, reference = parts[0].table.statistics[3, rows], parts[1].table.statistics[3, there]
    return bool((np.abs(debug - reference) <= unit * reference).all())


def rows_of(pairs: Int, npu: Part, bench: Part) -> tuple[Int, Int]:
    """The rows of such calls that bear the same name within their call."""
    debug, reference = [], []
    for node, other in pairs.T.tolist():
        there = {int(bench.table.name_id[row]): row for row in _rows(bench, other)}
        for row in _rows(npu, node):
            if (found := there.get(int(npu.table.name_id[row]))) is not None:
                debug.append(row)
                reference.append(found)
    return np.array(debug, dtype=np.int64), np.array(reference, dtype=np.int64)


def _rows(part: Part, node: int) -> list[int]:
    first, last = np.searchsorted(part.table.node, [node, node + 1]).tolist()
    return [row for row in range(first, last) if part.table.is_tensor[row]]


def _sizes(part: Part, node: int) -> list[float]:
    return [float(one) for one in part.table.numel[inputs_of(part.table, node)]]


def _all_sizes(part: Part, node: int) -> list[float]:
    return [float(one) for one in part.table.numel[_rows(part, node)]]
