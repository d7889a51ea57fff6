"""What steps have to say of each other's suspects, a rule at a time."""

from __future__ import annotations

import pytest

from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.facts.words import HIDDEN
from msprobe_builder.verdict.ruling.all_ranks import Accused, PlaceRuling, Repeated
from msprobe_builder.verdict.ruling.conclusion import CLEAN
from tests.builder.verdict.accusing import NONE, STRONG, WEAK, before, heard, ruled, weights

PASSES = (fact("rival.passes"),)
APART = "apart.in_tensor"
PARTED = (fact(APART, name="parameters.weight", what=fact("size", times=2)),)
GIVEN = (fact(APART, name="input.0", what=fact("size", times=2)),)


@pytest.mark.parametrize(
    ("one", "others", "right"),
    [
        (weights(), (), (STRONG, ["step_before.agrees"])),
        (weights(), (before(),), (NONE, ["from_step"])),
        (weights(), (before(step=1),), (STRONG, ["step_before.agrees"])),
        (weights(), (before(evidence=PASSES),), (STRONG, ["step_before.agrees"])),
        (weights(), (before(strength=NONE),), (STRONG, ["step_before.agrees"])),
        (weights(), (before(strength=WEAK, cause="random"),), (NONE, ["from_step.drawn"])),
        (weights(), (before(strength=WEAK),), (WEAK, ["step_before.uncertain"])),
        (weights(), (before(strength=WEAK, cause="weight"),), (STRONG, ["step_before.agrees"])),
        (weights(), (before(strength=WEAK, is_update=True),), (NONE, ["from_step"])),
        (
            *(weights(), (before(strength=WEAK, is_update=True, is_of_others=True),)),
            (WEAK, ["step_before.uncertain"]),
        ),
        (weights(cause="weight"), (), (WEAK, ["gradient_of_rounding"])),
        (weights(cause="weight"), (before(),), (NONE, ["from_step"])),
        (weights(strength=WEAK), (), (WEAK, [])),
        (weights(trained_in=0), (), (NONE, ["from_step"])),
        (weights(cause="output"), (before(),), (STRONG, [])),
        (weights(cause="rank", evidence=PARTED), (), (STRONG, [APART, "step_before.agrees"])),
        (weights(cause="rank", evidence=PARTED), (before(strength=WEAK),), (STRONG, [APART])),
        (weights(cause="rank", evidence=PARTED, strength=WEAK), (), (WEAK, [APART])),
        (weights(cause="rank", evidence=GIVEN), (), (STRONG, [APART])),
    ],
)
def test_weights_come_of_the_steps_before(
    one: Accused, others: tuple[Accused, ...], right: tuple[int, list[str]]
) -> None:
    assert heard(one, *others, ranks=1, steps=2) == right


@pytest.mark.parametrize(("said", "agrees"), [((), True), ((fact(HIDDEN),), False)])
def test_ranks_that_have_parted_agreed_before_only_where_nothing_was_hidden(
    said: tuple[Fact, ...], agrees: bool
) -> None:
    places = [PlaceRuling(0, 0, CLEAN, said, 9), PlaceRuling(1, 0, CLEAN, (), 9)]
    _, added = heard(weights(cause="rank", evidence=PARTED), places=places)
    assert ("step_before.agrees" in added) == agrees


def test_an_update_is_convicted_by_the_weights_behind_it() -> None:
    update, other = before(strength=WEAK, is_update=True), weights()
    later = before(strength=WEAK, is_update=True, suspect_id=3, place=2)
    ruled(update, later, other, ranks=1, steps=2)
    assert (update.strength, later.strength, other.strength) == (STRONG, WEAK, NONE)
    assert update.evidence[-1] == fact("weights_of_step", step=1)
    assert other.evidence[0] == fact("from_step", step=0)


@pytest.mark.parametrize(
    ("step", "rank", "code", "right"),
    [
        (0, 0, HIDDEN, (WEAK, ["step_before.uncertain"])),
        (1, 0, HIDDEN, (WEAK, ["step_before.uncertain"])),
        (0, 1, HIDDEN, (STRONG, ["step_before.agrees"])),
        (2, 0, HIDDEN, (STRONG, ["step_before.agrees"])),
        (3, 0, HIDDEN, (STRONG, ["step_before.agrees"])),
        (0, 0, "clean", (STRONG, ["step_before.agrees"])),
    ],
)
def test_weights_behind_a_step_that_rounding_may_hide_are_a_doubt(
    step: int, rank: int, code: str, right: tuple[int, list[str]]
) -> None:
    said = (fact(code),)
    places = [
        PlaceRuling(at, 0, CLEAN, said if (at, 0) == (step, rank) else (), 9) for at in range(4)
    ]
    if rank:
        places.append(PlaceRuling(step, rank, CLEAN, said, 9))
    strength, added = heard(weights(step=2), places=places)
    assert (strength, [code for code in added if not code.startswith("on_ranks")]) == right


def test_of_several_steps_the_first_that_has_lone_calls_tells_them() -> None:
    lone = [fact("not_judged.alone", own=own, theirs=0, name="Torch.sin.0") for own in (3, 5)]
    said = ((), (lone[0],), (lone[1],))
    places = [PlaceRuling(step, 0, CLEAN, one, 9) for step, one in enumerate(said)]
    ruling = ruled(places=places)
    assert ruling.conclusion == CLEAN
    assert [one for one in ruling.said if one.code == "not_judged.alone"] == lone[:1]


@pytest.mark.parametrize("cause", ["weights", "update"])
@pytest.mark.parametrize(("step", "rank", "holds"), [(0, 0, True), (1, 0, False), (0, 1, False)])
def test_a_step_with_other_passes_is_told(step: int, rank: int, holds: bool, cause: str) -> None:
    again = [Repeated(step, rank, "layers.0", 2, 1)]
    _, added = heard(weights(cause=cause), ranks=1, steps=2, repeated=again)
    otherwise = "step_before.agrees" if cause == "weights" else "update.settings"
    assert added == ["step_before.calls_more" if holds else otherwise]
