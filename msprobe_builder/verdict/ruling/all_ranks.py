"""Suspects, and what other ranks and steps have to say of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from msprobe_builder.base.codes import CallRole, Direction, Kind, Strength
from msprobe_builder.base.standing import GATHERING
from msprobe_builder.facts.fact import Fact, Facts, fact
from msprobe_builder.verdict.findings import CERTAIN, RIVALLED, strength

_CARRYING = (CallRole.CARRIER, CallRole.AMPLIFIER)


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
    evidence: Facts
    kind: int
    direction: int
    call: int | None
    stem: str
    source: str | None
    module: str  # path of the module that it is called in; empty where it is in none
    talks: bool = False  # to other ranks, itself or in a call that it encloses
    is_update: bool = False  # made behind all gradients
    error: float | None = None  # how far off it is, as a part of its size
    expected: float | None = None  # what is explained of that
    otherwise: int | None = None  # its chance in percent where weights before it are explained
    trained_in: int | None = None  # step whose update, which agrees, put out its weights
    is_of_others: bool = False  # it may be what other ranks put into a sum
    changed: bool = False

    @property
    def is_shared(self) -> bool:
        """Whether its values come from other ranks as well."""
        return self.talks or self.is_of_parameters

    @property
    def is_of_parameters(self) -> bool:
        """Whether it stands for gradients of parameters, which is given nothing itself."""
        return self.stem.endswith(".parameters_grad") or ".parameters_grad." in self.stem

    @property
    def gathers(self) -> bool:
        """Whether it takes this rank's parts of parameters, to put those of all together."""
        return self.stem.startswith(GATHERING)

    @property
    def reads_gradients(self) -> bool:
        """Whether it is given what no recorded call has made, behind all passes."""
        return self.is_update and self.cause == "external"

    @property
    def can_be_judged_again(self) -> bool:
        """Whether other ranks may have something to say in its favour."""
        return self.strength > 0 and not self.side

    def name(self) -> str:
        word = {int(Direction.FORWARD): "forward", int(Direction.BACKWARD): "backward"}
        if self.direction not in word:
            return self.stem
        if self.kind == Kind.API:
            return f"{self.stem}.{self.call}.{word[self.direction]}"
        return f"{self.stem}.{word[self.direction]}.{self.call}"

    def explain(self, why: Fact) -> None:
        """Somebody else is to blame."""
        self.strength, self.changed = int(Strength.NONE), True
        self.evidence = (why, *self.evidence)

    def weaken(self, why: Fact) -> None:
        """It may be so without a fault."""
        self.strength = min(self.strength, int(Strength.WEAK))
        self._believe(most=RIVALLED)
        self.add(why)

    def convict(self, why: Fact) -> None:
        """What came later has felt it."""
        self.strength = int(Strength.STRONG)
        self._believe(least=CERTAIN)
        self.add(why)

    def believe_without_weights(self) -> None:
        """The weights that were accused before it follow from the step before."""
        if self.strength and self.otherwise is not None:
            self.strength = int(strength(self.otherwise / 100))
            self.changed = True
            self._believe(self.otherwise / 100, self.otherwise / 100)

    def _believe(self, least: float = 0.0, most: float = 1.0) -> None:
        """Keep what was said of its chance within what is known now."""
        low, high = round(100 * least), round(100 * most)
        self.evidence = tuple(
            replace(one, arguments={"percent": min(high, max(low, percent))})
            if one.code == "probability" and isinstance(percent := one.arguments["percent"], int)
            else one
            for one in self.evidence
        )

    def add(self, what: Fact) -> None:
        self.changed = True
        self.evidence = (*self.evidence, what)


@dataclass(frozen=True)
class Witness:
    """What part a call of another rank plays; None where there is no verdict on it."""

    rank: int
    role: int | None
    given: float | None = None
    is_same: bool = False  # it put out the same, to the last digit
    inherits: bool = False  # from a suspect of that rank
    is_accused_alike: bool = False  # of the same, in a call in which all give and take
    gives: float = 0.0  # how far the norm is off of what it was given to talk of

    @property
    def carries(self) -> bool:
        """Whether it hands on what was wrong on that rank before, though it may not be compared."""
        return self.role in _CARRYING or (self.role == CallRole.UNKNOWN and self.inherits)

    @property
    def is_unknown(self) -> bool:
        """Whether nobody could compare what it was given and put out."""
        return self.role == CallRole.UNKNOWN and self.given is None


@dataclass
class PlaceRuling:
    """The verdict on one step and rank."""

    step: int
    rank: int
    conclusion: str
    said: Facts
    compared: int
    noise: float | None = None  # of one call given equal tensors, where it is known
    changed: bool = False

    @property
    def without(self) -> frozenset[str]:
        """Kinds that were left out of it."""
        told = (one.arguments["kinds"] for one in self.said if one.code == "without")
        return frozenset(str(one) for kinds in told if isinstance(kinds, Sequence) for one in kinds)

    @property
    def noise_of_gradients(self) -> float | None:
        """What its gradients are off by anyhow, where that was said."""
        told = (one.arguments.get("backward") for one in self.said if one.code == "assumed_noise")
        return max((float(one) for one in told if isinstance(one, int | float)), default=None)


@dataclass(frozen=True)
class Repeated:
    """A module, and how often the debug run and the reference call it in a step."""

    step: int
    rank: int
    module: str
    debug: int
    reference: int

    @property
    def said(self) -> Fact:
        """As in a step of which a micro-step is missing."""
        counts = {"own": self.debug, "theirs": self.reference}
        return fact("step_before.calls_more", step=self.step, module=self.module, **counts)


@dataclass(frozen=True)
class AllRanks:
    """All verdicts and suspects of a file, and by ``suspect_id`` what other ranks say of them.

    ``namesakes`` are the same calls of other ranks, ``partners`` those that it talked to,
    ``senders`` the ranks that sent in both runs what arrived, and send what is right; ``repeated``
    the modules that one side calls more often, the first of each step and rank. ``agreeing`` are
    steps and ranks whose weights were updated alike in the step before.
    """

    places: list[PlaceRuling]
    accused: list[Accused]
    namesakes: dict[int, list[Witness]] = field(default_factory=dict)
    partners: dict[int, list[Witness]] = field(default_factory=dict)
    senders: dict[int, int] = field(default_factory=dict)
    repeated: list[Repeated] = field(default_factory=list)
    agreeing: frozenset[tuple[int, int]] = frozenset()

    @cached_property
    def begins(self) -> int:
        """The first step that was recorded."""
        return min((place.step for place in self.places), default=0)
