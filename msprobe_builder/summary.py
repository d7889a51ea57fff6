"""The last words of a build: what a person wants to know, or JSON for a program."""

from __future__ import annotations

import json
import shlex

from msprobe_builder.pipeline import BuildResult
from msprobe_builder.printable import printable


def summary_lines(result: BuildResult) -> list[str]:
    """The summary as plain lines."""
    lines = []
    if result.is_comparison:
        share = 100 * result.matched / max(result.npu_nodes, 1)
        lines.append(f"Nodes     {result.npu_nodes:,} npu, {result.bench_nodes:,} bench")
        lines.append(f"Matched   {result.matched:,} ({share:.1f} % of npu)")
        counts = [f"{name} {count:,}" for name, count in result.grades.items() if count]
        lines.append(f"Grades    {', '.join(counts)}")
    else:
        lines.append(f"Nodes     {result.npu_nodes:,}")
    lines.append(
        f"Cost      {result.seconds:.1f} s, {result.peak_memory / 2**20:,.0f} MB memory, "
        f"{result.file_size / 2**20:,.1f} MB file"
    )
    for finding in result.diagnostics:
        example = f" First: {printable(finding.subject)}" if finding.subject else ""
        count = f"{finding.count:,} x " if finding.count > 1 else ""
        lines.append(f"{finding.severity.capitalize():<9} {count}{finding.message}{example}")
    lines.append(f"Written   {result.path}")
    lines.append(
        f"Look      tensorboard --logdir {shlex.quote(str(result.path.parent))} --bind_all"
    )
    return lines


def summary_json(result: BuildResult) -> str:
    """The summary as one JSON object."""
    return json.dumps(
        {
            "path": str(result.path),
            "npu_nodes": result.npu_nodes,
            "bench_nodes": result.bench_nodes,
            "matched": result.matched,
            "grades": result.grades,
            "failed": [
                {"step": place.step, "rank": place.rank, "reason": reason}
                for place, reason in result.failed
            ],
            "diagnostics": [
                {
                    "severity": finding.severity,
                    "code": finding.code,
                    "message": finding.message,
                    "subject": finding.subject,
                    "count": finding.count,
                    "side": finding.side,
                    "step": finding.step,
                    "rank": finding.rank,
                }
                for finding in result.diagnostics
            ],
            "seconds": round(result.seconds, 3),
            "peak_memory": result.peak_memory,
            "file_size": result.file_size,
        }
    )
