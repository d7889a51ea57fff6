"""The verdict by what people ask: where, what, how sure, what follows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from msprobe_builder.database.read.verdict import Suspect, Verdict
from msprobe_builder.facts.fact import Argument, Fact, Facts

_WHERE = re.compile(r"(accused|look_first|place)$")
_ARGUMENT = re.compile(r"argument$")
_SURE = re.compile(r"(size|run_again)(\.|$)|probability$")
_FOLLOWS = re.compile(
    r"followers|on_ranks\.|from_rank|from_step|weights_of_step|another_stands|gradients_added"
)
_LIMITS = re.compile(
    r"limits|not_judged|vanished|assumed_noise|reduced_products|without_partner|not_held|norms_of_own"
)
_TOLD = (_WHERE, _ARGUMENT, _SURE, _FOLLOWS, _LIMITS)
_SLICE = re.compile(r"\[(None|-?\d+), (None|-?\d+), (None|-?\d+)\]")
_MODULE = re.compile(r"(?:Module|Cell)\.(.+?)(?:\.\w+\.(?:forward|backward)\.\d+)?")
_MOST_PARTS = 6  # of a module's path


@dataclass(frozen=True)
class Differing:
    """An argument on both sides, as it is written in code."""

    name: str
    debug: str
    reference: str


@dataclass(frozen=True)
class Card:
    """The answers; those that nobody knows are empty."""

    conclusion: str  # fault, clean, undecided
    at: Fact | None  # step and rank, where there are several
    module: str  # path, without its middle where it is long
    call: Fact | str
    line: str  # file and number
    differing: tuple[Differing, ...]
    what: Facts
    suspect: Suspect | None
    sure: Facts
    rival: Suspect | None
    follows: Facts
    limits: Facts


def card_of(verdict: Verdict) -> Card:
    """The card of a whole file; what answers no other question is what has happened."""
    said = verdict.said
    accused = next((one for one in said if _WHERE.match(one.code)), None)
    suspect = verdict.suspects[0] if verdict.suspects and accused else None
    of_accused = {} if accused is None else accused.arguments
    module, call, at = "", of_accused.get("name", ""), of_accused.get("at")
    if isinstance(call, Fact) and call.code == "accused.in_module":
        module, call = str(call.arguments.get("module", "")), call.arguments.get("name", "")

    def those(question: re.Pattern[str]) -> Facts:
        return tuple(one for one in said if question.match(one.code))

    return Card(
        conclusion=verdict.conclusion,
        at=at if isinstance(at, Fact) else None,
        module=short_path(module_path(module)),
        call=call if isinstance(call, Fact) else str(call),
        line="" if suspect is None else suspect.source or "",
        differing=differing(said, "" if suspect is None else suspect.node),
        what=tuple(one for one in said if not any(told.match(one.code) for told in _TOLD)),
        suspect=suspect,
        sure=tuple(one for one in those(_SURE) if one.code != "probability"),
        rival=None if suspect is None else _rival(verdict.suspects),
        follows=those(_FOLLOWS),
        limits=those(_LIMITS),
    )


def what_happened(said: Facts) -> Facts:
    """Without how sure it is, what follows, and what was not judged."""
    return tuple(
        one for one in said if not any(told.match(one.code) for told in (_SURE, _FOLLOWS, _LIMITS))
    )


def differing(said: Facts, call: str) -> tuple[Differing, ...]:
    """The arguments of a call that facts name."""
    return tuple(
        Differing(
            str(one.arguments.get("name", "")),
            str(one.arguments.get("own", "")),
            str(one.arguments.get("theirs", "")),
        )
        for one in with_slices(said, call)
        if _ARGUMENT.match(one.code)
    )


def with_slices(said: Facts, call: str) -> Facts:
    """The same facts with the arguments of a call as they are written in Python."""
    return tuple(
        Fact(one.code, {name: _as_written(value, call) for name, value in one.arguments.items()})
        if _ARGUMENT.match(one.code)
        else one
        for one in said
    )


def _as_written(value: Argument, call: str) -> Argument:
    """``::2`` of ``[None, None, 2]`` where a tensor is sliced; all else as it is."""
    if not isinstance(value, str) or ("__getitem__" not in call and "__setitem__" not in call):
        return value
    found = _SLICE.fullmatch(value)
    if found is None:
        return value
    start, stop, step = ("" if one == "None" else one for one in found.groups())
    return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"


def module_path(name: str) -> str:
    """``model.layers.1.self_attn`` of a module's name in a dump."""
    found = _MODULE.fullmatch(name)
    return name if found is None else found[1]


def short_path(path: str) -> str:
    """A path that is too long loses its middle: both ends say where one is."""
    parts = path.split(".")
    half = _MOST_PARTS // 2
    return path if len(parts) <= _MOST_PARTS else ".".join([*parts[:half], "…", *parts[-half:]])


def _rival(suspects: Sequence[Suspect]) -> Suspect | None:
    """The next call in line; the same call on other ranks is none."""
    first = suspects[0].side, suspects[0].node
    return next((one for one in suspects[1:] if (one.side, one.node) != first), None)
