"""What a call makes of the error of what it is given, by the table of operators.

e of an output is √(Σ(κᵢeᵢ)² + u²). Operators fall into few kinds of κ, see docs/design/verdict.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part
from msprobe_builder.operators.operator import Kind, Operator
from msprobe_builder.operators.questions import Question
from msprobe_builder.verdict.differences.drawn import drawing_calls
from msprobe_builder.verdict.model.observations import Observations
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Float = NDArray[np.float64]

# Kinds of noise, of which each learns its own level.
PLAIN, SUMS, PRODUCTS, REACH, MOVES = range(5)
_GAIN = np.array([1.0, 1.5, 1.5, 3.0, 1.5])
_OF_POWERS = 2.0  # a square is off by twice as much
_MOVING = {Kind.SLICE, Kind.PICK, Kind.LOOKUP, Kind.FILTER, Kind.MASK, Kind.CHOICE}
_SEVERAL = 3
_DREW_ALIKE = 30.0  # rounding units up to which random numbers are the same
_SIZED = {Kind.SHAPE, Kind.MAKE, Kind.EMPTY, Kind.FILL, Kind.REPEAT, Kind.DRAW, Kind.QUERY}
_ALONG = {Kind.SCAN, Kind.REDUCTION}
# By how much the slope of a function may change over the range of its input: the power of
# peak over root mean square by which the gradient of its smallest element exceeds the others'.
_STEEP = {"smallest": 2, "quotient": 2, "slope": 2}
_STEEPER = {"rsqrt": 3}


@dataclass(frozen=True)
class Conduct:
    """Columns by node."""

    kind: Int
    gain: Float
    steep: Int  # the power of peak over root mean square that its gradient may grow by
    breaks: Bool  # a little more of what it is given may be all of what it puts out
    kinks: Bool  # the same of its gradient
    turns: Bool  # any sign, or any turn, is as right
    near_zero: Bool  # has zeros where its slope is about one, so that little is left of it there
    exponential: Bool  # off by a fraction that is the absolute error of what it is given
    divides: Bool  # what it is given first by what it is given last
    normalises: Bool
    adds_up: Bool  # what it puts out is a sum over many elements
    averages: Bool
    bounded: Bool  # its slope is one at most, so what is left of its input carries all that is off
    scales: Bool  # multiplies two tensors element by element
    multiplies: Bool  # what it puts out is a product of many elements
    counts: Bool  # whole numbers among its arguments say more than sizes
    composite: Bool  # made of several operators, so that rounding adds up unseen
    is_known: Bool  # an operator of the table, also of a module's class
    received: Bool  # of other ranks, whose tensors nobody knows here
    draws: Bool  # random numbers
    free: Bool  # draws, or hands out memory as it was


def conduct_of(part: Part, texts: Texts, told: Bool) -> Conduct:
    """What all nodes do; ``told`` are those whose operator tells, others are plain."""

    def by_node(number: Callable[[Operator], int]) -> Int:
        return np.where(told, part.calls.of_operators(number), 0)

    def where(question: Question) -> Bool:
        return part.calls.do(question) & told

    kind = by_node(_kind)
    powers = where(lambda one: "powers" in one.condition)
    draws = drawing_calls(part, texts)
    return Conduct(
        kind,
        np.where(powers, _OF_POWERS, _GAIN[kind]),
        by_node(_steepness),
        where(lambda one: bool(one.breaks & {"jumps", "steps"})),
        where(lambda one: bool(one.breaks)),
        where(lambda one: "sign" in one.breaks),
        where(lambda one: bool(one.condition & {"periodic", "near_one"})),
        where(lambda one: "exponential" in one.condition),
        where(lambda one: "quotient" in one.condition),
        where(lambda one: one.kind is Kind.NORMALISE),
        where(lambda one: one.kind is Kind.REDUCTION and "sums" in one.condition),
        where(_averages),
        where(lambda one: "bounded" in one.condition),
        where(lambda one: one.name == "mul"),
        where(lambda one: one.kind in _ALONG and "mul" in one.parts),
        where(lambda one: one.kind not in _SIZED and "sizes" not in one.traits),
        where(_is_composite),
        where(lambda one: one.kind is not Kind.OTHER),
        where(lambda one: one.kind is Kind.COLLECTIVE),
        draws,
        draws | where(lambda one: one.kind is Kind.EMPTY),
    )


def with_draws_known(runs: Runs, seen: Observations, does: Conduct) -> Conduct:
    """The same where calls that draw have put out the same: these drew the same numbers.

    So their gradients can be compared, and what they put out when they run again.
    """
    table = runs.npu.table
    rows = np.flatnonzero(runs.rows(Section.OUTPUT) & does.draws[table.node])
    unit = runs.coarse if runs.is_mixed else runs.fine
    other = np.isnan(seen.size[rows]) | (seen.size[rows] > _DREW_ALIKE * unit[rows])
    differs = np.zeros(len(runs.npu.tree), dtype=bool)
    differs[table.node[rows[other]]] = True
    drew = np.zeros(len(runs.npu.tree), dtype=bool)
    drew[table.node[rows]] = True
    forward = np.where(runs.backward, runs.npu.calls.twin, np.arange(len(drew)))
    alike = does.draws & (forward >= 0) & (drew & ~differs)[forward]
    return replace(does, free=does.free & ~alike, draws=does.draws & ~alike)


def with_falling_powers(runs: Runs, does: Conduct) -> Conduct:
    """The same where powers are negative: these are steep as quotients are, and reach nowhere.

    An exponent may be a tensor, so it is told by what comes out: the most of the least.
    """
    table, calls = runs.npu.table, runs.npu.calls
    powers = calls.are(lambda one: one.name == "pow") & calls.is_forward_call
    falls = np.zeros(len(runs.npu.tree), dtype=bool)
    given, made = np.full((2, len(falls)), -1)
    rows = np.flatnonzero(table.is_tensor & powers[table.node])[::-1]  # the first is set last
    for first, section in ((given, Section.INPUT), (made, Section.OUTPUT)):
        here = rows[table.section[rows] == section]
        first[table.node[here]] = here
    nodes = np.flatnonzero((given >= 0) & (made >= 0))
    with np.errstate(all="ignore"):
        most, least = np.log(table.statistics[:2, given[nodes]])
        largest, smallest = np.log(table.statistics[:2, made[nodes]])
    straight = np.abs(largest * most - smallest * least)
    falls[nodes] = straight < np.abs(largest * least - smallest * most)
    falls |= runs.backward & (calls.twin >= 0) & falls[calls.twin]
    kind = np.where(falls, PLAIN, does.kind)
    steep = np.where(falls, _STEEP["quotient"], does.steep)
    return replace(does, kind=kind, gain=np.where(falls, _GAIN[PLAIN], does.gain), steep=steep)


def _is_composite(operator: Operator) -> bool:
    several = "products" in operator.condition and len(operator.parts) >= _SEVERAL
    return several or operator.kind is Kind.OTHER


def _averages(operator: Operator) -> bool:
    if operator.kind is Kind.POOL:
        return "avg" in operator.name
    return operator.kind is Kind.REDUCTION and "mean" in operator.name


def _kind(operator: Operator) -> int:
    for word, kind in (("products", PRODUCTS), ("sums", SUMS), ("reach", REACH)):
        if word in operator.condition:
            return kind
    picks = operator.kind is Kind.REDUCTION and bool(operator.breaks & {"kink", "ties"})
    return MOVES if operator.kind in _MOVING or picks else PLAIN


def _steepness(operator: Operator) -> int:
    return _STEEPER.get(
        operator.name, max((_STEEP.get(word, 1) for word in operator.condition), default=1)
    )
