"""Pairing the calls inside matched modules, and the collections that hold them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.sequence import align_around, fill_gaps
from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.match.hashing import mixed, same_ids
from msprobe_builder.match.matching import inverse
from msprobe_builder.match.outline import Outline
from msprobe_builder.match.signature import agreeing, shape_keys

Int = NDArray[np.int64]

Tokens = tuple[Int, Int]  # a column of each side; equal values may be paired

_NO_TOKEN, _TAKEN, _OTHER_TAKEN = -1, -2, -3
_FIRST_MARK = -4


def operations(npu: Outline, bench: Outline, operator: Callable[[str], str] | None) -> Tokens:
    """What each node calls in which direction, as ids shared by both sides.

    ``operator`` names what an API does; without one APIs are told apart by their own names.
    """
    ids: dict[tuple[str, int], int] = {}
    columns = []
    for side in (npu, bench):
        calls = side.tree.calls
        key = (calls.stem * len(Kind) + calls.kind) * len(Direction) + calls.direction
        _, first, place = np.unique(key, return_index=True, return_inverse=True)
        of_key = np.empty(len(first), dtype=np.int64)
        for one in np.argsort(first).tolist():  # numbered as they come
            node = first[one]
            stem = calls.stems[calls.stem[node]]
            word = operator(stem) if operator and calls.kind[node] == Kind.API else stem
            of_key[one] = ids.setdefault((word, int(calls.direction[node])), len(ids))
        columns.append(of_key[place])
    return columns[0], columns[1]


def with_shapes(npu: Outline, bench: Outline, operation: Tokens) -> Tokens:
    """The same ids, told apart also by the number and shapes of the parameters."""
    left, right = shape_keys(npu.signatures), shape_keys(bench.signatures)
    return same_ids(
        mixed(operation[0], left.astype(np.int64)), mixed(operation[1], right.astype(np.int64))
    )


def pair_calls(npu: Outline, bench: Outline, partner: Int, exact: Int, tokens: list[Tokens]) -> Int:
    """``partner`` of modules, completed by the API calls inside matched modules.

    Calls are paired in order of execution where their tokens are equal; matched modules
    between them hold the sequences in step. Pairs of the default rule are kept unless more
    calls find a partner without them. Later tokens fill the gaps that earlier ones leave, where
    shapes agree as far as both calls have parameters.
    """
    result = partner.copy()
    back = inverse(partner, len(bench))
    is_call = (npu.kind == Kind.API) & (partner < 0)
    is_other_call = (bench.kind == Kind.API) & (back < 0)
    known = np.flatnonzero(is_call & (exact >= 0))
    known = known[is_other_call[exact[known]]]
    known = known[partner[npu.host[known]] == bench.host[exact[known]]]
    is_known = np.zeros(len(npu), dtype=bool)
    is_known[known] = True

    hosts = np.flatnonzero(partner >= 0)
    calls = np.bincount(npu.host[is_call], minlength=len(npu))[hosts]
    other_calls = np.bincount(bench.host[is_other_call], minlength=len(bench))[partner[hosts]]
    settled = np.bincount(npu.host[known], minlength=len(npu))
    settled[_out_of_order(npu, exact, known)] = -1
    is_settled = settled[hosts] == np.minimum(calls, other_calls)
    in_settled = np.isin(npu.host[known], hosts[is_settled])
    result[known[in_settled]] = exact[known[in_settled]]

    marks, other_marks = _marks(npu, bench, partner), _marks(bench, npu, back)
    has_other_mark = other_marks != _NO_TOKEN
    other_marks[has_other_mark] = marks[back[has_other_mark]]
    inside = _Inside(npu, is_call | (marks != _NO_TOKEN))
    other_inside = _Inside(bench, is_other_call | has_other_mark)
    columns = [
        (np.where(is_call, own, marks), np.where(is_other_call, other, other_marks))
        for own, other in tokens
    ]
    for host in hosts[~is_settled].tolist():
        a, b = inside.nodes(host), other_inside.nodes(int(partner[host]))
        kept = np.flatnonzero(is_known[a])
        i, j = _pair_inside(npu, bench, a, b, kept, np.searchsorted(b, exact[a[kept]]), columns)
        result[i] = j
    return result


def _pair_inside(
    npu: Outline, bench: Outline, a: Int, b: Int, x: Int, y: Int, columns: list[Tokens]
) -> tuple[Int, Int]:
    """Nodes of ``a`` and ``b`` that belong together; x, y are the positions of known pairs."""
    (own, other), *looser = columns
    in_a, in_b = align_around(own[a], other[b], x, y)
    aside = ~np.isin(x, in_a) & ~np.isin(y, in_b)
    found = [(a[in_a], b[in_b]), (a[x[aside]], b[y[aside]])]
    for own, other in looser:
        if len(in_a) + aside.sum() == min(len(a), len(b)):
            break
        token_a, token_b = own[a], other[b]
        token_a[x[aside]], token_b[y[aside]] = _TAKEN, _OTHER_TAKEN
        more_a, more_b = fill_gaps(token_a, token_b, in_a, in_b)
        is_new = ~np.isin(more_a, in_a)
        i, j = a[more_a[is_new]], b[more_b[is_new]]
        agrees = agreeing(npu.signatures, bench.signatures, i, j)
        found.append((i[agrees], j[agrees]))
    return np.concatenate([i for i, _ in found]), np.concatenate([j for _, j in found])


def moved_calls(npu: Outline, bench: Outline, partner: Int, namesake: Int) -> Int:
    """Calls left over whose namesake is made inside the partner of their host.

    Backward calls trade places easily; an equal name there is no accident.
    """
    calls = np.flatnonzero((npu.kind == Kind.API) & (partner < 0) & (namesake >= 0))
    inside = partner[npu.host[calls]] == bench.host[namesake[calls]]
    return np.asarray(calls[inside])


def completed(partner: Int, wanted: Int, nodes: Int, size: int) -> Int:
    """``partner`` with those of ``nodes`` matched as ``wanted`` whose both ends are free."""
    back = inverse(partner, size)
    nodes = nodes[(wanted[nodes] >= 0) & (partner[nodes] < 0)]
    nodes = nodes[back[wanted[nodes]] < 0]
    result = partner.copy()
    result[nodes] = wanted[nodes]
    return result


def pair_collections(npu: Outline, bench: Outline, partner: Int) -> Int:
    """``partner``, completed by the collections of calls between modules.

    Collections belong together when most of their calls do; those without such calls when
    they stand between the same matched modules.
    """
    result = partner.copy()
    back = inverse(partner, len(bench))
    matched = np.flatnonzero(partner >= 0)
    left, right = npu.tree.parent[matched], bench.tree.parent[partner[matched]]
    held = (npu.kind[left] == Kind.COLLECTION) & (bench.kind[right] == Kind.COLLECTION)
    pairs, votes = np.unique(np.stack([left[held], right[held]]), axis=1, return_counts=True)
    for pair in np.lexsort((pairs[1], pairs[0], -votes)).tolist():
        i, j = pairs[:, pair]
        if result[i] < 0 and back[j] < 0:
            result[i], back[j] = j, i

    free: dict[tuple[int, int], int] = {}
    for j, before, after in _free_collections(bench, back):
        free.setdefault((back[before], back[after]), j)
    for i, before, after in _free_collections(npu, result):
        result[i] = free.pop((before, after), -1)
    return result


def _free_collections(side: Outline, partner: Int) -> list[tuple[int, int, int]]:
    """Collections without partner, each with the matched modules before and after it."""
    top = np.flatnonzero(side.tree.parent == 0)
    fixed = top[(side.kind[top] == Kind.MODULE) & (partner[top] >= 0)]
    nodes = top[(side.kind[top] == Kind.COLLECTION) & (partner[top] < 0)]
    around = np.r_[0, fixed, 0]
    place = np.searchsorted(fixed, nodes)
    return list(
        zip(nodes.tolist(), around[place].tolist(), around[place + 1].tolist(), strict=True)
    )


def _marks(own: Outline, other: Outline, partner: Int) -> Int:
    """Negative tokens for nodes whose partner stands inside the partner of their host."""
    inside = (partner >= 0) & (other.host[partner] == partner[own.host])
    inside[0] = False
    return np.where(inside, _FIRST_MARK - np.arange(len(own)), _NO_TOKEN)


def _out_of_order(npu: Outline, exact: Int, known: Int) -> Int:
    """Hosts in which pairs of the default rule cross."""
    known = known[np.argsort(npu.host[known], kind="stable")]
    same_host = npu.host[known[1:]] == npu.host[known[:-1]]
    crossing = same_host & (exact[known[1:]] < exact[known[:-1]])
    return np.unique(npu.host[known[1:][crossing]])


class _Inside:
    """The nodes inside each host that take part, in order of execution."""

    def __init__(self, side: Outline, takes_part: NDArray[np.bool_]) -> None:
        nodes = np.flatnonzero(takes_part)
        self._nodes = nodes[np.argsort(side.host[nodes], kind="stable")]
        self._hosts = side.host[self._nodes]

    def nodes(self, host: int) -> Int:
        begin, end = np.searchsorted(self._hosts, [host, host + 1])
        return self._nodes[begin:end]
