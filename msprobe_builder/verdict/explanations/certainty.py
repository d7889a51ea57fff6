"""What takes the certainty from an accusation, though the numbers are far from expected."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction, Kind
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.floating import epsilons
from msprobe_builder.graph.part import Part, inputs_of
from msprobe_builder.graph.provenance import Provenance
from msprobe_builder.operators import questions
from msprobe_builder.operators.table import operator_of
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.differences.operators import (
    Family,
    families,
    normalising,
)
from msprobe_builder.verdict.explanations.disagreeing import own_factors
from msprobe_builder.verdict.explanations.incomparable import is_given_unknown
from msprobe_builder.verdict.findings import CERTAIN, OF_ONE_SIDE, SUSPICIOUS, Cause, Finding, Roles

Float = NDArray[np.float64]

HALF = 2.0**-12  # between the units of single and half precision
_SEVERAL = 4  # tensors from which a habit can be told
_MOST = 0.5
_ROW = 0.25  # of the square of a norm: rounding is less than a row of length 1
_MANY = 0.25  # of the products: parts of a model stay in single precision


def half_unit(flow: Flow, texts: Texts) -> float:
    """The unit of the half precision in which both sides make many of their products, else 0."""
    units = [unit_of_products(part, texts) for part in (flow.npu, flow.bench)]
    return max(units) if min(units) > HALF else 0.0


def unit_of_products(part: Part, texts: Texts) -> float:
    """The unit of the coarsest precision in which a side makes many of its products, 0 if few."""
    table, calls = part.table, part.calls
    products = calls.is_forward_call & (families(calls) == Family.PRODUCT)
    rows = products[table.node] & table.is_tensor & (table.section == Section.OUTPUT)
    units = epsilons(table.dtype_id[rows], texts)
    return float(np.quantile(units, 1 - _MANY)) if len(units) >= _SEVERAL else 0.0


def is_cast_of_habit(flow: Flow, finding: Finding, texts: Texts) -> bool:
    """Whether it is a cast of one side alone that rounds no more than that side's products do."""
    if finding.cause not in OF_ONE_SIDE:
        return False
    part = flow.bench if finding.side else flow.npu
    return bool(
        part.calls.are(questions.casts)[finding.node]
        and finding.error < SUSPICIOUS * unit_of_products(part, texts)
    )


def is_rounded_perhaps(flow: Flow, finding: Finding) -> bool:
    """Whether a checksum alone tells that it is off, and its kernel may merely round otherwise.

    Not where the call is given another argument, nor where its operator puts out equal bits for
    equal ones at other places, nor of whole numbers that no calls of one side alone have made.
    """
    row = finding.row
    if row < 0 or not flow.by_sum[row]:
        return False
    if flow.discrete[row]:
        return finding.cause in OF_ONE_SIDE
    if finding.side == 0 and finding.node in flow.arguments:
        return False
    return finding.cause is not Cause.OUTPUT or not flow.is_exact[finding.node]


def is_cast_once(flow: Flow, finding: Finding) -> bool:
    """Whether it is the gradient of a weight that several calls use, where precision is mixed.

    ``autocast`` casts a weight once for all of them, and what they give back comes as one sum.
    """
    table, node, row = flow.npu.table, finding.at, finding.row
    twin = int(flow.twin[node])
    is_back = flow.npu.tree.parsed[node].direction is Direction.BACKWARD
    if row < 0 or not is_back or twin < 0 or flow.floor[row] < HALF:
        return False
    given = inputs_of(table, twin)
    given = given[table.position[given] == table.position[row]]
    if table.section[row] != Section.OUTPUT or not len(given):
        return False
    alike = (table.shape_id == table.shape_id[given[0]]) & table.is_tensor
    alike &= (table.statistics == table.statistics[:, given[:1]]).all(axis=0)
    if np.any(alike & (table.section == Section.OUTPUT)):
        return False  # a call has made it
    users = np.unique(table.node[alike & flow.npu.calls.is_forward_call[table.node]])
    same_step = flow.npu.tree.micro_step[users] == flow.npu.tree.micro_step[node]
    return int(np.count_nonzero(same_step)) > 1


def is_within(flow: Flow, finding: Finding, half: float) -> bool:
    """Whether an error in single precision may be rounding to half, or one of few terms.

    Products and modules cast inside, and gradients are made of what was cast. Where one element
    of a gradient appears or goes, as a rectifier's at 0, an error e of the whole adds but e²/2 to
    its norm; a sum over few elements shows e.
    """
    node = finding.at
    backward = flow.npu.tree.parsed[node].direction is not Direction.FORWARD
    if _keeps_lengths(flow, finding):
        return True
    inside = flow.npu.calls.is_module[node] or flow.family[node] == Family.PRODUCT
    unit = max(float(flow.floor[finding.row]), finding.expected)
    if half > flow.floor[finding.row] and (backward or inside):
        unit = max(unit, half)
        if finding.error < CERTAIN * unit:
            return True
    first, last = np.searchsorted(flow.npu.table.node, [node, node + 1]).tolist()
    if (
        backward
        and questions.is_attention(operator_of(flow.npu.tree.parsed[node].stem))
        and last > first
    ):
        # Where values are alike the gradient of the scores cancels: what is left is rounding.
        absolute = finding.error * float(flow.scale[finding.row])
        if absolute < CERTAIN * unit * float(flow.scale[first]):
            return True
    summed = backward and bool(flow.is_line[finding.row])
    if summed and not flow.npu.calls.is_api.any() and flow.in_norm[finding.row] < CERTAIN * unit:
        return True  # how far it has cancelled is told by calls that nobody recorded
    return summed and finding.error < math.sqrt(2.0 * unit)


def _keeps_lengths(flow: Flow, finding: Finding) -> bool:
    """Whether rounding may have rotated rows that a call brings to the length of one.

    It turns a row that is next to nothing anywhere, and what it is given does not show that some
    are: its largest rows do. All keep their length, so that the norm agrees; but a row of which
    nothing at all is left on one side is 1 in the square of the norm of the other.
    """
    table, row, node = flow.npu.table, finding.row, finding.at
    if table.section[row] != Section.OUTPUT or flow.bench_of[row] < 0:
        return False
    if not (flow.npu.calls.are(questions.one_of("normalize")) & flow.npu.calls.is_forward_call)[
        node
    ]:
        return False
    debug, reference = table.statistics[3, row], flow.bench.table.statistics[3, flow.bench_of[row]]
    is_rounded = bool((flow.error[inputs_of(table, node)] > 0).any())
    unit = 2 * SUSPICIOUS * flow.floor[row] * reference**2
    off = debug**2 - reference**2
    rows = np.round(off) if unit < _ROW else 0.0
    return is_rounded and bool(abs(off - rows) <= unit)


def paired_crosswise(flow: Flow, findings: list[Finding]) -> set[int]:
    """Findings, by number, of calls that are given each other's tensors, in half precision.

    Whether they were exchanged, or what was made for them, or calls before were paired crosswise
    as their tensors are nearly alike, nobody knows.
    """
    table, bench = flow.npu.table.statistics, flow.bench.table.statistics
    rows = {
        number: one.row
        for number, one in enumerate(findings)
        if one.cause is Cause.WIRING
        and max(one.expected, float(flow.floor[one.row])) > HALF
        and flow.bench_of[one.row] >= 0
    }
    found = set()
    for (first, own), (second, other) in combinations(rows.items(), 2):
        unit = SUSPICIOUS * max(findings[first].expected, findings[second].expected)
        if flow.npu.table.shape_id[own] == flow.npu.table.shape_id[other] and all(
            _is_about(table[:, one], bench[:, flow.bench_of[there]], unit)
            for one, there in ((own, other), (other, own))
        ):
            found |= {first, second}
    return found | {
        number
        for number, one in enumerate(findings)
        if one.cause is Cause.WIRING and not one.side and _left_its_namesake(flow, one.at)
    }


def _left_its_namesake(flow: Flow, node: int) -> bool:
    """Whether a call and its partner each have a namesake, and both of those were left over.

    The two ran in another order, or were paired as their tensors are alike by chance.
    """
    other = int(flow.partner[node])
    if other < 0:
        return False
    debug, reference = flow.npu.tree.parsed[node], flow.bench.tree.parsed[other]
    if debug == reference or debug.kind is not Kind.API or debug.stem != reference.stem:
        return False
    there = flow.bench.tree.parsed.index(debug) if debug in flow.bench.tree.parsed else -1
    here = flow.npu.tree.parsed.index(reference) if reference in flow.npu.tree.parsed else -1
    is_left = there >= 0 and here >= 0
    return is_left and bool(flow.bench_unmatched[there]) and bool(flow.unmatched[here])


def _is_about(debug: Float, reference: Float, unit: float) -> bool:
    """Whether maximum, minimum and norm are the same but for rounding."""
    size = float(np.abs(reference[:2]).max())
    off = np.abs(debug - reference)[[0, 1, 3]]
    return bool((off <= unit * np.array([size, size, reference[3]])).all())


def counts_over_own_parameters(flow: Flow, row: int) -> bool:
    """Single numbers behind the last backward pass: norms of what one rank or stage has."""
    tree, calls, table = flow.npu.tree, flow.npu.calls, flow.npu.table
    back = calls.is_module & (calls.direction == Direction.BACKWARD)
    last = int(tree.subtree_end[back].max(initial=0))
    return bool(table.numel[row] == 1 and last < table.node[row])


def module_is_off(flow: Flow, finding: Finding, least: float) -> bool:
    """Whether the module of a finding puts out something else, though all it is given agrees.

    Its weights count as given; ``least`` is how far what it puts out must be off at least.
    """
    table, calls = flow.npu.table, flow.npu.calls
    node = finding.at if finding.side else finding.node
    while node > 0 and not calls.is_module[node]:
        node = int(flow.npu.tree.parent[node])
    if node <= 0 or flow.partner[node] < 0 or calls.direction[node] != Direction.FORWARD:
        return False
    rows = np.arange(*np.searchsorted(table.node, [node, node + 1]).tolist())
    rows = rows[table.is_tensor[rows]]
    is_output = table.section[rows] == Section.OUTPUT
    error, floor = flow.error[rows], flow.floor[rows]
    given, put_out = ~is_output, np.nan_to_num(error) > np.maximum(least, CERTAIN * floor)
    is_same = error[given] <= SUSPICIOUS * floor[given]  # what nobody compared is not
    return bool(given.any() and is_same.all() and (is_output & put_out).any())


_OF_BATCH = questions.one_of("batch_norm")


def is_open(flow: Flow, finding: Finding, provenance: Provenance | None) -> bool:
    """Whether a call may put out something else and be right.

    It is given what one side lacks, such as what merging could not tell, and does nothing else than
    the reference's; or ranks count what they have a part of: it puts out such a count, or what the
    reference does; or it takes the statistics of a batch, of which each rank has a part.
    """
    if finding.cause not in (Cause.OUTPUT, Cause.ARGUMENT) or finding.side:
        return False
    if flow.is_merged and flow.npu.calls.are(_OF_BATCH)[finding.node]:
        return provenance is None or len(provenance.ranks_of(finding.node)) != 1
    arguments = flow.arguments.get(finding.node, [])
    if not arguments:
        is_same = not own_factors(flow.npu.table, provenance, finding.node)
        return is_same and finding.at == finding.node and is_given_unknown(flow, finding)
    if not flow.is_merged:
        return False
    makes_a_number = flow.npu.calls.are(questions.makes_a_number)[finding.node]
    is_like = finding.at != finding.node or makes_a_number or bool(flow.discrete[finding.row])
    return is_like and all(one.is_count for one in arguments)


def was_given_more(flow: Flow) -> bool:
    """Whether most of what calls are given is of another size, from the first call on."""
    table = flow.npu.table
    rows = np.flatnonzero(
        table.is_tensor
        & (table.section == Section.INPUT)
        & (table.position == 0)
        & (flow.bench_of >= 0)
        & flow.npu.calls.is_forward_call[table.node]
    )
    if len(rows) < _SEVERAL:
        return False
    other = table.numel[rows] != flow.bench.table.numel[flow.bench_of[rows]]
    # Where the data is not, the sizes are of this run's own making.
    return bool(other[0] and other.mean() > _MOST)


def works_on_other_parts(flow: Flow, last: int) -> bool:
    """Whether calls behind a node, the last pass, are given tensors of other sizes.

    An optimizer that shares parameters out over the ranks goes through flat parts of them: what is
    paired by its turn then belongs to other parameters.
    """
    table = flow.npu.table
    rows = np.flatnonzero((table.node > last) & table.is_tensor & (flow.bench_of >= 0))
    rows = rows[table.section[rows] == Section.INPUT]
    sizes = table.numel[rows], flow.bench.table.numel[flow.bench_of[rows]]
    known = ~np.isnan(sizes[0]) & ~np.isnan(sizes[1])
    return bool(np.any(known & (sizes[0] != sizes[1])))


def is_left_out(flow: Flow, finding: Finding) -> bool:
    """Whether it is the gradient of a call that both sides make, which one has not recorded.

    Nor is that of a normalisation certain, which may enlarge rounding more than anything: how much
    shows where both sides recorded it.
    """
    if finding.cause not in OF_ONE_SIDE:
        return False
    part, unmatched = (
        (flow.bench, flow.bench_unmatched) if finding.side else (flow.npu, flow.unmatched)
    )
    if part.tree.parsed[finding.node].direction is not Direction.BACKWARD:
        return False
    twin = int(part.calls.twin[finding.node])
    return (twin >= 0 and not unmatched[twin]) or bool(normalising(part.calls)[finding.node])


def begins_back(flow: Flow, node: int) -> bool:
    """Whether nothing goes back before it in its micro-step: it may be given any gradient."""
    before = flow.npu.calls.direction[:node] == Direction.BACKWARD
    steps = flow.npu.tree.micro_step
    return not bool((before & (steps[:node] == steps[node])).any())


def is_used_inside(flow: Flow, finding: Finding) -> bool:
    """Whether it is the gradient of a tensor that a module hands out, and uses itself.

    An encoder's output is that, or scores that the loss is given as well. Its gradient is the sum
    of what comes back from either, some of it later than the module begins to go back.
    """
    table, calls, node = flow.npu.table, flow.npu.calls, finding.at
    twin = int(flow.twin[node])
    if finding.row < 0 or twin < 0 or not calls.is_module[node]:
        return False
    if calls.direction[node] != Direction.BACKWARD or table.section[finding.row] != Section.INPUT:
        return False
    first, last = np.searchsorted(table.node, [twin, twin + 1]).tolist()
    end = int(flow.npu.tree.subtree_end[twin])
    for row in range(first, last):
        made = int(flow.producer[row])
        is_handed_out = table.section[row] == Section.OUTPUT and made >= 0
        if is_handed_out and table.shape_id[row] == table.shape_id[finding.row]:
            maker = int(table.node[made])
            behind = int(flow.npu.tree.subtree_end[maker])
            is_handed_on = table.section[made] == Section.INPUT  # a module inside is given it, too
            if any(behind < one <= end for one in flow.consumers.of(maker)) or (
                is_handed_on and maker > twin
            ):
                return True
    return False


def is_unseen_choice(flow: Flow, finding: Finding) -> bool:
    """Whether it is whole numbers that calls nobody recorded have made, which rounding chooses."""
    if finding.cause is not Cause.BETWEEN or finding.row < 0 or flow.npu.calls.is_api.any():
        return False
    return bool(flow.discrete[finding.row])


_DRIFT = 2.0
_OTHER_SAMPLES = 2.0**-10  # nothing that rounding of single precision comes to


def has_drifted(flow: Flow, roles: Roles) -> bool:
    """Whether the forward pass differs all over by more than rounding, though nobody is found.

    Other samples do that whose statistics are much alike; gradients then differ still more.
    """
    if any(flow.npu.tree.parsed[one.at].direction is Direction.FORWARD for one in roles.findings):
        return False
    ratio = roles.shown / roles.floor
    known = (flow.npu.calls.direction == Direction.FORWARD) & np.isfinite(ratio)
    if not known.any() or float(np.median(roles.shown[known])) < _OTHER_SAMPLES:
        return False
    return float(np.median(ratio[known])) > _DRIFT
