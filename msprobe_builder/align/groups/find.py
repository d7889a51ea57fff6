"""Groups: calls that do together what calls of the other side do, found by what flows in and out.

Where values tell, a group begins where a tensor is put out on both sides by calls that have no
partner, and grows backward through such calls up to tensors that both sides have. Others are found
between pairs, see between.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.flow import Flow, alike, guessed, inputs_of, outputs_of
from msprobe_builder.align.evidence.tolerances import EQUAL
from msprobe_builder.align.evidence.trust import levels
from msprobe_builder.align.groups.between import find_between
from msprobe_builder.align.groups.fused import name_of
from msprobe_builder.align.groups.no_groups import are_pairs
from msprobe_builder.align.pairing.edges import Kinds
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.align.pairing.repeated_calls import same_calls
from msprobe_builder.base.codes import Evidence
from msprobe_builder.dump.names import Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.match.matching import Group

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_LARGEST = 4_000_000  # pairs of tensors of a region that are looked at
_BY_VALUES = 0.98


@dataclass
class Region:
    """Calls without a partner, or with a weak one, below two matched modules and no deeper pair."""

    npu: list[int] = field(default_factory=list)
    bench: list[int] = field(default_factory=list)


def find_groups(pairs: Pairs, flow: Flow, other: Flow, kinds: Kinds) -> list[Group]:
    """The groups of calls going forward; pairs that contradict one are dropped."""
    found: list[Group] = []
    for region in _regions(pairs, flow, other, _weak(pairs, flow, other)):
        found += _by_values(pairs, flow, other, region)
    for group in found:
        _settle(pairs, group)
    found = [group for group in found if not are_pairs(pairs, group, by_place=False)]
    flows = flow, other
    if not all((one.producer >= 0).any() for one in flows):
        if pairs.known.trust.equal or same_calls(pairs):
            return found
        products = pairs.known.products
        flows = guessed(pairs.npu, flow, products), guessed(pairs.bench, other, products)
    return find_between(pairs, *flows, found, kinds)


def _has_open(pairs: Pairs, group: Group) -> bool:
    """Whether calls of both sides have no partner, or of one that multiplies more often.

    One linear is the counterpart of another one and what corrects it, as an adapter does; with a
    bias or a norm behind one of them they remain a pair.
    """
    is_open = (pairs.partner[list(group.npu)] < 0).any()
    other_is_open = (pairs.back[list(group.bench)] < 0).any()
    products = pairs.known.products
    times, other_times = (
        int(np.isin(side.operator[list(nodes)], products).sum())
        for side, nodes in ((pairs.npu, group.npu), (pairs.bench, group.bench))
    )
    return bool(is_open and other_is_open) or bool(
        (is_open and times > other_times) or (other_is_open and other_times > times)
    )


def _weak(pairs: Pairs, flow: Flow, other: Flow) -> Bool:
    """Pairs of calls that were made by their place and whose outputs disagree."""
    result = np.zeros(len(pairs.partner), dtype=bool)
    trust = pairs.known.trust
    if not trust.equal and not trust.same_sizes:
        return result
    calls = np.flatnonzero(
        flow.is_leaf & (pairs.evidence == Evidence.INSIDE) & ~pairs.asked & (pairs.partner >= 0)
    )
    debug, reference = pairs.npu.outputs, pairs.bench.outputs
    j = pairs.partner[calls]
    # Where all outputs together agree so does one of them: few calls are left to look at.
    same_size = debug.numel[calls] == reference.numel[j]
    agree = levels(debug, reference, calls, j) == 2 if trust.equal else same_size
    for i in calls[~agree].tolist():
        out = outputs_of(flow, i)
        other_out = outputs_of(other, int(pairs.partner[i]))
        if out and other_out and trust.equal:
            same = alike(flow.table, other.table, np.array(out), np.array(other_out), EQUAL)
            result[i] = not same.any()
        elif out and other_out:
            result[i] = not np.isin(flow.table.numel[out], other.table.numel[other_out]).any()
    return result


def _regions(pairs: Pairs, flow: Flow, other: Flow, weak: Bool) -> Iterator[Region]:
    """By host and micro-step, calls without a partner and weak pairs, where both sides have any."""
    npu, bench = pairs.npu.outline, pairs.bench.outline
    weak_back = np.zeros(len(bench), dtype=bool)
    weak_back[pairs.partner[weak]] = True
    found: dict[tuple[int, int], Region] = {}
    for node in np.flatnonzero(flow.is_leaf & ((pairs.partner < 0) | weak)).tolist():
        host = _host(npu.tree.parent, npu.kind, pairs.partner, node)
        key = int(pairs.partner[host]), int(npu.tree.micro_step[node])
        found.setdefault(key, Region()).npu.append(node)
    for node in np.flatnonzero(other.is_leaf & ((pairs.back < 0) | weak_back)).tolist():
        host = _host(bench.tree.parent, bench.kind, pairs.back, node)
        key = host, int(bench.tree.micro_step[node])
        if key in found:
            found[key].bench.append(node)
    for region in found.values():
        is_open = (pairs.partner[region.npu] < 0).any() or (pairs.back[region.bench] < 0).any()
        if region.bench and is_open:
            yield region


def _host(parent: Int, kind: Int, partner: Int, node: int) -> int:
    """The nearest module above a node that has a partner."""
    above = int(parent[node])
    while above > 0 and (partner[above] < 0 or kind[above] != Kind.MODULE):
        above = int(parent[above])
    return max(above, 0)


def _by_values(pairs: Pairs, flow: Flow, other: Flow, region: Region) -> list[Group]:
    """Groups of one region whose outputs are told by their statistics."""
    if not pairs.known.trust.equal:
        return []
    rows, other_rows = _rows(flow, region.npu), _rows(other, region.bench)
    if not len(rows) or not len(other_rows) or len(rows) * len(other_rows) > _LARGEST:
        return []
    same = alike(flow.table, other.table, rows, other_rows, EQUAL)
    common = _common(rows, other_rows, same)
    inside, other_inside = set(region.npu), set(region.bench)
    found = []
    for row, matching in zip(rows.tolist(), same, strict=True):
        if not _is_new(flow, row):
            continue
        places = [one for one in other_rows[matching].tolist() if _is_new(other, one)]
        if not places:
            continue
        debug = _slice(flow, row, inside, common[0])
        reference = _slice(other, places[0], other_inside, common[1])
        inputs = _shared(common, debug.inputs, reference.inputs)
        if inputs:
            members = sorted(debug.nodes), sorted(reference.nodes)
            found.append(_Slices(*members, [*inputs, (row, places[0])]))
    groups = []
    for joined in _joined(found):
        group = _group(pairs, joined, _BY_VALUES)
        if _has_open(pairs, group):
            groups.append(group)
    return groups


@dataclass(frozen=True)
class _Slice:
    nodes: set[int]
    inputs: list[int]  # rows that go in


@dataclass(frozen=True)
class _Slices:
    npu: list[int]
    bench: list[int]
    rows: list[tuple[int, int]]


def _slice(flow: Flow, row: int, inside: set[int], common: frozenset[int]) -> _Slice:
    """What a tensor is made by, back to tensors that are in ``common`` or come from outside."""
    nodes: set[int] = set()
    inputs: list[int] = []
    pending = [int(flow.table.node[row])]
    while pending:
        node = pending.pop()
        if node in nodes:
            continue
        nodes.add(node)
        for given in inputs_of(flow, node):
            source = int(flow.producer[given])
            maker = int(flow.table.node[source]) if source >= 0 else -1
            if maker in inside and given not in common:
                pending.append(maker)
            else:
                inputs.append(given)
    return _Slice(nodes, inputs)


def _common(
    rows: Int, other_rows: Int, same: Bool
) -> tuple[frozenset[int], frozenset[int], dict[int, list[int]]]:
    """Rows of both sides that the other side has too, and which they are."""
    i, j = np.nonzero(same)
    partners: dict[int, list[int]] = {}
    for row, place in zip(rows[i].tolist(), other_rows[j].tolist(), strict=True):
        partners.setdefault(row, []).append(place)
    return frozenset(partners), frozenset(other_rows[j].tolist()), partners


def _shared(
    common: tuple[frozenset[int], frozenset[int], dict[int, list[int]]],
    rows: list[int],
    other_rows: list[int],
) -> list[tuple[int, int]]:
    left = list(other_rows)
    result = []
    for row in rows:
        for place in common[2].get(row, ()):
            if place in left:
                left.remove(place)
                result.append((row, place))
                break
    return result


def _joined(found: list[_Slices]) -> list[_Slices]:
    """Slices that share a call are one group."""
    result: list[tuple[set[int], set[int], list[tuple[int, int]]]] = []
    for one in found:
        npu, bench, rows = set(one.npu), set(one.bench), list(one.rows)
        apart = []
        for group in result:
            if group[0] & npu or group[1] & bench:
                npu |= group[0]
                bench |= group[1]
                rows = [*group[2], *rows]
            else:
                apart.append(group)
        result = [*apart, (npu, bench, rows)]
    return [_Slices(sorted(npu), sorted(bench), rows) for npu, bench, rows in result]


def _group(pairs: Pairs, joined: _Slices, certainty: float) -> Group:
    rows: list[tuple[int, int]] = []
    taken: set[int] = set()
    other_taken: set[int] = set()
    for row, other in joined.rows:
        if row not in taken and other not in other_taken:
            rows.append((row, other))
            taken.add(row)
            other_taken.add(other)
    name = name_of(pairs, joined.npu, joined.bench)
    return Group(name, tuple(joined.npu), tuple(joined.bench), tuple(rows), certainty)


def _settle(pairs: Pairs, group: Group) -> None:
    """Drop the pairs that a group contradicts."""
    members = set(group.npu) | {int(pairs.back[j]) for j in group.bench}
    for i in members:
        if i >= 0 and pairs.partner[i] >= 0:
            pairs.drop(i)


def _rows(flow: Flow, nodes: list[int]) -> Int:
    rows = [row for node in nodes for row in flow.rows(node) if flow.key[row] != 0]
    return np.array(rows, dtype=np.int64)


def _is_new(flow: Flow, row: int) -> bool:
    """Whether a call puts out in this row what it was not given."""
    if flow.table.section[row] != Section.OUTPUT:
        return False
    given = inputs_of(flow, int(flow.table.node[row]))
    return bool(given) and flow.key[row] not in flow.key[given]
