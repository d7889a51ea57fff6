"""Questions about operators that more than one part of the program asks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from msprobe_builder.operators.operator import Kind, Operator

Question = Callable[[Operator], bool]


@cache
def one_of(*names: str) -> Question:
    """Whether it is one of these rows."""
    return lambda operator: operator.name in names


@cache
def any_of(*questions: Question) -> Question:
    """Whether one of these holds."""
    return lambda operator: any(question(operator) for question in questions)


def is_uninitialised(operator: Operator) -> bool:
    """Whether it puts out memory as it was: that differs between equal runs."""
    return operator.kind is Kind.EMPTY


def casts(operator: Operator) -> bool:
    """Whether it hands on the tensor itself, and its gradient, where nothing is to be converted."""
    return operator.kind is Kind.CAST or "itself" in operator.keeps


def shapes(operator: Operator) -> bool:
    """Whether it hands on all elements in the order in which they are given."""
    return operator.kind is Kind.SHAPE


def turns(operator: Operator) -> bool:
    """Whether it moves all that it is given by one rule."""
    return operator.kind is Kind.TURN


def slices(operator: Operator) -> bool:
    """Whether it hands on a part of the elements, by position and in their order."""
    return operator.kind is Kind.SLICE


def masks(operator: Operator) -> bool:
    """Whether it hides or exchanges some elements, and leaves the others."""
    return operator.kind is Kind.MASK


def moves(operator: Operator) -> bool:
    """Whether it puts the same elements elsewhere, if at all."""
    return operator.kind in (Kind.SHAPE, Kind.TRANSPOSE, Kind.TURN, Kind.SORT)


_CARRYING = {Kind.SHAPE, Kind.TRANSPOSE, Kind.TURN, Kind.CAST, Kind.REPEAT} | {
    *(Kind.SLICE, Kind.PICK, Kind.LOOKUP, Kind.MASK)
}


def carries(operator: Operator) -> bool:
    """Whether it hands on numbers it was given, at other places or in another type."""
    return operator.kind in _CARRYING or "opposites" in operator.keeps


def is_loss(operator: Operator) -> bool:
    """Whether it says how far an answer is from the right one."""
    return operator.kind is Kind.LOSS


def reduces(operator: Operator) -> bool:
    """Whether it makes one element of many."""
    return operator.kind is Kind.REDUCTION


def joins(operator: Operator) -> bool:
    """Whether it puts tensors side by side."""
    return operator.kind is Kind.JOIN


def normalises(operator: Operator) -> bool:
    """Whether it takes out what is common to all elements, and out of the gradient as well."""
    return operator.kind is Kind.NORMALISE


def adds(operator: Operator) -> bool:
    """Whether it adds or subtracts two tensors."""
    return operator.name in ("add", "sub", "rsub")


def any_sign(operator: Operator) -> bool:
    """Whether it puts out vectors whose opposite is as right; of equal values any of a plane."""
    return "sign" in operator.breaks


def rounds(operator: Operator) -> bool:
    """Whether a little more of what it is given is one more of what it puts out."""
    return "steps" in operator.breaks


def jumps(operator: Operator) -> bool:
    """Whether a little more of what it is given is all of what it puts out."""
    return "jumps" in operator.breaks


def places(operator: Operator) -> bool:
    """Whether it puts elements to places that a tensor tells."""
    return operator.kind is Kind.PLACE


def commutes(operator: Operator) -> bool:
    """Whether its operands may be given in either order."""
    return "commutative" in operator.traits


_EXACT = {Kind.TRANSPOSE, Kind.SHAPE, Kind.TURN, Kind.REPEAT, Kind.SLICE, Kind.PICK} | {
    *(Kind.LOOKUP, Kind.FILTER, Kind.MASK, Kind.JOIN, Kind.FILL)
}


def is_exact(operator: Operator) -> bool:
    """Whether its results are operands, or parts of them, in another place, to the last bit."""
    adds_up = "sums" in operator.condition and operator.kind is not Kind.JOIN
    return (operator.kind in _EXACT and not adds_up) or "exact" in operator.traits


def makes_a_number(operator: Operator) -> bool:
    """Whether it makes a tensor of a number that a program has counted."""
    return "of_number" in operator.traits
