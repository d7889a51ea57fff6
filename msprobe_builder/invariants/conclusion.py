"""From what does not hold to a verdict, and what is said of what holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msprobe_builder.base.codes import Strength
from msprobe_builder.facts.fact import Facts, fact
from msprobe_builder.invariants.violation import Check, Violation
from msprobe_builder.verdict.ruling.across import Ruling, accuse_called
from msprobe_builder.verdict.ruling.all_ranks import Accused, AllRanks
from msprobe_builder.verdict.ruling.conclusion import CLEAN, UNDECIDED

TOLD = "held"
_MOST = 50  # suspects of a rank and step that are worth telling


def told(checked: Mapping[Check, int], unchecked: Mapping[Check, int]) -> Facts:
    """What was checked, and what could not be."""
    said: Facts = ()
    if any(checked.values()):
        said += (fact("held", checks=[one.said(checked[one]) for one in Check if checked[one]]),)
    if any(unchecked.values()):
        parts = [one.said(unchecked[one]) for one in Check if unchecked[one]]
        said += (fact("not_held", checks=parts),)
    return said


def likeliest(violations: Sequence[Violation], rank_of: Mapping[int, int]) -> list[Violation]:
    """The first of each rank, those that are sure before the others."""
    ordered = sorted(violations, key=lambda one: (-one.strength, one.node))
    counts: Counter[int] = Counter()
    result = []
    for one in ordered:
        counts[rank_of[one.node]] += 1
        if counts[rank_of[one.node]] <= _MOST:
            result.append(one)
    return result


def rule(
    all_ranks: AllRanks,
    checked: Counter[Check],
    unchecked: Counter[Check],
    received: Mapping[tuple[int, int], Facts],
) -> Ruling:
    """The verdict on all ranks and steps; suspects and places are changed where it says more.

    ``received`` is what is said of steps and ranks that got NaN or infinity from others.
    """
    accused = all_ranks.accused
    strong = [one.step for one in accused if one.strength == Strength.STRONG]
    for one in accused:
        if one.cause == Check.WEIGHT.value and strong and one.step > min(strong):
            one.explain(fact("from_step", step=min(strong)))
    standing = sorted((one for one in accused if one.strength), key=_first)
    explained = {(one.step, one.rank) for one in accused if not one.strength}
    said, rest = told(checked, {}), told({}, unchecked)
    clean = CLEAN if sum(checked.values()) >= sum(unchecked.values()) else UNDECIDED
    holds = (*said, fact("held.rest"), *rest)
    if clean == UNDECIDED:
        holds = (fact("held.little") if said else fact("held.nothing"), *said, *rest)
    for place in all_ranks.places:
        own = [one for one in standing if (one.step, one.rank) == (place.step, place.rank)]
        if own:
            place.conclusion, place.said = accuse_called(own[0], None)
        elif (place.step, place.rank) in explained:
            place.conclusion, place.said = CLEAN, (fact("follows_from_elsewhere"),)
        else:
            given = received.get((place.step, place.rank))
            place.conclusion, place.said = (clean, holds) if given is None else (CLEAN, given)
        place.changed = True
    if not standing:
        return Ruling([], clean, holds)
    best = standing[0]
    at = fact("accused.at", step=best.step, rank=best.rank)
    conclusion, sentence = accuse_called(best, None if len(all_ranks.places) == 1 else at)
    return Ruling(standing, conclusion, (*sentence, *said, *rest))


def _first(one: Accused) -> tuple[int, ...]:
    return -one.strength, one.step, one.seq, one.rank
