"""Whom the findings of a pass accuse, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Strength
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.metrics.result import PairResult
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.differences.operators import Family
from msprobe_builder.verdict.explanations.certainty import (
    begins_back,
    counts_over_own_parameters,
    half_unit,
    has_drifted,
    is_cast_of_habit,
    is_cast_once,
    is_left_out,
    is_open,
    is_rounded_perhaps,
    is_unseen_choice,
    is_used_inside,
    is_within,
    module_is_off,
    paired_crosswise,
    was_given_more,
    works_on_other_parts,
)
from msprobe_builder.verdict.explanations.converging import meets_again
from msprobe_builder.verdict.explanations.disagreeing import own_factors, with_own_factors
from msprobe_builder.verdict.explanations.incomparable import is_given_unknown, resized_inputs
from msprobe_builder.verdict.explanations.norms_in_half_precision import told_by_norm
from msprobe_builder.verdict.explanations.own_norms import OwnNorms, is_explained, wrong_numbers
from msprobe_builder.verdict.explanations.reordered import (
    is_given_first_gradient,
    may_have_moved_before,
    moved_values,
)
from msprobe_builder.verdict.explanations.second_pass import made_later
from msprobe_builder.verdict.explanations.shares_of_passes import shares_of_passes
from msprobe_builder.verdict.explanations.splitting import keeps_its_gradient
from msprobe_builder.verdict.explanations.tails import largest_of_many
from msprobe_builder.verdict.explanations.weights_given import of_weights
from msprobe_builder.verdict.explanations.without_effect import unshown
from msprobe_builder.verdict.findings import CERTAIN, SUSPICIOUS, Cause, Finding, Place, Roles
from msprobe_builder.verdict.roles.gradients import (
    cut_off,
    kept_history,
    lost_gradients,
    only_runs_forward,
)
from msprobe_builder.verdict.roles.onesided import in_common, is_undone
from msprobe_builder.verdict.roles.unrecorded import of_what_was_left_out
from msprobe_builder.verdict.ruling.coverage import ends_early
from msprobe_builder.verdict.ruling.elsewhere import made_elsewhere

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

# What kernels of another precision, such as TF32, may do when the run's own noise is not known.
_UNKNOWN_NOISE = 0.02


@dataclass(frozen=True)
class Accusation:
    """A finding with how sure it is, and its place among the others."""

    number: int  # of the finding, -1 for one that is none of the pass
    finding: Finding
    strength: Strength
    followers: int
    order: tuple[float, ...]


def accusations(
    flow: Flow,
    roles: Roles,
    result: PairResult,
    followers: Int,
    norms: OwnNorms,
    otherwise: Bool,
    more_often: tuple[Int, Int],
    bits: Int | None,
) -> list[Accusation]:
    """Findings that no other explains, and what differs without showing in any number.

    ``norms`` are numbers that depend on which parameters a rank has, ``otherwise`` the nodes in
    modules that ranks with parts go through in another way, ``more_often`` as from
    :func:`~msprobe_builder.verdict.roles.onesided.called_more_often`, ``bits`` as from
    :func:`~msprobe_builder.verdict.explanations.reordered.bits_of`.
    """
    assert result.comparisons is not None
    roles = replace(roles, findings=of_weights(flow, roles.findings))
    later = made_later(flow, roles)
    drifted = has_drifted(flow, roles)
    same_calls = in_common(flow, more_often) >= _SAME_CALLS
    merged = is_merged(result)
    # What follows the last pass goes through parameters in the order in which a rank holds them.
    calls = flow.npu.calls
    last = calls.last_pass
    is_behind_backward = calls.direction[last] == Direction.BACKWARD
    own_order = merged or (is_behind_backward and works_on_other_parts(flow, last))
    half = half_unit(flow, result.texts)
    following, unsure = of_what_was_left_out(flow, roles)
    unsure |= {
        number
        for number, one in enumerate(roles.findings)
        if is_open(flow, one, result.npu.provenance)
    }
    elsewhere = made_elsewhere(flow, roles.findings, result)
    elsewhere |= paired_crosswise(flow, roles.findings)
    strength = [
        Strength.WEAK
        if (drifted and _direction(flow, one.at) is Direction.BACKWARD)
        or (
            one.cause is Cause.OUTPUT
            and (is_within(flow, one, half) or resized_inputs(flow, one) or is_cast_once(flow, one))
        )
        or number in later.unshown
        or number in unsure
        or number in elsewhere
        or is_given_first_gradient(flow, one, bits)
        or (own_order and one.at > last)
        or shares_of_passes(flow, one) is not None
        else _strength(
            flow,
            one,
            int(roles.felt[number]),
            int(roles.outside[number]),
            result.texts,
            merged=merged,
            same_calls=same_calls,
            is_unlike=bool(own_factors(flow.npu.table, result.npu.provenance, one.node)),
        )
        for number, one in enumerate(roles.findings)
    ]
    for number, source in later.root.items():
        strength[number] = min(strength[number], strength[source])
    for number, one in enumerate(roles.findings):
        if may_have_moved_before(flow, one, bits):
            strength[number:] = [Strength.WEAK] * (len(strength) - number)
            break  # what comes later may follow from it
    moved = moved_values(flow, roles.findings, bits, result.texts)
    for number in [number for number, one in moved.items() if not one.is_only]:
        # What comes later may follow from it.
        strength[number:] = [Strength.WEAK] * (len(strength) - number)
    widespread = [
        number
        for number, one in enumerate(roles.findings)
        if one.cause is Cause.WEIGHTS and strength[number] is Strength.STRONG
    ]
    for number in widespread[1:]:
        strength[number] = Strength.WEAK  # one stands for all
    found = []
    explained = {
        number
        for number, one in enumerate(roles.findings)
        if otherwise[one.at] or is_explained(flow, roles, number, norms)
    } | largest_of_many(flow, roles)
    explained |= following
    followed = set[int]()
    for number, one in enumerate(roles.findings):
        if number in explained:
            continue
        follows = merged and one.cause is Cause.OUTPUT and not explained.issuperset(range(number))
        if follows and is_given_unknown(flow, one):
            followed.add(number)
            continue  # it may have been given what differs since an earlier finding
        root = later.root.get(number, -1) if one.root < 0 else one.root
        while root in explained:
            root = roles.findings[root].root
        while root >= 0 and root not in moved and strength[number] > strength[root]:
            if root in followed:
                break
            root = roles.findings[root].root
        if one.cause in _OF_THE_PROGRAM and root >= 0 and strength[root] is Strength.WEAK:
            root = -1  # no number makes a program do something else
        # Half precision: parts added in another order are off by as much as one is rounded.
        is_rounding = merged and one.cause in _OF_NUMBERS and one.error < half
        if root < 0 and not is_rounding:
            sure = strength[number]
            among = float(number) if sure is Strength.STRONG else -_times(one)
            is_other = one.cause not in _OF_THE_PROGRAM and resized_inputs(flow, one)
            if is_other or is_used_inside(flow, one):
                among = max(among, 0.0)  # what is given of another size explains anything
            if number in unsure:  # what comes behind may follow from what nobody can compare
                among = -inf
            order = (-float(sure), among)
            found.append(Accusation(number, one, sure, int(followers[number]), order))
            if number in moved:
                found[-1:] = _of_movers(found[-1], moved[number].makers)
    numbers = {own.node: own for own in wrong_numbers(flow, norms)}
    found = [each for each in found if each.finding.side or each.finding.node not in numbers]
    certain = [each.finding.at for each in found if each.strength is Strength.STRONG]
    for node, own in numbers.items():
        is_input = flow.npu.table.section[own.row] == Section.INPUT
        if is_input and min(certain, default=node) < node:
            continue  # a gradient that differs follows from what is wrong before
        sure = Strength.WEAK if own.row in norms.odd else Strength.STRONG
        order = (-float(sure), -inf if sure is Strength.WEAK else _position(roles, node))
        found.append(Accusation(-1, own, sure, 0, order))
    known = {(each.finding.side, each.finding.node) for each in found}
    flags = result.comparisons.requires_grad_equal
    rows = result.comparisons.pairs.npu[flags == 0]
    if only_runs_forward(flow.npu) != only_runs_forward(flow.bench):
        rows = rows[:0]  # training against inference
    # A parameter that no module holds shows in what is given back to the calls that use it.
    is_given_back = any(
        one.root < 0
        and _times(one) >= SUSPICIOUS
        and _direction(flow, one.at) is Direction.BACKWARD
        for one in roles.findings
    )
    lost = None if is_given_back else lost_gradients(flow)
    hardly = lost is not None and lost <= 2.0  # each side is off by as much
    # That something is cut off shows in gradients, which then are what follows.
    is_cause = all(_direction(flow, each.finding.at) is Direction.BACKWARD for each in found)
    for place, row in cut_off(flow, kept_history(flow, rows)) if lost != 0.0 else []:
        if (place.side, place.node) not in known and not (
            place.side == 0 and keeps_its_gradient(flow, place.node)
        ):
            node = int(flow.npu.table.node[row])
            one = Finding(place.side, place.node, row, node, 0.0, 0.0, Cause.GRADIENT, -1)
            put_out = flow.npu.table.section[row] == Section.OUTPUT
            told = float(np.fmax(flow.floor[row], roles.expected[node] if put_out else 0.0))
            is_other = flow.error[row] > SUSPICIOUS * told
            sure = Strength.WEAK if merged or hardly or is_other else Strength.STRONG
            order = (-float(sure), -inf if is_cause else _position(roles, node))
            found.append(Accusation(-1, one, sure, 0, order))
            known.add((place.side, place.node))
    first = min((one.finding.at for one in found if one.strength is Strength.STRONG), default=None)
    for node, row in _ranks_apart(flow, result):
        # What ranks have apart behind a fault may follow from it.
        if (0, node) not in known and (first is None or node < first):
            is_gradient = flow.npu.table.section[row] == Section.PARAMETERS_GRAD
            # So may an update that they make of gradients which nobody could compare.
            follows = own_order and node > last and any(each.finding.at < node for each in found)
            sure = Strength.WEAK if is_gradient or follows else Strength.STRONG
            one = Finding(0, node, row, node, 0.0, 0.0, Cause.RANK, -1)
            found.append(Accusation(-1, one, sure, 0, (-float(sure), _position(roles, node))))
            known.add((0, node))
    for node, row in with_own_factors(flow, result.npu.provenance):
        if (0, node) not in known:
            one = Finding(0, node, row, node, 0.0, 0.0, Cause.RANK, -1)
            order = (-float(Strength.STRONG), _position(roles, node))
            found.append(Accusation(-1, one, Strength.STRONG, 0, order))
            known.add((0, node))
    for node, several in flow.arguments.items():
        if (0, node) in known or roles.source[node] >= 0:
            continue
        if all(one.is_slight or (merged and one.is_count) for one in several):
            continue  # rounding, or ranks count what they have a part of
        one = Finding(0, node, -1, node, 0.0, 0.0, Cause.ARGUMENT, -1)
        found.append(Accusation(-1, one, Strength.WEAK, 0, (-1.0, -CERTAIN, float(node))))
    is_whole = same_calls and not (flow.left_out.is_any or ends_early(flow))
    if is_whole and later.unshown.issuperset(one.number for one in found):
        for turn, one in enumerate(unshown(flow, result.texts, is_blind=bool(roles.choices))):
            found.append(Accusation(-1, one, Strength.WEAK, 0, (-1.0, -inf, float(turn))))
    if not merged and was_given_more(flow):
        # As with other micro-batches: the numbers belong to other data, gradients are other sums.
        return [
            replace(one, strength=Strength.WEAK, order=(-1.0, float(place)))
            for place, one in enumerate(sorted(found, key=lambda one: one.order))
        ]
    return found


def _of_movers(one: Accusation, makers: tuple[Place, ...]) -> list[Accusation]:
    """The same of those that may have moved what a call shows."""
    return [
        replace(
            one,
            number=-1 if place else one.number,
            finding=replace(one.finding, side=side, node=node, cause=cause),
            order=(*one.order, float(place)),
        )
        for place, (side, node, cause) in enumerate(makers)
    ]


_OF_THE_PROGRAM = (Cause.ARGUMENT, Cause.EXTRA, Cause.MISSING)
_OF_NUMBERS = (Cause.OUTPUT, Cause.EXTRA, Cause.MISSING)  # shown by numbers alone


def is_merged(result: PairResult) -> bool:
    return any(graph and graph.provenance for graph in (result.npu, result.bench))


def _ranks_apart(flow: Flow, result: PairResult) -> list[tuple[int, int]]:
    """Nodes where ranks of a merged model begin to differ, each module once, and the row."""
    provenance = result.npu.provenance
    found: dict[int, tuple[int, int]] = {}
    for row, place in flow.apart.items():
        if provenance is not None and any(one.is_origin for one in provenance.apart[row]):
            found.setdefault(int(flow.npu.calls.stem[place.node]), (place.node, row))
    return list(found.values())


def _direction(flow: Flow, node: int) -> Direction:
    return flow.npu.tree.parsed[node].direction


def _position(roles: Roles, node: int) -> float:
    """Where something found at a node stands among the findings of the pass."""
    return float(sum(one.at < node for one in roles.findings)) - 0.5


def _times(finding: Finding) -> float:
    return finding.error / finding.expected if finding.expected > 0 else 0.0


def _strength(
    flow: Flow,
    finding: Finding,
    felt: int,
    outside: int,
    texts: Texts,
    *,
    merged: bool,
    same_calls: bool,
    is_unlike: bool,
) -> Strength:
    """Strong only when no noise explains it, and when what came behind has felt it.

    ``is_unlike``: ranks give the call other factors, such as a scale.
    """
    if is_left_out(flow, finding) or is_rounded_perhaps(flow, finding):
        return Strength.WEAK
    differs = finding.cause in (*_OF_THE_PROGRAM, Cause.RANK)
    if finding.cause is Cause.RANDOM:
        return Strength.WEAK  # that runs draw otherwise is no fault, but nothing behind can be told
    differs |= finding.side == 0 and (finding.node in flow.arguments or is_unlike)
    if _times(finding) < (SUSPICIOUS if differs or told_by_norm(flow, finding) else CERTAIN):
        return Strength.WEAK
    # What a merge puts together from the statistics of ranks is no recorded number either.
    is_vague = merged or flow.noise != flow.noise
    # Of ranks that disagree, or are given other factors, each one's own was recorded.
    is_vague &= finding.cause is not Cause.RANK and not is_unlike
    if is_vague and finding.error < _UNKNOWN_NOISE and (merged or not differs):
        return Strength.WEAK
    if merged and finding.row >= 0 and counts_over_own_parameters(flow, finding.row):
        return Strength.WEAK
    # Data needs no gradient: calls have made it, and merging has lost where it was handed on.
    is_external = finding.cause is Cause.EXTERNAL
    if merged and is_external and flow.npu.table.requires_grad[finding.row] == 1:
        return Strength.WEAK
    if flow.family[finding.at] in (Family.RANDOM, Family.UNINITIALISED) and not differs:
        return Strength.WEAK
    # Nothing comes behind the gradient of a parameter; anything else is felt by somebody.
    is_last = flow.npu.table.section[finding.row] == Section.PARAMETERS_GRAD
    if not felt and not is_last:
        return Strength.WEAK
    # Where two implementations divide the work differently, only what leaves the module counts,
    # and calls of one side alone are no news where so many are.
    divided = finding.cause in (Cause.EXTRA, Cause.MISSING, Cause.WIRING, Cause.BETWEEN)
    above = int(flow.npu.tree.parent[finding.at])
    if divided and not outside and above > 0 and flow.npu.calls.is_module[above]:
        return Strength.WEAK
    # But whatever calls a module makes, of the same tensors it makes the same.
    is_open_to_doubt = divided and finding.cause is not Cause.WIRING and not same_calls
    is_told = is_undone(flow, finding) or (merged and module_is_off(flow, finding, _UNKNOWN_NOISE))
    if is_open_to_doubt and not is_told:
        return Strength.WEAK
    # A gradient is a sum of what several give back, which nobody records: what is off in it may
    # have begun in any of them, and of modules alone in forward calls that nobody recorded.
    is_sum = _direction(flow, finding.at) is Direction.BACKWARD
    is_sum &= finding.cause is Cause.BETWEEN or (is_external and not begins_back(flow, finding.at))
    if is_sum or is_used_inside(flow, finding) or is_unseen_choice(flow, finding):
        return Strength.WEAK
    if meets_again(flow, finding) or is_cast_of_habit(flow, finding, texts):
        return Strength.WEAK
    # They change while the module runs; when they were read differs between frameworks.
    if finding.cause in (Cause.WEIGHT, Cause.WEIGHTS):
        name = texts.values[int(flow.npu.table.name_id[finding.row])]
        if name.endswith(_RUNNING):
            return Strength.WEAK
    return Strength.STRONG


# Share of calls with a partner from which on two runs are of one implementation.
_SAME_CALLS = 0.8
_RUNNING = ("running_mean", "running_var", "moving_mean", "moving_variance", "num_batches_tracked")
