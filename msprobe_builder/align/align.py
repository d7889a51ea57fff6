"""Aligning what the documented rule left over, without asking for names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.contradictions.of_modules import take_back
from msprobe_builder.align.contradictions.parts import take_back_parts
from msprobe_builder.align.evidence.adapters import with_adapters
from msprobe_builder.align.evidence.drawn_sizes import without_drawn_sizes
from msprobe_builder.align.evidence.flow import flow_of, guessed, is_leaf
from msprobe_builder.align.evidence.hands_on import hands_on
from msprobe_builder.align.evidence.holding import holds
from msprobe_builder.align.evidence.operators import (
    forms,
    is_linear_map,
    layouts,
    moves,
    numbers_of,
)
from msprobe_builder.align.evidence.scores import THRESHOLD, Known
from msprobe_builder.align.evidence.sites import Sites
from msprobe_builder.align.evidence.sizes import same_shapes
from msprobe_builder.align.evidence.traits import Traits, has_values, traits_of, without_values
from msprobe_builder.align.evidence.trust import Trust, trust_of
from msprobe_builder.align.evidence.words import Words
from msprobe_builder.align.groups.find import find_groups
from msprobe_builder.align.groups.members import backward_groups, with_modules
from msprobe_builder.align.pairing.across import pair_across
from msprobe_builder.align.pairing.alternating_passes import in_one_round
from msprobe_builder.align.pairing.anchors import (
    Candidates,
    align_leaves,
    leaves,
    modules_of_leaves,
)
from msprobe_builder.align.pairing.backward import pair_backward
from msprobe_builder.align.pairing.by_flow import by_flow, take_back_moved
from msprobe_builder.align.pairing.edges import Edges, Kinds
from msprobe_builder.align.pairing.inside import pair_inside
from msprobe_builder.align.pairing.kept import let_go_of_collections, stays, with_content
from msprobe_builder.align.pairing.lists import Lists
from msprobe_builder.align.pairing.offers import offer_candidates
from msprobe_builder.align.pairing.order_and_flow import (
    pair_by_order_and_flow,
    pair_moving,
)
from msprobe_builder.align.pairing.pairs import Pairs, note_all
from msprobe_builder.align.pairing.repeated_calls import one_code, same_code
from msprobe_builder.align.pairing.results import (
    pair_by_ends,
    take_back_other_results,
    take_back_other_values,
)
from msprobe_builder.align.pairing.same import give_way_to_hosts, pair_same
from msprobe_builder.align.pairing.surroundings import surroundings
from msprobe_builder.align.pairing.twins import modules_apart
from msprobe_builder.align.pairing.weights import (
    both_kinds,
    contradicted,
    hosts_by_weights,
    pair_by_weights,
    twins_by_weights,
)
from msprobe_builder.align.pairing.wrappers import cores, pair_wrappers, transparent
from msprobe_builder.base.codes import Evidence
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Kind
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.side import Side
from msprobe_builder.match.calls import pair_collections
from msprobe_builder.match.matching import Alignment, Group, inverse
from msprobe_builder.match.outline import Outline
from msprobe_builder.operators.operator import Kind as OperatorKind
from msprobe_builder.operators.questions import any_of

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


_SIDES = ("npu", "bench")
_SURE = 0.25  # least share of leaves known by what they work on


def align_by_evidence(
    npu: Side,
    bench: Side,
    outline: Outline,
    other_outline: Outline,
    partner: Int,
    asked: Bool,
    texts: Texts,
    sites: Sites,
) -> Alignment:
    """``partner`` completed by what the evidence shows, see :func:`align_rest`."""
    site, other_site, elsewhere = sites
    operators: dict[str, int] = {}
    left = traits_of(npu, outline, operators, texts)
    right = traits_of(bench, other_outline, operators, texts)
    products = numbers_of(operators, lambda one: one.kind is OperatorKind.PRODUCT)
    left, right = in_one_round(
        with_adapters(left, right, products), with_adapters(right, left, products)
    )
    stems: dict[str, int] = {}
    known = Known(
        partner.copy(),
        Words(npu.tree),
        Words(bench.tree),
        _stem_ids(npu, stems),
        _stem_ids(bench, stems),
        npu.tree.calls.call,
        bench.tree.calls.call,
        np.full(len(npu.tree), -1, dtype=np.int64),
        np.full(len(bench.tree), -1, dtype=np.int64),
        Trust(),
        numbers_of(operators, layouts),
        numbers_of(operators, lambda one: "padded" in one.traits),
        numbers_of(operators, any_of(moves, forms)),
        products,
        numbers_of(operators, lambda one: one.kind in (OperatorKind.SLICE, OperatorKind.PICK)),
        site,
        other_site,
        hands_on(left, operators),
        hands_on(right, operators),
        np.full(len(left), -1, dtype=np.int64),
        np.full(len(right), -1, dtype=np.int64),
    )
    twins = twins_by_weights(left, right, known)
    hosts = hosts_by_weights(left, right, known)
    known.twin, known.other_twin = both_kinds(twins, hosts)
    elsewhere |= contradicted(left, right, partner, *twins)
    # A layer that one side alone has holds no weights that the other one knows.
    there = contradicted(right, left, inverse(partner, len(right)), *twins[::-1])
    elsewhere |= (partner > 0) & there[partner]
    if (twins[0] < 0).all():  # where weights do not tell, one author may count from one
        elsewhere |= with_content(npu, known.words.recounted(known.other_words, partner) & ~asked)
    by_name = np.where(elsewhere & ~asked, -1, partner)
    known.exact[:] = by_name
    kept = np.where(asked | stays(left, right, by_name, known), partner, -1)
    pairs = Pairs(
        left,
        right,
        known,
        kept,
        inverse(kept, len(right)),
        np.zeros(len(left), dtype=np.int64),
        np.zeros(len(left)),
        asked,
    )
    pairs.partner[0], pairs.back[0] = 0, 0
    core, other_core = cores(left, operators), cores(right, operators)
    _pair_by_leaves(pairs, core, other_core, twins)
    if not known.trust.equal:
        flows = flow_of(left, npu.table), flow_of(right, bench.table)
        left, right = without_drawn_sizes((left, right), flows, texts, operators)
        pairs.npu, pairs.bench = left, right
        known_flow = [bool((flow.producer >= 0).any()) for flow in flows]
        known.has_flow = has_values(left) or all(known_flow)
        if all(known_flow) and not has_values(left):
            known.trust = replace(known.trust, same_shapes=same_shapes(left, right, products))
        if not (left.below[0].any() and known.has_flow):
            known.one_code = one_code(pairs)
        is_unknown = not all(known_flow) and not (has_values(left) and has_values(right))
        if is_unknown and not known.one_code:  # one code has an order that tells more
            flows = guessed(left, flows[0], products), guessed(right, flows[1], products)
        else:  # it shows what all calls do together of which attention is one
            known.products = numbers_of(operators, is_linear_map)
        commuting = Kinds.of(operators).commuting
        pair_by_order_and_flow(pairs, *flows)
        known.around = surroundings(Edges.of(flows[0], left, commuting), left)
        known.other_around = surroundings(Edges.of(flows[1], right, commuting), right)
        if flows[0].is_guessed:  # of these nothing else tells
            known.around[:, np.isin(left.operator, known.moving)] = 0
            known.around[:, left.operator < 0] *= left.below[0].any()
    modules = np.flatnonzero((pairs.partner >= 0) & (outline.kind == Kind.MODULE))
    note_all(pairs, modules, pairs.partner[modules])
    if not known.trust.equal and not left.below[0].any():
        known.same_code = same_code(pairs, core, other_core)
    forward, other_forward = Lists.of(left, left.forward), Lists.of(right, right.forward)
    pair_inside(
        pairs,
        forward,
        other_forward,
        transparent(left, pairs.partner, core),
        transparent(right, pairs.back, other_core),
    )
    pair_across(pairs)
    pair_by_weights(pairs, *both_kinds(twins, hosts))
    pair_wrappers(pairs, core, other_core)
    take_back(pairs)
    results = replace(left, outputs=left.results), replace(right, outputs=right.results)
    take_back_other_results(pairs, *results, operators)
    take_back_other_values(pairs, operators)
    give_way_to_hosts(pairs, *results)
    pair_same(pairs, *results)
    take_back_parts(pairs, npu.table, bench.table, operators)
    groups = _grouped(pairs, npu.table, bench.table, results, operators)
    offer_candidates(pairs, npu.table, bench.table, groups)
    let_go_of_collections(pairs)
    collected = pair_collections(outline, other_outline, pairs.partner)
    for node in np.flatnonzero(collected != pairs.partner).tolist():
        pairs.add(node, int(collected[node]), Evidence.COLLECTION, 0.0)
    # Weights are log-odds beyond the threshold.
    certainty = 1.0 / (1.0 + np.exp(THRESHOLD - np.maximum(pairs.weight, THRESHOLD)))
    return Alignment(
        pairs.partner,
        pairs.evidence,
        certainty,
        tuple(groups),
        pairs.likely(0),
        pairs.likely(1),
    )


def _grouped(
    pairs: Pairs,
    table: ParameterTable,
    other: ParameterTable,
    results: tuple[Traits, Traits],
    operators: dict[str, int],
) -> list[Group]:
    """Find groups, and match what follows from the calls going forward."""
    sides = (pairs.npu, pairs.partner), (pairs.bench, pairs.back)
    has_open = [bool((is_leaf(side) & (partner < 0)).any()) for side, partner in sides]
    is_complete = not all(has_open)
    # Values show that a call is no more than a part of what several of the other side do.
    if pairs.known.trust.equal and not any(has_open):
        pair_backward(pairs)
        return []
    flow, other_flow = flow_of(pairs.npu, table), flow_of(pairs.bench, other)
    if by_flow(pairs, flow, other_flow, operators, is_complete=is_complete):
        for node in modules_apart(pairs):
            pairs.take_back(node)
        pair_by_ends(pairs, *results, operators)
    if not pairs.known.trust.equal and not is_complete:
        pair_moving(pairs, flow, other_flow)
    groups = find_groups(pairs, flow, other_flow, Kinds.of(operators))
    groups = with_modules(pairs, groups, flow, other_flow)
    if pairs.known.trust.equal or not is_complete:
        take_back_moved(pairs, flow, other_flow, operators, groups)
    pair_backward(pairs)
    return groups + backward_groups(pairs, groups, flow, other_flow)


def _stem_ids(side: Side, ids: dict[str, int]) -> Int:
    return side.tree.calls.of_stems(lambda stem: ids.setdefault(stem, len(ids)))


def _pair_by_leaves(pairs: Pairs, core: Int, other_core: Int, twins: tuple[Int, Int]) -> None:
    npu, bench = pairs.npu, pairs.bench
    both = list(zip(leaves(npu), leaves(bench), strict=False))
    both = [(a, b) for a, b in both if len(a) and len(b)]
    aligned = [align_leaves(npu, bench, a, b, twins) for a, b in both]
    if aligned:
        a, b = (np.concatenate([getattr(one, side) for one in aligned]) for side in _SIDES)
        trust = pairs.known.trust = trust_of(npu, bench, a, b)
        if (
            not trust.equal and not trust.near and not trust.weights
        ):  # what agrees does so by chance
            hidden = without_values(npu), without_values(bench)
            aligned = [align_leaves(*hidden, a, b, twins) for a, b in both]
    repeated, other_repeated = _repeated(npu), _repeated(bench)
    for found in aligned:
        is_twin = (twins[0][found.npu] >= 0) & (twins[0][found.npu] == twins[1][found.bench])
        candidates = modules_of_leaves(npu, bench, found, core, other_core, is_twin)
        _pair_modules(pairs, candidates, repeated, other_repeated)


def _pair_modules(
    pairs: Pairs, candidates: Candidates, repeated: Bool, other_repeated: Bool
) -> None:
    """Match candidates that lie in each other's surroundings.

    Modules of one class make equal calls: which of them is missing on one side can only be seen
    from what they work on, or from a pair inside. Where that does not tell, they are left to their
    places.
    """
    columns = candidates.npu, candidates.bench, candidates.sure
    unsure: list[tuple[int, int]] = []
    for i, j, sure in zip(*columns, strict=True):
        if sure < _SURE and (repeated[i] or other_repeated[j]):
            unsure.append((i, j))
        else:
            _pair_nested(pairs, i, j)
    for i, j in unsure:
        if _hold_the_same(pairs, i, j):
            _pair_nested(pairs, i, j)


def _hold_the_same(pairs: Pairs, i: int, j: int) -> bool:
    """Whether two modules hold pairs, and no node of a pair without the other."""
    end, other_end = pairs.npu.outline.tree.subtree_end[i], pairs.bench.outline.tree.subtree_end[j]
    partner, back = pairs.partner[i + 1 : end + 1], pairs.back[j + 1 : other_end + 1]
    partner, back = partner[partner >= 0], back[back >= 0]
    inside = (partner > j) & (partner <= other_end)
    return bool(len(partner) and inside.all() and ((back > i) & (back <= end)).all())


def _pair_nested(pairs: Pairs, i: int, j: int) -> None:
    if pairs.partner[i] >= 0 or pairs.back[j] >= 0 or not _nested(pairs, i, j):
        return
    if not _holds(pairs.npu, pairs.bench, i, j):
        pairs.add(i, j, Evidence.LEAVES, 5.0)


def _repeated(side: Traits) -> Bool:
    """Modules whose class is at more than one place in their micro-step."""
    tree = side.outline.tree
    result = np.zeros(len(side), dtype=bool)
    modules = np.flatnonzero(side.forward & (side.outline.kind == Kind.MODULE))
    numbers: dict[str, int] = {}
    stems = tree.calls.stems
    of_class = tree.calls.of_stems(
        lambda stem: numbers.setdefault(stem.rpartition(".")[2], len(numbers))
    )
    key = of_class[modules] * (1 + tree.micro_steps) + tree.micro_step[modules]
    places = np.unique(key * len(stems) + tree.calls.stem[modules]) // len(stems)
    found, count = np.unique(places, return_counts=True)
    result[modules] = count[np.searchsorted(found, key)] > 1
    return result


def _holds(npu: Traits, bench: Traits, i: int, j: int) -> bool:
    """Whether one of two modules holds the counterpart of the other."""
    own, other_own = npu.parameters.count[i] > 0, bench.parameters.count[j] > 0
    if npu.parameters_below[1, i] == bench.parameters_below[1, j] and own == other_own:
        return False
    a, b = np.array([i]), np.array([j])
    return bool(holds(npu, bench, a, b).any() or holds(bench, npu, b, a).any())


def _nested(pairs: Pairs, i: int, j: int) -> bool:
    """Whether a pair lies inside the pairs around it."""
    above = int(pairs.npu.outline.tree.parent[i])
    while above > 0 and pairs.partner[above] < 0:
        above = int(pairs.npu.outline.tree.parent[above])
    around = int(pairs.bench.outline.tree.parent[j])
    while around > 0 and pairs.back[around] < 0:
        around = int(pairs.bench.outline.tree.parent[around])
    end, other_end = pairs.npu.outline.tree.subtree_end, pairs.bench.outline.tree.subtree_end
    host = int(pairs.partner[above]) if above >= 0 else 0
    other_host = int(pairs.back[around]) if around >= 0 else 0
    return bool(host <= j <= other_end[host] and other_host <= i <= end[other_host])
