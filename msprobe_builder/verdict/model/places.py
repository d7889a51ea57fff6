"""Where clues stand in the run, and of which that follows from others no object is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import LEAST, LOOKED_AT, ONE_SIDED, ROOTS, THRESHOLD, Clue
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
Float = NDArray[np.float64]


@dataclass(frozen=True)
class Columns:
    """Clues of one cause on this side, of the numbers of rows alone."""

    cause: Cause
    row: Int
    node: Int
    score: Float
    error: Float

    def of(self, which: Bool) -> Columns:
        """Some of them."""
        return Columns(
            self.cause, self.row[which], self.node[which], self.score[which], self.error[which]
        )


@dataclass
class Spare:
    """Clues that nobody looks at, as so many of their cause are before them: they are counted.

    Behind a fault most tensors are off, and as many objects took a third of the verdict.
    """

    columns: list[Columns] = field(default_factory=list)

    def take(self, runs: Runs, found: Columns) -> Bool:
        """Keep the spare ones; which of the clues somebody may look at."""
        needed = _foremost(runs, found)
        self.columns.append(found.of(~needed))
        return needed

    def without(self, causes: Iterable[str]) -> None:
        """Leave out what has one of these causes, in lower case."""
        left_out = set(causes)
        self.columns = [one for one in self.columns if one.cause.word not in left_out]


def _foremost(runs: Runs, found: Columns) -> Bool:
    """Of clues that show where they stand, those that are the first above a threshold."""
    node = found.node
    is_behind = runs.npu.calls.direction[node] == Direction.NONE  # as may stand anywhere
    at = _put_out_at(runs)[node] if found.cause is Cause.OUTPUT else node.astype(np.float64)
    order = np.lexsort((-found.score, at))
    order = order[~is_behind[order]]
    result = np.array(is_behind)
    for least in (THRESHOLD, LEAST):
        result[order[found.score[order] > least][:LOOKED_AT]] = True
    return result


def _put_out_at(runs: Runs) -> Float:
    """By node where what it puts out stands: of a module behind all in it, inner ones first."""
    ends = runs.npu.tree.subtree_end
    node = np.arange(len(ends))
    return np.where(ends > node, ends + 0.25 * (1 - node / len(ends)), node)


def placed(runs: Runs) -> Callable[[Clue], tuple[float, bool, float]]:
    """Where a clue stands in the run; gradients of parameters stand behind the passes.

    Of those at one place what inherits from nothing says more than any number beside it.
    """
    before = np.maximum.accumulate(np.where(runs.bench_partner >= 0, runs.bench_partner, 0))
    last = float(runs.npu.calls.last_pass)
    parameters = runs.npu.calls.direction == Direction.NONE
    put_out = _put_out_at(runs)
    sees_all = bool(runs.npu.calls.is_api.any())  # not modules alone, behind which calls are open

    def place(one: Clue) -> tuple[float, bool, float]:
        if one.side == 0 and parameters[one.node] and one.node < last:
            return last + 0.25, False, float(one.node)
        at = float(one.node) if one.side == 0 else float(before[one.node]) + 0.5
        if one.side == 0 and one.cause is Cause.OUTPUT:
            at = float(put_out[one.node])
        shows = int(runs.npu.table.node[one.row]) if one.row >= 0 else -1
        if one.side == 0 and one.cause is Cause.BETWEEN and shows >= 0:
            at = float(shows)
        if one.cause in ONE_SIDED and shows >= 0 and runs.backward[shows] and sees_all:
            at = float(shows) - 0.25  # on the way ahead nothing came of it
        return at, one.cause not in ROOTS, -one.score

    return place
