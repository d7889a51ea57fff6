"""Ranks that train one model hold the same weights."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from msprobe_builder.base.codes import Strength
from msprobe_builder.facts.fact import fact
from msprobe_builder.invariants.run import Run, Tensor, classes, majority
from msprobe_builder.invariants.violation import Check, Found, Violation

# Matrices of two random numbers each are apart by 1.4 of their size, those of one by what
# training in different ways has done to them.
_NEAR = 0.5
_MOST = 0.75  # of the matrices: experts, or what is split, may be the rank's own


def replicas(run: Run) -> list[list[int]]:
    """Ranks that hold one model, most of whose matrices are nearly the same."""
    groups: list[list[int]] = []
    for rank in sorted(run.ranks):
        own = next((group for group in groups if _is_replica(run, group[0], rank)), None)
        if own is None:
            groups.append([rank])
        else:
            own.append(rank)
    return groups


def _is_replica(run: Run, rank: int, other: int) -> bool:
    weights, theirs = run.ranks[rank].weights, run.ranks[other].weights
    shares = [
        _is_near(one, theirs[name])
        for name, one in weights.items()
        if one.has_rows and not one.is_constant and name in theirs
    ]
    return bool(shares) and sum(shares) >= _MOST * len(shares)


def _is_near(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape:
        return False
    distance = one.distance(other)
    if distance is None:
        return one.equals(other) is not False and one.norm == other.norm
    return distance <= _NEAR * max(one.size, other.size)


def check_replicas(run: Run, groups: Iterable[list[int]], found: Found) -> None:
    """Hold the weights of ranks against each other."""
    names = dict.fromkeys(name for one in run.ranks.values() for name in one.weights)
    for group in groups:
        for name in names if len(group) > 1 else ():
            held = {
                rank: run.ranks[rank].weights[name]
                for rank in group
                if name in run.ranks[rank].weights
            }
            if len(held) > 1:
                _check(name, held, found, is_of_replicas=True)
    if all(len(group) < len(run.ranks) for group in groups):
        for name in names:
            everybody = [rank for rank, one in run.ranks.items() if name in one.weights]
            held = {rank: run.ranks[rank].weights[name] for rank in everybody}
            if len(held) > 2 and not any(set(everybody) <= set(group) for group in groups):
                _check(name, held, found, is_of_replicas=False)


def _check(name: str, held: dict[int, Tensor], found: Found, *, is_of_replicas: bool) -> None:
    """One weight; of ranks that are no replicas only where most hold the same by training."""
    alike = classes(held)
    if alike is None:
        found.count(Check.WEIGHT, is_known=False)
        return
    known = majority(alike)
    if not is_of_replicas:
        if known is None or held[_holder(alike, known[1])].is_constant:
            return
    if len(set(alike.values())) == 1:
        found.count(Check.WEIGHT, is_known=True)
        return
    wrong = list(alike) if known is None else known[1]
    right = held[_holder(alike, wrong)] if known is not None else None
    pairs = (
        combinations(held.values(), 2)
        if right is None
        else ((held[rank], right) for rank in wrong)
    )
    if not all(_is_near(one, other) for one, other in pairs):
        return  # experts, or parts
    found.count(Check.WEIGHT, is_known=True)
    for rank in wrong:
        one = held[rank]
        other = right or next(two for two in held.values() if two is not one)
        distance = one.distance(other)
        error = distance / other.size if distance is not None and other.size else None
        off = None if error is None else fact("drifted.off", error=float(f"{error:.2g}"))
        ranks = sorted(set(alike) - set(wrong)) if known is not None else sorted(alike)
        found.violations.append(
            Violation(
                one.node,
                Check.WEIGHT,
                (
                    fact("drifted", name=name, ranks=ranks, off=off)
                    if known is not None
                    else fact("drifted.all", name=name, ranks=ranks, off=off),
                ),
                Strength.STRONG if is_of_replicas or not one.is_constant else Strength.WEAK,
                error=error,
                ranks=tuple(wrong) if known is not None else (),
            )
        )


def _holder(alike: dict[int, int], wrong: Iterable[int]) -> int:
    return next(rank for rank in alike if rank not in set(wrong))
