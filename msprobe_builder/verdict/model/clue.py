"""Something that is more than what is expected, and all that it is taken from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import Facts
from msprobe_builder.graph.part import Part
from msprobe_builder.metrics.groups import GroupResults
from msprobe_builder.metrics.result import PairResult
from msprobe_builder.operators.operator import Kind
from msprobe_builder.verdict.differences.arguments import Argument
from msprobe_builder.verdict.differences.left_out import LeftOut, left_out_of
from msprobe_builder.verdict.findings import WEIGHTS, Cause
from msprobe_builder.verdict.model.arrangement import Movers, movers
from msprobe_builder.verdict.model.conduct import Conduct
from msprobe_builder.verdict.model.observations import Observations
from msprobe_builder.verdict.model.propagation import Expected
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Float = NDArray[np.float64]

# From which score on a clue is worth a look: planted faults score above, runs without one below.
THRESHOLD = 7.0
LEAST = 2.5  # times what rounding explains: the likeliest of it, where nothing is above
LOOKED_AT = 200  # clues of a cause that are looked at closely, those that come first in the run
BELIEVED = 10.0  # from which on numbers alone are right in three of ten
ONE_SIDED = (Cause.MISSING, Cause.EXTRA)
NUMBERS = (Cause.OUTPUT, Cause.EXTERNAL, Cause.BETWEEN)  # of what numbers alone tell
DOUBT = 30.0  # a score below which they are no more than a doubt
COUNTED = (Cause.RANK, Cause.NUMBER)  # of ranks that differ from one another
ROOTS = (*COUNTED, *WEIGHTS)  # that inherit from nothing before them
_OFF, _OF_NOISE = 64.0, 8.0  # rounding units, and times the noise, that tell
MANY = 0.3  # what whole numbers differ by if more of them do than stand next to a threshold
CERTAIN, DOUBTED = 1000.0, 20.0  # of what was counted, and of what may have its reasons
UNKNOWN_MAKER = 0.5  # of a score, where nobody knows what a tensor was made of
CHOSE = 30.0  # whole numbers differ though nothing that went in does


@dataclass(frozen=True)
class Clue:
    """Something at a node of a side that is ``score`` times more than what is expected.

    ``row`` of the npu table is where it shows, -1 nowhere. ``meets_again``: all that is computed
    of it agrees, as with another formula for the same. ``rival`` is what explains it as well and is
    no fault, see rivals.py. ``told`` says what has happened where the cause alone does not.
    ``shows_behind``: what is made of it is off, though it is not.
    """

    score: float
    side: int
    node: int
    cause: Cause
    row: int
    error: float = 0.0
    expected: float = 0.0
    meets_again: bool = False
    rival: str = ""
    told: Facts = ()
    shows_behind: bool = False


@dataclass(frozen=True)
class Evidence:
    """All that clues are taken from."""

    runs: Runs
    seen: Observations
    does: Conduct
    expected: Expected
    noise: Float  # by node
    arguments: dict[int, list[Argument]]
    passed_over: Bool  # nodes whose gradient a neighbour is told with
    idle_here: Bool  # nodes that hand on what they are given on one side alone
    requires_grad: Int  # rows that need a gradient on one side only
    paired: Int  # by row that of the reference, also where its size is another
    where: dict[int, Facts]  # by row where it differs, or what kind of difference it is
    groups: GroupResults | None  # calls that are compared together
    is_merged: bool  # a side was put together from ranks
    left_out: LeftOut  # by a filter of what is recorded

    @cached_property
    def off(self) -> Bool:
        """Rows that differ by more than rounding and the noise of their calls."""
        unit = self.runs.coarse if self.runs.is_mixed else self.runs.fine
        level = np.fmax(_OFF * unit, _OF_NOISE * self.noise[self.runs.npu.table.node])
        return np.asarray(np.nan_to_num(self.seen.size) > level)

    @cached_property
    def movers(self) -> Movers:
        """By side the calls that may put elements elsewhere than the other side does."""
        return movers(self.runs, self.arguments)

    @staticmethod
    def of(
        runs: Runs,
        seen: Observations,
        does: Conduct,
        expected: Expected,
        noise: Float,
        arguments: dict[int, list[Argument]],
        requires_grad: Int,
        result: PairResult,
    ) -> Evidence:
        """With what only this needs."""
        idle = idle_calls(runs.npu)
        reference = idle_calls(runs.bench)
        there = (runs.partner >= 0) & reference[runs.partner]
        either = idle | there
        twin = runs.npu.calls.twin
        over = runs.backward & (twin >= 0) & either[twin]
        one_side = (runs.partner >= 0) & (idle != there)
        return Evidence(
            runs,
            seen,
            does,
            expected,
            noise,
            arguments,
            np.asarray(over),
            np.asarray(one_side),
            requires_grad,
            *_compared(runs, result),
        )


def is_merged(result: PairResult) -> bool:
    """Whether a side was put together from the parts of ranks."""
    return any(graph and graph.provenance for graph in (result.npu, result.bench))


def _compared(
    runs: Runs, result: PairResult
) -> tuple[Int, dict[int, Facts], GroupResults | None, bool, LeftOut]:
    """What of the comparison itself is told: pairs, places, groups, and what was left out."""
    assert result.comparisons is not None
    paired = np.full(len(runs.npu.table), -1, dtype=np.int64)
    where: dict[int, Facts] = {}
    several = (result.comparisons, *(() if result.groups is None else (result.groups.comparisons,)))
    for one in several[::-1]:
        paired[one.pairs.npu] = one.pairs.bench
        if one.apart is not None:
            where |= {int(one.pairs.npu[place]): told for place, told in one.apart.said.items()}
    merged = is_merged(result)
    left_out = LeftOut() if merged else left_out_of(runs.npu, runs.bench)
    return paired, where, result.groups, merged, left_out


_HANDS_ON = {Kind.CAST, Kind.SHAPE, Kind.TRANSPOSE, Kind.MASK, Kind.DRAW, Kind.TURN}


def idle_calls(part: Part) -> Bool:
    """Forward calls that hand on the tensor itself: casts to its own type, dropout of nothing."""
    table, calls, size = part.table, part.calls, len(part.tree)
    first = np.full(size, -1)
    result = np.full(size, -1)
    hands_on = calls.are(lambda one: one.kind in _HANDS_ON or "itself" in one.keeps)
    chosen = hands_on & (calls.direction == Direction.FORWARD)
    leading = table.is_tensor & (table.position == 0) & chosen[table.node]
    for section, column in ((Section.INPUT, first), (Section.OUTPUT, result)):
        rows = np.flatnonzero(leading & (table.section == section))
        column[table.node[rows]] = rows
    chosen &= (first >= 0) & (result >= 0)
    chosen[chosen] = table.dtype_id[first[chosen]] == table.dtype_id[result[chosen]]
    own, made = (table.statistics.take(rows[chosen], axis=1) for rows in (first, result))
    chosen[chosen] = ((own == made) | (np.isnan(own) & np.isnan(made))).all(axis=0)
    return np.asarray(chosen)
