"""Suspects, witnesses and what is ruled of them, for tests of ranks and steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from msprobe_builder.base.codes import CallRole, Direction, Kind, Strength
from msprobe_builder.facts.fact import Facts, fact
from msprobe_builder.verdict.ruling.across import Ruling, judge_across
from msprobe_builder.verdict.ruling.all_ranks import Accused, AllRanks, PlaceRuling, Witness
from msprobe_builder.verdict.ruling.conclusion import FAULT

STRONG, WEAK, NONE = int(Strength.STRONG), int(Strength.WEAK), int(Strength.NONE)
PRIMARY = Accused(
    suspect_id=1,
    node_id=10,
    step=0,
    rank=0,
    side=0,
    seq=10,
    strength=STRONG,
    cause="output",
    place=1,
    evidence=(fact("ranks_unlike"),),
    kind=int(Kind.API),
    direction=int(Direction.FORWARD),
    call=3,
    stem="Distributed.all_reduce",
    source=None,
    module="",
    talks=True,
)


def suspect(**changes: Any) -> Accused:
    return replace(PRIMARY, **changes)


def elsewhere(**changes: Any) -> Accused:
    """One that another rank accuses before, of what it does alone."""
    given = {"suspect_id": 2, "rank": 1, "seq": 5, "stem": "Torch.mul", "talks": False} | changes
    return suspect(**given)


def ruled(*accused: Accused, ranks: int = 2, steps: int = 1, **known: Any) -> Ruling:
    places = [
        PlaceRuling(step, rank, FAULT, (), 9) for step in range(steps) for rank in range(ranks)
    ]
    return judge_across(AllRanks(known.pop("places", places), list(accused), **known))


def codes(facts: Facts) -> list[str]:
    return [one.code for one in facts]


def heard(one: Accused, *others: Accused, **known: Any) -> tuple[int, list[str]]:
    """Its strength, and what was added to the evidence."""
    one = replace(one)
    ruled(one, *map(replace, others), **known)
    return one.strength, [code for code in codes(one.evidence) if code != "ranks_unlike"]


def witness(role: CallRole | None = CallRole.CARRIER, **changes: Any) -> Witness:
    return Witness(**({"rank": 1, "role": None if role is None else int(role)} | changes))


def weights(**changes: Any) -> Accused:
    """Weights that differ at the second of the steps."""
    given = {"cause": "weights", "step": 1, "talks": False, "stem": "Module.a.B"} | changes
    return suspect(**given)


def before(**changes: Any) -> Accused:
    """What is accused at the first step, of another kind."""
    return suspect(**({"suspect_id": 2, "talks": False, "stem": "Torch.mul"} | changes))
