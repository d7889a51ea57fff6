"""What is known of one step and rank, whoever has judged it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import CallRole, Strength
from msprobe_builder.dump.names import Direction, Kind, module_path
from msprobe_builder.facts.fact import Fact, Facts, fact
from msprobe_builder.facts.words import standing_at
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.metrics.result import PairResult
from msprobe_builder.verdict.findings import Cause, Weighed
from msprobe_builder.verdict.ruling.conclusion import NO_NUMBERS, UNDECIDED

Float = NDArray[np.float64]
Int = NDArray[np.int64]


@dataclass(frozen=True)
class Suspect:
    """A call that may be to blame; ``side`` 1 when only the reference makes it."""

    side: int
    node: int
    strength: Strength
    cause: Cause
    error: float  # of what it put out, as a fraction of its size
    expected: float  # what rounding, noise and its inputs explain of that
    followers: int  # nodes that inherit from it
    evidence: Facts
    source: str | None  # file and line that made the call
    ranks: tuple[int, ...]  # of a merged model, where an argument tells which are off


@dataclass(frozen=True)
class Judgement:
    """What is known of one step and rank.

    Columns by npu node: ``role``, ``given`` and ``shown`` (errors of what it was given and put
    out, NaN unknown), ``expected``, ``suspect`` (number of the suspect it inherits from, -1).
    ``edges`` of shape (2, n) are nodes that hand an error on and nodes that get it.
    """

    step: int
    rank: int
    suspects: list[Suspect]
    role: Int
    given: Float
    shown: Float
    expected: Float
    suspect: Int
    reasons: dict[int, str]
    edges: Int
    conclusion: str  # fault, clean, undecided
    said: Facts
    compared: int  # calls whose inputs and outputs could be judged
    noise: float
    weighed: tuple[Weighed, ...] = ()
    is_reduced: bool = False  # products were made of fewer bits on one side (TF32, HF32)


def label(suspect: Suspect, result: PairResult) -> Fact | str:
    """How a suspect is called: the module it is called in, and its own name."""
    graph = result.npu if suspect.side == 0 else result.bench
    assert graph is not None
    name = graph.tree.names[suspect.node]
    parent = graph.tree.parsed[graph.tree.parent[suspect.node]]
    if parent.kind is Kind.MODULE and parent.direction is not Direction.NONE:
        return fact("accused.in_module", module=module_path(parent.stem), name=name)
    return standing_at(name, is_unrecorded=suspect.cause is Cause.UNRECORDED)


def edges_of(table: ParameterTable, maker: Int, source: Int) -> Int:
    """Pairs of nodes, of shape (2, n), of which one hands what is wrong on to the other.

    ``maker`` is the row that made each row, ``source`` what each node inherits from; -1 without.
    """
    rows = np.flatnonzero(maker >= 0)
    made, taken = table.node[maker[rows]], table.node[rows]
    both = (source[made] >= 0) & (source[taken] >= 0) & (made != taken)
    # Nearly in order already, which numpy's own search for what is unique makes nothing of.
    pairs = np.sort(made[both] * len(source) + taken[both], kind="stable")
    return np.stack(np.divmod(pairs[np.diff(pairs, prepend=-1) > 0], len(source)))


def without_numbers(result: PairResult) -> Judgement:
    """What can be said of the structure alone: nothing of who is wrong."""
    size = len(result.npu.tree)
    unknown = np.full(size, np.nan)
    assert result.matching is not None
    alone = int(np.count_nonzero(result.matching.npu[1:] < 0))
    said: Facts = (fact("without_partner", nodes=alone),) if alone else ()
    return Judgement(
        step=result.step,
        rank=result.rank,
        suspects=[],
        role=np.full(size, int(CallRole.UNKNOWN)),
        given=unknown,
        shown=unknown,
        expected=unknown,
        suspect=np.full(size, -1),
        reasons={},
        edges=np.empty((2, 0), dtype=np.int64),
        conclusion=UNDECIDED,
        said=(NO_NUMBERS, *said),
        compared=0,
        noise=float("nan"),
    )
