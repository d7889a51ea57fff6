"""The verdict as lines for a person and as JSON for a program."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from msprobe_builder.database.read.configuration import Configuration
from msprobe_builder.database.read.verdict import Suspect, Verdict
from msprobe_builder.export.configuration import configuration_json
from msprobe_builder.export.wrapped import wrapped

_SHOWN = 5


def verdict_lines(verdict: Verdict) -> list[str]:
    """The sentence, the other suspects and what to record next."""
    lines = wrapped("Verdict", f"{verdict.conclusion}. {verdict.sentence}")
    for one in verdict.suspects[1:_SHOWN]:
        place = f"step {one.step} rank {one.rank}: " if len(verdict.places) > 1 else ""
        source = f" ({one.source})" if one.source else ""
        lines += wrapped(one.strength.capitalize(), f"{place}{one.called}{source}: {one.evidence}")
    more = len(verdict.suspects) - _SHOWN
    if more > 0:
        lines.append(f"          and {more:,} more")
    command = verdict.suspects[0].command if verdict.suspects else None
    if command is not None and verdict.suspects[0].check is None:
        lines += wrapped("Check", f"is the operator itself wrong? {command}")
    if verdict.next_dump is not None:
        size = verdict.next_dump.get("expected_bytes")
        about = "" if size is None else f" ({_size(size)})"
        lines += wrapped("Next", f"record{about} {json.dumps(verdict.next_dump.get('config'))}")
        check = operator_check(verdict)
        if check is not None:
            lines += wrapped("Then", f"and run its calls again: {check}")
    return lines


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
        "first_bad_step": verdict.first_bad_step,
        "suspects": [_suspect_json(one) for one in verdict.suspects],
        "places": [asdict(one) for one in verdict.places],
        "next_dump": verdict.next_dump,
        "operator_check": operator_check(verdict),
        "configuration": configuration_json(configuration),
    }


def _suspect_json(one: Suspect) -> dict[str, Any]:
    """``fault`` tells whether the node itself is to blame, or only shows what nobody recorded."""
    return {
        **asdict(one),
        "fault": "before" if one.is_unrecorded else "in",
        "ranks": list(one.ranks),
    }


def _size(size: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"about {size:,.0f} {unit}"
        size /= 1000
    return f"about {size:,.0f} TB"
