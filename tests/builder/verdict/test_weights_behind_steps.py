"""Weights behind a step whose gradients were off by noise, and chances that are heard again."""

from __future__ import annotations

import pytest

from msprobe_builder.base.codes import Strength
from msprobe_builder.facts.fact import Facts, fact
from msprobe_builder.verdict.ruling.across import judge_across
from msprobe_builder.verdict.ruling.all_ranks import Accused, AllRanks, PlaceRuling
from msprobe_builder.verdict.ruling.conclusion import CLEAN, FAULT
from tests.builder.verdict.accusing import suspect, weights

CHANCE: Facts = (fact("probability", percent=88),)
NOISY = 2.0**-18


def heard(one: Accused, noise: float, backward: float) -> Accused:
    """A suspect of the second step, behind a clean one whose gradients may be off by as much."""
    said = (fact("assumed_noise", forward=1e-6, backward=backward),)
    places = [
        PlaceRuling(0, 0, CLEAN, said, 9, noise),
        PlaceRuling(1, 0, FAULT, (), 9, noise),
    ]
    judge_across(AllRanks(places, [one]))
    return one


@pytest.mark.parametrize("backward", [1e-4, 0.01])
@pytest.mark.parametrize(("times", "is_convicted"), [(0.9, False), (1.1, True)])
def test_weights_are_off_by_what_elements_of_another_sign_make(
    backward: float, times: float, is_convicted: bool
) -> None:
    one = heard(weights(evidence=CHANCE, error=times * 2 * backward**0.5), NOISY, backward)
    assert (one.strength == Strength.STRONG) is is_convicted
    told = one.evidence[-1 if is_convicted else 0].code
    assert told == ("step_before.agrees" if is_convicted else "gradient_of_rounding")
    assert is_convicted or not one.strength


def test_a_run_without_noise_explains_nothing() -> None:
    assert heard(weights(evidence=CHANCE, error=1e-6), 0.0, 0.01).strength == Strength.STRONG


def test_a_chance_is_no_higher_than_what_is_left_of_it() -> None:
    low = suspect(evidence=(fact("probability", percent=30),))
    low.convict(fact("weights_of_step", step=1))
    assert low.evidence[0].arguments == {"percent": 82}
    low.weaken(fact("weights_of_step", step=1))
    assert low.evidence[0].arguments == {"percent": 40}


@pytest.mark.parametrize(("error", "is_heard"), [(1e-4, True), (0.9, False)])
def test_what_stands_behind_weights_stands_for_itself_where_noise_made_them(
    error: float, is_heard: bool
) -> None:
    first = weights(evidence=CHANCE, error=error)
    second = suspect(
        suspect_id=2,
        step=1,
        place=2,
        seq=first.seq + 1,
        strength=int(Strength.WEAK),
        evidence=(fact("probability", percent=3),),
        otherwise=88,
    )
    said = (fact("assumed_noise", forward=1e-6, backward=1e-4),)
    places = [PlaceRuling(0, 0, CLEAN, said, 9, NOISY), PlaceRuling(1, 0, FAULT, (), 9, NOISY)]
    ruling = judge_across(AllRanks(places, [first, second]))
    assert ruling.conclusion == FAULT
    assert ruling.standing[0] is (second if is_heard else first)
    assert second.strength == (Strength.STRONG if is_heard else Strength.WEAK)
    assert second.evidence[0].arguments == {"percent": 88 if is_heard else 3}
