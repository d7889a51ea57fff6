"""Chances of clues are those of the table in docs/design/verdict.md, and rise with the evidence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from msprobe_builder.base.codes import Strength
from msprobe_builder.verdict.findings import Cause, strength
from msprobe_builder.verdict.model.certainty import probabilities
from msprobe_builder.verdict.model.clue import Clue

ONE_SIDED = (Cause.MISSING, Cause.EXTRA)
STRUCTURE = (*ONE_SIDED, Cause.WIRING, Cause.ORDER, Cause.RANK, Cause.NUMBER)
BELOW, FROM = 0.999, 1.0  # of a score from which on the next chance holds


def chance_of(clue: Clue) -> float:
    """The table, a line at a time."""
    is_unseen = clue.error <= 2 * clue.expected and not clue.shows_behind
    if clue.cause is Cause.ARGUMENT and clue.row >= 0 and is_unseen:
        return 0.7
    if clue.cause in ONE_SIDED and clue.row < 0:
        return 0.3
    if clue.cause is Cause.RANDOM:
        return 0.6
    if clue.meets_again:
        return 0.3
    if clue.rival or clue.cause is Cause.PART:
        return 0.4
    if clue.cause is Cause.ARGUMENT:
        return 0.97
    if clue.cause is Cause.GRADIENT and clue.row >= 0:
        return 0.95 if clue.score >= 100 else 0.75
    if clue.cause in STRUCTURE:
        return 0.96 if clue.score >= 30 else 0.75
    for least, chance in ((1000, 0.95), (30, 0.82), (10, 0.3)):
        if clue.score >= least:
            return chance
    return 0.1


def drawn(rng: np.random.Generator, cause: Cause) -> Clue:
    score = float(rng.choice([10, 30, 100, 1000]) * rng.choice([BELOW, FROM]))
    return Clue(
        score=score,
        side=0,
        node=1,
        cause=cause,
        row=int(rng.integers(-1, 2)),
        error=float(rng.choice([0.1, 0.2, 0.21])),
        expected=0.1,
        meets_again=bool(rng.random() < 0.2),
        rival="places" if rng.random() < 0.2 else "",
        shows_behind=bool(rng.random() < 0.3),
    )


@pytest.mark.parametrize("cause", Cause)
def test_a_first_clue_has_the_chance_of_its_kind(cause: Cause) -> None:
    rng = np.random.default_rng(int(cause))
    for _ in range(200):
        clue = drawn(rng, cause)
        assert probabilities([clue]) == [chance_of(clue)], clue


@pytest.mark.parametrize("seed", range(5))
def test_a_further_clue_is_right_where_those_before_are_wrong(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = [drawn(rng, cause) for cause in rng.choice(np.array(list(Cause)), size=6)]
    left = 1.0
    for place, (clue, chance) in enumerate(zip(found, probabilities(found), strict=True)):
        right = chance_of(clue) * left * (0.3 if place else 1.0)
        assert chance == pytest.approx(right)
        left -= right
    strong = [one for one in probabilities(found) if strength(one) is Strength.STRONG]
    assert len(strong) <= 1


@pytest.mark.parametrize("cause", Cause)
def test_more_evidence_makes_nothing_less_likely(cause: Cause) -> None:
    clue = Clue(1.0, 0, 1, cause, 1, 0.5, 0.1)
    chances = [probabilities([replace(clue, score=score)])[0] for score in np.geomspace(1, 1e5, 40)]
    assert chances == sorted(chances)


def test_strong_is_four_in_five() -> None:
    assert [strength(one) for one in (0.799, 0.8, 0.9)] == [
        *(Strength.WEAK, Strength.STRONG, Strength.STRONG),
    ]
