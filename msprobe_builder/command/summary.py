"""The last words of a build: what a person wants to know, or JSON for a program."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.printable import printable
from msprobe_builder.facts.fact import Fact, plain
from msprobe_builder.facts.wording import ENGLISH, tell

if TYPE_CHECKING:
    from msprobe_builder.pipeline.build import BuildResult
    from msprobe_builder.pipeline.merged_export import ExportResult


def summary_lines(result: BuildResult) -> list[str]:
    """The summary as plain lines."""
    lines = []
    if result.is_comparison:
        share = 100 * result.matched / max(result.npu_nodes, 1)
        lines.append(f"Nodes     {result.npu_nodes:,} npu, {result.bench_nodes:,} bench")
        of_bench = 100 * result.matched / max(result.bench_nodes, 1)
        lines.append(
            f"Matched   {result.matched:,} ({share:.1f} % of npu, {of_bench:.1f} % of bench)"
        )
        if result.alignment:
            lines.append(f"Aligned   {printable(result.alignment)}")
        alone = result.bench_nodes - result.matched - result.bench_grouped
        if alone > 0:
            nor = ", and belong to no group" if result.bench_grouped else ""
            lines.append(f"Alone     {alone:,} bench nodes have no partner{nor}")
        counts = [f"{name} {count:,}" for name, count in result.grades.items() if count]
        lines.append(f"Grades    {', '.join(counts)}")
    else:
        lines.append(f"Nodes     {result.npu_nodes:,}")
    cost = [f"{result.seconds:.1f} s", f"{result.file_size / 2**20:,.1f} MB file"]
    if result.peak_memory is not None:
        cost.insert(1, f"{result.peak_memory / 2**20:,.0f} MB memory")
    lines.append(f"Cost      {', '.join(cost)}")
    lines += diagnostic_lines(result.diagnostics)
    if result.exported is not None:
        lines.append(f"Dumps     {result.exported}")
    lines.append(f"Written   {result.path}")
    lines.append(
        f"Look      tensorboard --logdir {shlex.quote(str(result.path.parent))} --bind_all"
    )
    lines.append("          (--bind_all lets everyone who reaches the port look and match)")
    return lines


def export_lines(result: ExportResult) -> list[str]:
    """The summary of an export without a database."""
    counts = ", ".join(f"{count:,} {side}" for side, count in result.dumps.items())
    lines = [f"Dumps     {counts}", f"Cost      {result.seconds:.1f} s"]
    return [*lines, *diagnostic_lines(result.diagnostics), f"Written   {result.directory}"]


def diagnostic_lines(diagnostics: Sequence[Diagnostic]) -> list[str]:
    """One line for what was found alike on many steps and ranks of a side."""
    alike: dict[tuple[str, str, Fact, int | None], list[Diagnostic]] = {}
    for one in diagnostics:
        alike.setdefault((one.severity, one.code, one.said, one.side), []).append(one)
    lines = []
    for (severity, _, said, _), found in alike.items():
        total = sum(one.count for one in found)
        count = f"{total:,} x " if total > 1 else ""
        subject = next((one.subject for one in found if one.subject), None)
        example = f" First: {printable(subject)}" if subject else ""
        lines.append(f"{severity.capitalize():<9} {count}{tell(said)}{_places(found)}{example}")
    return lines


def _places(found: Sequence[Diagnostic]) -> str:
    """On how many ranks and in how many steps, where that is more than one."""
    ranks, steps = len({one.rank for one in found}), len({one.step for one in found})
    if ranks > 1:
        return f" On {ranks:,} ranks of {steps:,} steps." if steps > 1 else f" On {ranks:,} ranks."
    return f" In {steps:,} steps." if steps > 1 else ""


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
            "alignment": result.alignment,
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
