"""Memory and time of merging many ranks.

``python benchmarks/merge.py FOLDER [TP PP DP]`` merges a cluster whose ranks are links to those of
``FOLDER/megatron_tp2pp2`` (unpacked from tests/data), one replica after the other.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from msprobe_builder.compare import read_rank
from msprobe_builder.dump.discover import discover
from msprobe_builder.merge.layout import parse_layout, replicas
from msprobe_builder.merge.replica import ReplicaSource, read_replica
from msprobe_builder.texts import Texts


def main() -> None:
    """Print one line per replica."""
    source = Path(sys.argv[1]).resolve() / "megatron_tp2pp2" / "step0"
    tp, pp, dp = map(int, sys.argv[2:5]) if len(sys.argv) > 2 else (8, 8, 1)
    layout = parse_layout({"rank_size": tp * pp * dp, "tp": tp, "pp": pp}, "benchmark")
    with tempfile.TemporaryDirectory() as folder:
        for replica in replicas(layout):
            for stage, slices in enumerate(replica.ranks):
                for part, rank in enumerate(slices[0]):
                    model = min(stage, 1) * 2 + part % 2
                    (Path(folder) / f"rank{rank}").symlink_to(source / f"rank{model}")
        ranks = {
            place.rank: path for place, path in discover(Path(folder), "FOLDER").directories.items()
        }
        print(f"{len(ranks)} ranks; {_memory():,.0f} MB before")
        for replica in replicas(layout):
            began, texts = time.monotonic(), Texts()
            side, _ = read_replica(
                ReplicaSource(layout, replica, ranks), texts, partial(read_rank, texts=texts)
            )
            seconds = time.monotonic() - began
            size = f"{len(side.tree):,} nodes, {len(side.table):,} parameters"
            print(f"replica {replica.label}: {size}, {seconds:.1f} s, peak {_memory():,.0f} MB")


def _memory() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


if __name__ == "__main__":
    main()
