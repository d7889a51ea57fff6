"""All that is told of a comparison, and what it is called by other names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import Suspect, Verdict, read_verdict
from tests.recorded.case import RecordedCase
from tests.recorded.judge import database_of

_DIGITS = 5  # of a size that is calculated from the same numbers in another order
_ALONE = ("missing", "extra")


@dataclass(frozen=True)
class Accused:
    """A suspect; ``error`` has the digits that do not depend on the order of sums."""

    step: int
    rank: int
    side: str
    node: str
    direction: str
    strength: str
    cause: str
    error: str | None


@dataclass(frozen=True)
class Told:
    """The verdict on a comparison: suspects in their order, roles and partners by name.

    ``limits`` are the shares that forward calls and gradients would have shown, where it is told.
    """

    conclusion: str
    suspects: tuple[Accused, ...]
    roles: frozenset[tuple[str, int]]
    partners: frozenset[tuple[str, str]]
    places: frozenset[tuple[int, int, str]]
    limits: tuple[float, float] = field(default=(0.0, 0.0), compare=False)


def told_of(npu: Path, bench: Path, folder: Path) -> Told:
    """Build a comparison in an empty folder and read its verdict."""
    case = RecordedCase("told", "", {}, npu=str(npu), bench=str(bench))
    with opened(database_of(case, Path("/"), folder)) as connection:
        verdict = read_verdict(connection)
        assert verdict is not None
        roles = connection.execute(
            "SELECT step || '.' || rank || ' ' || name, role FROM role JOIN node USING (node_id)"
            " JOIN graph USING (graph_id) JOIN node_name USING (node_id)"
        ).fetchall()
        partners = connection.execute(
            "SELECT DISTINCT npu.name, bench.name FROM match"
            " JOIN node_name AS npu ON npu.node_id = npu_node"
            " JOIN node_name AS bench ON bench.node_id = bench_node"
        ).fetchall()
    return Told(
        conclusion=verdict.conclusion,
        suspects=tuple(map(_accused, verdict.suspects)),
        roles=frozenset(roles),
        partners=frozenset(partners),
        places=frozenset((one.step, one.rank, one.conclusion) for one in verdict.places),
        limits=_limits(verdict),
    )


def _limits(verdict: Verdict) -> tuple[float, float]:
    for one in verdict.said:
        if one.code in ("limits", "limits.forward"):
            forward, backward = one["forward"], one.arguments.get("backward", 0.0)
            assert isinstance(forward, float)
            assert isinstance(backward, float)
            return forward, backward
    return 0.0, 0.0


def firm(told: Told) -> Told:
    """What does not hang on a threshold: who comes first, and who else is accused for certain."""
    kept = [one for place, one in enumerate(told.suspects) if not place or one.strength == "strong"]
    return replace(told, suspects=tuple(kept), roles=frozenset())


def called(told: Told, new: Callable[[str], str]) -> Told:
    """The same with other names of calls."""

    def role(name: str) -> str:
        place, _, node = name.partition(" ")
        return f"{place} {new(node)}"

    return replace(
        told,
        suspects=tuple(replace(one, node=new(one.node)) for one in told.suspects),
        roles=frozenset((role(name), value) for name, value in told.roles),
        partners=frozenset((new(npu), new(bench)) for npu, bench in told.partners),
    )


def on_ranks(told: Told, ranks: Sequence[int]) -> Told:
    """The same where rank ``i`` is called ``ranks[i]``."""

    def role(name: str) -> str:
        place, _, node = name.partition(" ")
        step, _, rank = place.partition(".")
        return f"{step}.{ranks[int(rank)]} {node}"

    return replace(
        told,
        suspects=tuple(replace(one, rank=ranks[one.rank]) for one in told.suspects),
        roles=frozenset((role(name), value) for name, value in told.roles),
        places=frozenset((step, ranks[rank], word) for step, rank, word in told.places),
    )


def sideless(told: Told) -> Told:
    """What does not depend on which side is called which.

    A size of an error is a share of the reference (see :func:`are_inverse`). Where one call stands
    for another that one is too many and this one missing: either may be named. What has no
    partner has none whose role could be compared.
    """
    partner = dict(told.partners)

    def seen(one: Accused) -> Accused:
        one = replace(one, error=None)
        is_alone = one.cause in _ALONE or one.node not in partner
        return replace(one, cause="alone", node="", side="") if is_alone else one

    return replace(
        told,
        suspects=tuple(map(seen, told.suspects)),
        roles=frozenset(
            (name, role) for name, role in told.roles if name.partition(" ")[2] in partner
        ),
    )


def exchanged(told: Told) -> Told:
    """What is told when the sides are exchanged, without what depends on the side."""
    partner = dict(told.partners)
    other = called(sideless(told), lambda name: partner.get(name, name))
    return replace(other, partners=frozenset((bench, npu) for npu, bench in told.partners))


def are_inverse(one: float, other: float) -> bool:
    """Whether two relative errors can be of the same two tensors, each seen from the other.

    They are d/a and d/b, where the norms a and b differ by d at most.
    """
    return abs(1 / one - 1 / other) <= 1.1  # extremes move by other shares than norms


def _accused(one: Suspect) -> Accused:
    return Accused(
        step=one.step,
        rank=one.rank,
        side=one.side,
        node=one.node,
        direction=one.direction,
        strength=one.strength,
        cause=one.cause,
        error=None if one.error is None else f"{one.error:.{_DIGITS}g}",
    )
