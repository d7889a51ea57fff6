"""What a step inherits from the steps before, and what happened between two of them."""

from __future__ import annotations

from msprobe_builder.base.codes import Strength
from msprobe_builder.facts.fact import fact, has_code
from msprobe_builder.facts.words import HIDDEN
from msprobe_builder.verdict.findings import WEIGHTS, Cause
from msprobe_builder.verdict.ruling.all_ranks import Accused, AllRanks, PlaceRuling, Repeated

_EXACT = 2.0**-20
_OF_HALF = 1e-3  # of gradients that differ by more the noise may hide what makes an update differ
_AS_MUCH = 0.3  # of what an update is off by, that a gradient before it may have made
_PASSES = "rival.passes"
_APART = "apart.in_tensor"
OF_WEIGHTS = tuple(one.word for one in WEIGHTS)
_UPDATE = Cause.UPDATE.word


def look_at_the_beginning(all_ranks: AllRanks) -> None:
    """One weight stands for all those that differ before anything was recorded."""
    others = [one for one in all_ranks.accused if began_otherwise(all_ranks, one)]
    certain = {one.rank for one in others if one.strength == Strength.STRONG}
    for one in others:
        if one.strength == Strength.STRONG:
            one.add(fact("began_otherwise"))
        elif one.strength and one.rank in certain:
            one.explain(fact("another_stands_for_all"))


def began_otherwise(all_ranks: AllRanks, one: Accused) -> bool:
    """Whether most weights differ before anything was recorded: no other record tells more."""
    return one.cause == Cause.WEIGHTS.word and one.step == all_ranks.begins


def look_at_earlier_steps(all_ranks: AllRanks) -> None:
    """Weights that differ behind a step were trained by it, or changed between it and the next."""
    excused = set[tuple[int, int]]()
    for one in all_ranks.accused:
        if one.strength and one.trained_in is not None:
            one.explain(fact("from_step", step=one.trained_in))
            excused.add((one.step, one.rank))
    moved = {(one.step, one.rank) for one in all_ranks.accused if one.cause == _UPDATE}
    for one in sorted(all_ranks.accused, key=lambda other: (other.step, other.place)):
        if _parted_before(all_ranks, one):
            one.add(fact("step_before.agrees"))
        if not one.strength or not _is_of_weights(one):
            continue
        if one.step == all_ranks.begins:
            continue
        before = [
            other
            for other in all_ranks.accused
            # Sums over other numbers of passes are told of by those passes.
            if other.strength and other.step < one.step and not has_code(other.evidence, _PASSES)
        ]
        strong = [other.step for other in before if other.strength == Strength.STRONG]
        drawn = [other.step for other in before if other.cause == "random"]
        updates = [other for other in before if other.is_update and other.rank == one.rank]
        updates = [other for other in updates if not other.is_of_others]
        doubted = [other.step for other in before if not _is_of_weights(other)]
        if strong:
            one.explain(fact("from_step", step=min(strong)))
        elif drawn:
            one.explain(fact("from_step.drawn", step=min(drawn)))
        elif updates and (one.cause == _UPDATE or (one.step, one.rank) in moved):
            _convict_update(updates, one)
        elif one.cause == _UPDATE:
            _judge_update(one, before, _repeated_before(all_ranks, one))
        elif (one.step, one.rank) in moved:
            one.explain(fact("from_update"))
        elif _moved_by_noise(all_ranks, one):
            one.explain(fact("gradient_of_rounding"))
            excused.add((one.step, one.rank))
        elif one.cause == Cause.WEIGHT.word:
            one.weaken(fact("gradient_of_rounding"))
        elif updates:
            _convict_update(updates, one)
        elif doubted:
            one.weaken(fact("step_before.uncertain", step=min(doubted)))
        elif (open_before := _undecided_before(one, all_ranks.places)) is not None:
            one.weaken(fact("step_before.uncertain", step=open_before))
        elif one.strength == Strength.STRONG:
            repeated = _repeated_before(all_ranks, one)
            one.convict(repeated.said if repeated else fact("step_before.agrees"))
    _hear_the_others(all_ranks, excused)


def _hear_the_others(all_ranks: AllRanks, excused: set[tuple[int, int]]) -> None:
    """What was doubted for the weights before it stands for itself where none of them does."""
    standing = {
        (one.step, one.rank) for one in all_ranks.accused if one.strength and _is_of_weights(one)
    }
    for one in all_ranks.accused:
        if (one.step, one.rank) in excused - standing and not one.changed:
            one.believe_without_weights()


def _is_of_weights(one: Accused) -> bool:
    return one.cause in (*OF_WEIGHTS, _UPDATE)


def _parted_before(all_ranks: AllRanks, one: Accused) -> bool:
    """Whether ranks have other weights by now, of a model that is merged and was right before."""
    if one.cause != Cause.RANK.word or one.strength != Strength.STRONG:
        return False
    before = [other for other in all_ranks.accused if other.strength and other.step < one.step]
    names = [str(told.arguments["name"]) for told in one.evidence if told.code == _APART]
    in_parameters = any(name.startswith("parameters.") for name in names)
    is_open = _undecided_before(one, all_ranks.places) is not None
    return in_parameters and one.step != all_ranks.begins and not before and not is_open


def _moved_by_noise(all_ranks: AllRanks, one: Accused) -> bool:
    """Whether its weights were updated alike, or differ by no more than noise makes of updates."""
    if (one.step, one.rank) in all_ranks.agreeing:
        return True
    return any(_explains_weights(place, one) for place in _places_before(one, all_ranks.places))


def _convict_update(updates: list[Accused], one: Accused) -> None:
    """What was recorded of the optimizer was a doubt; the weights have felt it."""
    culprit = min(updates, key=lambda other: (other.step, other.place))
    culprit.convict(fact("weights_of_step", step=one.step))
    one.explain(fact("from_step", step=culprit.step))


def _judge_update(one: Accused, before: list[Accused], repeated: Repeated | None) -> None:
    """Weights that moved otherwise: by the optimizer, unless a doubt before it explains as much."""
    explains = [
        other.step
        for other in before
        if other.error is None or other.error >= _AS_MUCH * (one.error or 0.0)
    ]
    if repeated is not None:
        one.convict(repeated.said)
    elif explains:
        one.weaken(fact("step_before.uncertain", step=min(explains)))
    elif has_code(one.evidence, "update.other") and (one.expected or 0.0) > _OF_HALF:
        one.weaken(fact("update.of_gradients"))
    else:
        one.convict(fact("update.settings"))


def _places_before(one: Accused, places: list[PlaceRuling]) -> list[PlaceRuling]:
    return [place for place in places if place.step < one.step and place.rank == one.rank]


def _undecided_before(one: Accused, places: list[PlaceRuling]) -> int | None:
    """The first step before, of the same rank, that rounding may have hidden something in."""
    before = [place.step for place in _places_before(one, places) if has_code(place.said, HIDDEN)]
    return min(before, default=None)


def _explains_weights(place: PlaceRuling, one: Accused) -> bool:
    """Whether the noise of a step's gradients may have moved its weights by as much.

    Of gradients that are off by b of their size about as many elements have another sign. An
    optimizer that scales each by itself, as Adam, moves these the other way by its whole step:
    that is 2√b of how far it has moved the weights, which is no more than their size.
    """
    if place.noise is None or place.noise <= _EXACT or one.error is None:
        return False
    gradients = place.noise_of_gradients
    return gradients is not None and one.error <= 2 * gradients**0.5


def _repeated_before(all_ranks: AllRanks, one: Accused) -> Repeated | None:
    """Where the steps before do not have the same passes on both sides, as with micro-steps."""
    before = [
        other for other in all_ranks.repeated if other.rank == one.rank and other.step < one.step
    ]
    return min(before, key=lambda other: other.step, default=None)
