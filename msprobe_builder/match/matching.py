"""The outcome of matching, whatever rule made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.facts.fact import Fact

Int = NDArray[np.int64]


@dataclass(frozen=True)
class ValuePair:
    """A value of an npu call and one of its partner, by the names within the call."""

    npu_call: str
    npu: str
    bench: str


@dataclass(frozen=True)
class Unmatched:
    """Why nodes of one side have no partner; columns of equal length.

    ``candidate`` is the nearest node of the other side, -1 when there is none; ``detail`` says
    what differs from it, own value first.
    """

    node: Int
    reason: Int
    candidate: Int
    detail: list[Fact | None]


@dataclass(frozen=True)
class Group:
    """Nodes of both sides that do the same together, ascending; none has a partner of its own.

    ``rows`` are the parameters that go in and come out on both sides: npu row, bench row.
    """

    operation: str
    npu: tuple[int, ...]
    bench: tuple[int, ...]
    rows: tuple[tuple[int, int], ...]
    certainty: float


@dataclass(frozen=True)
class ToldGroup:
    """A group of another step or rank by names; ``rows`` are name and ordinal on both sides."""

    operation: str
    npu: tuple[str, ...]
    bench: tuple[str, ...]
    rows: tuple[tuple[tuple[str, int], tuple[str, int]], ...]
    certainty: float


@dataclass(frozen=True)
class Told:
    """What the evidence of another step or rank has paired, by names.

    ``pairs`` are npu name, bench name and certainty, hosts first; ``calls`` counts the nodes of
    each stem and direction there, on both sides.
    """

    pairs: tuple[tuple[str, str, float], ...]
    groups: tuple[ToldGroup, ...]
    calls: tuple[Mapping[tuple[str, int], int], Mapping[tuple[str, int], int]]


@dataclass(frozen=True)
class Likely:
    """Nodes of the other side that nodes without a partner may belong to; columns.

    Ordered by node and then the likeliest first; the likelihoods of a node sum up to at most 1.
    """

    node: Int
    candidate: Int
    likelihood: NDArray[np.float64]


def _none_likely() -> Likely:
    none = np.empty(0, dtype=np.int64)
    return Likely(none, none, np.empty(0))


@dataclass(frozen=True)
class Alignment:
    """Partners completed by evidence; ``evidence`` and ``certainty`` of each automatic pair."""

    partner: Int
    evidence: Int
    certainty: NDArray[np.float64]
    groups: tuple[Group, ...] = ()
    npu_likely: Likely = field(default_factory=_none_likely)
    bench_likely: Likely = field(default_factory=_none_likely)


@dataclass(frozen=True)
class Matching:
    """Partner of each node, -1 without; one to one, so ``bench`` is the inverse of ``npu``."""

    npu: Int
    bench: Int
    source: Int  # Source of each npu node's match; meaningless without one
    npu_unmatched: Unmatched
    bench_unmatched: Unmatched
    # Of each npu node's automatic match: what made it, an Evidence, and how sure it is, from 0.5
    # to 1. Empty where nothing was aligned.
    evidence: Int = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    certainty: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    values: tuple[ValuePair, ...] = ()  # that belong together although they stand elsewhere
    groups: tuple[Group, ...] = ()
    npu_likely: Likely = field(default_factory=_none_likely)
    bench_likely: Likely = field(default_factory=_none_likely)


def inverse(partner: Int, size: int) -> Int:
    """Partner column of the other side."""
    result = np.full(size, -1, dtype=np.int64)
    matched = np.flatnonzero(partner >= 0)
    result[partner[matched]] = matched
    return result
