"""What is concluded of each step and rank of one run, from what does not hold in some."""

from __future__ import annotations

from collections import Counter

from msprobe_builder.base.codes import Kind, Strength
from msprobe_builder.facts.fact import fact
from msprobe_builder.invariants.conclusion import rule
from msprobe_builder.invariants.violation import Check
from msprobe_builder.verdict.ruling.all_ranks import Accused, AllRanks, PlaceRuling


def accused(number: int, step: int, cause: str) -> Accused:
    """A suspect of rank 1."""
    evidence = (fact("update_apart.some", name="weight", ranks=[1]),)
    return Accused(
        *(number, number, step, 1, 0, 0, int(Strength.STRONG), cause, 1, evidence),
        *(int(Kind.API), 0, None, "Tensor.add_", None, ""),
    )


def test_what_an_earlier_step_explains_is_not_called_clean() -> None:
    """A rank that went on with another weight holds another one from then on."""
    places = [PlaceRuling(step, rank, "", (), 0) for step in (0, 1) for rank in (0, 1)]
    found = [accused(1, 0, Check.UPDATE.value), accused(2, 1, Check.WEIGHT.value)]
    ruling = rule(AllRanks(places, found), Counter({Check.WEIGHT: 8}), Counter(), {})
    assert (ruling.conclusion, [one.step for one in ruling.standing]) == ("fault", [0])
    assert [(one.conclusion, one.said[0].code) for one in places] == [
        ("clean", "held"),
        ("fault", "accused"),
        ("clean", "held"),
        ("clean", "follows_from_elsewhere"),
    ]
