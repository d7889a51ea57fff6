"""Weights that follow from parts of parameters that ranks gather, and others that do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from msprobe_builder.base.codes import Direction, Kind, Strength
from msprobe_builder.base.standing import GATHERING
from msprobe_builder.facts.fact import fact
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.edges import of_edges
from msprobe_builder.verdict.ruling.across import judge_across
from msprobe_builder.verdict.ruling.all_ranks import Accused, AllRanks, PlaceRuling
from msprobe_builder.verdict.ruling.conclusion import FAULT
from tests.builder.verdict.accusing import heard, suspect, weights
from tests.builder.verdict.columns import Run, compared, evidence_of, measured

STRONG, WEAK, NONE = Strength.STRONG, Strength.WEAK, Strength.NONE


def accused(number: int, rank: int, stem: str, strength: Strength, seq: int) -> Accused:
    kind = Kind.API if stem == GATHERING else Kind.MODULE
    return Accused(
        suspect_id=number,
        node_id=number,
        step=0,
        rank=rank,
        side=0,
        seq=seq,
        strength=int(strength),
        cause="weight",
        place=1,
        evidence=(fact("ranks_unlike"),),
        kind=int(kind),
        direction=int(Direction.FORWARD),
        call=0,
        stem=stem,
        source=None,
        module="",
    )


def answered(gathering: Strength, weight: Strength, rank: int, seq: int = 1) -> Accused:
    """A weight of rank 0 behind what a rank has gathered, when both were heard."""
    one = accused(1, rank, GATHERING, gathering, seq)
    other = accused(2, 0, "Module.router.Linear", weight, 5)
    places = [PlaceRuling(0, place, FAULT, (), 9) for place in (0, 1)]
    judge_across(AllRanks(places, [one, other]))
    return other


@pytest.mark.parametrize("rank", [0, 1])
def test_a_gathering_that_is_less_sure_explains_no_weight(rank: int) -> None:
    other = answered(WEAK, STRONG, rank)
    assert other.strength == STRONG
    assert other.evidence[0] == fact("ranks_unlike")


@pytest.mark.parametrize("strength", [STRONG, WEAK])
def test_a_weight_follows_from_parts_that_this_rank_has_gathered(strength: Strength) -> None:
    other = answered(STRONG, strength, 0)
    assert other.strength == NONE
    assert other.evidence[0] == fact("gathered_wrong", name="Torch.fsdp_all_gather.0.forward")


def test_a_weight_follows_from_parts_of_another_rank() -> None:
    other = answered(STRONG, STRONG, 1)
    assert other.strength == NONE
    assert other.evidence[0] == fact("from_rank", rank=1)


def test_what_is_gathered_later_explains_no_weight() -> None:
    assert answered(STRONG, STRONG, 1, seq=9).strength == STRONG


def gathering(**changes: Any) -> Accused:
    """Parts of parameters that a rank gives to be gathered."""
    given = {"suspect_id": 2, "stem": "Torch.fsdp_all_gather", "cause": "weight", "seq": 5}
    return suspect(**(given | {"talks": False} | changes))


@pytest.mark.parametrize(
    ("one", "other", "follows"),
    [
        (weights(step=0), gathering(), True),
        (weights(step=0), gathering(rank=1), True),
        (weights(step=0, cause="output"), gathering(), False),
        (weights(step=0), gathering(cause="output"), False),
        (weights(step=0), gathering(stem="Torch.mul"), False),
        (weights(step=0), gathering(strength=WEAK), False),
        (weights(step=0), gathering(step=1), False),
        (weights(step=0), gathering(seq=10), False),
        (gathering(suspect_id=1, seq=9), gathering(), False),
    ],
)
def test_weights_follow_from_what_was_gathered_before(
    one: Accused, other: Accused, follows: bool
) -> None:
    _, added = heard(one, other, steps=2)
    assert any(code in ("gathered_wrong", "from_rank") for code in added) == follows


@pytest.mark.parametrize(("others", "cause"), [(2, Cause.WEIGHT), (6, Cause.WEIGHTS)])
def test_parts_that_ranks_gather_are_weights_among_all_of_them(others: int, cause: Cause) -> None:
    """Also where no module holds what they are parts of."""
    draws = np.random.default_rng(0)
    parts = [draws.normal(size=(32,)) for _ in range(10)]
    debug, reference = Run(), Run()
    for run in (debug, reference):
        off = others if run is debug else 0
        worn = [one * (1.5 if place < off else 1.0) for place, one in enumerate(parts)]
        run.call("Torch.fsdp_all_gather_copy_in.0.forward", [measured(one) for one in worn], [])
    evidence = evidence_of(compared(debug, reference))
    assert {one.cause for one in of_edges(evidence)} == {cause}
