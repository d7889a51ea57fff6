"""What alignment asks of operators: calls that show a tensor in another form, and linear maps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.operators import questions
from msprobe_builder.operators.operator import Kind, Operator
from msprobe_builder.operators.table import row_of

Int = NDArray[np.int64]

_LAYOUTS = (Kind.SHAPE, Kind.TRANSPOSE)
_MOVES = (Kind.SLICE, Kind.JOIN, Kind.REPEAT, Kind.TURN, Kind.PICK)


def casts(operator: Operator) -> bool:
    """Whether it changes the representation of a tensor, not what it says."""
    return questions.casts(operator) or operator.name in ("clone", "detach")


def layouts(operator: Operator) -> bool:
    """Whether it only shows a tensor in another form."""
    is_layout = operator.kind in _LAYOUTS or operator.name in ("expand", "split")
    return is_layout and not casts(operator)


def forms(operator: Operator) -> bool:
    """Whether it is one of both."""
    return casts(operator) or layouts(operator)


def moves(operator: Operator) -> bool:
    """Whether its elements are elements of what it is given, in other places."""
    return layouts(operator) or operator.kind in _MOVES


def maybe_hands_on(operator: Operator) -> bool:
    """Whether it may leave a tensor as it is: a form, or dropout that drops nothing."""
    return forms(operator) or operator.name == "dropout"


def is_linear_map(operator: Operator) -> bool:
    """Whether it may take in what stands behind it, a norm or a bias."""
    is_map = operator.kind is Kind.PRODUCT and "products" in operator.condition
    return is_map and operator.traits.isdisjoint({"attention", "recurrent", "cell"})


def numbers_of(operators: dict[str, int], question: questions.Question) -> Int:
    """The numbers of the operators of which the answer is yes; their names are those of rows."""
    found = [number for name, number in operators.items() if question(row_of(name))]
    return np.array(found, dtype=np.int64)
