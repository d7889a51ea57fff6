"""What ranks and steps have to say of each other's suspects, a rule at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from msprobe_builder.base.codes import CallRole, Direction, Kind, Strength
from msprobe_builder.facts.fact import Fact, Facts, fact
from msprobe_builder.facts.words import HIDDEN
from msprobe_builder.verdict.ruling.across import Ruling, apart, judge_across
from msprobe_builder.verdict.ruling.all_ranks import (
    Accused,
    AllRanks,
    PlaceRuling,
    Repeated,
    Witness,
)
from msprobe_builder.verdict.ruling.conclusion import CLEAN, FAULT, UNDECIDED

STRONG, WEAK, NONE = int(Strength.STRONG), int(Strength.WEAK), int(Strength.NONE)
PRIMARY = Accused(
    suspect_id=1,
    node_id=10,
    step=0,
    rank=0,
    side=0,
    seq=10,
    strength=STRONG,
    cause="output",
    place=1,
    evidence=(fact("ranks_unlike"),),
    kind=int(Kind.API),
    direction=int(Direction.FORWARD),
    call=3,
    stem="Distributed.all_reduce",
    source=None,
    module="",
    talks=True,
)


def suspect(**changes: Any) -> Accused:
    return replace(PRIMARY, **changes)


def elsewhere(**changes: Any) -> Accused:
    """One that another rank accuses before, of what it does alone."""
    given = {"suspect_id": 2, "rank": 1, "seq": 5, "stem": "Torch.mul", "talks": False} | changes
    return suspect(**given)


def ruled(*accused: Accused, ranks: int = 2, steps: int = 1, **known: Any) -> Ruling:
    places = [
        PlaceRuling(step, rank, FAULT, (), 9) for step in range(steps) for rank in range(ranks)
    ]
    return judge_across(AllRanks(known.pop("places", places), list(accused), **known))


def codes(facts: Facts) -> list[str]:
    return [one.code for one in facts]


def heard(one: Accused, *others: Accused, **known: Any) -> tuple[int, list[str]]:
    """Its strength, and what was added to the evidence."""
    one = replace(one)
    ruled(one, *map(replace, others), **known)
    return one.strength, [code for code in codes(one.evidence) if code != "ranks_unlike"]


def witness(role: CallRole | None = CallRole.CARRIER, **changes: Any) -> Witness:
    return Witness(**({"rank": 1, "role": None if role is None else int(role)} | changes))


EXPLAINED = (NONE, ["from_rank"])
STAYS = (STRONG, ["on_ranks.some"])


@pytest.mark.parametrize(
    ("one", "other", "seen", "right"),
    [
        (suspect(), elsewhere(), witness(given=0.1), EXPLAINED),
        (suspect(), elsewhere(), witness(CallRole.AMPLIFIER, given=0.1), EXPLAINED),
        # It was wrong there only later, or at the same place.
        (suspect(), elsewhere(seq=10), witness(given=0.1), STAYS),
        (suspect(), elsewhere(seq=9), witness(given=0.1), EXPLAINED),
        (suspect(), elsewhere(seq=11), witness(given=0.1), STAYS),
        # Another step's fault came to nobody here.
        (suspect(), elsewhere(step=1), witness(given=0.1), STAYS),
        # Nothing wrong was given there.
        (suspect(), elsewhere(), witness(given=0.0), STAYS),
        (suspect(), elsewhere(), witness(CallRole.CLEAN, given=0.1), STAYS),
        (suspect(), elsewhere(), witness(CallRole.UNKNOWN, given=0.1), STAYS),
        (suspect(), elsewhere(), witness(CallRole.UNKNOWN, given=0.1, inherits=True), EXPLAINED),
        (suspect(), elsewhere(), witness(None, given=0.1), STAYS),
        # A call that talks to nobody is explained where both put out the same now.
        (suspect(talks=False, stem="Torch.add"), elsewhere(), witness(given=0.1), STAYS),
        (
            *(suspect(talks=False, stem="Torch.add"), elsewhere()),
            *(witness(given=0.1, is_same=True), EXPLAINED),
        ),
        # Gradients of parameters are given nothing themselves.
        (
            *(suspect(talks=False, stem="Module.a.B.parameters_grad"), elsewhere()),
            *(witness(inherits=True), EXPLAINED),
        ),
        (
            *(suspect(talks=False, stem="Module.a.B.parameters_grad"), elsewhere()),
            *(witness(), STAYS),
        ),
        # The first to show there what a call of that rank alone has done.
        (suspect(), elsewhere(), witness(CallRole.CLEAN, is_same=True), EXPLAINED),
        (suspect(), elsewhere(seq=10), witness(CallRole.CLEAN, is_same=True), STAYS),
        (suspect(), elsewhere(talks=True), witness(CallRole.CLEAN, is_same=True), STAYS),
        # Accused there as well, behind what is certain.
        (suspect(), elsewhere(), witness(CallRole.SUSPECT), EXPLAINED),
        (suspect(), elsewhere(strength=WEAK), witness(CallRole.SUSPECT), STAYS),
        (suspect(), elsewhere(seq=10), witness(CallRole.SUSPECT), STAYS),
    ],
)
def test_what_came_from_another_rank(
    one: Accused, other: Accused, seen: Witness, right: tuple[int, list[str]]
) -> None:
    assert heard(one, other, namesakes={1: [seen]}) == right


@pytest.mark.parametrize("strength", [WEAK, STRONG])
def test_only_what_is_accused_here_is_heard(strength: int) -> None:
    seen = {1: [witness(given=0.1)]}
    assert heard(suspect(strength=strength), elsewhere(), namesakes=seen) == EXPLAINED
    strength_left, _ = heard(suspect(strength=strength, side=1), elsewhere(), namesakes=seen)
    assert strength_left == strength


@pytest.mark.parametrize(
    ("seen", "right"),
    [
        (witness(), EXPLAINED),
        (witness(CallRole.SUSPECT), EXPLAINED),
        (witness(CallRole.SUSPECT, is_accused_alike=True), (STRONG, ["on_ranks.some"])),
        (witness(rank=0), (STRONG, ["on_ranks.some"])),
        (witness(CallRole.CLEAN), (STRONG, ["on_ranks.some"])),
        (witness(CallRole.CLEAN, gives=2.0**-6), (WEAK, ["given_by_rank"])),
        (witness(CallRole.CLEAN, gives=2.0**-7), (STRONG, ["on_ranks.some"])),
        (witness(CallRole.CLEAN, gives=2.0**-6, rank=0), (STRONG, ["on_ranks.some"])),
    ],
)
def test_what_a_partner_gave(seen: Witness, right: tuple[int, list[str]]) -> None:
    assert heard(suspect(), partners={1: [seen]}) == right


def test_the_rank_that_is_to_blame_is_told() -> None:
    for known in ("namesakes", "partners"):
        one = suspect()
        told: dict[str, Any] = {known: {1: [witness(given=0.1, rank=3)]}}
        ruled(one, elsewhere(rank=3), ranks=4, **told)
        assert one.evidence[0] == fact("from_rank", rank=3)


def test_what_is_received_as_it_was_sent_is_the_senders() -> None:
    assert heard(suspect(), senders={1: 1}) == (NONE, ["sent_by_rank"])
    assert heard(suspect(), senders={2: 1}) == STAYS


@pytest.mark.parametrize(
    ("one", "seen", "right"),
    [
        (suspect(), witness(CallRole.UNKNOWN), (WEAK, ["given_by_rank.unknown"])),
        (suspect(), witness(CallRole.UNKNOWN, given=0.0), STAYS),
        (suspect(), witness(CallRole.CLEAN), STAYS),
        (suspect(talks=False, stem="Torch.add"), witness(CallRole.UNKNOWN), STAYS),
    ],
)
def test_what_nobody_compared_there_weakens(
    one: Accused, seen: Witness, right: tuple[int, list[str]]
) -> None:
    assert heard(one, elsewhere(), namesakes={1: [seen]}) == right


@pytest.mark.parametrize(
    ("other", "right"),
    [
        (elsewhere(), (NONE, ["gradients_added.follows"])),
        (elsewhere(strength=WEAK), (WEAK, ["gradients_added.look"])),
        (elsewhere(rank=0), STAYS),
        (elsewhere(step=1), STAYS),
        (elsewhere(is_update=True), STAYS),
        (elsewhere(talks=True), STAYS),
        (elsewhere(strength=NONE), STAYS),
    ],
)
def test_an_update_reads_what_ranks_have_added_up(
    other: Accused, right: tuple[int, list[str]]
) -> None:
    update = suspect(is_update=True, cause="external", talks=False, stem="Torch.add")
    assert heard(update, other) == right
    assert heard(replace(update, cause="output"), other) == STAYS


def test_ranks_say_nothing_where_there_is_one() -> None:
    seen = {1: [witness(given=0.1)]}
    assert heard(suspect(), elsewhere(rank=0), ranks=1, namesakes=seen) == (STRONG, [])


@pytest.mark.parametrize("strength", [WEAK, STRONG])
@pytest.mark.parametrize("beside", [WEAK, STRONG])
def test_one_weight_stands_for_all_that_differ_at_the_beginning(strength: int, beside: int) -> None:
    one = suspect(cause="weights", strength=strength, talks=False, stem="Module.a.B")
    other = replace(one, suspect_id=2, strength=beside, stem="Module.c.B", seq=20)
    left, added = heard(one, other, ranks=1)
    if strength == STRONG:
        assert (left, added) == (STRONG, ["began_otherwise"])
    else:
        certain = beside == STRONG
        assert (left, added) == ((NONE, ["another_stands_for_all"]) if certain else (WEAK, []))
    # A step that is not the first began with what the others left.
    later = heard(replace(one, step=1), ranks=1, steps=2)
    assert "began_otherwise" not in later[1]


def weights(**changes: Any) -> Accused:
    """Weights that differ at the second of the steps."""
    given = {"cause": "weights", "step": 1, "talks": False, "stem": "Module.a.B"} | changes
    return suspect(**given)


def before(**changes: Any) -> Accused:
    """What is accused at the first step, of another kind."""
    return suspect(**({"suspect_id": 2, "talks": False, "stem": "Torch.mul"} | changes))


PASSES = (fact("rival.passes"),)


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
    ],
)
def test_weights_come_of_the_steps_before(
    one: Accused, others: tuple[Accused, ...], right: tuple[int, list[str]]
) -> None:
    assert heard(one, *others, ranks=1, steps=2) == right


def test_an_update_is_convicted_by_the_weights_behind_it() -> None:
    update, other = before(strength=WEAK, is_update=True), weights()
    later = before(strength=WEAK, is_update=True, suspect_id=3, place=2)
    ruled(update, later, other, ranks=1, steps=2)
    assert (update.strength, later.strength, other.strength) == (STRONG, WEAK, NONE)
    assert update.evidence[-1] == fact("weights_of_step", step=1)
    assert other.evidence[0] == fact("from_step", step=0)


@pytest.mark.parametrize(
    ("noise", "place", "conclusion", "is_convicted"),
    [
        (0.0, 1, CLEAN, True),
        (2.0**-20, 1, CLEAN, True),
        (2.0**-19, 1, CLEAN, False),
        (None, 1, CLEAN, False),
        (0.0, 2, CLEAN, False),
        (0.0, 1, UNDECIDED, False),
    ],
)
def test_a_step_that_agrees_to_the_last_digit_convicts_what_comes_next(
    noise: float | None, place: int, conclusion: str, is_convicted: bool
) -> None:
    places = [PlaceRuling(0, 0, conclusion, (), 9, noise), PlaceRuling(1, 0, UNDECIDED, (), 9)]
    strength, _ = heard(weights(strength=WEAK, place=place), places=places)
    assert strength == (STRONG if is_convicted else WEAK)


@pytest.mark.parametrize(("step", "rank", "holds"), [(0, 0, True), (1, 0, False), (0, 1, False)])
def test_a_step_with_other_passes_is_told(step: int, rank: int, holds: bool) -> None:
    again = [Repeated(step, rank, "layers.0", 2, 1)]
    _, added = heard(weights(), ranks=1, steps=2, repeated=again)
    assert added == ["step_before.calls_more" if holds else "step_before.agrees"]


def test_on_how_many_ranks_a_call_is_wrong() -> None:
    one = suspect(talks=False, stem="Torch.mul")
    others = [replace(one, suspect_id=rank + 1, rank=rank) for rank in (1, 2)]
    some = replace(one)
    ruled(some, replace(others[0]), ranks=3)
    assert some.evidence[-1] == fact("on_ranks.some", count=2, ranks=[0, 1], total=3)
    every = replace(one)
    ruled(every, *map(replace, others), ranks=3)
    assert every.evidence[-1] == fact("on_ranks.all", total=3)
    weak = replace(one, strength=WEAK)
    ruled(weak, replace(others[0]), ranks=3)
    assert codes(weak.evidence) == ["ranks_unlike"]


def test_the_surest_stands_first_then_the_earliest() -> None:
    several = [
        suspect(suspect_id=1, strength=WEAK, seq=1, talks=False, stem="Torch.a"),
        suspect(suspect_id=2, seq=30, talks=False, stem="Torch.b"),
        suspect(suspect_id=3, seq=20, place=2, talks=False, stem="Torch.c"),
        suspect(suspect_id=4, seq=5, step=1, talks=False, stem="Torch.d"),
        suspect(suspect_id=5, strength=WEAK, seq=2, place=0, talks=False, stem="Torch.e"),
        suspect(suspect_id=6, strength=NONE, seq=0, talks=False, stem="Torch.f"),
        suspect(suspect_id=7, rank=1, seq=20, place=2, talks=False, stem="Torch.c"),
        suspect(suspect_id=8, strength=WEAK, is_of_others=True, place=0, stem="Torch.g"),
    ]
    ruling = ruled(*several, steps=2)
    assert [one.suspect_id for one in ruling.standing] == [3, 7, 2, 4, 5, 1, 8]
    assert [one.suspect_id for one in apart(ruling.standing)] == [3, 2, 4, 5, 1, 8]
    assert ruling.conclusion == FAULT
    assert ruling.said[0].code == "accused"
    [at] = [one for one in ruling.said[0].arguments.values() if isinstance(one, Fact)][:1]
    assert at == fact("accused.at", step=0, rank=0)


def test_a_place_whose_suspects_were_explained_is_clean() -> None:
    here, there = PlaceRuling(0, 0, FAULT, (), 9), PlaceRuling(0, 1, FAULT, (), 9)
    ruled(suspect(), elsewhere(), places=[here, there], namesakes={1: [witness(given=0.1)]})
    assert (here.conclusion, codes(here.said)) == (CLEAN, ["follows_from_elsewhere"])
    assert (there.conclusion, there.said[0].code) == (FAULT, "accused")
    assert here.changed


def test_without_suspects_what_is_open_anywhere_is_open() -> None:
    told = fact("cannot_tell.no_call")
    clean, still = (
        PlaceRuling(0, 0, CLEAN, (fact("clean", nodes=9),), 9),
        fact("not_judged.left_out"),
    )
    ruling = ruled(places=[clean, PlaceRuling(0, 1, UNDECIDED, (told,), 0)])
    assert (ruling.conclusion, ruling.said) == (UNDECIDED, (told,))
    ruling = ruled(places=[clean, replace(clean, rank=1, compared=5)])
    assert (ruling.conclusion, ruling.said) == (CLEAN, (fact("clean", nodes=14),))
    ruling = ruled(places=[clean])
    assert (ruling.conclusion, ruling.said) == (CLEAN, clean.said)
    ruling = ruled(places=[clean, replace(clean, rank=1, said=(still,))])
    assert ruling.said == (fact("clean", nodes=18), fact("place", step=0, rank=1), still)


def test_a_call_is_named_with_its_module_and_side() -> None:
    one = suspect(talks=False, stem="Torch.mul", module="layers.3", side=1, source="train.py:7")
    [told, *_] = ruled(one, ranks=1).said
    name = fact("accused.in_module", module="layers.3", name="Torch.mul.3.forward")
    assert told.arguments["name"] == fact("accused.of_reference", name=name)
    assert "at" not in told.arguments  # of one step and rank
    assert told.arguments["source"] == fact("accused.source", line="train.py:7")


def test_what_may_be_of_others_stands_behind_what_is_not() -> None:
    update = suspect(is_update=True, cause="external", talks=False, stem="Torch.add", strength=WEAK)
    there = elsewhere(strength=WEAK, rank=1, seq=40, place=3)
    ruling = ruled(update, there)
    assert [one.rank for one in ruling.standing] == [1, 0]
    assert update.is_of_others


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
