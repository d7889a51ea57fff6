"""Where the replicas of one monitored training go wrong, as facts and as lines."""

from __future__ import annotations

import math

from msprobe_builder.export.wrapped import line
from msprobe_builder.facts.fact import Argument, Fact, fact
from msprobe_checks.monitor.averages import NotTogether
from msprobe_checks.monitor.exchanges import Broken, WrongExchange
from msprobe_checks.monitor.explain import KIND
from msprobe_checks.monitor.replicas import Parted, Replicas

_MOST_RANKS = 8  # that are listed


def replica_lines(found: Replicas) -> list[str]:
    """What was compared of replicas, and where they part first."""
    ranks = sum(map(len, found.groups))
    compared = fact(
        "monitor.replicas_compared",
        rows=found.rows,
        ranks=ranks,
        groups=len(found.groups),
        axes=list(found.axes),
        first=found.steps[0],
        last=found.steps[1],
        alone=fact("monitor.in_one_rank", count=found.alone) if found.alone else None,
        bad=fact("monitor.bad_on_both", count=found.bad) if found.bad else None,
    )
    lines = [
        line(fact("label.compared"), compared),
        line(fact("label.verdict"), replicas_fact(found)),
    ]
    return lines + [line("", one) for one in _wrong_facts(found)[1:]]


def replicas_fact(found: Replicas) -> Fact:
    """Whether they are alike and add up, else where that ends first."""
    wrong = _wrong_facts(found)
    if wrong:
        return wrong[0]
    if found.bad == found.rows:
        return fact("monitor.replicas_untold")
    return fact("monitor.replicas_alike", count=found.rows - found.bad)


def _wrong_facts(found: Replicas) -> list[Fact]:
    """What is wrong, in the order of steps; within one as data flow."""
    told: list[tuple[int, Fact]] = []
    if found.exchange is not None:
        told.append((found.exchange.step, _exchange_fact(found.exchange)))
    if found.parted is not None:
        told.append((found.parted.step, _parted_fact(found.parted)))
    if found.together is not None:
        told.append((found.together.step, _together_fact(found.together)))
    return [one for _, one in sorted(told, key=lambda one: one[0])]


def _at(step: int, ranks: tuple[int, ...]) -> dict[str, Argument | None]:
    return {"step": step, "count": len(ranks), "ranks": list(ranks)[:_MOST_RANKS]}


def _beside(places: int) -> Fact | None:
    return fact("monitor.places_beside", count=places) if places else None


def _exchange_fact(found: WrongExchange) -> Fact:
    known: dict[str, Argument | None] = {
        **_at(found.step, found.ranks),
        "name": found.name,
        "others": list(found.others)[:_MOST_RANKS],
        "of": len(found.others),
        "share": found.off,
    }
    if found.broken is Broken.NOT_RECEIVED:
        return fact("monitor.exchange_not_received", **known)
    if found.broken is Broken.NO_SUM:
        return fact("monitor.exchange_no_sum", **known)
    return fact("monitor.exchange_unlike", **known)


def _together_fact(found: NotTogether) -> Fact:
    known: dict[str, Argument | None] = {
        **_at(found.step, found.ranks),
        "name": found.name,
        "company": _beside(found.company),
    }
    if found.times is not None:
        return fact("monitor.gradient_times", **known, times=found.times)
    return fact("monitor.gradient_not_together", **known, share=found.off)


def _parted_fact(parted: Parted) -> Fact:
    known: dict[str, Argument | None] = {
        **_at(parted.step, parted.ranks),
        "what": fact("monitor.of", kind=KIND[parted.kind], name=parted.name),
        "apart": fact("monitor.not_finite_on_some")
        if math.isinf(parted.apart)
        else fact("monitor.by_share", share=parted.apart),
        "company": _beside(parted.company),
    }
    if not parted.others:
        return fact("monitor.replicas_differ", **known)
    others = list(parted.others)[:_MOST_RANKS]
    return fact("monitor.replicas_part", **known, others=others, of=len(parted.others))
