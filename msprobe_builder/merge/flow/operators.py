"""What calls do to shards: the column of the table of operators that says it."""

from __future__ import annotations

from functools import lru_cache

from msprobe_builder.dump.names import Kind, Name
from msprobe_builder.operators.operator import Kind as OperatorKind
from msprobe_builder.operators.operator import Operator
from msprobe_builder.operators.table import operator_of

_NO_CALL = Operator("", OperatorKind.OTHER)


def operator_of_call(name: Name) -> Operator:
    """The operator of a call; of modules nothing is known."""
    return operator_of(name.stem) if name.kind is Kind.API else _NO_CALL


@lru_cache(maxsize=1 << 10)
def reduction_places(operator: Operator) -> tuple[int, int] | None:
    """Of a reduction over ranks the position of what goes in and of what comes out, else None."""
    for word in operator.shards:
        if word.startswith("reduce:"):
            given, put_out = map(int, word.split(":")[1:])
            return given, put_out
    return None


def gathers(operator: Operator) -> bool:
    """Whether each rank gets the parts of all."""
    return "gather" in operator.shards


def resizes(operator: Operator) -> bool:
    """Whether each rank gets the parts of all, or keeps its part of the whole: sizes tell which."""
    return "resize" in operator.shards


def is_between_peers(stem: str) -> bool:
    """Whether a call sends to one other rank or receives from it."""
    return "peer" in operator_of(stem).shards


def is_linear(operator: Operator) -> bool:
    """Whether the second argument is a weight [outputs, inputs]."""
    return "linear" in operator.shards


def is_grouped(operator: Operator) -> bool:
    """Whether there is a product for each expert.

    Of rows [tokens, inputs] and weights [experts, inputs, outputs].
    """
    return "grouped" in operator.shards


def is_product(operator: Operator) -> bool:
    """Whether it multiplies rows by a matrix, or by one for each expert."""
    return not operator.shards.isdisjoint({"product", "linear", "grouped"})


def shrinks(operator: Operator) -> bool:
    """Whether it takes dimensions away."""
    return "shrink" in operator.shards


def joins(operator: Operator) -> bool:
    """Whether it puts parts together along a dimension."""
    return "join" in operator.shards


def splits(operator: Operator) -> bool:
    """Whether it puts out a list of parts."""
    return "split" in operator.shards
