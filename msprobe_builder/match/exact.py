"""The default rule: same name, same ancestors, same number, type and shape of parameters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.tree import Tree
from msprobe_builder.match.matching import Matching, Source, Unmatched, inverse
from msprobe_builder.match.reasons import Reason
from msprobe_builder.match.signature import differing, equal_counts, signatures

Int = NDArray[np.int64]


def match_exact(
    npu: Tree, bench: Tree, npu_table: ParameterTable, bench_table: ParameterTable
) -> Matching:
    """Match the nodes of two trees whose texts share one id space."""
    namesake = _namesakes(npu, bench)
    same_path = _same_path(npu, bench, namesake)
    reason = np.zeros(len(npu), dtype=np.int64)
    reason[namesake < 0] = Reason.NO_SUCH_NAME
    reason[(namesake >= 0) & ~same_path] = Reason.OTHER_PARENT

    i = np.flatnonzero(reason == 0)
    left, right = signatures(npu_table, len(npu)), signatures(bench_table, len(bench))
    counts = equal_counts(left, right, i, namesake[i])
    reason[i[~counts]] = Reason.OTHER_PARAMETER_COUNT
    i = i[counts]
    type_differs, shape_differs = differing(left, right, i, namesake[i])
    reason[i[type_differs]] = Reason.OTHER_TYPE
    reason[i[shape_differs & ~type_differs]] = Reason.OTHER_SHAPE

    partner = np.where(reason == 0, namesake, -1)
    back = inverse(partner, len(bench))
    return Matching(
        npu=partner,
        bench=back,
        source=np.full(len(npu), Source.EXACT, dtype=np.int64),
        npu_unmatched=_unmatched(reason, namesake),
        bench_unmatched=_bench_unmatched(back, reason, inverse(namesake, len(bench))),
    )


def _namesakes(npu: Tree, bench: Tree) -> Int:
    index = {name: node for node, name in enumerate(bench.names)}
    return np.array([index.get(name, -1) for name in npu.names], dtype=np.int64)


def _same_path(npu: Tree, bench: Tree, namesake: Int) -> NDArray[np.bool_]:
    """Whether all ancestors of a node and of its namesake have equal names."""
    parents_agree = np.zeros(len(npu), dtype=bool)
    known = namesake >= 0
    own = namesake[npu.parent[known]]
    parents_agree[known] = (own >= 0) & (own == bench.parent[namesake[known]])
    parents_agree[0] = True
    same: NDArray[np.bool_] = parents_agree.copy()
    order = np.argsort(npu.depth, kind="stable")
    levels = np.split(order, np.cumsum(np.bincount(npu.depth))[:-1])
    for level in levels[1:]:
        same[level] &= same[npu.parent[level]]
    return same


def _unmatched(reason: Int, candidate: Int) -> Unmatched:
    node = np.flatnonzero(reason)
    return Unmatched(node, reason[node], candidate[node])


def _bench_unmatched(back: Int, npu_reason: Int, namesake: Int) -> Unmatched:
    node = np.flatnonzero(back < 0)
    candidate = namesake[node]
    reason = np.where(candidate >= 0, npu_reason[candidate], Reason.NO_SUCH_NAME)
    return Unmatched(node, reason, candidate)
