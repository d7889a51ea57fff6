"""What a verdict weighed, as lines for a person and as JSON for a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from msprobe_builder.base.kinds import KINDS
from msprobe_builder.database.read.weighed import WeighedKind
from msprobe_builder.export.wrapped import wrapped
from msprobe_builder.facts.fact import Fact, fact

MEANINGS = {
    "output": fact("kind.output"),
    "missing": fact("kind.missing"),
    "extra": fact("kind.extra"),
    "wiring": fact("kind.wiring"),
    "between": fact("kind.between"),
    "external": fact("kind.external"),
    "argument": fact("kind.argument"),
    "gradient": fact("kind.gradient"),
    "random": fact("kind.random"),
    "rank": fact("kind.rank"),
    "weight": fact("kind.weight"),
    "weights": fact("kind.weights"),
    "number": fact("kind.number"),
    "order": fact("kind.order"),
    "unrecorded": fact("kind.unrecorded"),
    "part": fact("kind.part"),
    "update": fact("kind.update"),
    "unkept": fact("kind.unkept"),
    "habit": fact("kind.habit"),
    "mispaired": fact("kind.mispaired"),
    "formula": fact("kind.formula"),
    "inside": fact("kind.inside"),
    "no_gradient": fact("kind.no_gradient"),
    "meets_again": fact("kind.meets_again"),
    "exchanged": fact("kind.exchanged"),
    "split": fact("kind.split"),
    "loss_scale": fact("kind.loss_scale"),
    "fewer_digits": fact("kind.fewer_digits"),
    "passes": fact("kind.passes"),
    "chosen": fact("kind.chosen"),
    "unknown": fact("kind.unknown"),
    "sum_of_uses": fact("kind.sum_of_uses"),
    "places": fact("kind.places"),
    "merged": fact("kind.merged"),
}


def weighed_lines(weighed: Sequence[WeighedKind]) -> list[str]:
    """Each kind that held: how often, on how many it decided, and what it means."""
    lines = wrapped(fact("label.weighed"), fact("weighed.about"))
    for one in weighed:
        lines += wrapped("", _told(one))
    idle = [kind for kind in KINDS if kind not in {one.kind for one in weighed}]
    return [*lines, *wrapped("", fact("weighed.idle", kinds=" ".join(idle)))]


def _told(one: WeighedKind) -> Fact:
    first = None if one.first is None else fact("weighed.first", name=one.first)
    return fact(
        "weighed.kind",
        kind=one.kind,
        fired=one.fired,
        decided=one.decided,
        meaning=MEANINGS.get(one.kind),
        first=first,
    )


def weighed_json(weighed: Sequence[WeighedKind]) -> list[dict[str, Any]]:
    """The same by ``kind``, ``fired``, ``decided`` and ``first``."""
    return [asdict(one) for one in weighed]
