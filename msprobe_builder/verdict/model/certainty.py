"""How likely a clue is right, counted on planted faults and on runs without one.

``benchmarks/results/verdict.md`` holds the counts. Of clues in order only the first can be where
the fault begins; another one is right where that is wrong.
"""

from __future__ import annotations

import math
from bisect import bisect_right

import numpy as np

from msprobe_builder.facts.fact import Facts, fact
from msprobe_builder.verdict.findings import CERTAIN, RIVALLED, WEIGHTS, Cause, strength
from msprobe_builder.verdict.model.clue import BELIEVED, ONE_SIDED, THRESHOLD, Clue

_LEAST = 0.005  # the chance below which nobody looks at a place
_STRUCTURE = {*ONE_SIDED, Cause.WIRING, Cause.ORDER, Cause.RANK, Cause.NUMBER}
# Shares of first clues that are taken to be right, by the least score of a band.
_Bands = tuple[tuple[float, float], ...]
_BY_ARGUMENTS: _Bands = ((0.0, 0.97),)
_BY_STRUCTURE: _Bands = ((0.0, 0.75), (30.0, 0.96))
_BY_GRADIENTS: _Bands = ((0.0, 0.75), (100.0, 0.95))
_UNSEEN = 0.7  # of an argument that differs where nothing that comes out does
_BY_NUMBERS: _Bands = ((0.0, 0.1), (BELIEVED, 0.3), (30.0, CERTAIN), (1000.0, 0.95))
_UNSHOWN = 0.3  # of a call on one side alone of which nothing shows
_UNUSUAL = 0.1  # of what rounding explains, but explains worst
_MEETS = 0.3  # of what agrees again in all that is computed of it
_DRAWN = 0.6  # of random numbers that are drawn otherwise
_ROUNDING = 2.0
_FURTHER = 0.3  # of what the clues before leave over


def probabilities(found: list[Clue]) -> list[float]:
    """The chance that each clue, in their order, is where the fault is."""
    result, left = [], 1.0
    for place, one in enumerate(found):
        chance = left * _alone(one) * (_FURTHER if place else 1.0)
        result.append(chance)
        left -= chance
    return result


def _alone(clue: Clue) -> float:
    bands = _BY_NUMBERS
    if clue.score < THRESHOLD:
        return _UNUSUAL
    is_unseen = clue.row >= 0 and clue.error <= _ROUNDING * clue.expected and not clue.shows_behind
    if clue.cause is Cause.ARGUMENT and is_unseen:
        return _UNSEEN
    if clue.cause in ONE_SIDED and clue.row < 0:
        return _UNSHOWN
    if clue.cause is Cause.RANDOM:
        return _DRAWN
    if clue.meets_again:
        return _MEETS
    if clue.rival or clue.cause is Cause.PART:
        return RIVALLED
    if clue.cause is Cause.ARGUMENT:
        bands = _BY_ARGUMENTS
    elif clue.cause is Cause.GRADIENT and clue.row >= 0:
        bands = _BY_GRADIENTS
    elif clue.cause in _STRUCTURE:
        bands = _BY_STRUCTURE
    return bands[bisect_right([least for least, _ in bands], clue.score) - 1][1]


def in_order(found: list[Clue]) -> tuple[list[Clue], list[float], list[float]]:
    """Clues that are worth a look with their chances, those that are certain first.

    And the chances that they have if weights follow from the step before; NaN where that is no
    better, or of weights.
    """
    chances, otherwise = probabilities(found), np.full(len(found), np.nan)
    rest = [place for place, one in enumerate(found) if one.cause not in WEIGHTS]
    if len(rest) < len(found):
        # Behind weights that noise has moved nothing is certain.
        otherwise[rest] = np.fmin(probabilities([found[place] for place in rest]), RIVALLED)
    order = sorted(range(len(found)), key=lambda one: (-strength(chances[one]), one))
    likely = np.fmax(chances, otherwise)
    order = [one for place, one in enumerate(order) if not place or likely[one] >= _LEAST]
    otherwise[otherwise <= chances] = np.nan
    return (
        [found[one] for one in order],
        [chances[one] for one in order],
        otherwise[order].tolist(),
    )


def told_of_chance(chance: float, otherwise: float = math.nan) -> Facts:
    """What is said of a chance, and what it is where weights before it are explained."""
    told = fact("probability", percent=round(100 * chance))
    if math.isnan(otherwise):
        return (told,)
    return told, fact("probability.otherwise", percent=round(100 * otherwise))
