"""Where two monitored trainings part, as facts and as lines."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from msprobe_builder.export.wrapped import line
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.facts.wording import tell
from msprobe_builder.trend.monitor import order_of
from msprobe_checks.monitor.compare import ELEMENTS, Departure, MonitorComparison, RankPair
from msprobe_checks.one_sided import FIRST, SECOND, more_parameters, only_in

_ALIKE = 1e-3  # relative spread of ratios that are called one factor
_ROUNDING = 1e-6  # a norm of float32 is off by less
_SEVERAL = 2  # equal weights beside one that is not
_GROWTH = 100  # what departs by less than this many times what was there before has grown from it
# What weights that have drifted apart change, so that it is no cause itself.
_FOLLOWS = ("weight", "input", "activation", "activation_gradient", "local_gradient")
KIND = {
    "weight": fact("monitor.kind.weight"),
    "input": fact("monitor.kind.input"),
    "activation": fact("monitor.kind.activation"),
    "activation_gradient": fact("monitor.kind.activation_gradient"),
    "local_gradient": fact("monitor.kind.local_gradient"),
    "communication": fact("monitor.kind.communication"),
    "gradient": fact("monitor.kind.gradient"),
    "learning_rate": fact("monitor.kind.learning_rate"),
    "optimizer_state": fact("monitor.kind.optimizer_state"),
    "updated_weight": fact("monitor.kind.updated_weight"),
}
_KINDS = {
    "weight": fact("monitor.kinds.weight"),
    "input": fact("monitor.kinds.input"),
    "activation": fact("monitor.kinds.activation"),
    "activation_gradient": fact("monitor.kinds.activation_gradient"),
    "local_gradient": fact("monitor.kinds.local_gradient"),
    "communication": fact("monitor.kinds.communication"),
    "gradient": fact("monitor.kinds.gradient"),
    "learning_rate": fact("monitor.kinds.learning_rate"),
    "optimizer_state": fact("monitor.kinds.optimizer_state"),
    "updated_weight": fact("monitor.kinds.updated_weight"),
}


def summary_lines(comparison: MonitorComparison) -> list[str]:
    """What was compared, the verdict, and what is known beside it."""
    steps = len({int(step) for pair in comparison.ranks for step in set(pair.step.tolist())})
    targets = sum(len(pair.targets) - len(pair.only_first) for pair in comparison.ranks)
    records = fact("checks.records", count=targets)
    compared = fact("checks.compared", records=records, ranks=len(comparison.ranks), steps=steps)
    lines = [line(fact("label.compared"), compared)]
    notes = list(comparison.notes)
    for pair in comparison.ranks:
        notes += _only(pair, FIRST, pair.only_first) + _only(pair, SECOND, pair.only_second)
    lines += [line(fact("label.note"), note) for note in notes]
    lines.append(line(fact("label.verdict"), verdict_fact(comparison)))
    early = comparison.earliest
    if early is not None and not _same_place(early, comparison.departures):
        meaning = None if comparison.departures else _by_the_update(comparison)
        earliest = fact(
            "monitor.earliest",
            step=early.step,
            rank=early.rank,
            what=_what(early),
            apart=_relative(float(np.fmax(early.apart, early.elements))),
            means=None if meaning is None else fact("monitor.means", meaning=meaning),
        )
        lines.append(line("", earliest))
    return lines


def verdict(comparison: MonitorComparison) -> str:
    """:func:`verdict_fact` in words."""
    return tell(verdict_fact(comparison))


def verdict_fact(comparison: MonitorComparison) -> Fact:
    """The first step and place at which the runs part, and what that means."""
    missing = _without_gradients(comparison)
    resized = _resized(comparison)
    if resized is not None:
        return resized
    if not comparison.departures:
        count = sum(int((~pair.is_bad).sum()) for pair in comparison.ranks)
        but = _but(comparison, missing)
        if not count:
            return fact("monitor.nothing_compared", but=but)
        return fact(
            "monitor.agree",
            tolerance=comparison.tolerance,
            first=comparison.first_step,
            last=comparison.last_step,
            count=count,
            but=but,
        )
    first = comparison.departures[0]
    part = fact(
        "monitor.part",
        step=first.step,
        rank=first.rank,
        what=_what(first),
        how=_how(first),
        company=_company(comparison),
    )
    is_given = first.step == comparison.first_step and first.kind in ("weight", "activation")
    if missing is not None and not is_given:
        return fact("monitor.part_after", missing=missing, part=part)
    return fact("monitor.part_means", part=part, meaning=_meaning(comparison))


def _but(comparison: MonitorComparison, missing: Fact | None) -> Fact | None:
    """What is not said by an agreement: what one run lacks, NaN in both runs."""
    clauses = [] if missing is None else [missing]
    alone = sum(pair.alone for pair in comparison.ranks)
    if alone:
        clauses.append(fact("monitor.in_one_run", count=alone))
    resized = sum(len(pair.resized[0]) for pair in comparison.ranks)
    if resized:
        clauses.append(fact("monitor.sizes_differ", count=resized))
    both = [
        (int(pair.step[row]), pair.departure(int(row)))
        for pair in comparison.ranks
        for row in np.flatnonzero(pair.is_bad)
    ]
    if both:
        step, one = min(both, key=lambda found: found[0])
        clauses.append(fact("monitor.bad_in_both", count=len(both), what=_what(one), step=step))
    return fact("monitor.but", missing=clauses) if clauses else None


def _without_gradients(comparison: MonitorComparison) -> Fact | None:
    """Which run has no gradients of parameters that both have, while the other one has them."""
    for pair in comparison.ranks:
        common = set(pair.targets) - set(pair.only_first)
        known = {name for kind, name in common if kind == "weight"}
        kinds = {kind for kind, _ in common} & {"local_gradient", "gradient"}
        for which, other, targets in (
            (FIRST, SECOND, pair.only_second),
            (SECOND, FIRST, pair.only_first),
        ):
            names = list(
                dict.fromkeys(name for kind, name in targets if kind in kinds and name in known)
            )
            if names:
                return fact(
                    "monitor.no_gradients",
                    which=which,
                    name=names[0],
                    more=more_parameters(len(names) - 1),
                    rank=pair.rank,
                    other=other,
                )
    return None


def _resized(comparison: MonitorComparison) -> Fact | None:
    """At which step all outputs have another size, should the runs not part before it."""
    found = []
    for pair in comparison.ranks:
        steps, targets, times = pair.resized
        outputs = [place for place, (kind, _) in enumerate(pair.targets) if kind == "activation"]
        of_outputs = np.isin(targets, outputs)
        for step in np.unique(steps[of_outputs]).tolist():
            factors = times[of_outputs & (steps == step)]
            is_all = not np.isin(pair.target[pair.step == step], outputs).any()
            if is_all and (factors == factors[0]).all():
                found.append((step, pair.rank, float(factors[0])))
                break
    if not found:
        return None
    step, rank, factor = min(found)
    if comparison.departures and comparison.departures[0].step < step:
        return None
    return fact("monitor.resized", step=step, rank=rank, times=factor)


def _already(comparison: MonitorComparison) -> Departure | None:
    """What differs before the first departure, and not by so much less that it says nothing."""
    first = comparison.departures[0]
    here = order_of((first.kind, first.name))
    found = []
    for pair in comparison.ranks if math.isfinite(first.apart) else ():
        kinds = np.array([order_of(target) for target in pair.targets])[pair.target]
        is_before = (pair.step == first.step) & (kinds < here) | (pair.step == first.step - 1)
        is_large = pair.apart > max(first.apart / _GROWTH, _ROUNDING)
        rows = np.flatnonzero(is_before & is_large)
        found += [pair.departure(row) for row in rows.tolist()]
    return min(found, key=lambda one: (one.step, order_of((one.kind, ""))), default=None)


def _is_of_settings(comparison: MonitorComparison) -> bool:
    """Whether something parts that does not follow from weights."""
    found = comparison.departures
    return bool(found) and found[0].kind not in _FOLLOWS


def _alone(comparison: MonitorComparison) -> Fact | None:
    """What it means that of many weights a single one is not equal: no setting does that."""
    early = comparison.earliest
    if early is None or early.kind != "weight" or _is_of_settings(comparison):
        return None
    equal: set[str] = set()
    different: set[str] = set()
    ranks: set[int] = set()
    for pair in comparison.ranks:
        for row in np.flatnonzero(pair.step == early.step).tolist():
            one = pair.departure(row)
            if one.kind == "weight":
                (different if one.apart else equal).add(one.name)
                ranks |= {pair.rank} if one.apart else set()
    if len(different) != 1 or len(equal - different) < _SEVERAL:
        return None
    is_some = len(ranks) < len(comparison.ranks)
    return fact(
        "monitor.alone",
        step=early.step,
        name=early.name,
        apart=_relative(early.apart),
        count=len(equal),
        ranks=fact("monitor.on_ranks", count=len(ranks), ranks=sorted(ranks)) if is_some else None,
    )


def _by_the_update(comparison: MonitorComparison) -> Fact | None:
    """What it means that weights are the first to differ at all, when one step was equal."""
    early = comparison.earliest
    recorded = {kind for pair in comparison.ranks for kind, _ in pair.targets}
    alone = _alone(comparison)
    if alone is not None:
        return alone
    if (
        early is None
        or "gradient" not in recorded
        or early.kind != "weight"
        or early.step == comparison.first_step
        or early.apart <= _ROUNDING
        or _is_of_settings(comparison)
    ):
        return None
    apart = _relative(early.apart)
    return fact("monitor.by_the_update", step=early.step, name=early.name, apart=apart)


def _what(one: Departure) -> Fact:
    return fact("monitor.of", kind=KIND[one.kind], name=one.name or fact("monitor.model"))


def _how(one: Departure) -> Fact:
    if one.kind == "learning_rate":
        return fact("monitor.rate", first=one.first, second=one.second)
    if math.isinf(one.apart):
        return fact("monitor.not_finite")
    if math.isfinite(one.ratio) and abs(one.ratio - 1) > _ALIKE:
        return fact("monitor.norm", times=one.ratio)
    if one.elements > max(one.apart, ELEMENTS):
        return fact("monitor.other_elements", share=one.elements)
    return fact("monitor.differs", apart=_relative(one.apart))


def _relative(apart: float) -> Fact:
    if math.isinf(apart):
        return fact("monitor.relative_infinite")
    return fact("monitor.relative", apart=apart)


def _company(comparison: MonitorComparison) -> Fact | None:
    """How many of the same kind part too, and whether by one factor."""
    first = comparison.departures[0]
    alike = [one for one in comparison.departures if one.kind == first.kind]
    others = len({one.name for one in alike}) - 1
    if not others:
        return None
    ratios = [one.ratio for one in alike]
    one_factor = all(math.isfinite(r) and abs(r / first.ratio - 1) < _ALIKE for r in ratios)
    is_same = one_factor and abs(first.ratio - 1) > _ALIKE
    same = fact("monitor.same_factor") if is_same else None
    return fact("monitor.company", others=others, kinds=_KINDS[first.kind], same=same)


def _meaning(comparison: MonitorComparison) -> list[Fact]:
    """What lies between what agrees and what does not."""
    first = comparison.departures[0]
    by_the_update = _by_the_update(comparison)
    if by_the_update is not None:
        return [by_the_update]
    already = _already(comparison)
    if already is not None:
        return [
            fact(
                "monitor.already",
                tolerance=comparison.tolerance,
                step=already.step,
                what=_what(already),
                apart=_relative(already.apart),
            )
        ]
    before = comparison.agreeing
    found = []
    if before:
        found.append(fact("monitor.kinds_agree", kinds=[_KINDS[kind] for kind in before]))
    means = _where_to_look(first, before, first.step == comparison.first_step)
    if means is not None:
        found.append(means)
    return found or [fact("monitor.nothing_before")]


def _where_to_look(first: Departure, before: Sequence[str], is_first_step: bool) -> Fact | None:
    if first.kind == "learning_rate":
        return fact("monitor.schedule")
    if first.kind == "weight" and is_first_step:
        return fact("monitor.begin_otherwise")
    if first.kind == "weight":
        return fact("monitor.after_update", step=first.step - 1)
    if first.kind == "activation":
        return fact("monitor.module")
    if first.kind == "communication":
        return fact("monitor.exchange")
    if first.kind == "local_gradient":
        return fact("monitor.loss") if "activation" in before else None
    if first.kind == "gradient":
        is_reduced = "local_gradient" in before
        return fact("monitor.reduction" if is_reduced else "monitor.loss_and_reduction")
    return fact("monitor.optimizer")


def _same_place(one: Departure, found: Sequence[Departure]) -> bool:
    if not found:
        return False
    first = found[0]
    return (one.step, one.kind, one.name) == (first.step, first.kind, first.name)


def _only(pair: RankPair, which: Fact, targets: Sequence[tuple[str, str]]) -> list[Fact]:
    named = [fact("monitor.recorded", kind=kind, name=name) for kind, name in targets]
    return only_in(pair.rank, which, named)
