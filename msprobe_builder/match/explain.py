"""Why nodes have no partner, and which node of the other side comes nearest."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Reason
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Kind
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.match.details import Ancestors, differences, other_class
from msprobe_builder.match.exact import same_path
from msprobe_builder.match.hashing import Keys, mixed
from msprobe_builder.match.matching import Likely, Unmatched
from msprobe_builder.match.nearest import View, nearest
from msprobe_builder.match.signature import agreeing, differing, equal_counts

Int = NDArray[np.int64]


@dataclass(frozen=True)
class Demands:
    """What a rule demands of two nodes beside their names."""

    path: bool
    counts: bool
    types: bool
    shapes: bool


@dataclass(frozen=True)
class Found:
    """Of one side: who nodes without a partner may belong to, groups with what they equal, and
    pairs that a person rejected."""

    likely: Likely
    groups: list[tuple[tuple[int, ...], tuple[int, ...]]]
    rejected: list[tuple[int, int]]


def explain(
    view: View,
    wanted: Int,
    namesake: Int,
    fixed: Int,
    demands: Demands,
    texts: Texts,
    evidence: Found,
) -> Unmatched:
    """Reasons for all nodes of one side that have no partner.

    ``wanted`` is the partner a node would have if nothing else stood in the way;
    ``evidence`` goes before what names say.
    """
    node = np.flatnonzero(view.partner < 0)
    reason = np.zeros(len(view.own), dtype=np.int64)
    candidate = np.full(len(view.own), -1, dtype=np.int64)
    i = node[wanted[node] >= 0]
    candidate[i] = wanted[i]
    reason[i] = _obstacle(view, i, wanted[i], demands, Reason.PARTNER_TAKEN)
    if demands.path and len(i):
        i = i[~same_path(view.own, view.other, namesake, fixed)[i]]
        reason[i] = Reason.OTHER_PARENT
    rest = node[reason[node] == 0]
    if len(rest):
        found = nearest(view, rest, namesake, candidate)
        candidate = found.node
        reason[rest] = Reason.NO_SUCH_NAME
        reason[rest[found.other_class[rest]]] = Reason.OTHER_CLASS
        if not demands.path:
            calls = rest[view.own.kind[rest] == Kind.API]
            same = found.same_operation
            reason[calls] = _about_calls(view, calls, candidate, same, namesake, demands)
            _about_collections(view, rest, reason, candidate)
    _by_evidence(evidence, reason, candidate)
    detail = _details(view, node, reason[node], candidate[node], texts)
    return Unmatched(node, reason[node], candidate[node], detail)


def _by_evidence(found: Found, reason: Int, candidate: Int) -> None:
    first = np.unique(found.likely.node, return_index=True)[1]
    nodes, best = found.likely.node[first], found.likely.candidate[first]
    reason[nodes], candidate[nodes] = Reason.UNDECIDED, best
    for own, other in found.groups:
        reason[list(own)], candidate[list(own)] = Reason.GROUPED, other[0]
    for node, former in found.rejected:
        reason[node], candidate[node] = Reason.REJECTED, former


def _obstacle(view: View, i: Int, j: Int, demands: Demands, otherwise: Reason) -> Int:
    """The first demand on parameters that nodes i and j do not meet."""
    own, other = view.own.signatures, view.other.signatures
    result = np.full(len(i), otherwise, dtype=np.int64)
    counts = equal_counts(own, other, i, j)
    if demands.shapes and not demands.counts:
        result[~agreeing(own, other, i, j)] = Reason.OTHER_SHAPE
    equal = np.flatnonzero(counts)
    type_differs, shape_differs = differing(own, other, i[equal], j[equal])
    if demands.shapes:
        result[equal[shape_differs]] = Reason.OTHER_SHAPE
    if demands.types:
        result[equal[type_differs]] = Reason.OTHER_TYPE
    if demands.counts:
        result[~counts] = Reason.OTHER_PARAMETER_COUNT
    return result


def _about_calls(
    view: View,
    calls: Int,
    candidate: Int,
    same_operation: NDArray[np.bool_],
    namesake: Int,
    demands: Demands,
) -> Int:
    host = view.partner[view.own.host[calls]]
    result = np.where(namesake[calls] >= 0, Reason.OTHER_PARENT, Reason.NO_SUCH_NAME)
    repeated = np.isin(mixed(host, view.operation[calls]), _operations_inside(view))
    result[repeated] = Reason.EXTRA_CALL
    near = np.flatnonzero(same_operation[calls])
    # Of calls the fuzzy rule demands shapes only as far as both sides have parameters.
    of_calls = replace(demands, counts=False)
    pairs = calls[near], candidate[calls[near]]
    result[near] = _obstacle(view, *pairs, of_calls, Reason.OTHER_ORDER)
    result[host < 0] = Reason.PARENT_UNMATCHED
    return np.asarray(result, dtype=np.int64)


def _operations_inside(view: View) -> Keys:
    return mixed(view.other.host, view.other_operation)


def _about_collections(view: View, nodes: Int, reason: Int, candidate: Int) -> None:
    for node in nodes[view.own.kind[nodes] == Kind.COLLECTION].tolist():
        inside = slice(node + 1, int(view.own.tree.subtree_end[node]) + 1)
        partners = view.partner[inside]
        above = view.other.tree.parent[partners[partners >= 0]]
        collections = above[view.other.kind[above] == Kind.COLLECTION]
        if len(collections):
            reason[node], candidate[node] = Reason.PARTNER_TAKEN, collections[0]
        else:
            reason[node] = Reason.CALLS_UNMATCHED


def _details(
    view: View, nodes: Int, reasons: Int, candidates: Int, texts: Texts
) -> list[Fact | None]:
    result: list[Fact | None] = [None] * len(nodes)
    near = np.flatnonzero(candidates >= 0)
    parameters = differences(view, nodes[near], candidates[near], texts)
    for place, told in zip(near.tolist(), parameters, strict=True):
        result[place] = told
    ancestors = Ancestors(view)
    for place in np.flatnonzero(reasons == Reason.OTHER_PARENT).tolist():
        result[place] = ancestors.difference(int(nodes[place]), int(candidates[place]))
    for place in np.flatnonzero(_below_another(view, nodes, reasons, candidates)).tolist():
        parent = int(view.own.host[nodes[place]])
        names = view.own.tree.names[parent], view.other.tree.names[view.partner[parent]]
        result[place] = fact("detail.parent_matched", parent=names[0], partner=names[1])
    for place in np.flatnonzero(reasons == Reason.OTHER_CLASS).tolist():
        result[place] = other_class(view, int(nodes[place]), int(candidates[place]))
    for place in np.flatnonzero(reasons == Reason.PARTNER_TAKEN).tolist():
        taker = view.back[candidates[place]]
        if taker >= 0:
            result[place] = fact("detail.matched_with", name=view.own.tree.names[taker])
        else:
            result[place] = None
    for place, told in _call_numbers(view, nodes, reasons):
        result[place] = told
    return result


def _below_another(view: View, nodes: Int, reasons: Int, candidates: Int) -> NDArray[np.bool_]:
    """Undecided nodes whose module is matched with one that does not hold their candidate."""
    parent = view.own.host[nodes]
    partner = view.partner[parent]
    end = view.other.tree.subtree_end[partner]
    outside = (candidates <= partner) | (candidates > end)
    told = (reasons == Reason.UNDECIDED) & (candidates >= 0) & (parent > 0) & (partner >= 0)
    return np.asarray(told & outside)


def _call_numbers(view: View, nodes: Int, reasons: Int) -> list[tuple[int, Fact]]:
    """How often calls are made on the two sides, for those made too often on the own one."""
    places = np.flatnonzero(reasons == Reason.EXTRA_CALL)
    if not len(places):
        return []
    extra = nodes[places]
    host = view.own.host[extra]
    here = _times(mixed(view.own.host, view.operation), mixed(host, view.operation[extra]))
    there = _times(_operations_inside(view), mixed(view.partner[host], view.operation[extra]))
    return [
        (place, fact("detail.calls", own=own, other=other))
        for place, own, other in zip(places.tolist(), here.tolist(), there.tolist(), strict=True)
    ]


def _times(keys: Keys, wanted: Keys) -> Int:
    known, count = np.unique(keys, return_counts=True)
    place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    return np.where(known[place] == wanted, count[place], 0)
