"""What may be the matter with a call, and where."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from msprobe_builder.base.codes import Strength


class Cause(IntEnum):
    """Where a finding shows."""

    OUTPUT = 0  # the output is off, the inputs agree
    MISSING = 1  # the reference makes a call that this run lacks
    EXTRA = 2  # this run makes a call that the reference lacks
    WIRING = 3  # the call is given another tensor
    BETWEEN = 4  # something between the calls inside a module that was not recorded
    EXTERNAL = 5  # what came from outside differs: data
    ARGUMENT = 6  # an argument differs
    GRADIENT = 7  # one side keeps the history that gradients need, the other does not
    RANDOM = 8  # what is drawn differs
    RANK = 9  # one rank of a merged model differs from the others
    WEIGHT = 10  # a parameter differs
    WEIGHTS = 11  # most parameters differ
    NUMBER = 12  # a number of one rank does not follow from what its call took in
    ORDER = 13  # values stand at other places, which no statistic of the output tells
    UNRECORDED = 14  # calls outside of all modules, where modules alone were recorded
    PART = 15  # an update of the rank's own parameters is unlike all of the reference's
    UPDATE = 16  # weights have moved otherwise from one step to the next

    @property
    def word(self) -> str:
        """What files and answers call it."""
        return self.name.lower()


WEIGHTS = (Cause.WEIGHT, Cause.WEIGHTS)
OF_OPTIMIZERS = (Cause.WEIGHTS, Cause.UPDATE)  # the fault lies before the step that shows it


# Chances of what something explains as well that is no fault, and of what more than one has felt.
RIVALLED, CERTAIN = 0.4, 0.82
_STRONG = 0.8


def strength(probability: float) -> Strength:
    """What is said of it in a word."""
    return Strength.STRONG if probability >= _STRONG else Strength.WEAK


class Place(NamedTuple):
    """A node of one side, and what is the matter with it."""

    side: int
    node: int
    cause: Cause


@dataclass(frozen=True)
class Weighed:
    """How often a kind held, on how many clues it decided, and the node of the first of these.

    A kind of clue decides where it is told first. An explanation decides on a clue that would be
    told first without it. ``side`` and ``node`` are -1 where it decided nothing.
    """

    kind: str
    fired: int
    decided: int
    side: int = -1
    node: int = -1
