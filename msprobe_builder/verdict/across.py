"""From the verdicts on single steps and ranks to one on the whole run.

What a rank gets from others, and what a step inherits from the one before, is no fault of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from msprobe_builder.base.codes import CallRole, Direction, Kind, Strength
from msprobe_builder.verdict.conclusion import CLEAN, FAULT, UNDECIDED

_CARRYING = (CallRole.CARRIER, CallRole.AMPLIFIER, CallRole.SUSPECT)
_FALLEN = "What differs here came from another rank or step."


@dataclass
class Accused:
    """A suspect as it stands while the ranks are heard."""

    suspect_id: int
    node_id: int
    step: int
    rank: int
    side: int
    seq: int  # place in the execution order of its graph
    strength: int
    cause: str
    place: int
    evidence: str
    kind: int
    direction: int
    call: int | None
    stem: str
    source: str | None
    module: str  # path of the module that it is called in; empty where it is in none
    talks: bool = False  # to other ranks, itself or in a call that it encloses
    changed: bool = False

    @property
    def is_shared(self) -> bool:
        """Whether its values come from other ranks as well."""
        stem = self.stem
        return self.talks or stem.endswith(".parameters_grad") or ".parameters_grad." in stem

    @property
    def can_be_heard(self) -> bool:
        """Whether other ranks may have something to say in its favour."""
        return self.strength > 0 and not self.side

    def name(self) -> str:
        word = {int(Direction.FORWARD): "forward", int(Direction.BACKWARD): "backward"}
        if self.direction not in word:
            return self.stem
        if self.kind == Kind.API:
            return f"{self.stem}.{self.call}.{word[self.direction]}"
        return f"{self.stem}.{word[self.direction]}.{self.call}"

    def explain(self, why: str) -> None:
        """Somebody else is to blame."""
        self.strength, self.changed = int(Strength.NONE), True
        self.evidence = f"{why} {self.evidence}"

    def add(self, what: str) -> None:
        self.changed = True
        self.evidence = f"{self.evidence} {what}"


@dataclass(frozen=True)
class Witness:
    """What part a call of another rank plays; None where there is no verdict on it."""

    rank: int
    role: int | None
    given: float | None = None
    is_same: bool = False  # it put out the same, to the last digit


@dataclass
class PlaceRuling:
    """The verdict on one step and rank."""

    step: int
    rank: int
    conclusion: str
    sentence: str
    compared: int
    changed: bool = False


@dataclass(frozen=True)
class Hearing:
    """All verdicts and suspects of a file, and by ``suspect_id`` what other ranks say of them.

    ``namesakes`` are the same calls of other ranks, ``partners`` those that it talked to.
    """

    places: list[PlaceRuling]
    accused: list[Accused]
    namesakes: dict[int, list[Witness]] = field(default_factory=dict)
    partners: dict[int, list[Witness]] = field(default_factory=dict)


@dataclass(frozen=True)
class Ruling:
    """The verdict on the whole; ``standing`` are the suspects that are left, likeliest first."""

    standing: list[Accused]
    conclusion: str
    sentence: str


def judge_across(hearing: Hearing) -> Ruling:
    """Settle the strength of all suspects, their order in the file and the verdict on the whole.

    What changes of suspects and places is changed in ``hearing`` and marked there.
    """
    accused, places = hearing.accused, hearing.places
    if len({place.rank for place in places}) > 1:
        _hear_other_ranks(hearing)
    _look_at_earlier_steps(accused)
    _compare_ranks(accused, len({place.rank for place in places}))
    standing = [one for one in accused if one.strength]
    standing.sort(key=lambda one: (-one.strength, one.step, *_position(one), one.rank))
    conclusion, sentence = _conclude(standing, places)
    for place in places:
        own = [one for one in accused if (one.step, one.rank) == (place.step, place.rank)]
        if own and place.conclusion != CLEAN and not any(one.strength for one in own):
            place.conclusion, place.sentence, place.changed = CLEAN, _FALLEN, True
    return Ruling(standing, conclusion, sentence)


def _position(one: Accused) -> tuple[int, int]:
    """Strong ones in order of execution, weak ones as they were ordered at their place."""
    return (one.seq, one.place) if one.strength == Strength.STRONG else (one.place, one.seq)


def _hear_other_ranks(hearing: Hearing) -> None:
    """What came from another rank, or was reduced with it, was wrong there already."""
    # Where a rank was wrong first: nobody is to blame for what came to others before that.
    # A call that only the reference makes stands about where this run would make it.
    wrong: dict[tuple[int, int], int] = {}
    for one in hearing.accused:
        if one.strength:
            begun = wrong.get((one.step, one.rank), one.seq)
            wrong[one.step, one.rank] = min(begun, one.seq)
    for one in hearing.accused:
        if not one.can_be_heard:
            continue
        guilty = [
            other.rank
            for other in hearing.namesakes.get(one.suspect_id, ())
            if other.role in _CARRYING[:2]
            and other.given
            and wrong.get((one.step, other.rank), one.seq) < one.seq
            # Where both hold the same now, though they were given their own, they have talked.
            and (one.is_shared or other.is_same)
        ] or [
            other.rank
            for other in hearing.partners.get(one.suspect_id, ())
            if other.role in _CARRYING and other.rank != one.rank
        ]
        if guilty:
            one.explain(f"It comes from rank {guilty[0]}, where it was wrong before.")


def _look_at_earlier_steps(accused: Iterable[Accused]) -> None:
    """Weights that differ behind a step with a fault were trained wrongly by it."""
    first: int | None = None
    ordered = sorted(accused, key=lambda one: one.step)
    for one in ordered:
        if first is not None and one.step > first and one.cause == "external":
            one.explain(f"It follows from step {first}.")
        elif one.strength == Strength.STRONG and first is None:
            first = one.step


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
            told = ", ".join(map(str, sorted(own)))
            one.add(f"Only on {'rank' if len(own) == 1 else 'ranks'} {told} of {ranks}.")
        elif one.strength == Strength.STRONG:
            one.add(f"On all {ranks} ranks alike.")


def _conclude(standing: list[Accused], places: list[PlaceRuling]) -> tuple[str, str]:
    if standing:
        best = standing[0]
        where = f"Step {best.step}, rank {best.rank}: "
        if len(places) == 1:
            where = ""
        said = f"{where}{_called(best)}: {best.evidence}"
        if best.strength == Strength.STRONG:
            return FAULT, said
        return UNDECIDED, f"Nothing certain; look first at {said}"
    undecided = [place for place in places if place.conclusion == UNDECIDED]
    if undecided:
        return UNDECIDED, undecided[0].sentence
    compared = sum(place.compared for place in places)
    return CLEAN, f"No fault beyond rounding in {compared:,} nodes."


def _called(one: Accused) -> str:
    """The module it is called in, its own name, and the line of code."""
    name = f"{one.module} \u2192 {one.name()}" if one.module else one.name()
    side = " of the reference" if one.side else ""
    return f"{name}{side} ({one.source})" if one.source else f"{name}{side}"
