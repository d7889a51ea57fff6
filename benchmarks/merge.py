"""Memory and processor time of merging and comparing many ranks.

``python benchmarks/merge.py FOLDER [TP PP DP]`` compares a cluster with a replica of itself, in one
process. Its ranks are links to those of ``FOLDER/megatron_tp2pp2`` (unpacked from tests/data): the
first stage to those of the first, all others to those of the last, so that layers run through.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from msprobe_builder.base.texts import Texts
from msprobe_builder.command.summary import summary_lines
from msprobe_builder.dump.discover import discover
from msprobe_builder.dump.source import Source
from msprobe_builder.merge.ranks.layout import ParallelLayout, parse_layout, replicas
from msprobe_builder.merge.replica import ReplicaSource, read_replica
from msprobe_builder.pipeline.build import build
from msprobe_builder.pipeline.compare import read_rank
from msprobe_builder.pipeline.config import BuildConfig


def main() -> None:
    """Print one line for discovery, each replica, and the comparison."""
    source = Path(sys.argv[1]).resolve() / "megatron_tp2pp2" / "step0"
    tp, pp, dp = map(int, sys.argv[2:5]) if len(sys.argv) > 2 else (8, 8, 1)
    layout = parse_layout({"rank_size": tp * pp * dp, "tp": tp, "pp": pp}, "benchmark")
    one = parse_layout({"rank_size": tp * pp, "tp": tp, "pp": pp}, "benchmark")
    with tempfile.TemporaryDirectory() as folder:
        cluster, replica = Path(folder) / "cluster", Path(folder) / "replica"
        _link_ranks(layout, source, cluster)
        _link_ranks(one, source, replica)
        before, began = _memory(), time.process_time()
        ranks = {
            place.rank: path for place, path in discover(cluster, "FOLDER").directories.items()
        }
        seconds = time.process_time() - began
        print(f"{len(ranks):,} ranks found in {seconds:.2f} s; {before:,.0f} MB before")
        _read_replicas(layout, ranks)
        config = BuildConfig(cluster, replica, npu_layout=layout, bench_layout=one)
        began = time.process_time()
        result = build(config, Path(folder) / "out", workers=1)
        print(
            f"compared: {result.matched:,} of {result.npu_nodes:,} nodes matched, "
            f"{time.process_time() - began:.1f} s, peak {_memory():,.0f} MB, "
            f"{result.file_size / 1e6:,.1f} MB database, {len(result.diagnostics):,} findings in "
            f"{len(summary_lines(result)):,} lines"
        )


def _read_replicas(layout: ParallelLayout, ranks: Mapping[int, Source]) -> None:
    """Print one line for each replica; a function of its own, so that none is left behind."""
    for own in replicas(layout):
        began, texts = time.process_time(), Texts()
        side, _ = read_replica(
            ReplicaSource(layout, own, ranks), texts, partial(read_rank, texts=texts)
        )
        seconds = time.process_time() - began
        size = f"{len(side.tree):,} nodes, {len(side.table):,} parameters"
        print(f"replica {own.label}: {size}, {seconds:.1f} s, peak {_memory():,.0f} MB")


def _link_ranks(layout: ParallelLayout, source: Path, folder: Path) -> None:
    folder.mkdir()
    for replica in replicas(layout):
        for stage, slices in enumerate(replica.ranks):
            for part, rank in enumerate(slices[0]):
                model = min(stage, 1) * 2 + part % 2
                (folder / f"rank{rank}").symlink_to(source / f"rank{model}")


def _memory() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


if __name__ == "__main__":
    main()
