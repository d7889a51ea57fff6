"""The truth table of splits that are recorded on demand.

``PYTHONPATH=.:benchmarks python -m tests.faults.splits.truth FOLDER [SPLIT ...]`` prints the table
of docs/parallel-merge.md, and what has no known cause to standard error.
"""

from __future__ import annotations

import sys
from pathlib import Path

from merge_causes import Finding, spread_cause
from merge_truth import Agreement, cause_lines, compare_dumps, table_lines
from msprobe_builder.merge.ranks.layout import parse_layout
from tests.faults.splits.plans import WAYS
from tests.faults.splits.score import record


def cause(finding: Finding) -> str | None:
    """Why a merge differs from its truth, None if it should not."""
    return spread_cause(finding)


def compared(folder: Path, name: str) -> list[Agreement]:
    way = WAYS[name]
    npu, bench = (folder / name / one / "dump" / "step0" for one in ("right", "whole"))
    layouts = parse_layout(way.plan.layout, name), parse_layout(way.whole.layout, name)
    return compare_dumps(npu, bench, *layouts)


def main(folder: Path, names: list[str]) -> None:
    found = {}
    for name in names or WAYS:
        record(folder, name)
        found[name] = compared(folder, name)
    print("\n".join([*table_lines(found, cause), "", *cause_lines(found, cause)]))
    for name, agreements in found.items():
        for finding in (item for one in agreements for item in one.findings):
            if cause(finding) is None:
                print(name, *finding, file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
