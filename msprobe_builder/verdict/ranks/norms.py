"""Norms of gradients that each rank makes of its own parameters, and what it adds up of them.

Their order and number depend on how the model was split, so they are others than those of the
reference. They are explained where three things are proven: the norms of both sides are of the same
gradients, one for one; every number follows from what its call took in, on each rank; and what the
ranks reduce is the sum of their numbers. A number that does not follow accuses its rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import hypot, isclose
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.floating import epsilons
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.provenance import NumberOf, Numbers, Provenance, Shares
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import CERTAIN, Clue, Evidence
from msprobe_builder.verdict.model.runs import Runs

_SAME = 1e-5  # of one sum in another order
_SAME_GRADIENT = 1e-4
_MOST_ALONE = 0.25  # of the norms; with more of them other gradients were given all over
_ROUNDINGS = 4  # of a number that its type rounds
_NOISE = 2e-2  # of a gradient, where most are alike
_SMALL = 1e-3  # of the largest norm
_WRONG = 1e-2  # beyond what any summation does
_SHOWN = 2


class Wrong(NamedTuple):
    """A rank's number, and what it should be."""

    rank: int
    own: float
    due: float


@dataclass(frozen=True)
class OwnNorms:
    """What is known of the numbers that ranks make of their own parameters.

    ``explained`` are npu nodes, ``norms`` counts those of them that are a norm of a gradient;
    ``wrong`` has by output row the ranks whose number does not follow from what they have.
    ``is_total`` says that the sum over the ranks was checked, not left to other replicas;
    calls of ``taken_out`` have such a number for an argument; ``odd`` are reduced numbers like
    ``wrong`` that are not the sum over all ranks, as those of some ranks may be.
    """

    explained: frozenset[int]
    norms: int
    wrong: dict[int, list[Wrong]]
    is_total: bool
    taken_out: frozenset[int] = frozenset()
    odd: dict[int, list[Wrong]] = field(default_factory=dict)

    def explains(self, evidence: Evidence, clue: Clue) -> bool:
        """Whether a clue shows at such a number, and nothing but such numbers is made of it."""
        runs, table = evidence.runs, evidence.runs.npu.table
        at = int(table.node[clue.row]) if clue.row >= 0 else clue.node if clue.side == 0 else -1
        if at not in self.explained or (at in evidence.arguments and at not in self.taken_out):
            return False
        made = evidence.off & (table.section == Section.OUTPUT) & (table.numel != 1)
        users = table.node[(runs.maker >= 0) & (table.node[runs.maker] == at)]
        return not bool(made[np.isin(table.node, np.setdiff1d(users, list(self.explained)))].any())


NOTHING = OwnNorms(frozenset(), 0, {}, True)


def own_norms(
    runs: Runs, npu: Provenance | None, bench: Provenance | None, texts: Texts
) -> OwnNorms:
    """The calls whose numbers are proven to be those of each rank's own parameters."""
    if npu is None or bench is None or not npu.numbers:
        return NOTHING
    if any(_wrong(one, _SAME) for one in bench.numbers.values()):
        return NOTHING  # its calls do something else than they seem to
    table = runs.npu.table
    allowed = np.fmax(_ROUNDINGS * epsilons(table.dtype_id, texts), _SAME)
    wrong = {row: _wrong(one, max(_WRONG, allowed[row])) for row, one in npu.numbers.items()}
    sound = {row: one for row, one in npu.numbers.items() if not _wrong(one, allowed[row])}
    ranks = {rank for one in npu.numbers.values() for rank in one.ranks}
    total, whole = _of_all_ranks(sound, ranks), _of_all_ranks(bench.numbers, None)
    coarsest = max((float(allowed[row]) for row in npu.numbers), default=_SAME)
    # Ranks may leave out what they hold alike, so that each parameter counts once.
    if not any(wrong.values()) and not (total and whole and _away(total, whole) < _SAME_GRADIENT):
        if any(_left_out(bench.numbers, coarsest).values()):
            return NOTHING
        wrong = _left_out(npu.numbers, coarsest)
    wrong = {row: several for row, several in wrong.items() if several}
    norms = [row for row, one in npu.numbers.items() if one.of is NumberOf.TENSOR]
    alone, reference = _without_partner(table, npu.numbers, runs.bench.table, bench.numbers)
    if wrong or len(alone) != len(reference) or len(alone) > _MOST_ALONE * len(norms):
        return OwnNorms(frozenset(), 0, wrong, True)
    totals = {row: one for row, one in npu.numbers.items() if one.of is NumberOf.RANKS}
    is_whole = npu.replicas == 1
    if not all(_is_total(one, total, is_whole=is_whole) for one in totals.values()):
        return OwnNorms(frozenset(), 0, {}, True, odd=_no_totals(totals, total) if is_whole else {})
    nodes = frozenset(int(table.node[row]) for row in sound)
    taken_out = [int(table.node[row]) for row, one in sound.items() if one.of is NumberOf.VALUE]
    return OwnNorms(
        nodes,
        len(norms),
        _other_gradients(runs, npu, alone, reference),
        is_whole or not totals,
        frozenset(taken_out),
    )


def wrong_numbers(table: ParameterTable, known: OwnNorms) -> Iterable[Clue]:
    """What ranks put out that does not follow from what they have; gradients of their own."""
    for row, several in sorted((known.wrong | known.odd).items()):
        told = tuple(
            fact("number.of_rank", rank=one.rank, own=one.own, due=one.due)
            for one in several[:_SHOWN]
        )
        rival = "merged" if row in known.odd else ""
        yield Clue(
            CERTAIN,
            0,
            int(table.node[row]),
            Cause.NUMBER,
            row,
            told=told,
            rival=rival,
        )


def _wrong(one: Numbers, allowed: float) -> list[Wrong]:
    """The ranks whose number does not follow from what went into its call."""
    if one.of is NumberOf.RANKS:
        return []
    several = zip(one.ranks, one.own, one.expected, strict=True)
    return [Wrong(*each) for each in several if _away(*each[1:]) > allowed]


def _other_gradients(
    runs: Runs, npu: Provenance, alone: Sequence[int], reference: Sequence[int]
) -> dict[int, list[Wrong]]:
    """Of gradients that are none of the reference's those that no noise explains, with their ranks.

    What is next to nothing beside other gradients may be what rounding left of a sum.
    """
    node_of, bench = runs.npu.table.node, runs.bench.table.statistics
    known = {
        int(node_of[row]): one for row, one in npu.numbers.items() if one.of is NumberOf.TENSOR
    }
    largest = max((max(one.own) for one in known.values()), default=0.0)
    debug = sorted(alone, key=lambda row: _size(known[int(node_of[row])]))
    found = {}
    for row, other in zip(debug, sorted(reference, key=lambda row: bench[3, row]), strict=True):
        one, due = known[int(node_of[row])], float(bench[3, other])
        if _away(_size(one), due) > _NOISE and max(_size(one), due) > _SMALL * largest:
            found[row] = _ranks_of(one, npu.shares.get(row), bench[:, other])
    return found


def _size(one: Numbers) -> float:
    """The norm of a gradient that ranks hold alike, or of its parts put together."""
    if max(one.own) - min(one.own) <= _SAME_GRADIENT * max(one.own):
        return one.own[0]
    return hypot(*one.own)


def _ranks_of(one: Numbers, shares: Shares | None, reference: NDArray[np.float64]) -> list[Wrong]:
    """The ranks that have another gradient than the reference, if it can be told."""
    due = float(reference[3])
    off = [
        Wrong(rank, own, due)
        for rank, own in zip(one.ranks, one.own, strict=True)
        if _away(own, due) > _SAME_GRADIENT
    ]
    if len(one.ranks) == 1 or len(off) < len(one.ranks):
        return off  # who holds it alike with the reference is not to blame
    if shares is None:
        return []
    from msprobe_builder.metrics.shares import faulty_share

    found = faulty_share(shares, reference)
    if found is None:
        return []
    place, factor = found
    own = float(shares.statistics[place, 3])
    return [Wrong(shares.ranks[place], own, own / factor)]


def _left_out(numbers: Mapping[int, Numbers], coarsest: float) -> dict[int, list[Wrong]]:
    """By row of a reduced number the ranks where it is not made of all of the rank's norms.

    It may be the sum of their squares or the root of it; ``coarsest`` is how far it is rounded.
    """
    squares: dict[int, float] = {}
    for one in numbers.values():
        if one.of is NumberOf.TENSOR:
            for rank, own in zip(one.ranks, one.own, strict=True):
                squares[rank] = squares.get(rank, 0.0) + own * own
    found = {}
    for row, one in numbers.items():
        if one.is_reduced:
            pairs = zip(one.ranks, one.own, strict=True)
            found[row] = [
                Wrong(rank, own, squares.get(rank, 0.0))
                for rank, own in pairs
                if _away(own, squares.get(rank, 0.0)) > coarsest
                and _away(own * own, squares.get(rank, 0.0)) > coarsest
            ]
    return found


def _away(own: float, due: float) -> float:
    size = max(own, due)
    return abs(own - due) / size if size > 0 else 0.0


def _of_all_ranks(sound: Mapping[int, Numbers], ranks: Set[int] | None) -> float | None:
    """The sum of the numbers that went into a reduction, None where that of a rank is unknown.

    Without ``ranks`` of those that have one.
    """
    last: dict[int, float] = {}
    for row in sorted(sound):
        if sound[row].is_reduced:
            last |= dict(zip(sound[row].ranks, sound[row].own, strict=True))
    return sum(last.values()) if last and ranks in (None, last.keys()) else None


def _is_total(one: Numbers, total: float | None, *, is_whole: bool) -> bool:
    """Whether a reduced number is the sum over the ranks, or that with other replicas' numbers."""
    if total is None:
        return False
    return all(
        isclose(own, total, rel_tol=_SAME) or (not is_whole and own > total) for own in one.own
    )


def _no_totals(totals: Mapping[int, Numbers], total: float | None) -> dict[int, list[Wrong]]:
    """By row the ranks that have another number than the sum over all ranks."""
    if total is None:
        return {}
    found = {
        row: [
            Wrong(rank, own, total)
            for rank, own in zip(one.ranks, one.own, strict=True)
            if _away(own, total) > _SAME
        ]
        for row, one in totals.items()
    }
    return {row: several for row, several in found.items() if several}


def _without_partner(
    npu: ParameterTable,
    numbers: Mapping[int, Numbers],
    bench: ParameterTable,
    bench_numbers: Mapping[int, Numbers],
) -> tuple[list[int], list[int]]:
    """Rows of tensors that only one side takes a norm of, of both sides."""
    one, other = _taken_in(npu, numbers), _taken_in(bench, bench_numbers)
    alone = []
    for row in one:
        measured = npu.statistics[:, row]
        size = float(np.abs(measured[:2]).max())
        fitting = [
            place
            for place in other
            if all(
                isclose(a, b, rel_tol=_SAME_GRADIENT, abs_tol=_SAME_GRADIENT * scale)
                for a, b, scale in zip(
                    measured[[0, 1, 3]],
                    bench.statistics[[0, 1, 3], place],
                    (size, size, 0.0),
                    strict=True,
                )
            )
        ]
        if fitting:
            other.remove(fitting[0])
        else:
            alone.append(row)
    return alone, other


def _taken_in(table: ParameterTable, numbers: Mapping[int, Numbers]) -> list[int]:
    """Rows of the tensors that norms were taken of."""
    nodes = {int(table.node[row]) for row, one in numbers.items() if one.of is NumberOf.TENSOR}
    rows = np.flatnonzero(np.isin(table.node, sorted(nodes)))
    rows = rows[table.is_tensor[rows] & (table.section[rows] == Section.INPUT)]
    return [int(row) for row in rows]
