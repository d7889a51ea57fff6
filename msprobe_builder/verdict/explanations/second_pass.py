"""Gradients that a later pass has made, though they stand in the first.

A gradient may be differentiated again, as forces and penalties are: forward calls then come behind
its pass, and theirs goes through the same modules once more. A dump shows these calls in the
modules of the first pass, and what a second derivative is made of it shows nowhere. The gradient of
a parameter stands at one backward call of its module, and is whole behind the last.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.findings import SUSPICIOUS, Finding, Roles

Int = NDArray[np.int64]

_NEVER = np.iinfo(np.int64).max
_HANDED = (Section.INPUT, Section.PARAMETERS_GRAD)  # what a call puts out is its own doing


@dataclass(frozen=True)
class Later:
    """Findings that stand before what has made them, by their numbers.

    ``root`` is another finding that they stem from; ``unshown`` are made of a second derivative,
    which nobody recorded.
    """

    root: dict[int, int]
    unshown: frozenset[int]


def made_later(flow: Flow, roles: Roles) -> Later:
    """Findings that are gradients made by passes, or calls, that stand behind them."""
    tree, calls, findings = flow.npu.tree, flow.npu.calls, roles.findings
    backward = (calls.direction == Direction.BACKWARD) & (tree.record >= 0)
    own = [number for number, one in enumerate(findings) if one.row >= 0 and not one.side]
    if not backward.any() or not own:
        return Later({}, frozenset())
    begins, ends = (np.full(tree.micro_steps, value) for value in (_NEVER, -1))
    np.minimum.at(begins, tree.micro_step[backward], tree.record[backward])
    np.maximum.at(ends, tree.micro_step[backward], tree.record[backward])
    # What is called again in the backward pass, or by functions with one of their own, has none.
    ahead = (calls.direction == Direction.FORWARD) & (calls.twin >= 0) & ~tree.is_recompute
    ahead &= tree.record >= 0
    behind = np.where(ahead, tree.record, _NEVER)
    behind = np.r_[np.minimum.accumulate(behind[::-1])[::-1][1:], _NEVER]
    between = ahead & (tree.record > begins[tree.micro_step])
    second = np.full(tree.micro_steps, _NEVER)
    np.minimum.at(second, tree.micro_step[between], tree.record[between])
    soonest = np.minimum(behind, second[tree.micro_step])
    when = {number: _when(flow, findings[number], ends) for number in own}
    handed = [one for one in own if flow.npu.table.section[findings[one].row] in _HANDED]
    unshown = {one for one in handed if soonest[findings[one].at] < when[one]}
    unshown |= _of_many_modules(flow, findings)
    causes = [
        number
        for number in own
        if number not in unshown and findings[number].root < 0
        if findings[number].error >= SUSPICIOUS * findings[number].expected
    ]
    root = {number: _of_next_call(flow, roles, findings[number]) for number in handed}
    for number in sorted(unshown):
        for cause in causes:
            at = findings[cause].at
            if at > findings[number].at and tree.record[at] < when[number]:
                root[number] = cause
                break
    return Later(
        {number: one for number, one in root.items() if one not in (-1, number)},
        frozenset(unshown),
    )


def _of_many_modules(flow: Flow, findings: list[Finding]) -> set[int]:
    """Gradients of parameters that are off in several modules, and nothing before them.

    Of modules alone, whose passes agree: a kernel that is wrong for them all is no likelier than a
    pass that differentiates the first one again, which goes through them all and shows in none.
    """
    tree, table = flow.npu.tree, flow.npu.table
    if flow.npu.calls.is_api.any():
        return set()
    found = {
        number: tree.parsed[int(tree.parent[one.at])].stem
        for number, one in enumerate(findings)
        if one.row >= 0 and not one.side and table.section[one.row] == Section.PARAMETERS_GRAD
        if one.root < 0 and one.error >= SUSPICIOUS * one.expected
    }
    return set(found) if len(set(found.values())) > 1 else set()


def _when(flow: Flow, finding: Finding, ends: Int) -> int:
    """When a finding's tensor was whole: a parameter's gradient behind the last pass."""
    tree, node = flow.npu.tree, finding.at
    if flow.npu.table.section[finding.row] == Section.PARAMETERS_GRAD:
        return int(ends[tree.micro_step[node]])
    is_backward = flow.npu.calls.direction[node] == Direction.BACKWARD
    return int(tree.record[node]) if is_backward else -1


def _of_next_call(flow: Flow, roles: Roles, finding: Finding) -> int:
    """What a parameter's gradient stems from where its module runs back again behind it, else -1.

    That is the finding of the first such call that is given what is wrong.
    """
    tree, calls = flow.npu.tree, flow.npu.calls
    if flow.npu.table.section[finding.row] != Section.PARAMETERS_GRAD:
        return -1
    around = int(tree.parent[finding.at])
    again = calls.stem[finding.at :] == calls.stem[around]
    again &= calls.direction[finding.at :] == Direction.BACKWARD
    again &= tree.micro_step[finding.at :] == tree.micro_step[finding.at]
    nodes = np.flatnonzero(again) + finding.at
    nodes = nodes[(roles.source[nodes] >= 0) & ~(roles.given[nodes] < finding.error / SUSPICIOUS)]
    return int(roles.source[nodes[0]]) if len(nodes) else -1
