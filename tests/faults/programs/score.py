"""Record the programs, judge them and print what was found.

``python -m tests.faults.programs.score FOLDER [PROGRAM ...] [controls] [faults] [-v]``
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
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
from tests.faults.programs.catalogue import PROGRAMS, Fault
from tests.faults.splits import score as splits
from tests.faults.splits.faults import Fault as Planted
from tests.faults.splits.score import unlike


def work(rank: int, folder: str, name: str, runs: list[str]) -> None:
    """Record runs of a program as this rank: right, whole, or with a fault."""
    program = PROGRAMS[name]
    for run in runs:
        plant = next((one.plant for one in program.faults if one.name == run), None)
        what = program.whole if run == "whole" else program.split
        program.work(rank, str(Path(folder) / name / run), *what, plant)


def record(folder: Path, name: str, faults: Sequence[str] | None = None) -> None:
    """Whatever is missing of a program, with all its faults or some."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    program = PROGRAMS[name]
    if not (folder / name / "whole").exists():
        run_in(program.whole_layout["rank_size"], work, str(folder), name, ["whole"])
    wanted = ["right", *([one.name for one in program.faults] if faults is None else faults)]
    missing = [one for one in wanted if not (folder / name / one / "dump").exists()]
    if missing:
        run_in(program.layout["rank_size"], work, str(folder), name, missing)


def judged(folder: Path, name: str, run: str, is_auto: bool = False) -> tuple[Verdict, Path, Any]:
    """The verdict on a merged run against the whole one."""
    program = PROGRAMS[name]
    npu, bench = (folder / name / one / "dump" / "step0" for one in (run, "whole"))
    layouts = [
        parse_layout(one, side)
        for one, side in ((program.layout, "npu"), (program.whole_layout, "bench"))
    ]
    config = BuildConfig(npu, bench)
    config = replace(
        config,
        npu_layout=AutoLayout() if is_auto else layouts[0],
        bench_layout=AutoLayout() if is_auto else layouts[1],
    )
    result = build(config, folder / f"out{os.getpid()}" / name / f"{run}{is_auto}", workers=1)
    with opened(result.path) as connection:
        verdict = read_verdict(connection)
    assert verdict is not None
    return verdict, result.path, result.diagnostics


def score(fault: Fault, verdict: Verdict, path: Path) -> str:
    return splits.score(Planted(fault.name, "", None, fault.nodes, fault.ranks), verdict, path)


def _suspects(verdict: Verdict) -> None:
    for one in verdict.suspects[:4]:
        print(
            f"    {one.strength} {one.rank} {one.ranks} {one.side} {one.node}",
            f"{one.cause}: {one.evidence[:400]}",
        )


def report(
    folder: Path, name: str, kinds: Sequence[str], is_long: bool, counts: Counter[str]
) -> None:
    record(folder, name)
    if "controls" in kinds:
        for is_auto in (False, True):
            try:
                verdict, path, found = judged(folder, name, "right", is_auto)
            except BuildError as error:
                print(f"## {name} auto refused: {error}")
                continue
            print(
                f"## {name}{' auto' if is_auto else ''}: {verdict.conclusion}. {verdict.sentence}"
            )
            strongest = verdict.suspects[0].strength if verdict.suspects else "-"
            counts[f"control{' auto' if is_auto else ''} {verdict.conclusion} {strongest}"] += 1
            _suspects(verdict)
            for one in found:
                print(f"    ({one.code} {one.severity}) {one.message}")
            lines = list(unlike(path))
            kept = (" ".join(x.split()[:2]) if "alone" in x else x.split()[0] for x in lines)
            print("    ", dict(Counter(kept)))
            if is_long and not is_auto:
                print("\n".join(f"      {line}" for line in lines))
    if "faults" in kinds:
        for fault in PROGRAMS[name].faults:
            verdict, path, _ = judged(folder, name, fault.name)
            found = score(fault, verdict, path)
            counts[f"fault {found}"] += 1
            print(f"{found:24} | {name} {fault.name}: {verdict.conclusion}. {verdict.sentence}")
            _suspects(verdict)
    sys.stdout.flush()


def main(folder: Path, names: list[str]) -> None:
    counts: Counter[str] = Counter()
    kinds = [one for one in ("controls", "faults") if one in names] or ["controls", "faults"]
    for name in [one for one in names if one in PROGRAMS] or list(PROGRAMS):
        report(folder, name, kinds, "-v" in names, counts)
    print(dict(counts))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
