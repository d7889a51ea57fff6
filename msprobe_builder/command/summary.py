"""The last words of a build: what a person wants to know, or JSON for a program."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msprobe_builder.base.codes import SIDES
from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.printable import printable
from msprobe_builder.export.wrapped import line
from msprobe_builder.facts.fact import Fact, fact, plain
from msprobe_builder.facts.wording import ENGLISH, tell
from msprobe_builder.facts.words import GRADE, SIDE

if TYPE_CHECKING:
    from msprobe_builder.pipeline.build import BuildResult
    from msprobe_builder.pipeline.merged_export import ExportResult


_SIDES = dict(zip(SIDES, SIDE, strict=True))
_SEVERITIES = {
    "info": fact("label.info"),
    "warning": fact("label.warning"),
    "error": fact("label.error"),
}


def summary_lines(result: BuildResult) -> list[str]:
    """The summary as plain lines."""
    lines = []
    if result.is_comparison:
        numbers = {"npu": result.npu_nodes, "bench": result.bench_nodes}
        lines.append(line(fact("label.nodes"), fact("summary.nodes", **numbers)))
        of_npu, of_bench = (f"{100 * result.matched / max(one, 1):.1f}" for one in numbers.values())
        shares = {"npu": of_npu, "bench": of_bench}
        matched = fact("summary.matched", nodes=result.matched, **shares)
        lines.append(line(fact("label.matched"), matched))
        if result.aligned:
            lines.append(line(fact("label.aligned"), printable(tell(result.aligned))))
        alone = result.bench_nodes - result.matched - result.bench_grouped
        if alone > 0:
            nor = fact("summary.no_group") if result.bench_grouped else None
            lines.append(line(fact("label.alone"), fact("summary.alone", nodes=alone, nor=nor)))
        counts = [
            fact("summary.grade", grade=GRADE.get(name, name), nodes=count)
            for name, count in result.grades.items()
            if count
        ]
        lines.append(line(fact("label.grades"), fact("alignment.several", clauses=counts)))
    else:
        nodes = fact("summary.nodes_alone", nodes=result.npu_nodes)
        lines.append(line(fact("label.nodes"), nodes))
    memory = None
    if result.peak_memory is not None:
        memory = fact("summary.memory", memory=f"{result.peak_memory / 2**20:,.0f}")
    size = f"{result.file_size / 2**20:,.1f}"
    cost = fact("summary.cost", seconds=f"{result.seconds:.1f}", memory=memory, size=size)
    lines.append(line(fact("label.cost"), cost))
    lines += diagnostic_lines(result.diagnostics)
    if result.exported is not None:
        lines.append(line(fact("label.dumps"), str(result.exported)))
    folder = shlex.quote(str(result.path.parent))
    return [
        *lines,
        line(fact("label.written"), str(result.path)),
        line(fact("label.look"), f"tensorboard --logdir {folder}"),
        line("", fact("summary.bind_all")),
    ]


def export_lines(result: ExportResult) -> list[str]:
    """The summary of an export without a database."""
    counts = [
        fact("summary.dumps", count=count, side=_SIDES[side])
        for side, count in result.dumps.items()
    ]
    return [
        line(fact("label.dumps"), fact("alignment.several", clauses=counts)),
        line(fact("label.cost"), fact("summary.seconds", seconds=f"{result.seconds:.1f}")),
        *diagnostic_lines(result.diagnostics),
        line(fact("label.written"), str(result.directory)),
    ]


def diagnostic_lines(diagnostics: Sequence[Diagnostic]) -> list[str]:
    """One line for what was found alike on many steps and ranks of a side."""
    alike: dict[tuple[str, str, Fact, int | None], list[Diagnostic]] = {}
    for one in diagnostics:
        alike.setdefault((one.severity, one.code, one.said, one.side), []).append(one)
    lines = []
    is_told = any(one.code == "overflow_origin" for one in diagnostics)
    for (severity, code, said, _), found in alike.items():
        total = sum(one.count for one in found)
        subject = next((one.subject for one in found if one.subject), None)
        if is_told and code in ("overflow", "overflow_origin"):
            subject = None  # which of the ranks has the first of all is said already
        first = fact("summary.first", subject=printable(subject)) if subject else None
        times = fact("summary.times", count=total) if total > 1 else None
        note = fact("summary.note", times=times, said=said, places=_places(found), first=first)
        lines.append(line(_SEVERITIES.get(severity, severity), note))
    return lines


def _places(found: Sequence[Diagnostic]) -> Fact | None:
    """On how many ranks and in how many steps, where that is more than one."""
    ranks, steps = len({one.rank for one in found}), len({one.step for one in found})
    if ranks > 1 and steps > 1:
        return fact("summary.on_ranks_of_steps", ranks=ranks, steps=steps)
    if ranks > 1:
        return fact("summary.on_ranks", ranks=ranks)
    return fact("summary.in_steps", steps=steps) if steps > 1 else None


def summary_json(result: BuildResult) -> str:
    """The summary as one JSON object."""
    return json.dumps(
        {
            "path": str(result.path),
            "npu_nodes": result.npu_nodes,
            "bench_nodes": result.bench_nodes,
            "matched": result.matched,
            "by_evidence": result.by_evidence,
            "bench_grouped": result.bench_grouped,
            "alignment": tell(result.aligned, ENGLISH),
            "alignment_facts": plain(result.aligned),
            "grades": result.grades,
            **_common(result),
            **({} if result.exported is None else {"exported": str(result.exported)}),
            "peak_memory": result.peak_memory,
            "file_size": result.file_size,
        }
    )


def export_json(result: ExportResult) -> str:
    """The summary of an export as one JSON object."""
    return json.dumps(
        {"path": str(result.directory), "dumps": result.dumps, **_common(result)},
    )


def diagnostic_json(found: Diagnostic) -> dict[str, Any]:
    """A finding for a program: the fact, and the same in English."""
    told = dict(vars(found))
    said = told.pop("said")
    return told | {"message": tell(said, ENGLISH), "facts": plain([said])}


def _common(result: BuildResult | ExportResult) -> dict[str, Any]:
    return {
        "failed": [
            {"step": place.step, "rank": place.rank, "reason": reason}
            for place, reason in result.failed
        ],
        "diagnostics": [diagnostic_json(finding) for finding in result.diagnostics],
        "seconds": round(result.seconds, 3),
    }
