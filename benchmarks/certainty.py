"""How often pairs are right that are told to be so sure.

    PYTHONPATH=. python benchmarks/certainty.py

Of the real pairs of runs whose truth is known, as they were recorded and with other weights,
and of two dumps under other spellings: pairs that evidence made, by the certainty told of them.
"""

from __future__ import annotations

import itertools
import json
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from msprobe_builder.base.options import DEFAULT_OPTIONS
from tests.alignment.respell import (
    Recording,
    added_casts,
    chained,
    dropped_calls,
    other_attributes,
    other_classes,
    other_seed,
    recording,
)
from tests.alignment.score import matched

REPOSITORY = Path(__file__).parent.parent
DUMPS = ("llama_statistics", "vit_statistics")
RENAMED = chained(other_classes, other_attributes)
UNEVEN = chained(RENAMED, dropped_calls(0.03, 3), added_casts(0.03, 4))
BOUNDS = (0.5, 0.8, 0.9, 0.95, 0.99, 1.0)


def cases(folder: Path) -> Iterator[tuple[Recording, Recording, dict[str, str]]]:
    """Both sides of each case, and the right partners of the nodes of one."""
    for archive in sorted((REPOSITORY / "tests" / "data" / "pairs").glob("*.tar.xz")):
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
    for truth in sorted(folder.glob("*/truth.json")):
        sides = [truth.parent / side for side in ("npu", "bench")]
        npu, bench = (recording(min(side.glob("step0/rank*"))) for side in sides)
        right = json.loads(truth.read_text("utf-8"))["pairs"]
        yield npu, bench, right
        other = truth.parent / "npu_other_weights"
        yield (
            recording(other / "step0" / "rank0") if other.exists() else other_seed(4)(npu),
            bench,
            right,
        )
    for name in DUMPS:
        with tarfile.open(REPOSITORY / "tests" / "data" / f"{name}.tar.xz") as packed:
            packed.extractall(folder, filter="data")
        bench = recording(min((folder / name / "step0").glob("rank*")))
        for change in (RENAMED, UNEVEN, chained(UNEVEN, other_seed(2))):
            npu = change(bench)
            right = {name: own for name, own in npu.origin.items() if own in bench.data}
            yield npu, bench, right


def told(npu: Recording, bench: Recording, right: dict[str, str]) -> Iterator[tuple[float, bool]]:
    """The certainty of each pair that evidence made and whose truth is known."""
    left, other, matching = matched(npu.source(), bench.source(), DEFAULT_OPTIONS)
    for node in np.flatnonzero((matching.npu >= 0) & (matching.evidence > 0)).tolist():
        name, partner = left.tree.names[node], other.tree.names[matching.npu[node]]
        if name in right:
            yield float(matching.certainty[node]), right[name] == partner


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="certainty_benchmark_") as name:
        found = np.array([one for case in cases(Path(name)) for one in told(*case)])
    print("| told | pairs | right |\n|---|--:|--:|")
    for low, high in itertools.pairwise(BOUNDS):
        inside = (found[:, 0] >= low) & ((found[:, 0] < high) | (high == 1.0))
        share = f"{100 * found[inside, 1].mean():.2f} %" if inside.any() else ""
        print(f"| {100 * low:.0f} to {100 * high:.0f} % | {inside.sum():,} | {share} |")


if __name__ == "__main__":
    main()
