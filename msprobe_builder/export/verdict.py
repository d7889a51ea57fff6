"""The verdict as lines for a person and as JSON for a program."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msprobe_builder.base.codes import SIDES
from msprobe_builder.base.printable import printable
from msprobe_builder.database.read.configuration import Configuration
from msprobe_builder.database.read.verdict import PlaceVerdict, Suspect, Verdict
from msprobe_builder.export.card import Card, Differing, card_of, what_happened, with_slices
from msprobe_builder.export.configuration import configuration_json
from msprobe_builder.export.wrapped import line, wrapped
from msprobe_builder.facts.fact import Fact, Facts, fact, plain
from msprobe_builder.facts.wording import ENGLISH, called, tell

_SHOWN = 5
_SHOWN_STEPS = 6
_NOTHING_COMPARED = fact("cannot_tell.nothing_compared")
_WEIGHTS = "weights"  # cause of those that differ together


def verdict_lines(verdict: Verdict, database: Path, code: str) -> list[str]:
    """The card of the whole, each step, the other suspects and what to do next.

    ``code`` is the line that made the first suspect's call, empty where it was not recorded.
    """
    card = card_of(verdict)
    lines = _card_lines(card, code)
    if verdict.changed:
        lines += wrapped(fact("label.older"), older(verdict.changed))
    if len(verdict.places) > 1 and verdict.suspects:
        lines += wrapped(fact("label.steps"), _steps(verdict))
    calls = _calls(verdict.suspects)
    for alike in calls[1:_SHOWN]:
        lines += _other_lines(alike, is_placed=len(verdict.places) > 1)
    more = len(calls) - _SHOWN
    if more > 0:
        lines += wrapped("", fact("verdict.more", count=more))
    return [*lines, *_next_lines(verdict, database)]


def _card_lines(card: Card, code: str) -> list[str]:
    sides = fact("card.sides") if all(called()) else None
    conclusion = conclusion_fact(card.conclusion)
    is_accused = card.suspect is not None
    what = card.what if is_accused else (*card.what, *card.sure, *card.follows)
    title: Facts = (fact("card.conclusion", conclusion=conclusion, sides=sides),)
    lines = wrapped(fact("label.verdict"), title if is_accused else [*title, *what])
    if card.suspect is not None:
        module = fact("accused.in_module", module=card.module, name=card.call)
        named = module if card.module else card.call
        lines += wrapped(fact("label.where"), fact("card.where", at=card.at, name=named))
        if card.line:
            source = fact("card.code", text=printable(" ".join(code.split()))) if code else None
            lines.append(line("", fact("card.line", line=card.line, source=source)))
        lines += wrapped(fact("label.what"), [*map(argument_fact, card.differing), *what])
        lines += wrapped(fact("label.sure"), sure_facts(card))
        if card.follows:
            lines += wrapped(fact("label.follows"), card.follows)
    return [*lines, *(wrapped(fact("label.limits"), card.limits) if card.limits else ())]


def argument_fact(one: Differing) -> Fact:
    """An argument of both sides, the debug side first."""
    return fact("card.argument", name=one.name, own=one.debug, theirs=one.reference)


def sure_facts(card: Card) -> list[Fact]:
    """How sure the first suspect is, by how much it is off, and who else it may be."""
    told = [] if card.suspect is None else [fact("card.sure", **_likely(card.suspect))]
    rival = card.rival
    if rival is None:
        return [*told, *card.sure]
    return [*told, *card.sure, fact("card.rival", name=rival.called, **_likely(rival))]


def _likely(one: Suspect) -> dict[str, Fact | None]:
    percent = None
    if one.probability is not None:
        percent = fact("card.percent", percent=round(100 * one.probability))
    strength = fact("card.strong") if one.strength == "strong" else fact("card.weak")
    return {"percent": percent, "strength": strength}


def _other_lines(alike: Sequence[Suspect], *, is_placed: bool) -> list[str]:
    """One of the other suspects, on all ranks and steps that show it."""
    one = alike[0]
    name = fact("accused.of_reference", name=one.called) if one.side == SIDES[1] else one.called
    if is_placed:
        name = fact("verdict.at_place", where=_where(alike), name=name)
    source = fact("accused.source", line=one.source) if one.source else None
    told = [
        fact("verdict.suspect", name=name, source=source),
        *what_happened(with_slices(one.facts, one.node)),
    ]
    if one.cause == _WEIGHTS and len(alike) > 1:
        told.append(fact("verdict.more_weights", count=len(alike) - 1))
    return wrapped(fact("label.strong" if one.strength == "strong" else "label.weak"), told)


def conclusion_fact(conclusion: str) -> Fact:
    """What a conclusion is called."""
    if conclusion == "fault":
        return fact("conclusion.fault")
    return fact("conclusion.clean" if conclusion == "clean" else "conclusion.undecided")


def older(changed: int) -> Fact:
    """What to do where the verdict does not know all matches."""
    return fact("verdict.older", count=changed)


def to_do(verdict: Verdict, database: Path) -> list[tuple[Fact, str]]:
    """What to do next, each with the command for it."""
    todo: list[tuple[Fact, str]] = []
    first = verdict.suspects[0] if verdict.suspects else None
    if first is not None and first.command is not None and first.check is None:
        todo.append((fact("verdict.check"), first.command))
    if verdict.next_dump is not None:
        size = size_fact(verdict.next_dump)
        about = None if size is None else fact("verdict.record_size", size=size)
        file = shlex.quote(printable(str(database)))
        command = f"msprobe-build verdict {file} --next-config config.json"
        todo.append((fact("verdict.record", size=about, remark=verdict.remark), command))
        check = operator_check(verdict)
        if check is not None:
            todo.append((fact("verdict.then"), check))
    return todo


def _next_lines(verdict: Verdict, database: Path) -> list[str]:
    """Each command on a line of its own, to be copied."""
    labels: tuple[Fact | str, ...] = (fact("label.next"), fact("label.then"), "")
    return [
        one
        for label, (what, command) in zip(labels, to_do(verdict, database), strict=False)
        for one in (*wrapped(label, what), line("", command))
    ]


def _calls(suspects: Sequence[Suspect]) -> list[list[Suspect]]:
    """The suspects by call, on all ranks and at all steps that show it; weights all together."""
    found: dict[tuple[str, str], list[Suspect]] = {}
    for one in suspects:
        key = (_WEIGHTS, "") if one.cause == _WEIGHTS else (one.side, one.node)
        found.setdefault(key, []).append(one)
    return list(found.values())


def _where(alike: Sequence[Suspect]) -> Fact:
    """``step 0 rank 1``, or all those that show the same call."""
    steps = fact("numbered.step", **_numbered({one.step for one in alike}))
    ranks = fact("numbered.rank", **_numbered({one.rank for one in alike}))
    return fact("step_and_rank", steps=steps, ranks=ranks)


def _steps(verdict: Verdict) -> list[Fact]:
    """What became of each step, by ranks where they do not agree."""
    first = verdict.first_bad_step
    told = [] if first is None else [fact("verdict.first_bad", step=first)]
    steps = sorted({place.step for place in verdict.places})
    for step in steps[:_SHOWN_STEPS]:
        ranks: dict[Fact, list[int]] = {}
        for place in verdict.places:
            if place.step == step:
                ranks.setdefault(outcome(place), []).append(place.rank)
        total = sum(map(len, ranks.values()))
        parts = [_of_ranks(word, those, total) for word, those in ranks.items()]
        told.append(fact("verdict.step", step=step, outcomes=parts))
    more = len(steps) - _SHOWN_STEPS
    return [*told, fact("verdict.more_steps", count=more)] if more > 0 else told


def outcome(place: PlaceVerdict) -> Fact:
    """In a word or three what became of a step and rank."""
    return fact("conclusion.follows") if place.follows else conclusion_fact(place.conclusion)


def _of_ranks(word: Fact, ranks: Sequence[int], total: int) -> Fact:
    if total == 1:
        return word
    if len(ranks) == total:
        return fact("verdict.on_all", outcome=word, total=total)
    return fact("verdict.on_ranks", outcome=word, ranks=fact("numbered.rank", **_numbered(ranks)))


def _numbered(numbers: Iterable[int]) -> dict[str, int | list[str]]:
    """How many numbers there are, and them, runs as their ends: ``0-3``, ``5``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    count = len(set(numbers))
    return {"count": count, "numbers": ["-".join(map(str, run)) for run in runs]}


def operator_check(verdict: Verdict) -> str | None:
    """The command that runs the calls of the next dump again one by one, when it holds tensors."""
    config = (verdict.next_dump or {}).get("config")
    if not all(one.is_of_torch for one in verdict.suspects):
        return None
    if not isinstance(config, dict) or config.get("task") != "tensor" or not config.get("step"):
        return None
    return f"msprobe-operators check {config['dump_path']}/step{config['step'][0]}/rank*"


def why_unjudged(meta: Mapping[str, str]) -> Fact:
    """Why a file with such a table ``meta`` holds no verdict."""
    if '"verdict": false' in meta.get("options", ""):
        return fact("cannot_tell.unwanted")
    return _NOTHING_COMPARED


def verdict_json(
    verdict: Verdict | None,
    configuration: Configuration | None,
    unjudged: Fact = _NOTHING_COMPARED,
) -> dict[str, Any]:
    """The verdict as docs/verdict.md describes it: facts, and each in English.

    ``unjudged`` is why there is none, see :func:`why_unjudged`.
    """
    if verdict is None:
        said = [unjudged]
        return {
            "conclusion": "undecided",
            "sentence": tell(said, ENGLISH),
            "facts": plain(said),
            "compared": 0,
            "matches_changed": 0,
            "first_bad_step": None,
            "suspects": [],
            "places": [],
            "next_dump": None,
            "operator_check": None,
            "configuration": configuration_json(configuration),
        }
    return {
        "conclusion": verdict.conclusion,
        "sentence": tell(verdict.said, ENGLISH),
        "facts": plain(verdict.said),
        "compared": verdict.compared,
        "matches_changed": verdict.changed,
        "first_bad_step": verdict.first_bad_step,
        "suspects": [_suspect_json(one) for one in verdict.suspects],
        "places": [_place_json(one) for one in verdict.places],
        "next_dump": _next_json(verdict),
        "operator_check": operator_check(verdict),
        "configuration": configuration_json(configuration),
    }


def _place_json(one: PlaceVerdict) -> dict[str, Any]:
    return {
        "step": one.step,
        "rank": one.rank,
        "conclusion": one.conclusion,
        "sentence": tell(one.said, ENGLISH),
        "facts": plain(one.said),
    }


def _next_json(verdict: Verdict) -> dict[str, Any] | None:
    if verdict.next_dump is None:
        return None
    return verdict.next_dump | {
        "remark": tell(verdict.remark, ENGLISH) or None,
        "remark_facts": plain(verdict.remark),
    }


def _suspect_json(one: Suspect) -> dict[str, Any]:
    """``fault`` tells whether the node itself is to blame, or only shows what nobody recorded."""
    told = dict(vars(one))
    facts = told.pop("facts")
    del told["is_of_torch"]
    return {
        **told,
        "evidence": tell(facts, ENGLISH),
        "facts": plain(facts),
        "fault": "before" if one.is_unrecorded else "in",
        "probability": one.probability,
        "ranks": list(one.ranks),
    }


_MOST_BYTES = 1 << 63  # what a damaged shape says beyond it is no size


def size_fact(proposal: dict[str, Any]) -> Fact | None:
    """How much the next dump takes; None where nobody knows."""
    size = proposal.get("expected_bytes")
    if size is None or size > _MOST_BYTES:
        return None
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            digits = 0 if size >= 10 or unit == "bytes" else 1
            return fact("size.about", size=f"{size:.{digits}f}", unit=unit)
        size /= 1000
    return fact("size.about", size=f"{size:,.0f}", unit="TB")
