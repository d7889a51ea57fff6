"""Which calls of one side belong together by their names: backward, recomputed, gradients."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.scores import IMPOSSIBLE
from msprobe_builder.align.evidence.traits import Traits
from msprobe_builder.align.evidence.trust import levels
from msprobe_builder.align.pairing.sequences import decide
from msprobe_builder.dump.names import Direction, Kind, parse_gradients

Int = NDArray[np.int64]
Float = NDArray[np.float64]
Gradients = tuple[int, str, "int | None"]  # node, stem of the module, number if there is one


def forward_of(side: Traits) -> Int:
    """The forward call that each backward call belongs to, by stem and call number, -1 without."""
    tree = side.outline.tree
    result = np.full(len(tree), -1, dtype=np.int64)
    key = tree.calls.stem * (tree.calls.call.max(initial=0) + 1) + tree.calls.call
    forward = np.flatnonzero(side.direction == Direction.FORWARD)
    forward = forward[np.argsort(key[forward], kind="stable")]
    backward = np.flatnonzero(side.direction == Direction.BACKWARD)
    place = np.searchsorted(key[forward], key[backward], side="right") - 1  # the last of several
    known = place >= 0
    known[known] = key[forward[place[known]]] == key[backward[known]]
    result[backward[known]] = forward[place[known]]
    return result


def origins(side: Traits, forward: Int) -> Int:
    """The call whose work each node repeats: itself unless it recomputes, -1 where unknown.

    A recomputed module repeats the call of its name in the same micro-step. The calls inside it,
    and those recomputed inside a backward call, repeat those made there the first time.
    """
    tree, kind, host = side.outline.tree, side.outline.kind, side.outline.host
    result = np.arange(len(tree))
    repeated = np.flatnonzero(~side.forward & (side.direction == Direction.FORWARD))
    if not len(repeated):
        return result
    result[repeated] = -1
    _repeated_modules(side, repeated[kind[repeated] == Kind.MODULE], result)
    calls = repeated[kind[repeated] == Kind.API]
    calls = calls[np.argsort(host[calls], kind="stable")]
    first = np.flatnonzero(side.forward & (kind == Kind.API))
    first = first[np.argsort(host[first], kind="stable")]
    if not len(calls):
        return result
    hosts, begin = np.unique(host[calls], return_index=True)
    stem = tree.calls.stem
    for above, a in zip(hosts.tolist(), np.split(calls, begin[1:]), strict=True):
        origin = int(result[forward[above]] if forward[above] >= 0 else result[above])
        if origin <= 0:
            continue
        b = first[slice(*np.searchsorted(host[first], [origin, origin + 1]))]
        if np.array_equal(stem[a], stem[b]):
            result[a] = b
        else:
            x, y, _ = decide(_repetition(side, stem, a, b))
            result[a[x]] = b[y]
    return result


def _repeated_modules(side: Traits, repeated: Int, result: Int) -> None:
    tree = side.outline.tree
    first: dict[tuple[int, str], list[int]] = {}
    for node in np.flatnonzero(side.forward & (side.outline.kind == Kind.MODULE)).tolist():
        first.setdefault((int(tree.micro_step[node]), tree.parsed[node].stem), []).append(node)
    seen: dict[tuple[int, str], int] = {}
    for node in repeated.tolist():
        key = (int(tree.micro_step[node]), tree.parsed[node].stem)
        place = seen.get(key, 0)
        seen[key] = place + 1
        candidates = first.get(key, [])
        if place < len(candidates):
            result[node] = candidates[place]


def gradients_of(side: Traits) -> list[Gradients]:
    """The records of parameter gradients."""
    tree = side.outline.tree
    nodes = np.flatnonzero((side.direction == Direction.NONE) & (side.outline.kind == Kind.MODULE))
    found = ((node, parse_gradients(tree.parsed[node].stem)) for node in nodes.tolist())
    return [(node, *gradients) for node, gradients in found if gradients is not None]


def _repetition(side: Traits, stem: Int, a: Int, b: Int) -> Float:
    """Evidence that calls ``a`` repeat calls ``b`` of the same side."""
    rows, columns = a[:, None], b[None, :]
    flow = levels(side.inputs, side.inputs, rows, columns)
    flow = flow + levels(side.outputs, side.outputs, rows, columns)
    return np.where(stem[rows] == stem[columns], 3.0 + flow, IMPOSSIBLE)
