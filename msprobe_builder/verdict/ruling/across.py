"""From the verdicts on single steps and ranks to one on the whole run.

What a rank gets from others, and what a step inherits from the one before, is no fault of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from msprobe_builder.base.codes import CallRole, Strength
from msprobe_builder.facts.fact import Fact, Facts, fact, has_code
from msprobe_builder.facts.words import HIDDEN, standing_at
from msprobe_builder.verdict.ruling.all_ranks import Accused, AllRanks, PlaceRuling
from msprobe_builder.verdict.ruling.conclusion import (
    CLEAN,
    NOT_JUDGED,
    UNDECIDED,
    accuse,
)
from msprobe_builder.verdict.ruling.earlier_steps import (
    OF_WEIGHTS,
    look_at_earlier_steps,
    look_at_the_beginning,
)
from msprobe_builder.verdict.ruling.unusual import is_unusual, worst_first


@dataclass(frozen=True)
class Ruling:
    """The verdict on the whole; ``standing`` are the suspects that are left, likeliest first."""

    standing: list[Accused]
    conclusion: str
    said: Facts


def judge_across(all_ranks: AllRanks) -> Ruling:
    """Settle the strength of all suspects, their order in the file and the verdict on the whole."""
    unusual = [one for one in all_ranks.accused if is_unusual(one)]
    if unusual:
        certain = [one for one in all_ranks.accused if one not in unusual]
        ruling = judge_across(replace(all_ranks, accused=certain))
        return _with_unusual(ruling, unusual)
    accused, places = all_ranks.accused, all_ranks.places
    if len({place.rank for place in places}) > 1:
        _ask_other_ranks(all_ranks)
    look_at_the_beginning(all_ranks)
    look_at_earlier_steps(all_ranks)
    _compare_ranks(accused, len({place.rank for place in places}))
    standing = [one for one in accused if one.strength]
    standing.sort(key=_standing_first)
    for place in places:
        own = [one for one in accused if (one.step, one.rank) == (place.step, place.rank)]
        if any(one.changed for one in own):
            _rule_anew(place, own, [one for one in standing if one in own])
    return Ruling(standing, *_conclude(standing, places))


def _with_unusual(ruling: Ruling, unusual: list[Accused]) -> Ruling:
    """The ruling with what half precision explains worst, where nothing else stands."""
    if not ruling.standing and has_code(ruling.said, HIDDEN):
        standing = worst_first(unusual)
        first = fact("unusual.first", name=_called(standing[0]))
        return replace(ruling, standing=standing, said=(*ruling.said, first))
    for one in unusual:
        one.explain(fact("unusual.beside"))
    return ruling


def apart(standing: list[Accused]) -> list[Accused]:
    """The suspects, each call once: on the rank and at the step that come first of those alike."""
    first: dict[tuple[int, str], Accused] = {}
    for one in standing:
        first.setdefault((one.side, one.name()), one)
    return list(first.values())


def _rule_anew(place: PlaceRuling, own: list[Accused], standing: list[Accused]) -> None:
    """The verdict on a step and rank whose suspects were heard; ``standing`` come best first."""
    if standing:
        place.conclusion, place.said = accuse_called(standing[0], None)
    elif any(has_code(one.evidence, _OF_ROUNDING) for one in own):
        hidden = fact("cannot_tell.hidden", nodes=place.compared)
        place.conclusion, place.said = UNDECIDED, (hidden,)
    elif place.conclusion != CLEAN:
        place.conclusion, place.said = CLEAN, (fact("follows_from_elsewhere"),)
    place.changed = True


def _standing_first(one: Accused) -> tuple[int, ...]:
    """The surest first, then the earliest; what may be of other ranks behind what is theirs."""
    return -one.strength, one.step, one.is_of_others, *_position(one), one.rank


def _position(one: Accused) -> tuple[int, int]:
    """Strong ones in order of execution, weak ones as they were ordered at their place."""
    return (one.seq, one.place) if one.strength == Strength.STRONG else (one.place, one.seq)


def _ask_other_ranks(all_ranks: AllRanks) -> None:
    """What came from another rank, or was reduced with it, was wrong there already."""
    # Where a rank was wrong first: nobody is to blame for what came to others before that.
    # A call that only the reference makes stands about where this run would make it.
    wrong: dict[tuple[int, int], int] = {}
    alone: dict[tuple[int, int], int] = {}  # the same of what no rank has done with another
    for one in all_ranks.accused:
        for begins in (wrong, *([] if one.is_shared else [alone])) if one.strength else ():
            begun = begins.get((one.step, one.rank), one.seq)
            begins[one.step, one.rank] = min(begun, one.seq)
    certain = {
        place: min(one.seq for one in several)
        for place, several in _by_place(all_ranks.accused).items()
    }
    for one in all_ranks.accused:
        if not one.can_be_judged_again:
            continue
        guilty = [
            other.rank
            for other in all_ranks.namesakes.get(one.suspect_id, ())
            if (
                other.carries
                and (other.given or (one.is_of_parameters and other.inherits))
                and wrong.get((one.step, other.rank), one.seq) < one.seq
                # Where both hold the same now, though they were given their own, they have talked.
                and (one.is_shared or other.is_same)
            )
            # Or it is the first to show there what a call of that rank alone has done.
            or (
                (one.talks and other.is_same)
                and alone.get((one.step, other.rank), one.seq) < one.seq
            )
            # Or is accused there as well, behind what is certain.
            or (
                (one.talks and other.role == CallRole.SUSPECT)
                and certain.get((one.step, other.rank), one.seq) < one.seq
            )
        ] or [
            other.rank
            for other in all_ranks.partners.get(one.suspect_id, ())
            # A reduction that is wrong on all ranks came from none of them.
            if (other.carries or (other.role == CallRole.SUSPECT and not other.is_accused_alike))
            and other.rank != one.rank
        ]
        if guilty:
            one.explain(fact("from_rank", rank=guilty[0]))
        elif gathered := _gathered_from(all_ranks, one):
            _explain_by_gathering(one, gathered)
        elif one.reads_gradients and (others := _wrong_elsewhere(all_ranks, one)):
            if others[0].strength == Strength.STRONG:
                one.explain(fact("gradients_added.follows", rank=others[0].rank))
            else:
                one.is_of_others = True
                one.weaken(fact("gradients_added.look", rank=others[0].rank))
        elif one.suspect_id in all_ranks.senders:
            sender = all_ranks.senders[one.suspect_id]
            one.explain(fact("sent_by_rank", rank=sender))
        elif giving := [
            other.rank
            for other in all_ranks.partners.get(one.suspect_id, ())
            if other.gives > _GIVEN and other.rank != one.rank
        ]:
            one.weaken(fact("given_by_rank", rank=giving[0]))
        elif one.talks and (
            unknown := [
                other.rank
                for other in all_ranks.namesakes.get(one.suspect_id, ())
                if other.is_unknown and wrong.get((one.step, other.rank), one.seq) < one.seq
            ]
        ):
            one.weaken(fact("given_by_rank.unknown", rank=unknown[0]))


def _by_place(accused: list[Accused]) -> dict[tuple[int, int], list[Accused]]:
    """By step and rank what is certain of what that has done alone."""
    result: dict[tuple[int, int], list[Accused]] = {}
    for one in accused:
        if one.strength == Strength.STRONG and not one.is_shared:
            result.setdefault((one.step, one.rank), []).append(one)
    return result


def _gathered_from(all_ranks: AllRanks, one: Accused) -> Accused | None:
    """Where a rank gives other parts of parameters, if this is what they were gathered to.

    One that is less sure than this explains nothing: it may be of other parameters, and right. That
    it came before is known on another rank, too: ranks that gather from each other run one program.
    """
    if one.cause not in OF_WEIGHTS or one.gathers:
        return None
    found = [
        other
        for other in all_ranks.accused
        if other.gathers and other.cause in OF_WEIGHTS and other.strength >= one.strength
        if other.step == one.step and other.seq < one.seq
    ]
    return min(found, key=lambda other: (-other.strength, other.seq, other.rank), default=None)


def _explain_by_gathering(one: Accused, other: Accused) -> None:
    if other.rank == one.rank:
        one.explain(fact("gathered_wrong", name=other.name()))
    else:
        one.explain(fact("from_rank", rank=other.rank))


def _wrong_elsewhere(all_ranks: AllRanks, one: Accused) -> list[Accused]:
    """What is wrong on other ranks before their gradients are added up, the surest first."""
    others = [
        other
        for other in all_ranks.accused
        if other.step == one.step and other.rank != one.rank and other.strength
        if not (other.is_update or other.is_shared)
    ]
    return sorted(others, key=lambda other: (-other.strength, other.seq))


_BESIDE_CLEAN = ("vanished", "not_judged.alone")  # of which the first place that has it is told
_OF_ROUNDING = "gradient_of_rounding"
_GIVEN = 2.0**-7  # nothing that rounding of half precision does to a norm


def _compare_ranks(accused: list[Accused], ranks: int) -> None:
    """Say when a call is wrong on some ranks only."""
    if ranks < 2:
        return
    found: dict[tuple[int, str, int], set[int]] = {}
    for one in accused:
        if one.strength == Strength.STRONG:
            found.setdefault((one.step, one.name(), one.side), set()).add(one.rank)
    for one in accused:
        own = found.get((one.step, one.name(), one.side), set())
        if one.strength == Strength.STRONG and len(own) < ranks:
            one.add(fact("on_ranks.some", count=len(own), ranks=sorted(own), total=ranks))
        elif one.strength == Strength.STRONG:
            one.add(fact("on_ranks.all", total=ranks))


def _conclude(standing: list[Accused], places: list[PlaceRuling]) -> tuple[str, Facts]:
    conclusion, said = _concluded(standing, places)
    asked = next((one for place in places for one in place.said if one.code == "without"), None)
    return conclusion, said if asked is None or asked in said else (*said, asked)


def _concluded(standing: list[Accused], places: list[PlaceRuling]) -> tuple[str, Facts]:
    if standing:
        best = standing[0]
        at = fact("accused.at", step=best.step, rank=best.rank)
        return accuse_called(best, None if len(places) == 1 else at)
    undecided = [place for place in places if place.conclusion == UNDECIDED]
    if undecided:
        return UNDECIDED, undecided[0].said
    if len(places) == 1:
        return CLEAN, places[0].said
    told = fact("clean", nodes=sum(place.compared for place in places))
    for place in places:
        if has_code(place.said, *NOT_JUDGED):  # the same is said of others at their own places
            return CLEAN, (told, fact("place", step=place.step, rank=place.rank), *place.said)
    said = [one for place in places for one in place.said]
    beside = [next((one for one in said if one.code == code), None) for code in _BESIDE_CLEAN]
    return CLEAN, (told, *_widest(places), *(one for one in beside if one is not None))


def _widest(places: list[PlaceRuling]) -> Facts:
    """The limits of all places: the largest difference that any of them may hide."""
    result = []
    for codes in (
        ("limits.factor",),
        ("limits", "limits.forward"),
        ("limits.places",),
        ("assumed_noise", "assumed_noise.forward"),
    ):
        told = [one for place in places for one in place.said if one.code in codes]
        if told:
            whole = next((one for one in told if "backward" in one.arguments), told[0])
            sizes = {
                name: _widest_of(name, [_size(one, name) for one in told if name in one.arguments])
                for name in whole.arguments
            }
            result.append(replace(whole, arguments=sizes))
    return tuple(result)


def _widest_of(name: str, sizes: list[float]) -> float:
    return int(min(sizes)) if name == "calls" else max(sizes)


def _size(told: Fact, name: str) -> float:
    value = told.arguments[name]
    return float(value) if isinstance(value, int | float) else 0.0


def accuse_called(best: Accused, at: Fact | None) -> tuple[str, Facts]:
    """The conclusion that rests on a suspect; ``at`` is its step and rank, if told."""
    return accuse(Strength(best.strength), at, _called(best), best.source, best.evidence)


def _called(one: Accused) -> Fact | str:
    """The module it is called in, and its own name."""
    name = standing_at(one.name(), is_unrecorded=one.cause == "unrecorded")
    if one.module:
        name = fact("accused.in_module", module=one.module, name=name)
    return fact("accused.of_reference", name=name) if one.side else name
