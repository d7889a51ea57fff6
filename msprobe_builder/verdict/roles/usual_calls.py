"""The pass at what is usual: what calls are given, and calls that put out what is expected.

The verdict spends most of its time here: each of these is one function whose state is at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from msprobe_builder.base.codes import CallRole
from msprobe_builder.verdict.differences.distance import WORST
from msprobe_builder.verdict.differences.operators import Family
from msprobe_builder.verdict.findings import SUSPICIOUS, Cause
from msprobe_builder.verdict.roles.inheritance import Inheritance

AtNode = Callable[[int], None]
Expected = Callable[[int, int, tuple[float, int]], float]


def begin_at(state: Inheritance) -> AtNode:
    """The function that finds what each node is given."""
    inputs, in_start, error, floor, off = (
        state.inputs,
        state.in_start,
        state.error,
        state.floor,
        state.off,
    )
    producer, latent, root = state.producer, state.latent, state.root
    backward, twin, taints, tainted = state.backward, state.twin, state.taint, state.tainted
    given_error, given_root = state.given.error, state.given.root
    put_out_error, put_out_root = state.put_out.error, state.put_out.root
    receive, inherit, node_taint = state.receive, state.inherit, state.node_taint

    def begin(node: int) -> None:
        worst, source, is_tainted = 0.0, -1, False
        back = backward[node]
        rows = inputs[in_start[node] : in_start[node + 1]]
        for row in rows:
            seen, maker = error[row], producer[row]
            if maker >= 0:
                told = latent[maker]
                if not off[row]:  # which nearly all are
                    latent[row] = told = seen if seen > told else told
                    root[row] = root[maker]
                elif seen > SUSPICIOUS * max(told, floor[row]):
                    receive(node, row)
                    told = latent[row]
                else:
                    inherit(node, row, seen, told, root[maker])
                    told = latent[row]
                if taints or tainted:
                    cause = taints.get(maker) or tainted.get(row)
                    if cause is not None:
                        taints[row] = cause
                        is_tainted = True
            elif back or off[row]:
                receive(node, row)
                told = latent[row]
                is_tainted = is_tainted or row in taints
            elif seen > 0.0:
                latent[row] = told = seen
            else:
                continue
            if told > worst:
                worst, source = told, root[row]
        if is_tainted:
            causes = [cause for row in rows if (cause := taints.get(row)) is not None]
            # An argument that differs says more than a call that is not there.
            arguments = [cause for cause in causes if cause.cause is Cause.ARGUMENT]
            node_taint[node] = arguments[0] if arguments else causes[0]
        if back and (forward := twin[node]) >= 0:
            # A gradient is made of what the forward call was given and put out, too.
            for told, where in (
                (given_error[forward], given_root[forward]),
                (put_out_error[forward], put_out_root[forward]),
            ):
                if told > worst or (told == worst and where > source):
                    worst, source = told, where
        given_error[node], given_root[node] = worst, source

    return begin


def usual_calls(state: Inheritance, told: Iterable[int]) -> bytes:
    """By node whether nothing is known of it but its tensors.

    ``told`` are nodes of which more is known.
    """
    flow = state.flow
    table = flow.npu.table
    put_out = np.asarray(state.out_start)[1:] > np.asarray(state.out_start)[:-1]
    given = np.asarray(state.in_start)[1:] > np.asarray(state.in_start)[:-1]
    usual = (flow.npu.calls.is_module | (put_out & given)) & ~flow.unmatched & ~flow.non_smooth
    rows = np.frombuffer(state.outputs, dtype=np.int32)
    aside = flow.discrete & ~np.frombuffer(state.passed_on, dtype=bool)
    usual[table.node[rows[aside[rows]]]] = False
    usual[[*state.arguments, *state.altered, *told]] = False
    return usual.tobytes()


def finish_usual_at(state: Inheritance, finish: AtNode, expected_of: Expected) -> AtNode:
    """The function that finds what such a call puts out; ``finish`` where that is unusual."""
    outputs, out_start, error, floor, family = (
        state.outputs,
        state.out_start,
        state.error,
        state.floor,
        state.family,
    )
    off, calm, plain, hidden = state.off, state.calm, state.plain, state.hidden
    gain, stretch, cancelling, parent = state.gain, state.stretch, state.cancelling, state.parent
    latent, root, taint = state.latent, state.root, state.node_taint
    taints, tainted, producer, passed_on = (
        state.taint,
        state.tainted,
        state.producer,
        state.passed_on,
    )
    has_inside = state.has_inside
    given_error, given_root = state.given.error, state.given.root
    put_out_error, put_out_root = state.put_out.error, state.put_out.root
    inside_error, inside_root = state.inside.error, state.inside.root
    shown, expectation, floors, role = state.shown, state.expected, state.floors, state.role
    findings, choices = state.findings, state.choices
    is_sum, clean, carrier = Family.SUM.value, int(CallRole.CLEAN), int(CallRole.CARRIER)

    def finish_at(node: int) -> None:
        if node in taint:
            finish(node)
            return
        given, source = given_error[node], given_root[node]
        if has_inside[node]:
            given, source = max((given, source), (inside_error[node], inside_root[node]))
        adds = family[node] == is_sum
        worst, worst_root, ratio = 0.0, -1, -1.0
        for row in outputs[out_start[node] : out_start[node + 1]]:
            seen, least, error_of, row_root = error[row], floor[row], given, source
            if passed_on[row]:
                maker = producer[row]
                if maker < 0 or off[row] or maker in taints or row in tainted:
                    finish(node)
                    return
                expected, error_of, row_root = max(given, least), latent[maker], root[maker]
            elif source < 0 and calm[row]:
                expected = least
            else:
                if plain[row]:
                    if given >= WORST:
                        expected = WORST
                    elif given == 0.0:
                        # Even equal terms are added up in another order.
                        expected = least * gain[node] * cancelling[row]
                    else:
                        expected = min(max(given * stretch[row], least) * gain[node], WORST)
                elif adds:
                    expected = expected_of(node, row, (given, source))
                else:
                    finish(node)
                    return
                if expected < least:
                    expected = least
                if seen > SUSPICIOUS * expected or (
                    source >= 0 and off[row] and findings[source].at == node
                ):
                    finish(node)
                    return
                if adds and error_of > expected:
                    error_of = expected
            if row_root < 0 and error_of > hidden[row] and not choices and not passed_on[row]:
                error_of = hidden[row]
            latent[row] = error_of = seen if seen > error_of else error_of
            root[row] = row_root
            if seen / expected > ratio:
                ratio = seen / expected
                shown[node], expectation[node], floors[node] = seen, expected, least
            if error_of > worst:
                worst, worst_root = error_of, row_root
        put_out_error[node], put_out_root[node] = worst, worst_root
        around = parent[node]
        if worst > inside_error[around] or (
            worst == inside_error[around] and worst_root > inside_root[around]
        ):
            inside_error[around], inside_root[around] = worst, worst_root
        if ratio >= 0.0:  # something is known
            role[node] = clean if source < 0 and worst_root < 0 else carrier

    return finish_at
