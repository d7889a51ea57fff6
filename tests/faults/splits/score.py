"""Splits without a fault and with one on a rank: what the merged comparison says.

``python -m tests.faults.splits.score FOLDER [SPLIT ...]`` records what is not there yet.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return, misc"
# torch is typed in part only.

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from msprobe_builder import BuildConfig, build
from msprobe_builder.base.errors import BuildError
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import Verdict, read_verdict
from msprobe_builder.merge.detect import AutoLayout
from msprobe_builder.merge.ranks.layout import parse_layout
from tests.collector.processes import run_in
from tests.faults.splits import images, meshes, modern, native, pipelines
from tests.faults.splits.faults import FAULTS, Fault
from tests.faults.splits.plan import Plan
from tests.faults.splits.plans import WAYS
from tests.faults.splits.training import train


def work(rank: int, folder: str, name: str, faults: list[str]) -> None:
    """Record a correct run of a split and one with each fault, as this rank."""
    for fault in faults:
        plant = next((one.plant for one in FAULTS if (one.name, one.split) == (fault, name)), None)
        way = WAYS[name]
        _train(rank, str(Path(folder) / name / fault), way.plan, way.native, plant)


def work_whole(rank: int, folder: str, name: str) -> None:
    """Record the run that a split must equal."""
    way = WAYS[name]
    kind = way.native
    if kind.startswith("Schedule"):
        kind = "chunked_one" if way.plan.vpp > 1 else "one"
    elif kind in _STYLES:
        kind = "one"
    module = pipelines if way.native.startswith("Schedule") else None
    _train(rank, str(Path(folder) / name / "whole"), way.whole, kind, None, module)


# How PyTorch splits the model of native.py.
_STYLES = ("dtensor", "dtensor_sequence", "fsdp", "fsdp_tp")


def _train(rank: int, path: str, plan: Plan, kind: str, plant: Any, module: Any = None) -> None:
    """Record a rank of what ``kind`` trains."""
    if not kind:
        train(rank, path, plan, plant)
    elif kind in _BY_PLAN:
        _BY_PLAN[kind].train(rank, path, plan, "statistics", plant)
    else:
        module = module or next(
            (own for name, own in _BY_WAY.items() if kind.startswith(name)), native
        )
        module.train(rank, path, kind, "statistics", plant)


_BY_PLAN: dict[str, Any] = {"modern": modern, "meshes": meshes}
_BY_WAY: dict[str, Any] = {"Schedule": pipelines, "pictures": images, "caption": images}


def record(folder: Path, name: str, faults: Sequence[str] | None = None) -> None:
    """Whatever is missing of a split; with all faults that are planted in it, or some."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    way = WAYS[name]
    if not (folder / name / "whole").exists():
        run_in(way.whole.world, work_whole, str(folder), name)
    if faults is None:
        faults = [one.name for one in FAULTS if one.split == name]
    wanted = ["right", *faults]
    missing = [one for one in wanted if not (folder / name / one / "dump").exists()]
    if missing:
        run_in(way.plan.world, work, str(folder), name, missing)


def judged(folder: Path, name: str, run: str, layout: Any = None) -> tuple[Verdict, Path, Any]:
    """The verdict on a merged run against the whole one."""
    way = WAYS[name]
    npu, bench = (folder / name / one / "dump" / "step0" for one in (run, "whole"))
    config = BuildConfig(npu, bench)
    config = replace(
        config,
        npu_layout=layout or parse_layout(way.plan.layout, "npu"),
        bench_layout=parse_layout(way.whole.layout, "bench"),
    )
    result = build(config, folder / f"out{os.getpid()}" / name / run, workers=1)
    with opened(result.path) as connection:
        verdict = read_verdict(connection)
    assert verdict is not None
    return verdict, result.path, result.diagnostics


def score(fault: Fault, verdict: Verdict, path: Path) -> str:
    """Right or wrong at the first suspect, and how sure."""
    first = verdict.suspects[0] if verdict.suspects else None
    if first is None or (first.strength != "strong" and verdict.conclusion == "clean"):
        return "missed" if verdict.conclusion == "clean" else "undecided, none named"
    with opened(path) as connection:
        above = connection.execute(_ABOVE, (first.node_id,)).fetchall()
    names = [name for (name,) in above]
    is_node = any(part in name for part in fault.nodes for name in names)
    named = first.rank if len(first.ranks) > 1 and first.rank in fault.ranks else None
    is_rank = set(first.ranks) == set(fault.ranks) or named is not None
    place = "right" if is_node and is_rank else "right node, all ranks" if is_node else "wrong"
    if is_node and not set(first.ranks) & set(fault.ranks):
        place = "right node, wrong rank"
    return f"{place} {'strong' if first.strength == 'strong' else 'weak'}"


_ABOVE = """
WITH RECURSIVE above(node_id) AS (
    SELECT ? UNION ALL
    SELECT parent_id FROM node JOIN above USING (node_id) WHERE parent_id IS NOT NULL
) SELECT name FROM above JOIN node_name USING (node_id)
"""


def unlike(path: Path) -> Iterable[str]:
    """What the merged run lacks, has besides, or has graded worse than ok."""
    with opened(path) as connection:
        rows = connection.execute(
            "SELECT name, side, matched, grade, error FROM node_view WHERE kind <> 'collection'"
        ).fetchall()
    for name, side, matched, grade, error in rows:
        if matched is None and "Distributed." not in name:
            yield f"{side} alone {name}"
        elif grade not in ("ok", "ungraded", None) and side == "npu":
            yield f"{grade} {error} {name}"


def report_control(folder: Path, name: str, is_long: bool, is_found: bool) -> None:
    verdict, path, diagnostics = judged(folder, name, "right")
    print(f"## {name}: {verdict.conclusion}. {verdict.sentence}")
    for one in verdict.suspects[:3]:
        print(f"    {one.strength} {one.rank} {one.ranks} {one.side} {one.node} {one.evidence}")
    for found in diagnostics:
        print(f"    ({found.code}) {found.message}")
    lines = list(unlike(path))
    print(
        "    ",
        dict(
            Counter(
                " ".join(line.split()[:2]) if "alone" in line else line.split()[0] for line in lines
            )
        ),
    )
    if is_long:
        print("\n".join(f"      {line}" for line in lines))
    if not is_found:
        return
    try:
        verdict, _, diagnostics = judged(folder, name, "right", AutoLayout())
        for found in diagnostics:
            if "layout" in found.code and "npu" in str(found):
                print(f"    auto {verdict.conclusion}: {found.message}")
    except BuildError as error:
        print(f"    auto refused: {error}")


def report_fault(folder: Path, fault: Fault, counts: Counter[str]) -> None:
    verdict, path, _ = judged(folder, fault.split, fault.name)
    found = score(fault, verdict, path)
    counts[found] += 1
    print(f"{found:24} | {fault.split} {fault.name}: {verdict.conclusion}. {verdict.sentence}")
    for one in verdict.suspects[:4]:
        print(
            f"    {one.strength} {one.rank} {one.ranks} {one.side} {one.node} {one.cause}: "
            f"{one.evidence[:300]}"
        )


def main(folder: Path, names: list[str]) -> None:
    """Record and print."""
    counts: Counter[str] = Counter()
    is_long = "-v" in names
    kinds = [one for one in ("controls", "faults") if one in names] or ["controls", "faults"]
    chosen = [one for one in names if one in WAYS] or list(WAYS)
    for name in chosen:
        record(folder, name)
        if "controls" in kinds:
            report_control(folder, name, is_long, "noauto" not in names)
        if "faults" in kinds:
            for fault in (one for one in FAULTS if one.split == name):
                report_fault(folder, fault, counts)
        sys.stdout.flush()
    print(dict(counts))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
