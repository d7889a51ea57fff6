"""Findings where a filter left out what would tell who is to blame."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part, inputs_of
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.findings import OF_ONE_SIDE, Cause, Finding, Roles


def of_unrecorded(flow: Flow, roles: Roles) -> Roles:
    """The same, with those findings on what nobody recorded that only show it."""
    if not flow.left_out.is_any:
        return roles
    return replace(roles, findings=[_of_unrecorded(flow, one) for one in roles.findings])


def _of_unrecorded(flow: Flow, finding: Finding) -> Finding:
    if not _comes_from_unrecorded(flow, finding):
        return finding
    # What a module puts out was made by what it calls, recorded or not.
    is_own = flow.npu.table.section[finding.row] == Section.OUTPUT
    cause = Cause.OUTPUT if is_own else Cause.UNRECORDED
    return replace(finding, side=0, node=finding.at, cause=cause)


def _comes_from_unrecorded(flow: Flow, finding: Finding) -> bool:
    """Whether what a finding shows was made by calls that were not recorded.

    What takes no part in training may be data; a call that one side alone has may have been left
    out on the other.
    """
    left, row = flow.left_out, finding.row
    if row < 0 or flow.npu.table.section[row] == Section.PARAMETERS:
        return False
    if finding.cause in OF_ONE_SIDE:
        return _is_left_out(flow, finding)
    if flow.npu.table.section[row] == Section.PARAMETERS_GRAD:
        return not _has_backward(flow, finding.at)
    if finding.cause is Cause.EXTERNAL:
        return _takes_part(flow, row)
    if finding.cause is Cause.BETWEEN:  # a module is named around it, if one was recorded
        is_module = flow.npu.calls.is_module[finding.node]
        return not (is_module and _is_recorded(flow.npu, finding.node))
    if finding.cause is Cause.WIRING:
        return left.outputs or (left.calls and not _is_maker_recorded(flow, row))
    return False


def _is_recorded(part: Part, node: int) -> bool:
    first, last = np.searchsorted(part.table.node, [node, node + 1]).tolist()
    return bool(first < last)


def _is_maker_recorded(flow: Flow, row: int) -> bool:
    """Whether this run has the call as well that made a tensor in the reference."""
    other = int(flow.bench_of[row])
    reference = int(flow.bench_producer[other]) if other >= 0 else -1
    partner = int(flow.bench_partner[flow.bench.table.node[reference]]) if reference >= 0 else -1
    return partner >= 0 and _is_recorded(flow.npu, partner)


def _is_left_out(flow: Flow, finding: Finding) -> bool:
    """Whether a call that one side alone has was merely left out on the other, or itself."""
    part, partner = (flow.bench, flow.bench_partner) if finding.side else (flow.npu, flow.partner)
    there, other = (flow.npu, 0) if finding.side else (flow.bench, 1)
    left, node = flow.left_out, finding.node
    if part.calls.kind[node] in left.kinds[other] or part.calls.direction[node] in left.ways[other]:
        return True
    if not _is_recorded(part, node):
        return True
    # What the other side skips lies outside of modules that both have, or was called on the way
    # back by a function with a derivative of its own, which no module encloses.
    around = int(part.tree.parent[node])
    calls = part.calls
    is_inside = calls.is_module[around] and _is_recorded(there, int(partner[around]))
    is_inside &= calls.direction[around] == calls.direction[node]
    return bool(left.skips[other] and not is_inside)


def _takes_part(flow: Flow, row: int) -> bool:
    """Whether a tensor takes part in training, so that a call has made it."""
    table, calls = flow.npu.table, flow.npu.calls
    is_back = calls.direction[table.node[row]] == Direction.BACKWARD
    return bool(table.requires_grad[row] == 1 or is_back)


def _has_backward(flow: Flow, node: int) -> bool:
    """Whether what comes back to a module, whose parameters' gradients these are, was recorded."""
    tree, calls, table = flow.npu.tree, flow.npu.calls, flow.npu.table
    around = int(tree.parent[node])
    inside = np.arange(around, int(tree.subtree_end[around]) + 1)
    back = np.r_[inside, calls.twin[inside]]
    back = back[(back >= 0) & (calls.direction[back] == Direction.BACKWARD)]
    ends = np.searchsorted(table.node, [back, back + 1])
    return any(table.is_tensor[first:last].any() for first, last in ends.T.tolist())


def of_what_was_left_out(flow: Flow, roles: Roles) -> tuple[set[int], set[int]]:
    """Findings, by number, that may follow from earlier ones, and those that are not certain.

    Where nobody recorded what calls are given, or what those before them put out, whatever is off
    later may follow from the first; what comes from calls that were left out may where its own
    module has felt that.
    """
    left = flow.left_out
    if not left.is_any:
        return set(), set()
    blind = left.inputs or left.outputs or left.forward
    is_felt = bool(len(roles.outside) and roles.outside[0])
    own = {
        number
        for number, one in enumerate(roles.findings)
        if (one.side == 0 and one.node in flow.arguments)
        or one.cause in _OF_ITSELF
        or (one.row >= 0 and flow.npu.table.section[one.row] == Section.PARAMETERS)
    }
    later = {
        number
        for number, one in enumerate(roles.findings)
        if number and number not in own and (blind or (is_felt and _is_from_before(flow, one)))
    }
    return later, {
        number
        for number, one in enumerate(roles.findings)
        if number not in own
        and one.cause is Cause.OUTPUT
        and unknown_inputs(flow, one.at) is not None
    }


def _is_from_before(flow: Flow, finding: Finding) -> bool:
    """Whether calls that were not recorded have made what it shows, or may have."""
    if finding.cause is Cause.EXTERNAL:
        return finding.row >= 0 and not flow.discrete[finding.row]
    return finding.cause is Cause.UNRECORDED


_OF_ITSELF = (Cause.WEIGHT, Cause.WEIGHTS, Cause.ARGUMENT)


def unknown_inputs(flow: Flow, node: int) -> int | None:
    """The call of which nobody recorded what it is given: the node, or its forward call."""
    left, calls = flow.left_out, flow.npu.calls
    if not (left.inputs or left.forward):
        return None
    if left.inputs and not _is_given_compared(flow, node):
        return node
    is_back = calls.direction[node] == Direction.BACKWARD
    twin = int(calls.twin[node])
    if is_back and left.forward and not _is_given_compared(flow, twin):
        return twin
    return None


def _is_given_compared(flow: Flow, node: int) -> bool:
    """Whether anything was compared that a call is given."""
    return bool((flow.bench_of[inputs_of(flow.npu.table, node)] >= 0).any())
