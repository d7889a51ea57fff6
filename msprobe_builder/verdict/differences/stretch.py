"""How much larger an error gets in a call, as far as the sizes of its tensors tell.

What is known before the pass, by row of the npu table and for all rows at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.operators import questions
from msprobe_builder.operators.operator import Operator
from msprobe_builder.verdict.differences.distance import BLOCK
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.differences.operators import Family
from msprobe_builder.verdict.findings import SUSPICIOUS

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_UNTOLD = 1e12  # times what a tensor may be off when there is no size to measure it by
_UNFOUNDED = (Family.UNINITIALISED, Family.RANDOM)  # what they put out follows from nothing


def cancelling(flow: Flow, first: Int) -> Float:
    """How much a gradient that is a sum over all elements may have cancelled, or a logarithm.

    That of a bias in front of a normalisation does so to the last digit, and where the
    reference has 0 nothing tells how far. ``first`` is the first row that each node is given,
    -1 without; a parameter's gradient is made of what its module was given.
    """
    table = flow.npu.table
    of_parameter = table.section == Section.PARAMETERS_GRAD
    node = np.where(of_parameter, flow.npu.tree.parent[table.node], table.node)
    is_gradient = of_parameter | _backward(flow)[table.node]
    rows = np.flatnonzero(is_gradient & flow.is_line & (first[node] >= 0))
    given, numel = first[node[rows]], np.fmax(table.numel, 1.0)
    size, terms = flow.scale[rows], numel[given] / numel[rows]
    with np.errstate(all="ignore"):
        times = np.sqrt(np.fmax(terms, 1.0)) * flow.scale[given] / size
    untold = np.where((flow.scale[given] > 0) & (terms > 1.0), _UNTOLD, 1.0)
    result = np.ones(len(table))
    result[rows] = np.where(size <= 0, untold, np.fmax(times, 1.0))
    rows, amount = _of_repeated_factors(flow, first)
    with np.errstate(all="ignore"):
        times = np.where(flow.scale[rows] > 0, amount / flow.scale[rows], _UNTOLD)
    result[rows] = np.fmax(result[rows], np.where(amount > 0, times, 1.0))
    rows = np.flatnonzero(flow.npu.calls.are(_may_vanish)[table.node] & (flow.scale > 0))
    result[rows] = np.fmax(result[rows], 1.0 / flow.scale[rows])
    return result


def _of_repeated_factors(flow: Flow, first: Int) -> tuple[Int, Float]:
    """Gradients of factors that were repeated over elements, and what their terms come to.

    Such a gradient is the sum of what it is given times the other factor. Where a normalisation
    follows, which no factor moves, the sum cancels to the last digit.
    """
    table, calls = flow.npu.table, flow.npu.calls
    multiplies = (
        calls.are(questions.one_of("mul"))[table.node] & table.is_tensor & (table.position < 2)
    )
    inputs = np.flatnonzero(multiplies & (table.section == Section.INPUT))
    factors = np.full((2, len(flow.npu.tree)), -1, dtype=np.int64)
    factors[table.position[inputs], table.node[inputs]] = inputs
    is_back = multiplies & _backward(flow)[table.node] & (table.section == Section.OUTPUT)
    rows = np.flatnonzero(is_back & (first[table.node] >= 0) & (flow.twin[table.node] >= 0))
    given = first[table.node[rows]]
    other = factors[1 - table.position[rows], flow.twin[table.node[rows]]]
    is_sum = (other >= 0) & (table.numel[rows] < table.numel[given])
    rows, given, other = rows[is_sum], given[is_sum], other[is_sum]
    terms = table.numel[given] / np.fmax(table.numel[rows], 1.0)
    return rows, np.sqrt(terms) * flow.scale[given] * flow.scale[other]


def stretch(flow: Flow, first: Int, cancelled: Float) -> Float:
    """By how much the sizes of its tensors let a call enlarge the error it is given.

    What divides makes most of the smallest number, which may be off by as much as a large one; so
    does the slope of a root. A normalisation's gradient may have been taken out, or made of what
    varies least: what it stretches more than the rest makes most of the gradient and of its error.
    """
    curves = flow.family == Family.CURVE
    reaches = np.where(curves, flow.reach, 1.0)
    logarithms = curves & flow.npu.calls.are(lambda one: "near_one" in one.condition)
    waves = curves & flow.npu.calls.are(questions.is_periodic)
    backward = _backward(flow)
    result = np.empty(len(cancelled))
    for begin in range(0, len(result), BLOCK):
        rows = slice(begin, begin + BLOCK)
        node, scale = flow.npu.table.node[rows], flow.scale[rows]
        given, reach = first[node], reaches[node]
        with np.errstate(all="ignore"):
            left = flow.mixing[node] * flow.scale[given] / scale
            taken_out = (left > 0) & (scale > 0) & (given >= 0)
            subtracted = np.where(taken_out, np.fmax(left, 1.0 / left), 1.0)
            near_one = np.fmax(1.0, 1.0 / scale)  # little is left there, or at a multiple of π
        back = np.fmax(np.fmax(cancelled[rows], subtracted), reach)
        is_log, is_wave = (kind[node] & (scale > 0) for kind in (logarithms, waves))
        ahead = np.where(is_log, near_one, np.where(is_wave, reach * near_one, reach))
        result[rows] = np.where(backward[node], back, ahead)
    divides = flow.npu.calls.are(lambda one: "smallest" in one.condition)
    divides |= flow.npu.calls.are(lambda one: "slope" in one.condition) & backward
    divides |= _by_negative_powers(flow, first)
    dividing = np.flatnonzero(divides[flow.npu.table.node] & (flow.bench_of >= 0))
    if len(dividing):
        result[dividing] = np.fmax(result[dividing], _over_the_smallest(flow, dividing, first))
    for found, times in (_over_divisors(flow, first), _of_cancelled_products(flow, first)):
        result[found] = np.fmax(result[found], times)
    return result


def _of_cancelled_products(flow: Flow, first: Int) -> tuple[Int, Float]:
    """What linear layers put out, and how much less that is than its terms, if they have cancelled.

    What they are given is off in each element for itself, so that this does not cancel.
    """
    table, node = flow.npu.table, flow.npu.table.node
    layers = flow.npu.calls.do(questions.one_of("linear"))
    layers = (layers & ~_backward(flow))[node] & table.is_tensor
    is_weight = (table.section == Section.INPUT) & (table.position == 1)
    weights = np.flatnonzero(
        layers & ~flow.is_line & (is_weight | (table.section == Section.PARAMETERS))
    )
    weight_of = np.full(len(flow.npu.tree), -1, dtype=np.int64)
    weight_of[node[weights]] = weights
    rows = np.flatnonzero(layers & (table.section == Section.OUTPUT) & (flow.scale > 0))
    given, weight = first[node[rows]], weight_of[node[rows]]
    known = (given >= 0) & (weight >= 0) & (given != weight) & (table.numel[rows] > 0)
    rows, given, weight = rows[known], given[known], weight[known]
    terms = np.sqrt(table.numel[given] * table.numel[weight] / table.numel[rows])
    times = np.sqrt(terms) * flow.scale[given] * flow.scale[weight] / flow.scale[rows]
    return rows, np.where(times > SUSPICIOUS, times, 1.0)


def _over_divisors(flow: Flow, first: Int) -> tuple[Int, Float]:
    """What quotients put out and give back, and how much the divisor's smallest number makes of it.

    Where that has either sign it is not known, but what is put out tells of it.
    """
    table, node = flow.npu.table, flow.npu.table.node
    divides = (
        flow.npu.calls.are(questions.one_of("div"))[node] & table.is_tensor & (flow.bench_of >= 0)
    )
    of_forward = np.full((3, len(flow.npu.tree)), -1, dtype=np.int64)
    of_forward[0] = first
    is_second = (table.section == Section.INPUT) & (table.position == 1)
    for place, chosen in ((1, is_second), (2, table.section == Section.OUTPUT)):
        rows = np.flatnonzero(divides & chosen)
        of_forward[place, node[rows]] = rows
    rows = np.flatnonzero(divides & (table.section == Section.OUTPUT))
    back = _backward(flow)[node[rows]]
    forward = np.where(back, flow.twin[node[rows]], node[rows])
    above, below, put_out = of_forward[:, forward]
    known = (forward >= 0) & (above >= 0) & (below >= 0) & (above != below) & (put_out >= 0)
    known &= flow.bench_of[above] >= 0
    rows, above, below, put_out = rows[known], above[known], below[known], put_out[known]
    result = np.ones(len(rows))
    for side, at in ((table, np.arange(len(table))), (flow.bench.table, flow.bench_of)):
        most, least, _, norm = side.statistics[:, at[below]]
        largest, divided = (
            np.abs(side.statistics[:2, at[one]]).max(axis=0) for one in (put_out, above)
        )
        with np.errstate(all="ignore"):
            size = norm / np.sqrt(side.numel[at[below]])
            smallest = np.where(least > 0, least, np.where(most < 0, -most, np.nan))
            times = np.fmax(size / smallest, size * largest / divided)
        result = np.where(np.isfinite(times), np.fmax(result, times), result)
    return rows, result


def _by_negative_powers(flow: Flow, first: Int) -> Bool:
    """Powers, forward and back, of which the largest comes of the smallest number given."""
    table, calls = flow.npu.table, flow.npu.calls
    result = calls.are(questions.one_of("pow"))
    rows = np.flatnonzero((result & ~_backward(flow))[table.node] & (first[table.node] >= 0))
    rows = rows[table.section[rows] == Section.OUTPUT]
    node, falls = table.node[rows], np.zeros(len(calls.stem) + 1, dtype=bool)
    with np.errstate(all="ignore"):
        most, least = np.log(table.statistics[:2, first[node]])
        largest, smallest = np.log(table.statistics[:2, rows])
        falls[node] = np.abs(largest * most - smallest * least) < np.abs(
            largest * least - smallest * most
        )
    return np.asarray(result & (falls[:-1] | falls[flow.twin]))


def _over_the_smallest(flow: Flow, rows: Int, first: Int) -> Float:
    """How many times the smallest number goes into the size of what calls are given forward."""
    node = flow.npu.table.node[rows]
    twin = flow.twin[node]
    given = first[np.where(_backward(flow)[node] & (twin >= 0), twin, node)]
    sides = (flow.npu.table, given), (flow.bench.table, flow.bench_of[given])
    result = np.ones(len(rows))
    for table, of_side in sides:
        _, least, _, norm = table.statistics[:, of_side]
        with np.errstate(all="ignore"):
            times = norm / np.sqrt(table.numel[of_side]) / least
        result = np.where((of_side >= 0) & (least > 0), np.fmax(result, times), result)
    return np.where(given >= 0, result, 1.0)


def plain(flow: Flow, first: Int, told: Sequence[int]) -> Bool:
    """Outputs for which the worst input and the stretch decide what to expect.

    ``told`` are calls of which more is known.
    """
    calls, family, back = flow.npu.calls, flow.family, _backward(flow)
    aside = flow.unmatched | flow.over_few | flow.non_smooth | calls.are(_may_be_another)
    aside |= np.isin(family, _UNFOUNDED) | (calls.are(questions.casts) & back)
    aside |= ~back & (np.isin(family, (Family.SUM, Family.SELECTION)) | calls.are(questions.rounds))
    aside[list(told)] = True
    node = flow.npu.table.node
    given, numel = first[node], np.fmax(flow.npu.table.numel, 1.0)
    of_truth = calls.are(questions.casts)[node] & (given >= 0) & flow.discrete[given]
    is_part = (family == Family.SUM)[node] & back[node] & (given >= 0) & (numel < numel[given])
    return np.asarray(~aside[node] & ~of_truth & ~flow.discrete & ~(is_part & (flow.scale > 0)))


def _may_vanish(operator: Operator) -> bool:
    """Whether it may put out next to nothing, whatever it is given: a sum of logarithms, a sine."""
    return not operator.condition.isdisjoint({"near_zero", "periodic"})


_may_be_another = questions.any_of(questions.jumps, questions.any_sign)


def _backward(flow: Flow) -> Bool:
    return np.asarray(flow.npu.calls.direction == Direction.BACKWARD)
