"""What ranks have to say of each other's suspects, a rule at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from msprobe_builder.base.codes import CallRole
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.verdict.ruling.across import apart
from msprobe_builder.verdict.ruling.all_ranks import (
    Accused,
    PlaceRuling,
    Witness,
)
from msprobe_builder.verdict.ruling.conclusion import CLEAN, FAULT, UNDECIDED
from tests.builder.verdict.accusing import (
    NONE,
    STRONG,
    WEAK,
    codes,
    elsewhere,
    heard,
    ruled,
    suspect,
    witness,
)

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
