"""How alike two records are, and the first step and parameter where they part."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.errors import UsageError
from msprobe_builder.dump.names import without_wrappers
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.facts.words import STATISTIC
from msprobe_checks.gradients.read import (
    Gradient,
    RankRecord,
    read_ranks,
    read_signs,
    read_sketch,
    read_summary,
)

# The user's document on gradients: suspect below this at step 0, or after a drop by more than that.
LOWEST_AT_FIRST = 0.97
LARGEST_DROP = 0.03
# Signs say nothing of size: norms that part by as much count the same.
LARGEST_RATIO = 0.03


@dataclass(frozen=True)
class Alike:
    """One parameter at one step.

    ``same`` is the share of elements whose signs agree, as documented (zero counts as not
    positive); ``corrected`` leaves out elements that are zero in either, where that is known, and
    counts agreement by chance as 0: 2 s − 1. ``ratio`` is norm by norm, ``cosine`` an estimate
    from sketches. ``is_equal`` tells of checksums, None without; ``ends`` are the largest elements
    of both, and the smallest.
    """

    same: float | None
    corrected: float | None
    ratio: float
    count: int
    cosine: float | None = None
    is_negated: bool = False  # largest and smallest element are the other's with the sign turned
    is_equal: bool | None = None
    ends: tuple[tuple[float, float], tuple[float, float]] | None = None
    is_bad: bool = False  # NaN or infinity on both sides, which is not told apart

    @property
    def apart(self) -> float:
        """How far the ends are apart for their size; 0 where signs tell more."""
        if self.ends is None or self.same is not None:
            return 0.0
        size = max(abs(one) for pair in self.ends for one in pair)
        return max(abs(a - b) for a, b in self.ends) / size if size else 0.0


@dataclass(frozen=True)
class RankSimilarity:
    """All parameters over all steps that both records of a rank have."""

    rank: int
    steps: tuple[int, ...]
    parameters: dict[str, dict[int, Alike]]
    only_first: tuple[str, ...] = ()
    only_second: tuple[str, ...] = ()

    def counts(self) -> tuple[int, int, int]:
        """How many gradients there are; how many are bad; of how many others only norms are."""
        found = [alike for steps in self.parameters.values() for alike in steps.values()]
        bad = sum(alike.is_bad for alike in found)
        return len(found), bad, sum(one.same is None and not one.is_bad for one in found)

    def summary(self, step: int) -> float | None:
        """Agreement of all parameters of a step, weighted by their elements."""
        found = [one[step] for one in self.parameters.values() if step in one]
        told = [one for one in found if one.same is not None]
        count = sum(one.count for one in told)
        return sum((one.same or 0.0) * one.count for one in told) / count if count else None


@dataclass(frozen=True)
class Break:
    """The first step at which something parted, and the parameters that did."""

    rank: int
    step: int
    names: tuple[str, ...]
    worst: str
    why: Fact


@dataclass(frozen=True)
class GradientComparison:
    """All ranks that both records have."""

    ranks: tuple[RankSimilarity, ...]
    breaks: tuple[Break, ...] = ()
    notes: tuple[Fact, ...] = field(default=())


def compare_gradients(first: Path, second: Path) -> GradientComparison:
    """Compare two records; UsageError when they have no rank, step or parameter in common.

    A parameter has the same name whatever wraps the model, such as DDP's ``module.``.
    """
    a, b = read_ranks(first), read_ranks(second)
    common = sorted(a.keys() & b.keys())
    if not common:
        raise UsageError(f"{first} and {second} have no rank in common.")
    notes = [fact("gradients.rank_in_one", rank=rank) for rank in sorted(a.keys() ^ b.keys())]
    ranks = [_compare_rank(rank, a[rank], b[rank], notes) for rank in common]
    if not any(one.steps for one in ranks):
        raise UsageError(f"{first} and {second} have no step in common.")
    if not any(one.parameters for one in ranks):
        other = next((name for one in ranks for name in one.only_second), "none")
        own = next((name for one in ranks for name in one.only_first), "none")
        example = f": {own} against {other}" if (own, other) != ("none", "none") else ""
        raise UsageError(
            f"{first} and {second} have no parameter of one name and shape in common{example}."
        )
    found = [one for rank in ranks if (one := first_break(rank)) is not None]
    found.sort(key=lambda one: (one.step, one.rank))
    return GradientComparison(tuple(ranks), tuple(found), tuple(notes))


def _compare_rank(rank: int, a: RankRecord, b: RankRecord, notes: list[Fact]) -> RankSimilarity:
    steps = sorted(a.steps.keys() & b.steps.keys())
    apart = a.steps.keys() ^ b.steps.keys()
    if apart:
        notes.append(fact("gradients.steps_in_one", rank=rank, count=len(apart)))
    parameters: dict[str, dict[int, Alike]] = {}
    bad: list[tuple[int, str]] = []  # in both
    one_sided: tuple[dict[str, None], dict[str, None]] = ({}, {})
    for step in steps:
        x, y = read_summary(a.steps[step]), read_summary(b.steps[step])
        partners = _partners(x, y)
        paired = set(partners.values())
        one_sided[0].update(dict.fromkeys(name for name in x if name not in partners))
        one_sided[1].update(dict.fromkeys(name for name in y if name not in paired))
        for name, other in partners.items():
            if x[name].shape != y[other].shape:
                a_shape, b_shape = (str(list(one.shape)) for one in (x[name], y[other]))
                note = fact("gradients.shape", rank=rank, name=name, first=a_shape, second=b_shape)
                if note not in notes:
                    notes.append(note)
                continue
            alike = _alike((a, x[name]), (b, y[other]), step)
            if not (math.isfinite(x[name].norm) or math.isfinite(y[other].norm)):
                bad.append((step, name))
                alike = replace(alike, is_bad=True)
            parameters.setdefault(name, {})[step] = alike
    if bad:
        step, name = bad[0]
        notes.append(
            fact("gradients.bad_in_both", rank=rank, step=step, name=name, more=len(bad) - 1)
        )
    order = [name for step in steps[:1] for name in read_summary(a.steps[step])]
    order += [name for name in sorted(parameters) if name not in set(order)]
    ordered = {name: parameters[name] for name in order if name in parameters}
    return RankSimilarity(rank, tuple(steps), ordered, *(tuple(one) for one in one_sided))


def _partners(names: Iterable[str], others: Iterable[str]) -> dict[str, str]:
    """The name of each parameter on the other side: its own, or what it is without wrappers."""
    own, other = dict.fromkeys(names), dict.fromkeys(others)
    found = {name: name for name in own if name in other}
    left = [name for name in own if name not in found]
    by_plain: dict[str, list[str]] = {}
    for name in other:
        if name not in found:
            by_plain.setdefault(without_wrappers(name), []).append(name)
    seen = Counter(without_wrappers(name) for name in left)
    for name in left:
        path = without_wrappers(name)
        candidates = by_plain.get(path, [])
        if len(candidates) == 1 and seen[path] == 1:
            found[name] = candidates[0]
    return found


def _alike(a: tuple[RankRecord, Gradient], b: tuple[RankRecord, Gradient], step: int) -> Alike:
    (of_a, x), (of_b, y) = a, b
    count = math.prod(x.shape)
    ratio = _ratio(x.norm, y.norm)
    cosine = _cosine(read_sketch(of_a, step, x.name), read_sketch(of_b, step, y.name))
    signs_x, signs_y = read_signs(of_a, step, x), read_signs(of_b, step, y)
    if signs_x is None or signs_y is None:
        has_checksum = x.checksum is not None and y.checksum is not None
        is_equal = x.checksum == y.checksum if has_checksum else None
        if is_equal:
            return Alike(1.0, 1.0, ratio, count, cosine, is_equal=True)
        ends = (x.high, y.high), (x.low, y.low)
        return Alike(None, None, ratio, count, cosine, _is_negated(x, y), is_equal, ends)
    (positive_x, negative_x), (positive_y, negative_y) = signs_x, signs_y
    agree = positive_x == positive_y
    same = float(agree.mean()) if count else 0.0
    if negative_x is not None and negative_y is not None:
        is_signed = (positive_x | negative_x) & (positive_y | negative_y)
        agree = agree[is_signed]
    corrected = 2 * float(agree.mean()) - 1 if agree.size else None
    return Alike(same, corrected, ratio, count, cosine)


def _ratio(x: float, y: float) -> float:
    """Norm by norm; 1 where both are zero or not finite: nothing tells such gradients apart."""
    if not math.isfinite(x) and not math.isfinite(y):
        return 1.0
    return x / y if y else (1.0 if x == 0 else math.inf)


def _is_negated(x: Gradient, y: Gradient) -> bool:
    """Whether the extremes of one are those of the other with the sign turned, and no others."""
    largest = max(map(abs, (x.high, x.low, y.high, y.low)))
    nearest = LARGEST_RATIO * largest
    turned = max(abs(x.high + y.low), abs(x.low + y.high))
    return turned <= nearest < max(abs(x.high - y.high), abs(x.low - y.low))


def _cosine(x: NDArray[np.float64] | None, y: NDArray[np.float64] | None) -> float | None:
    if x is None or y is None or x.shape != y.shape:
        return None
    norms = float(np.linalg.norm(x) * np.linalg.norm(y))
    return max(-1.0, min(1.0, float(x @ y) / norms)) if norms else None


def first_break(rank: RankSimilarity) -> Break | None:
    """The first step at which a parameter breaks a documented limit or parts in size."""
    before: dict[str, Alike] = {}
    for step in rank.steps:
        now = {name: one[step] for name, one in rank.parameters.items() if step in one}
        broken = {
            name: why
            for name, one in now.items()
            if (why := _why(one, before.get(name))) is not None
        }
        if broken:
            worst = max(broken, key=lambda name: _distance(now[name]))
            return Break(rank.rank, step, tuple(broken), worst, broken[worst])
        before = now
    return None


def _why(now: Alike, before: Alike | None) -> Fact | None:
    if math.isnan(now.ratio) or math.isinf(now.ratio):
        return fact("gradients.not_finite")
    if now.is_negated and not (before is not None and before.is_negated):
        return fact("gradients.turned")
    if before is None:
        if now.same is not None and now.same < LOWEST_AT_FIRST:
            limit = f"{LOWEST_AT_FIRST:.0%}"
            return fact("gradients.few_signs", share=f"{now.same:.1%}", limit=limit)
    elif None not in (now.same, before.same) and _fall(before, now) > LARGEST_DROP:
        shares = f"{before.same:.1%}", f"{now.same:.1%}"
        return fact("gradients.signs_fall", before=shares[0], now=shares[1])
    # Two trainings drift apart slowly: only what was alike a step before tells of a fault.
    was_alike = before is None or abs(before.ratio - 1) <= LARGEST_RATIO
    if was_alike and abs(now.ratio - 1) > LARGEST_RATIO:
        signs = None if now.same is None else fact("gradients.signs", share=f"{now.same:.1%}")
        return fact("gradients.norm", times=now.ratio, signs=signs)
    if now.apart > LARGEST_RATIO and (before is None or before.apart <= LARGEST_RATIO):
        return _ends(now)
    if now.is_equal is False and before is not None and before.is_equal:
        ends = _ends(now)
        too = None if ends is None else fact("gradients.ends_too", ends=ends)
        return fact("gradients.first_checksum", ends=too)
    return None


def _ends(now: Alike) -> Fact | None:
    """The largest element, or the smallest, that differs more."""
    assert now.ends is not None
    statistic, (first, second) = max(
        zip(STATISTIC, now.ends, strict=False), key=lambda one: abs(one[1][0] - one[1][1])
    )
    if first == second:
        return None
    return fact("gradients.ends", statistic=statistic, first=first, second=second)


def _fall(before: Alike, now: Alike) -> float:
    return (before.same or 0.0) - (now.same or 0.0)


def _distance(one: Alike) -> float:
    apart = abs(math.log(one.ratio)) if 0 < one.ratio < math.inf else math.inf
    signs = float(one.is_negated) if one.same is None else 1 - one.same
    return max(apart, signs, one.apart)
