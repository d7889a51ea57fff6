"""The verdict as lines for a person and as JSON for a program."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from msprobe_builder.base.codes import SIDES
from msprobe_builder.base.printable import printable
from msprobe_builder.database.read.configuration import Configuration
from msprobe_builder.database.read.verdict import PlaceVerdict, Suspect, Verdict
from msprobe_builder.export.configuration import configuration_json
from msprobe_builder.export.wrapped import wrapped
from msprobe_builder.facts.fact import Fact, fact, plain
from msprobe_builder.facts.wording import ENGLISH, tell

_SHOWN = 5
_SHOWN_STEPS = 6
NOTHING_COMPARED = fact("cannot_tell.nothing_compared")
_WEIGHTS = "weights"  # cause of those that differ together


def verdict_lines(verdict: Verdict, database: Path) -> list[str]:
    """What is said of the whole, each step, the other suspects and what to record next."""
    conclusion = fact("verdict.conclusion", conclusion=conclusion_fact(verdict.conclusion))
    lines = wrapped(fact("label.verdict"), [conclusion, *verdict.said])
    if verdict.changed:
        lines += wrapped(fact("label.older"), older(verdict.changed))
    if len(verdict.places) > 1 and verdict.suspects:
        lines += wrapped(fact("label.steps"), _steps(verdict))
    calls = _calls(verdict.suspects)
    for alike in calls[1:_SHOWN]:
        one = alike[0]
        name = fact("accused.of_reference", name=one.called) if one.side == SIDES[1] else one.called
        if len(verdict.places) > 1:
            name = fact("verdict.at_place", where=_where(alike), name=name)
        source = fact("accused.source", line=one.source) if one.source else None
        told = [fact("verdict.suspect", name=name, source=source), *one.facts]
        if one.cause == _WEIGHTS and len(alike) > 1:
            told.append(fact("verdict.more_weights", count=len(alike) - 1))
        lines += wrapped(fact("label.strong" if one.strength == "strong" else "label.weak"), told)
    more = len(calls) - _SHOWN
    if more > 0:
        lines += wrapped("", fact("verdict.more", count=more))
    command = verdict.suspects[0].command if verdict.suspects else None
    if command is not None and verdict.suspects[0].check is None:
        lines += wrapped(fact("label.check"), fact("verdict.check", command=command))
    if verdict.next_dump is not None:
        lines += _next(verdict, verdict.next_dump, database)
        check = operator_check(verdict)
        if check is not None:
            lines += wrapped(fact("label.then"), fact("verdict.then", command=check))
    return lines


def conclusion_fact(conclusion: str) -> Fact:
    """What a conclusion is called."""
    if conclusion == "fault":
        return fact("conclusion.fault")
    return fact("conclusion.clean" if conclusion == "clean" else "conclusion.undecided")


def older(changed: int) -> Fact:
    """What to do where the verdict does not know all matches."""
    return fact("verdict.older", count=changed)


def _next(verdict: Verdict, proposal: dict[str, Any], database: Path) -> list[str]:
    size = size_fact(proposal)
    about = None if size is None else fact("verdict.record_size", size=size)
    config = json.dumps(proposal.get("config"))
    file = shlex.quote(printable(str(database)))
    return [
        *wrapped(
            fact("label.next"),
            [fact("verdict.record", size=about, config=config), *verdict.remark],
        ),
        *wrapped("", fact("verdict.as_file", file=file)),
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


def verdict_json(verdict: Verdict | None, configuration: Configuration | None) -> dict[str, Any]:
    """The verdict as docs/verdict.md describes it: facts, and each in English."""
    if verdict is None:
        said = [NOTHING_COMPARED]
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
