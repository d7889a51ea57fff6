"""Where the nodes and the values of a merged side came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import accumulate
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import Disagreement
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import Fact, Facts, fact
from msprobe_builder.facts.words import statistics
from msprobe_builder.graph.assembly import Assembly
from msprobe_builder.graph.parameter_table import ParameterTable

T = TypeVar("T")


class Apart(NamedTuple):
    """A rank whose value is not the one that is shown, though it should be.

    ``statistics`` are its own max, min, mean and norm. ``shown_rank`` is whose value is shown,
    None where that is made of many; ``suspect`` the rank that is off, None while nothing tells.
    ``difference`` is 0…1 of the size of what is shown, ``is_origin`` false where what the node
    took in was different already, ``is_from_others`` true where ranks outside of the merged ones
    had a part in it. ``whole`` has the statistics of a whole of which it would be a part in place
    of the shown one.
    """

    rank: int
    kind: Disagreement
    shown_rank: int | None
    statistics: tuple[float, float, float, float]
    difference: float
    suspect: int | None = None
    is_origin: bool = True
    note: Fact | None = None
    is_from_others: bool = False
    whole: tuple[float, float, float, float] | None = None


def told_of_apart(one: Apart) -> Fact:
    """Whose value differs, what it is, and who is suspected."""
    values, note = statistics(one.statistics), one.note
    if one.kind is Disagreement.SHARE:
        note = note and fact("apart.share_note", note=note)
        return fact("apart.share", rank=one.rank, note=note, values=values)
    note = note and fact("apart.note", note=note)
    off = None if one.suspect is None else fact("apart.suspect", rank=one.suspect)
    code = "apart.stage" if one.kind is Disagreement.STAGE else "apart.replica"
    return fact(code, rank=one.rank, values=values, note=note, suspect=off)


class Shares(NamedTuple):
    """The parts of a weight that is cut: statistics of shape (ranks, 4), elements by rank."""

    ranks: tuple[int, ...]
    statistics: NDArray[np.float64]
    elements: NDArray[np.float64]


class Factors(NamedTuple):
    """An argument such as a scale that ranks give as another number: each with its ranks."""

    of_ranks: tuple[tuple[str, tuple[int, ...]], ...]

    def told(self) -> list[Fact]:
        """Which ranks give which."""
        return [
            fact("value_on_ranks", value=value, count=len(ranks), ranks=ranks)
            for value, ranks in self.of_ranks
        ]


class NumberOf(IntEnum):
    """What a number that a rank makes of its own parameters was made from."""

    TENSOR = 0  # the norm of a gradient
    NUMBERS = 1  # other such numbers
    VALUE = 2  # one that the script had taken out of its tensor
    RANKS = 3  # reduced over ranks


class Numbers(NamedTuple):
    """A number that each rank makes of what it has: its own, and what follows from its inputs.

    Of a list its norm. What comes ``of`` ranks has the numbers that went in for ``expected``;
    ``is_reduced`` tells of those.
    """

    ranks: tuple[int, ...]
    own: tuple[float, ...]
    expected: tuple[float, ...]
    of: NumberOf
    is_reduced: bool = False


@dataclass(frozen=True)
class Provenance:
    """What is known of a merge, by row of the parameter table and by node.

    ``recipes`` say how a value was made, ``assemblies`` of which files its data consist,
    ``unknown`` why it cannot be compared, ``apart`` which ranks differ in what they should have
    alike, ``shares`` what the ranks hold of a weight, ``numbers`` what they make of what they have,
    ``factors`` on which ranks an argument such as a scale has which value, where they differ,
    ``slices`` in how many parts of a sequence a tensor was, each of its own ranks, ``singles`` the
    single number that each of these has, as it is of its own tokens.
    ``not_finite`` are the ranks whose value is NaN or infinite, whether it is shown or not.
    ``origins`` are the ranks of each node, empty while they are the same for all. ``replicas``
    counts the replicas that the run has.
    """

    recipes: dict[int, Facts] = field(default_factory=dict)
    assemblies: dict[int, Assembly] = field(default_factory=dict)
    unknown: dict[int, Fact] = field(default_factory=dict)
    apart: dict[int, tuple[Apart, ...]] = field(default_factory=dict)
    shares: dict[int, Shares] = field(default_factory=dict)
    numbers: dict[int, Numbers] = field(default_factory=dict)
    factors: dict[int, Factors] = field(default_factory=dict)
    slices: dict[int, int] = field(default_factory=dict)
    singles: dict[int, tuple[float, ...]] = field(default_factory=dict)
    not_finite: dict[int, tuple[int, ...]] = field(default_factory=dict)
    origins: list[tuple[int, ...]] = field(default_factory=list)
    replicas: int = 1

    def ranks_of(self, node: int) -> tuple[int, ...]:
        """The ranks that a node came from, empty where all nodes came from the same."""
        return self.origins[node] if self.origins else ()

    def without(self, rows: Iterable[int], why: Fact) -> Provenance:
        """The same with the given rows unknown, for a reason that is their recipe as well."""
        lost = dict.fromkeys(rows, why)
        return replace(
            self,
            recipes=self.recipes | dict.fromkeys(lost, (fact("recipe.unknown", why=why),)),
            assemblies={row: one for row, one in self.assemblies.items() if row not in lost},
            unknown=self.unknown | lost,
            apart={row: one for row, one in self.apart.items() if row not in lost},
            shares={row: one for row, one in self.shares.items() if row not in lost},
            numbers={row: one for row, one in self.numbers.items() if row not in lost},
        )


def pick(provenance: Provenance, rows: Sequence[int]) -> Provenance:
    """What is said of the given rows, numbered anew; nodes are for the caller to number."""
    return Provenance(
        _picked(provenance.recipes, rows),
        _picked(provenance.assemblies, rows),
        _picked(provenance.unknown, rows),
        _picked(provenance.apart, rows),
        _picked(provenance.shares, rows),
        _picked(provenance.numbers, rows),
        _picked(provenance.factors, rows),
        _picked(provenance.slices, rows),
        _picked(provenance.singles, rows),
        _picked(provenance.not_finite, rows),
    )


def join(parts: Sequence[Provenance], sizes: Sequence[int]) -> Provenance:
    """What is said of the rows of several tables, one table after the other.

    ``sizes`` counts their rows. Nodes are for the caller to number.
    """
    starts = [*accumulate(sizes, initial=0)][: len(parts)]
    return Provenance(
        _joined([one.recipes for one in parts], starts),
        _joined([one.assemblies for one in parts], starts),
        _joined([one.unknown for one in parts], starts),
        _joined([one.apart for one in parts], starts),
        _joined([one.shares for one in parts], starts),
        _joined([one.numbers for one in parts], starts),
        _joined([one.factors for one in parts], starts),
        _joined([one.slices for one in parts], starts),
        _joined([one.singles for one in parts], starts),
        _joined([one.not_finite for one in parts], starts),
    )


def with_places_of_origin(table: ParameterTable, provenance: Provenance) -> Provenance:
    """The same, told where a difference arises and where it only passes through.

    It arises in weights, and in what a call puts out of inputs that are alike. Gradients of
    weights follow from what was different before, unless nothing was.
    """
    if not provenance.apart:
        return provenance
    section = table.section
    rows = sorted(provenance.apart)
    fed = {int(table.node[row]) for row in rows if section[row] == Section.INPUT}
    gradients_alone = all(section[row] == Section.PARAMETERS_GRAD for row in rows)
    origins = {
        row
        for row in rows
        if section[row] == Section.PARAMETERS
        or (
            section[row] == Section.OUTPUT
            and int(table.node[row]) not in fed
            and not any(one.is_from_others for one in provenance.apart[row])
        )
        or (section[row] == Section.PARAMETERS_GRAD and gradients_alone)
    }
    return replace(
        provenance,
        apart={
            row: tuple(one._replace(is_origin=row in origins) for one in provenance.apart[row])
            for row in rows
        },
    )


def _picked(of_row: Mapping[int, T], rows: Sequence[int]) -> dict[int, T]:
    if not of_row:
        return {}
    return {new: of_row[old] for new, old in enumerate(rows) if old in of_row}


def _joined(parts: Sequence[Mapping[int, T]], starts: Sequence[int]) -> dict[int, T]:
    return {
        start + row: value
        for own, start in zip(parts, starts, strict=True)
        for row, value in own.items()
    }
