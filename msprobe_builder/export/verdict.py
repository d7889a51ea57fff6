"""The verdict as lines for a person and as JSON for a program."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from msprobe_builder.base.codes import SIDES
from msprobe_builder.base.printable import printable
from msprobe_builder.database.read.configuration import Configuration
from msprobe_builder.database.read.verdict import PlaceVerdict, Suspect, Verdict
from msprobe_builder.export.configuration import configuration_json
from msprobe_builder.export.wrapped import wrapped

_SHOWN = 5
_SHOWN_STEPS = 6
_WEIGHTS = "weights"  # cause of those that differ together


def verdict_lines(verdict: Verdict, database: Path) -> list[str]:
    """The sentence, each step, the other suspects and what to record next."""
    lines = wrapped("Verdict", f"{verdict.conclusion}. {verdict.sentence}")
    if verdict.changed:
        lines += wrapped("Older", older(verdict.changed))
    if len(verdict.places) > 1 and verdict.suspects:
        lines += wrapped("Steps", " ".join(_steps(verdict)))
    calls = _calls(verdict.suspects)
    for alike in calls[1:_SHOWN]:
        one = alike[0]
        place = f"{_where(alike)}: " if len(verdict.places) > 1 else ""
        side = " of the reference" if one.side == SIDES[1] else ""
        source = f" ({one.source})" if one.source else ""
        others = ""
        if one.cause == _WEIGHTS and len(alike) > 1:
            others = f" {len(alike) - 1:,} more show such weights."
        lines += wrapped(
            one.strength.capitalize(), f"{place}{one.called}{side}{source}: {one.evidence}{others}"
        )
    more = len(calls) - _SHOWN
    if more > 0:
        lines.append(f"          and {more:,} more")
    command = verdict.suspects[0].command if verdict.suspects else None
    if command is not None and verdict.suspects[0].check is None:
        lines += wrapped("Check", f"is the operator itself wrong? {command}")
    if verdict.next_dump is not None:
        lines += _next(verdict.next_dump, database)
        check = operator_check(verdict)
        if check is not None:
            lines += wrapped("Then", f"and run its calls again: {check}")
    return lines


def older(changed: int) -> str:
    """What to do where the verdict does not know all matches."""
    many = f"{changed:,} matches were" if changed > 1 else "1 match was"
    return (
        f"{many} made or ended by hand since. Write all of them with msprobe-build verify FILE"
        " --save-matches OUT.json and build again with --match-file OUT.json, so that the verdict"
        " knows them."
    )


def _next(proposal: dict[str, Any], database: Path) -> list[str]:
    about = f"{size_words(proposal)} " if size_words(proposal) else ""
    remark = f" {proposal['remark']}" if proposal.get("remark") else ""
    file = shlex.quote(printable(str(database)))
    return [
        *wrapped(
            "Next",
            f"record {about}in both runs, each into a folder of its own, with"
            f" {json.dumps(proposal.get('config'))}{remark}",
        ),
        *wrapped("", f"as a file: msprobe-build verdict {file} --next-config config.json"),
    ]


def size_words(proposal: dict[str, Any]) -> str:
    """How much the next dump takes; empty where nobody knows."""
    size = proposal.get("expected_bytes")
    return "" if size is None else _size(size)


def _calls(suspects: Sequence[Suspect]) -> list[list[Suspect]]:
    """The suspects by call, on all ranks and at all steps that show it; weights all together."""
    found: dict[tuple[str, str], list[Suspect]] = {}
    for one in suspects:
        key = (_WEIGHTS, "") if one.cause == _WEIGHTS else (one.side, one.node)
        found.setdefault(key, []).append(one)
    return list(found.values())


def _where(alike: Sequence[Suspect]) -> str:
    """``step 0 rank 1``, or all those that show the same call."""
    steps = sorted({one.step for one in alike})
    ranks = sorted({one.rank for one in alike})
    return f"{_numbered('step', steps)} {_numbered('rank', ranks)}"


def _steps(verdict: Verdict) -> list[str]:
    """What became of each step, by ranks where they do not agree."""
    first = verdict.first_bad_step
    told = [] if first is None else [f"First bad: step {first}."]
    steps = sorted({place.step for place in verdict.places})
    for step in steps[:_SHOWN_STEPS]:
        ranks: dict[str, list[int]] = {}
        for place in verdict.places:
            if place.step == step:
                ranks.setdefault(outcome(place), []).append(place.rank)
        total = sum(map(len, ranks.values()))
        parts = [_of_ranks(word, those, total) for word, those in ranks.items()]
        told.append(f"Step {step}: {'; '.join(parts)}.")
    more = len(steps) - _SHOWN_STEPS
    return [*told, f"And {more:,} more."] if more > 0 else told


def outcome(place: PlaceVerdict) -> str:
    """In a word or three what became of a step and rank."""
    return "follows from elsewhere" if place.follows else place.conclusion


def _of_ranks(word: str, ranks: Sequence[int], total: int) -> str:
    if total == 1:
        return word
    return (
        f"{word} on {f'all {total:,} ranks' if len(ranks) == total else _numbered('rank', ranks)}"
    )


def _numbered(word: str, numbers: Sequence[int]) -> str:
    """``ranks 0-3, 5``: sorted numbers, runs of them as their ends."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    shown = ", ".join("-".join(map(str, run)) for run in runs)
    return f"{word}{'s' if len(numbers) > 1 else ''} {shown}"


def operator_check(verdict: Verdict) -> str | None:
    """The command that runs the calls of the next dump again one by one, when it holds tensors."""
    config = (verdict.next_dump or {}).get("config")
    if not all(one.is_of_torch for one in verdict.suspects):
        return None
    if not isinstance(config, dict) or config.get("task") != "tensor" or not config.get("step"):
        return None
    return f"msprobe-operators check {config['dump_path']}/step{config['step'][0]}/rank*"


def verdict_json(verdict: Verdict | None, configuration: Configuration | None) -> dict[str, Any]:
    """The verdict as docs/verdict.md describes it."""
    if verdict is None:
        return {
            "conclusion": "undecided",
            "sentence": "Cannot tell, because nothing was compared.",
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
        "sentence": verdict.sentence,
        "compared": verdict.compared,
        "matches_changed": verdict.changed,
        "first_bad_step": verdict.first_bad_step,
        "suspects": [_suspect_json(one) for one in verdict.suspects],
        "places": [asdict(one) for one in verdict.places],
        "next_dump": verdict.next_dump,
        "operator_check": operator_check(verdict),
        "configuration": configuration_json(configuration),
    }


def _suspect_json(one: Suspect) -> dict[str, Any]:
    """``fault`` tells whether the node itself is to blame, or only shows what nobody recorded."""
    told = asdict(one)
    del told["is_of_torch"]
    return {
        **told,
        "fault": "before" if one.is_unrecorded else "in",
        "ranks": list(one.ranks),
    }


def _size(size: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"about {size:.{0 if size >= 10 or unit == 'bytes' else 1}f} {unit}"
        size /= 1000
    return f"about {size:,.0f} TB"
