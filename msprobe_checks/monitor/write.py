"""A comparison of monitors as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from msprobe_builder.base.publish import written
from msprobe_builder.facts.fact import plain
from msprobe_builder.facts.wording import ENGLISH, tell
from msprobe_checks.monitor.compare import Departure, MonitorComparison
from msprobe_checks.monitor.explain import verdict_fact
from msprobe_checks.monitor.explain_replicas import replicas_fact
from msprobe_checks.monitor.replicas import Replicas


def write_json(comparison: MonitorComparison, links: list[str], output: Path) -> None:
    """Verdict, where it stands in the viewer, and all that departs at that step."""
    found = verdict_fact(comparison)
    content = {
        "verdict": tell(found, ENGLISH),
        "facts": plain([found]),
        "tolerance": comparison.tolerance,
        "steps": [comparison.first_step, comparison.last_step],
        "links": links,
        "departures": [_one(one) for one in comparison.departures],
        "first_difference": _one(comparison.earliest) if comparison.earliest else None,
        "notes": [tell(note, ENGLISH) for note in comparison.notes],
    }
    with written(output) as stream:
        stream.write(json.dumps(content, indent=1, ensure_ascii=False).encode("utf-8"))


def write_replicas(found: Replicas, output: Path) -> None:
    """What was compared of replicas, and where they part first."""
    told = replicas_fact(found)
    parted = None
    if found.parted is not None:
        parted = asdict(found.parted) | {"apart": _number(found.parted.apart)}
    content = {
        "verdict": tell(told, ENGLISH),
        "facts": plain([told]),
        "groups": found.groups,
        "axes": found.axes,
        "steps": found.steps,
        "rows": found.rows,
        "parted": parted,
        "together": None if found.together is None else asdict(found.together),
        "exchange": None if found.exchange is None else asdict(found.exchange),
    }
    with written(output) as stream:
        stream.write(json.dumps(content, indent=1, ensure_ascii=False).encode("utf-8"))


def _one(one: Departure) -> dict[str, Any]:
    return {
        "step": one.step,
        "rank": one.rank,
        "kind": one.kind,
        "name": one.name,
        "relative": _number(one.apart),
        "norms": [_number(one.first), _number(one.second)],
    }


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
