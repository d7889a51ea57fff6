"""What the pass over a run's calls finds: who may be to blame, and what part each call plays."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.float64]
Int = NDArray[np.int64]

# An output is off when it is this many times as far off as expected.
SUSPICIOUS = 8.0
# Below this an accusation is weak unless something else than a number differs, too.
CERTAIN = 24.0
NONE = (0.0, -1)  # no error, and no finding that it stems from


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


OF_ONE_SIDE = (Cause.EXTRA, Cause.MISSING)


class Place(NamedTuple):
    """A node of one side, and what is the matter with it."""

    side: int
    node: int
    cause: Cause


@dataclass(frozen=True)
class Finding:
    """A call that may be to blame: ``error`` where ``expected`` would be normal.

    ``row`` of the npu table and its node ``at`` are where it shows; ``root`` is the finding's
    number that its inputs inherit from, -1 when they agree.
    """

    side: int
    node: int
    row: int
    at: int
    error: float
    expected: float
    cause: Cause
    root: int


@dataclass(frozen=True)
class Roles:
    """Of each npu node: its role, the finding it inherits from (-1), what was expected of it."""

    role: Int
    source: Int
    given: Float  # error of what it was made from
    shown: Float  # error of what it put out, NaN unknown
    expected: Float
    floor: Float  # what rounding alone explains
    findings: list[Finding]
    felt: Int  # by finding: other nodes that show the error in what they are given or put out
    outside: Int  # those of them in another module, or the module itself
    choices: list[int]  # nodes that chose other indices from what agrees within rounding
