"""What may be wrong without showing in any number that is recorded.

None of it proves anything; it is told where nobody else is found.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.calls import carries
from msprobe_builder.graph.floating import discrete_types, epsilons
from msprobe_builder.graph.part import Part
from msprobe_builder.operators import questions
from msprobe_builder.verdict.differences.consumers import makers
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.differences.operators import Family, families
from msprobe_builder.verdict.explanations.certainty import unit_of_products
from msprobe_builder.verdict.findings import Cause, Finding

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


def unshown(flow: Flow, texts: Texts, *, is_blind: bool) -> list[Finding]:
    """Calls of one side alone whose lack nothing shows beyond rounding.

    ``is_blind`` says that nothing can be told behind some call, which chose otherwise.
    """
    found = []
    first = _first_apart(flow)
    if first is not None:
        found.append(first)
    known = {(one.side, one.node) for one in found}
    for side, node in [
        *_coarser(flow, texts),
        *_alone_at_the_end(flow, texts),
        *_turned(flow, texts),
        *_given_back(flow),
        *_added(flow, texts, is_blind=is_blind),
    ]:
        if (side, node) not in known:
            known.add((side, node))
            cause = Cause.MISSING if side else Cause.EXTRA
            found.append(Finding(side, node, -1, _near(flow, side, node), 0.0, 0.0, cause, -1))
    return found


_ENOUGH = 16  # tensors that agree to the last digit, so that another kernel is no explanation


def _first_apart(flow: Flow) -> Finding | None:
    """A call of one side behind which tensors differ for the first time, however little.

    Where everything before agrees to the last digit, both sides were computed by one device, and
    what one side alone does is all that can have made the difference.
    """
    table, calls = flow.npu.table, flow.npu.calls
    known = flow.counts & ~np.isnan(flow.error) & calls.is_forward_call[table.node]
    apart = np.flatnonzero(known & (flow.error > 0))
    if flow.is_merged or not len(apart):
        return None
    row = int(apart[0])
    node, other = int(table.node[row]), int(flow.bench_of[row])
    if np.count_nonzero(known[:row] & flow.informative[:row]) < _ENOUGH:
        return None
    debug, reference = (
        int(flow.producer[row]),
        int(flow.bench_producer[other]) if other >= 0 else -1,
    )
    for side, made_by, part, unmatched in (
        (0, debug, flow.npu, flow.unmatched),
        (1, reference, flow.bench, flow.bench_unmatched),
    ):
        makes = part.calls.is_forward_call & ~carries(part.calls)
        maker = int(part.table.node[made_by]) if made_by >= 0 else -1
        if maker >= 0 and unmatched[maker] and makes[maker]:
            cause = Cause.MISSING if side else Cause.EXTRA
            error, floor = float(flow.error[row]), float(flow.floor[row])
            return Finding(side, maker, row, node, error, floor, cause, -1)
    return None


_FEW = 20


def _alone_at_the_end(flow: Flow, texts: Texts) -> list[tuple[int, int]]:
    """Calls that one side alone makes and that nothing behind could show, with their sides.

    No calls that merely hand on or make up what they put out, nor places and choices: what is taken
    by these shows them.
    """
    if flow.is_merged:
        return []
    talking = [
        np.any(families(one.calls) == Family.COMMUNICATION) for one in (flow.npu, flow.bench)
    ]
    found = []
    for side, part, unmatched, producer in (
        (0, flow.npu, flow.unmatched, flow.producer),
        (1, flow.bench, flow.bench_unmatched, flow.bench_producer),
    ):
        alone = part.calls.is_forward_call & unmatched & ~carries(part.calls)
        if not alone.any():
            continue
        family = families(part.calls)
        if not all(talking):
            alone &= family != Family.COMMUNICATION  # one process has nobody to talk to
        alone &= (family != Family.UNINITIALISED) & (family != Family.RANDOM)
        used = producer[producer >= 0]
        alone[part.table.node[used]] = False
        rows = part.table.is_tensor & (part.table.section == Section.OUTPUT)
        rows &= ~discrete_types(texts)[part.table.dtype_id]
        puts_out = np.zeros(len(part.tree), dtype=bool)
        puts_out[part.table.node[rows]] = True
        found += [(side, node) for node in np.flatnonzero(alone & puts_out)[:_FEW].tolist()]
    return found


def _coarser(flow: Flow, texts: Texts) -> list[tuple[int, int]]:
    """Casts of one side to a type coarser than any of the other side, with their sides.

    What they round averages out in the statistics of all that follows. A side that computes in that
    type casts to it as a matter of course.
    """
    found = []
    for side, part, other, unmatched in (
        (0, flow.npu, flow.bench, flow.unmatched),
        (1, flow.bench, flow.npu, flow.bench_unmatched),
    ):
        casts = unmatched & part.calls.is_forward_call & part.calls.are(questions.casts)
        if not casts.any():
            continue
        units = epsilons(part.table.dtype_id, texts)
        coarsest = float(np.max(epsilons(other.table.dtype_id, texts), initial=0.0))
        coarsest = max(coarsest, unit_of_products(part, texts))
        rows = casts[part.table.node] & (part.table.section == Section.OUTPUT)
        nodes = part.table.node[rows & part.table.is_tensor & (units > coarsest)]
        found += [(side, node) for node in np.unique(nodes)[:_FEW].tolist()]
    return found


_SINGLE = 2.0**-23  # unit of float32


def _turned(flow: Flow, texts: Texts) -> list[tuple[int, int]]:
    """Calls of one side alone that turn or shift what they are given, with their sides.

    No statistic changes, and what follows may stay within the rounding of a type coarser than
    float32; where none is used, what follows tells.
    """
    if flow.is_merged or not _is_coarse(flow, texts):
        return []
    found = []
    for side, part, unmatched in (
        (0, flow.npu, flow.unmatched),
        (1, flow.bench, flow.bench_unmatched),
    ):
        turns = unmatched & part.calls.is_forward_call & part.calls.are(questions.turns)
        found += [(side, node) for node in np.flatnonzero(turns)[:_FEW].tolist()]
    return found


def _is_coarse(flow: Flow, texts: Texts) -> bool:
    """Whether a type coarser than float32 is used, whose rounding may hide what a call does."""
    units = (epsilons(part.table.dtype_id, texts) for part in (flow.npu, flow.bench))
    return max(float(np.max(one, initial=0.0)) for one in units) > _SINGLE


_MOST = 4  # kinds of such calls: more are another implementation


def _added(flow: Flow, texts: Texts, *, is_blind: bool) -> list[tuple[int, int]]:
    """Calls that one side alone makes while the other makes none in their place, with their sides.

    What they do may stay within the rounding of a type coarser than float32, or stand behind a
    choice. None that merely shape or cast, or that no pass goes through, as those of an optimizer,
    nor what a group alone is given, such as a mask where one kernel makes its own.
    """
    if flow.is_merged or not (is_blind or _is_coarse(flow, texts)):
        return []
    alone, kinds = [], 0
    for part, unmatched, producer, group in (
        (flow.npu, flow.unmatched, flow.producer, flow.grouped.npu),
        (flow.bench, flow.bench_unmatched, flow.bench_producer, flow.grouped.bench),
    ):
        calls, family = part.calls, families(part.calls)
        one = (
            unmatched
            & ~_for_groups(part, producer, unmatched, group >= 0)
            & calls.is_forward_call
            & ~part.tree.is_recompute
            & ~calls.are(questions.any_of(questions.casts, questions.shapes))
        )
        one &= ~np.isin(family, (Family.RANDOM, Family.UNINITIALISED, Family.COMMUNICATION))
        one &= np.arange(len(unmatched)) < calls.last_pass
        rows = part.table.is_tensor & (part.table.section == Section.OUTPUT)
        rows &= ~discrete_types(texts)[part.table.dtype_id]
        puts_out = np.zeros(len(part.tree), dtype=bool)
        puts_out[part.table.node[rows]] = True
        # What is made of nothing, or of whole numbers, is told by what is made of it.
        given = part.table.is_tensor & (part.table.section == Section.INPUT)
        given &= ~discrete_types(texts)[part.table.dtype_id]
        is_given = np.zeros(len(part.tree), dtype=bool)
        is_given[part.table.node[given]] = True
        nodes = np.flatnonzero(one & puts_out & is_given)
        # A loop, and another micro-step, make the same calls again.
        around = np.where(calls.is_module, calls.stem, -1)[part.tree.parent[nodes]]
        kinds = max(kinds, len(set(zip(calls.stem[nodes].tolist(), around.tolist(), strict=True))))
        alone.append(nodes[:_FEW].tolist())
    if all(alone) or kinds > _MOST:
        return []
    return [(side, node) for side, nodes in enumerate(alone) for node in nodes]


def _for_groups(part: Part, producer: Int, unmatched: Bool, is_grouped: Bool) -> Bool:
    """Calls of one side alone whose output goes nowhere but into groups, which their edges judge.

    Through further such calls as well.
    """
    table = part.table
    given = (producer >= 0) & (table.section == Section.INPUT) & ~part.calls.is_module[table.node]
    rows = np.flatnonzero(given)
    made = makers(table, producer, rows)
    source, user = table.node[made[made >= 0]], table.node[rows[made >= 0]]
    result = np.zeros(len(unmatched), dtype=bool)
    result[source] = unmatched[source]
    while True:
        elsewhere = result[source] & ~is_grouped[user] & ~result[user]
        if not elsewhere.any():
            return result
        result[source[elsewhere]] = False


def _given_back(flow: Flow) -> list[tuple[int, int]]:
    """Modules that give gradients back on one side alone, where modules alone were recorded.

    Something may have been cut off from training between the modules. The outermost are told.
    """
    if flow.is_merged or flow.npu.calls.is_api.any():
        return []
    found = []
    for side, part, unmatched, partner in (
        (0, flow.npu, flow.unmatched, flow.partner),
        (1, flow.bench, flow.bench_unmatched, flow.bench_partner),
    ):
        back = unmatched & part.calls.is_module & (part.calls.direction == Direction.BACKWARD)
        twin = part.calls.twin
        back &= (twin >= 0) & (partner[twin] >= 0) & ~back[part.tree.parent]
        found += [(side, node) for node in np.flatnonzero(back)[:_FEW].tolist()]
    return found


def _near(flow: Flow, side: int, node: int) -> int:
    """The npu node at which a call shows: itself, or the partner of what is above it."""
    while side and node > 0 and flow.bench_partner[node] < 0:
        node = int(flow.bench.tree.parent[node])
    return int(flow.bench_partner[node]) if side else node
