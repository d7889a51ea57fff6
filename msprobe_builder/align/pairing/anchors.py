"""A first alignment of all forward calls, and the modules that follow from it.

Calls are what two spellings of a model have in common; modules are known by the calls that are
made inside them. So the leaves are aligned first, as one sequence for each micro-step, whatever
modules stand around them: what is sure goes first, the rest fills the gaps between. A module
belongs to the one that holds the same leaves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.base.sequence import fill_gaps, longest_increasing
from msprobe_builder.dump.names import Kind
from msprobe_builder.match.hashing import mixed, same_ids

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_LEAST_LEAVES = 4  # of a module that is recognised by them; smaller ones are by their place
_LEAST_SHARE = 0.6  # of the aligned leaves of a module that lie in its partner
_LEAST_PART = 0.2  # of the larger module that is aligned at all
_DEPTHS = 12  # levels above a leaf that it votes for


def leaves(side: Traits) -> list[Int]:
    """By micro-step: forward calls, and modules that hold parameters or nothing, in order."""
    tree, kind = side.outline.tree, side.outline.kind
    with_own = (kind == Kind.MODULE) & (
        (side.parameters.count > 0) | (tree.subtree_end == np.arange(len(tree)))
    )
    return by_micro_step(side, np.flatnonzero(side.forward & ((kind == Kind.API) | with_own)))


def by_micro_step(side: Traits, nodes: Int) -> list[Int]:
    """The nodes of each micro-step, in their order."""
    step = side.outline.tree.micro_step[nodes]
    order = np.argsort(step, kind="stable")
    bounds = np.searchsorted(step[order], np.arange(1, side.outline.tree.micro_steps))
    return np.split(nodes[order], bounds)


@dataclass(frozen=True)
class Aligned:
    """Leaves of both sides that belong together, ascending on both, and which are sure."""

    npu: Int
    bench: Int
    is_sure: Bool  # known by what they work on, not by their place alone


def align_leaves(
    npu: Traits, bench: Traits, a: Int, b: Int, twins: tuple[Int, Int] | None = None
) -> Aligned:
    """Align two sequences of leaves.

    First those that are unlike all others by operator, sizes and statistics, modules by their
    weights alone where these tell (``twins``); between these what has equal operators and
    shapes, then what has equal operators.
    """
    debug, reference = _value_keys(npu, a), _value_keys(bench, b)
    if twins is not None:
        debug = np.where(twins[0][a] >= 0, mixed(twins[0][a]), debug)
        reference = np.where(twins[1][b] >= 0, mixed(twins[1][b]), reference)
    x, y = _unlike_all_others(*same_ids(debug, reference))
    sure = x
    for keys in (_shape_keys, _operator_keys):
        x, y = fill_gaps(*same_ids(keys(npu, a), keys(bench, b)), x, y)
    return Aligned(a[x], b[y], np.isin(x, sure))


def _unlike_all_others(a: Int, b: Int) -> tuple[Int, Int]:
    tokens_a, first_a, count_a = np.unique(a, return_index=True, return_counts=True)
    tokens_b, first_b, count_b = np.unique(b, return_index=True, return_counts=True)
    _, in_a, in_b = np.intersect1d(
        tokens_a[count_a == 1], tokens_b[count_b == 1], assume_unique=True, return_indices=True
    )
    x, y = first_a[count_a == 1][in_a], first_b[count_b == 1][in_b]
    order = np.argsort(x)
    x, y = x[order], y[order]
    kept = longest_increasing(y)
    return x[kept], y[kept]


def _operator_keys(side: Traits, nodes: Int) -> NDArray[np.uint64]:
    return mixed(side.operator[nodes], side.parameters.count[nodes])


def _shape_keys(side: Traits, nodes: Int) -> NDArray[np.uint64]:
    columns = [side.operator, side.inputs.shapes, side.outputs.shapes, side.parameters.shapes]
    return mixed(*(column[nodes] for column in columns))


def _value_keys(side: Traits, nodes: Int) -> NDArray[np.uint64]:
    """Keys that are equal where the statistics are, to three digits."""
    columns = [side.operator[nodes]]
    known = np.zeros(len(nodes), dtype=bool)
    for tensors in (side.inputs, side.outputs, side.parameters):
        norm = tensors.values[0, nodes]
        with np.errstate(divide="ignore", invalid="ignore"):
            coarse = np.round(np.log(norm) * 1000)
        usable = np.isfinite(coarse)
        known |= usable
        columns += [
            np.where(usable, coarse, 0).astype(np.int64),
            tensors.numel[nodes].view(np.int64),
        ]
    # Nothing is unlike others where nothing is known: all such leaves get one key.
    return np.where(known, mixed(*columns), np.uint64(1))


@dataclass(frozen=True)
class Candidates:
    """Pairs of modules that hold the same aligned leaves, the surest first.

    ``sure`` is the share of these leaves that are known by what they work on, or of those known
    by their weights.
    """

    npu: list[int]
    bench: list[int]
    sure: list[float]


def modules_of_leaves(
    npu: Traits,
    bench: Traits,
    leaves: Aligned,
    core: Int,
    other_core: Int,
    is_twin: Bool | None = None,
) -> Candidates:
    """Which modules hold the same leaves; ``core`` is what a module comes down to.

    ``is_twin`` marks the leaves that are known by their weights.
    """
    a, b = leaves.npu, leaves.bench
    (i, j), votes = _votes(npu, bench, a, b, core, other_core)
    share = votes / np.maximum(_held(npu, i, a), 1)
    other_share = votes / np.maximum(_held(bench, j, np.sort(b)), 1)
    good = (votes >= _LEAST_LEAVES) & (share >= _LEAST_SHARE) & (other_share >= _LEAST_SHARE)
    size = np.maximum(npu.outline.tree.subtree_end[i] - i, bench.outline.tree.subtree_end[j] - j)
    good &= votes >= _LEAST_PART * size
    i, j, votes, weight = i[good], j[good], votes[good], (share * other_share)[good]
    sure = _held(npu, i, a[leaves.is_sure]) / np.maximum(_held(npu, i, a), 1)
    by_weights = np.zeros(len(i), dtype=bool)
    if is_twin is not None and is_twin.any():
        (m, n), told = _votes(npu, bench, a[is_twin], b[is_twin], core, other_core)
        known = np.searchsorted(m * len(bench) + n, i * len(bench) + j)
        known = np.minimum(known, len(m) - 1)
        same = (m[known] == i) & (n[known] == j)
        held = _held(npu, i, a[is_twin])
        part = np.where(same, told[known], 0) / np.maximum(held, 1)
        sure, by_weights = np.maximum(sure, part), part >= _LEAST_SHARE
    # The larger first, as far as they are about as good: the smaller lie inside them. Of several
    # around the same leaves the one that makes as many calls.
    calls, other_calls = npu.below[i].sum(axis=1), bench.below[j].sum(axis=1)
    more = np.abs(calls - other_calls)
    order = np.lexsort((i, more, -weight, -votes, -np.round(weight, 1), ~by_weights))
    return Candidates(i[order].tolist(), j[order].tolist(), sure[order].tolist())


def _held(side: Traits, modules: Int, nodes: Int) -> Int:
    """How many of ``nodes``, which ascend, each module holds, itself included."""
    end = np.searchsorted(nodes, side.outline.tree.subtree_end[modules], side="right")
    return np.asarray(end - np.searchsorted(nodes, modules))


def _votes(
    npu: Traits, bench: Traits, a: Int, b: Int, core: Int, other_core: Int
) -> tuple[Int, Int]:
    """Pairs of modules as columns (2, n), and how many aligned leaves each pair shares."""
    above, other_above = _ancestors(npu, a, core), _ancestors(bench, b, other_core)
    size = len(bench)
    keys = []
    for debug in above:
        for reference in other_above:
            both = (debug > 0) & (reference > 0)
            keys.append(debug[both] * size + reference[both])
    found, votes = np.unique(np.concatenate([np.empty(0, np.int64), *keys]), return_counts=True)
    return np.stack([found // size, found % size]), votes


def _ancestors(side: Traits, nodes: Int, core: Int) -> list[Int]:
    """For each level, the forward module there above each node, 0 where there is none."""
    tree, kind = side.outline.tree, side.outline.kind
    result = []
    current = np.where(kind[nodes] == Kind.MODULE, nodes, tree.parent[nodes])
    for _ in range(_DEPTHS):
        if not (current > 0).any():
            break
        is_module = side.forward[current] & (kind[current] == Kind.MODULE)
        result.append(np.where(is_module & (core[current] == current), current, 0))
        current = np.maximum(tree.parent[current], 0)
    return result
