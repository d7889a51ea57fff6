"""Tensors that need a gradient on one side only: a branch that was cut off from training."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.calls import has_own_gradient
from msprobe_builder.graph.part import Part, inputs_of
from msprobe_builder.operators import questions
from msprobe_builder.verdict.differences.consumers import makers
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.differences.histories import is_cut_off
from msprobe_builder.verdict.findings import SUSPICIOUS, Cause, Place

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


def kept_history(flow: Flow, rows: Int) -> Int:
    """Those of the npu rows with a history of gradients to compare.

    What either side computes again has none the first time, nor has what a function with a
    derivative of its own calls.
    """
    again = _recomputed(flow.npu) | _inside_functions(flow.npu, flow.producer)
    reference = _recomputed(flow.bench) | _inside_functions(flow.bench, flow.bench_producer)
    reference = np.append(reference, False)
    nodes = flow.npu.table.node[rows]
    return np.asarray(rows[~(again[nodes] | reference[flow.partner[nodes]])])


def _recomputed(part: Part) -> Bool:
    """Nodes inside of modules that are computed again; all where nobody knows which these are."""
    tree, calls = part.tree, part.calls
    result = np.zeros(len(tree), dtype=bool)
    again = np.flatnonzero(tree.is_recompute)
    stems = np.unique(calls.stem[again[calls.is_module[again]]])
    for node in np.flatnonzero(calls.is_module & np.isin(calls.stem, stems)).tolist():
        result[node : int(tree.subtree_end[node]) + 1] = True
    if not result[again].all():
        result[:] = True
    return result


def _inside_functions(part: Part, producer: Int) -> Bool:
    """Forward calls that functions with a derivative of their own make, and that need no gradient.

    They stand beside the function, before it and behind what made all that it is given.
    """
    tree, calls, table = part.tree, part.calls, part.table
    result = np.zeros(len(tree), dtype=bool)
    is_output = table.is_tensor & (table.section == Section.OUTPUT)
    learns = np.zeros(len(tree), dtype=bool)
    learns[table.node[is_output & (table.requires_grad == 1)]] = True
    own = calls.is_forward_call & (calls.of_stems(has_own_gradient) == 1) & learns
    beside = calls.is_forward_call & calls.is_api & ~learns
    for node in np.flatnonzero(own).tolist():
        made = producer[inputs_of(table, node)]
        made = table.node[made[made >= 0]]
        one = node - 1
        while len(made) and one > made.max() and beside[one]:
            result[one] = tree.parent[one] == tree.parent[node]
            one -= 1
    return result


def only_runs_forward(part: Part) -> bool:
    """Whether a side is inference: nothing it puts out needs a gradient, and nothing runs back."""
    calls, table = part.calls, part.table
    puts_out = table.is_tensor & (table.section == Section.OUTPUT)
    is_forward = calls.direction[table.node] == Direction.FORWARD
    needs = (puts_out & is_forward & (table.requires_grad == 1)).any()
    return not bool(needs or (calls.direction == Direction.BACKWARD).any())


def cut_off(flow: Flow, rows: Int) -> list[tuple[Place, int]]:
    """Calls behind which tensors need a gradient on one side only, each with a row that shows it.

    ``rows`` of the npu table are those whose flags differ. A tensor that came from such a tensor,
    or a call that was given one, explains nothing. Nor does a cast: in a custom function,
    which keeps no history, one with nothing to convert hands on the tensor with the one it has.
    One whose numbers differ as well may be another tensor, with a history of its own.
    """
    table = flow.npu.table
    differs = np.zeros(len(table), dtype=bool)
    differs[rows] = True
    is_input = np.isin(table.section, (Section.INPUT, Section.PARAMETERS))
    given = np.zeros(len(flow.npu.tree), dtype=bool)
    given[table.node[differs & is_input]] = True
    casts = flow.npu.calls.are(questions.casts)
    found: dict[tuple[int, int], tuple[Place, int]] = {}
    frozen = _frozen(flow, rows)
    for row in rows.tolist():
        node = int(table.node[row])
        if row in frozen:
            found.setdefault((0, node), (Place(0, node, Cause.GRADIENT), row))
            continue
        if flow.npu.tree.parsed[node].direction is not Direction.FORWARD:
            continue
        producer = int(flow.producer[row])
        if producer >= 0 and differs[producer]:
            continue
        place = None
        if is_input[row]:
            place = _between(flow, row, producer)
            if place is None and producer >= 0 and not flow.npu.calls.is_api.any():
                place = Place(0, node, Cause.GRADIENT)  # calls between modules were not recorded
        elif not given[node] and not casts[node] and flow.npu.tree.subtree_end[node] == node:
            place = Place(0, node, Cause.GRADIENT)
        if place is not None:
            found.setdefault((place.side, place.node), (place, row))
    made_by = flow.producer, flow.bench_producer
    return [
        (place, row)
        for place, row in found.values()
        if row in frozen or is_cut_off(flow.npu, flow.bench, made_by, row, int(flow.bench_of[row]))
    ]


def lost_gradients(flow: Flow) -> float | None:
    """How far gradients are off that a cut-off branch would lack; None if unknown.

    0 where all agree within rounding: then nothing was cut off, though a formula may go through
    other tensors, or through a function with a gradient of its own. At most 1 where rounding of
    what they are made of might do that, the square root of what it does to a number, and where
    the gradient of what was cut off was not recorded.
    """
    table = flow.npu.table
    debug = table.is_tensor & (table.section == Section.PARAMETERS_GRAD)
    reference = flow.bench.table.is_tensor & (flow.bench.table.section == Section.PARAMETERS_GRAD)
    known = debug & ~np.isnan(flow.error)
    if not known.any():
        return None
    if np.any(debug & (flow.bench_of < 0)) or np.any(reference & (flow.npu_of < 0)):
        return float("inf")
    if not np.any(flow.error[known] > SUSPICIOUS * flow.floor[known]):
        return 1.0 if _is_given_back_on_one_side(flow) else 0.0
    known &= ~flow.is_line  # what cancels in a sum of many terms may be anything
    far = flow.error[known] / np.sqrt(np.fmin(flow.floor[known], 1.0))
    return float(far.max(initial=np.finfo(float).tiny))


def _is_given_back_on_one_side(flow: Flow) -> bool:
    """Whether one side alone gives a gradient back to a parameter of no module that was called.

    Nobody has recorded what such a parameter's gradient comes to in all.
    """
    npu, bench = flow.npu, flow.bench
    for part, unmatched, partner, made_by, other, across in (
        (npu, flow.unmatched, flow.partner, flow.producer, flow.bench_of, bench),
        (bench, flow.bench_unmatched, flow.bench_partner, flow.bench_producer, flow.npu_of, npu),
    ):
        calls, table = part.calls, part.table
        twin = calls.twin
        ahead = calls.is_forward_call & (partner >= 0) & (twin >= 0) & unmatched[twin]
        rows = np.flatnonzero(
            ahead[table.node] & table.is_tensor & (table.section == Section.INPUT) & (made_by < 0)
        )
        rows = rows[(table.requires_grad[rows] == 1) & (other[rows] >= 0)]
        if (across.table.requires_grad[other[rows]] == 0).any():
            return True
    return False


_HABIT = 0.25  # share of the parameters from which on this is how the run is trained


def _frozen(flow: Flow, rows: Int) -> set[int]:
    """Those rows that are parameters of forward calls, one of each module, unless many are."""
    table, calls = flow.npu.table, flow.npu.calls
    own = rows[table.section[rows] == Section.PARAMETERS]
    own = own[calls.direction[table.node[own]] == Direction.FORWARD]
    known = (table.section == Section.PARAMETERS) & (flow.bench_of >= 0)
    if len(own) > _HABIT * np.count_nonzero(known):
        return set()
    _, first = np.unique(calls.stem[table.node[own]], return_index=True)
    return set(own[first].tolist())


def _between(flow: Flow, row: int, producer: int) -> Place | None:
    """The unmatched call that an input came through.

    Of a merged model only one that cuts off on purpose: what ranks gather lies in memory without
    history, and the custom function around it sees to the gradient.
    """
    table, bench = flow.npu.table, flow.bench.table
    if producer >= 0 and (flow.unmatched & _may_cut(flow, flow.npu))[table.node[producer]]:
        return Place(0, int(table.node[producer]), Cause.EXTRA)
    other = int(flow.bench_of[row])
    reference = int(flow.bench_producer[other]) if other >= 0 else -1
    if (
        reference >= 0
        and (flow.bench_unmatched & _may_cut(flow, flow.bench))[bench.node[reference]]
    ):
        return Place(1, int(bench.node[reference]), Cause.MISSING)
    return None


def _may_cut(flow: Flow, part: Part) -> Bool:
    given = part.table.is_tensor & (part.table.section == Section.INPUT)
    takes = np.zeros(len(part.tree), dtype=bool)
    takes[part.table.node[given]] = True  # what is made of nothing was never part of a branch
    return part.calls.are(questions.one_of("detach")) | (takes & (not flow.is_merged))


def gives_nothing_back(flow: Flow, node: int) -> Place | None:
    """The call of one side alone that uses a tensor and gives no gradient back to it.

    ``node`` is given a gradient that is off though all that makes it agrees: a part of the sum is
    missing, or there is one too many.
    """
    twin = int(flow.twin[node])
    partner = int(flow.partner[twin]) if twin >= 0 else -1
    if twin < 0 or partner < 0:
        return None
    for side, part, unmatched, made_by, source in (
        (0, flow.npu, flow.unmatched, flow.producer, twin),
        (1, flow.bench, flow.bench_unmatched, flow.bench_producer, partner),
    ):
        rows = np.flatnonzero((made_by >= 0) & unmatched[part.table.node])
        maker = makers(part.table, made_by, rows)
        users = part.table.node[rows[(maker >= 0) & (part.table.node[maker] == source)]]
        cut = users[part.calls.is_forward_call[users] & (part.calls.twin[users] < 0)]
        if len(cut):
            return Place(side, int(cut[0]), Cause.MISSING if side else Cause.EXTRA)
    return None
