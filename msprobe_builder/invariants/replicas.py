"""Ranks that train one model hold the same weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

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


class _Held(NamedTuple):
    """A weight as the ranks hold it, and by rank which of the different ones."""

    name: str
    tensors: dict[int, Tensor]
    alike: dict[int, int]

    @property
    def is_shared(self) -> bool:
        """Whether all hold the same, by more than never having trained it."""
        first = next(iter(self.tensors.values()))
        return len(set(self.alike.values())) == 1 and not first.is_constant


def check_replicas(run: Run, groups: Iterable[list[int]], found: Found) -> None:
    """Hold the weights of ranks against each other.

    Of ranks that are no replicas, too, as where products are split: what most of them hold alike
    to the last bit, though it has been trained, is meant to be one.
    """
    groups = [group for group in groups if len(group) > 1]
    apart: list[list[Violation]] = []
    of_kinds: dict[tuple[str, str], list[_Held]] = {}
    for name in dict.fromkeys(name for one in run.ranks.values() for name in one.weights):
        held = {rank: one.weights[name] for rank, one in run.ranks.items() if name in one.weights}
        alike = None if any(held.keys() <= set(group) for group in groups) else classes(held)
        if alike is not None:
            of_kinds.setdefault(_kind(run, held), []).append(_Held(name, held, alike))
            known = majority(alike) if len(held) > 2 else None
            if known is not None and not _right(held, known[1]).is_constant:
                found.count(Check.WEIGHT, is_known=True)
                apart.append(list(_apart(name, held, alike)))
                continue
        for group in groups:
            own = {rank: held[rank] for rank in group if rank in held}
            if len(own) > 1:
                alike = classes(own)
                found.count(Check.WEIGHT, is_known=alike is not None)
                apart.append([] if alike is None else list(_apart(name, own, alike)))
    differing = [one for one in apart if one]
    # Ranks may train by themselves for some steps, and be averaged then.
    is_habit = 2 * len(differing) > len(apart)
    for each in differing:
        found.violations += [_weak(one) if is_habit else one for one in each]
    for several in of_kinds.values():
        found.violations += map(_weak, _unlike_siblings(several))


def _kind(run: Run, held: dict[int, Tensor]) -> tuple[str, str]:
    """The class of the module and what it calls the weight."""
    first = next(iter(held.values()))
    return run.node(first.node).stem.rpartition(".")[2], first.name


def _unlike_siblings(several: list[_Held]) -> Iterable[Violation]:
    """One weight that all ranks hold otherwise, where they share those of its siblings."""
    others = [one for one in several if len(set(one.alike.values())) == len(one.alike) > 1]
    is_odd = len(others) == 1 and sum(one.is_shared for one in several) >= len(several) - 1 > 1
    return _apart(*others[0]) if is_odd else ()


def _weak(one: Violation) -> Violation:
    return replace(one, strength=Strength.WEAK)


def _apart(name: str, held: dict[int, Tensor], alike: dict[int, int]) -> Iterator[Violation]:
    """Who holds another weight than most; all, where no value is that of most."""
    if len(set(alike.values())) == 1:
        return
    known = majority(alike)
    wrong = list(alike) if known is None else known[1]
    right = next(iter(held.values())) if known is None else _right(held, wrong)
    if not all(_is_near(held[rank], right) for rank in wrong):
        return  # experts, or parts of a matrix
    errors = [held[rank].distance(right) for rank in wrong]
    size = right.size
    for rank in wrong:
        error = max((one for one in errors if one is not None), default=0.0) / (size or 1.0)
        off = fact("drifted.off", error=float(f"{error:.2g}")) if error else None
        ranks = sorted(alike.keys() - set(wrong)) or sorted(alike)
        yield Violation(
            held[rank].node,
            Check.WEIGHT,
            (
                fact("drifted.all", name=name, ranks=ranks, off=off)
                if known is None
                else fact("drifted", name=name, ranks=ranks, off=off),
            ),
            error=error or None,
            ranks=() if known is None else tuple(wrong),
        )


def _right(held: dict[int, Tensor], wrong: Iterable[int]) -> Tensor:
    """What the others hold."""
    off = set(wrong)
    return next(one for rank, one in held.items() if rank not in off)
