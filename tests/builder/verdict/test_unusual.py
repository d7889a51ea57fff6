"""What half precision explains worst is told where nobody is suspect, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from msprobe_builder.facts.fact import Facts, fact
from msprobe_builder.facts.words import HIDDEN
from msprobe_builder.verdict.ruling.across import Ruling, judge_across
from msprobe_builder.verdict.ruling.all_ranks import Accused, AllRanks, PlaceRuling
from msprobe_builder.verdict.ruling.conclusion import CLEAN, UNDECIDED
from tests.builder.verdict.accusing import NONE, WEAK, codes, suspect

OPEN = (fact(HIDDEN, nodes=9),)


def unusual(times: float, **changes: Any) -> Accused:
    given = {"talks": False, "strength": WEAK, "suspect_id": int(100 * times), **changes}
    return suspect(evidence=(fact("unusual", times=times),), **given)


def ruled(*accused: Accused, said: Facts = OPEN, steps: int = 1) -> Ruling:
    conclusion = UNDECIDED if said is OPEN else CLEAN
    places = [PlaceRuling(step, 0, conclusion, said, 9) for step in range(steps)]
    return judge_across(AllRanks(places, list(accused)))


def test_the_worst_explained_comes_first_and_changes_no_conclusion() -> None:
    ruling = ruled(unusual(3.0, stem="Tensor.a"), unusual(5.0, stem="Tensor.b"))
    assert [one.stem for one in ruling.standing] == ["Tensor.b", "Tensor.a"]
    assert ruling.conclusion == UNDECIDED
    assert codes(ruling.said) == [HIDDEN, "unusual.first"]


def test_what_two_steps_name_is_worth_both() -> None:
    both = [unusual(4.0, stem="Tensor.a", step=step) for step in (0, 1)]
    ruling = ruled(unusual(5.0, stem="Tensor.b"), *both, steps=2)
    assert [one.stem for one in ruling.standing] == ["Tensor.a", "Tensor.a", "Tensor.b"]


@pytest.mark.parametrize("strength", [1, 2])
def test_beside_a_suspect_nothing_is_unusual(strength: int) -> None:
    guess = unusual(5.0)
    other = suspect(strength=strength, talks=False, stem="Tensor.c", evidence=())
    ruling = ruled(guess, other)
    assert (ruling.standing, guess.strength) == ([other], NONE)
    assert codes(guess.evidence) == ["unusual.beside", "unusual"]


def test_a_clean_run_has_nothing_unusual() -> None:
    guess = unusual(5.0)
    ruling = ruled(guess, said=(fact("clean", nodes=9),))
    assert (ruling.standing, ruling.conclusion, guess.strength) == ([], CLEAN, NONE)
