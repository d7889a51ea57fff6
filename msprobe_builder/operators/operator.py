"""One operator: what it is, and what is known of it, whatever a library calls it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """What an operator does, in one word."""

    SUM = "sum"  # adds element by element
    PRODUCT = "product"  # sums of products
    POINTWISE = "pointwise"  # any other function of each element for itself
    GATE = "gate"  # one half of the elements times a function of the other
    ROTATE = "rotate"  # pairs of elements turned by angles
    REDUCTION = "reduction"
    SCAN = "scan"  # a running reduction
    NORMALISE = "normalise"
    LOSS = "loss"
    POOL = "pool"  # of places beside one another: pools, padding, resampling
    SHAPE = "shape"  # the same elements in the same order
    TRANSPOSE = "transpose"  # dimensions in another order
    TURN = "turn"  # all elements moved by one rule
    SORT = "sort"
    REPEAT = "repeat"
    CAST = "cast"  # to another type or device
    SLICE = "slice"  # a part of the elements, by position
    PICK = "pick"  # elements by a tensor of places
    LOOKUP = "lookup"  # rows of a weight by numbers
    FILTER = "filter"  # as many elements as fit a condition
    MASK = "mask"  # some elements hidden or exchanged
    JOIN = "join"
    PLACE = "place"  # elements put to places that a tensor tells
    FILL = "fill"  # all elements overwritten
    COMPARE = "compare"
    CHOICE = "choice"  # whole numbers that were chosen
    EMPTY = "empty"  # memory as it was handed out
    MAKE = "make"  # of nothing, or of numbers
    DRAW = "draw"
    FACTOR = "factor"  # of a matrix: its factors, inverse, determinant
    TRANSFORM = "transform"
    UPDATE = "update"  # of parameters
    COLLECTIVE = "collective"  # between ranks
    QUERY = "query"
    OTHER = "other"  # nothing is known


class Argument(NamedTuple):
    """Where an argument stands and what it is if nobody gives it.

    ``place`` counts positional arguments, the tensor of a method among them; -1 by keyword alone.
    ``of_type`` is "float" or "bool" where ``place`` counts plain arguments of this type alone.
    ``default`` is None where there is none.
    """

    place: int
    default: str | None
    of_type: str | None = None


class Term(NamedTuple):
    """One condition on an argument: ``p`` ``>`` 0, ``keep_prob`` ``<`` 1, ``training`` is true."""

    name: str
    relation: str = ""  # ">", "<", "=" (to the text of ``bound``), nothing for "is true"
    bound: str = ""


@dataclass(frozen=True)
class Operator:
    """A row of the table, docs/design/operators.md explains the columns.

    ``draws``: all of these must hold that it draws random numbers; none of them, always; None,
    never.
    """

    name: str
    kind: Kind
    condition: frozenset[str] = frozenset()
    keeps: frozenset[str] = frozenset()
    breaks: frozenset[str] = frozenset()
    draws: tuple[Term, ...] | None = None
    traits: frozenset[str] = frozenset()
    shards: frozenset[str] = frozenset()
    parts: tuple[str, ...] = ()
    acts: tuple[str, ...] = ()
    idle: frozenset[str] = frozenset()
    arguments: Mapping[str, Argument] = field(default_factory=dict, hash=False)
    pairs: str = ""

    @property
    def always_draws(self) -> bool:
        """Whether it draws whatever its arguments are."""
        return self.draws == ()

    @property
    def may_draw(self) -> bool:
        """Whether there are arguments with which it draws."""
        return self.draws is not None
