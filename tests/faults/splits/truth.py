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

_TALK = tuple(f"Torch.{one}" for one in "Enter Leave Whole Lent Exchange Turn".split())
# Around what ranks send: memory for it, and putting it together.
_AROUND = (
    *"Tensor.view_as Tensor.clone Tensor.contiguous Tensor.chunk Tensor.unbind".split(),
    *"Tensor.new_empty Torch.cat Torch.stack Torch.empty Torch.empty_like".split(),
    *"Tensor.reshape Tensor.view Torch.as_strided Distributed.all_gather_single".split(),
    *"Torch.fsdp_all_gather_copy_in Torch.fsdp_split_with_sizes_copy".split(),
    *"Torch.fsdp_chunk_cat Distributed.reduce_scatter_single".split(),
)
_EMBEDDINGS = ("Words", "VocabParallelEmbedding")
_POSITIONS = ("Torch.arange", "Tensor.__getitem__", "Tensor.__add__", "Tensor.__gt__")


def cause(finding: Finding) -> str | None:
    """Why a merge differs from its truth, None if it should not."""
    operator = finding.call.rsplit(".", 2)[0]
    below = finding.place.rpartition(".forward")[0] or finding.place.rpartition(".backward")[0]
    layer = below.rpartition(".")[2]
    if finding.kind == "extra" and operator in (*_TALK, *_AROUND):
        return "communication between the ranks"
    is_open = finding.kind in ("unknown", "unknown shape", "extra")
    if is_open and (layer in _EMBEDDINGS or "Embedding" in finding.call):
        return "vocabulary masks of each rank"
    if (layer == "Spread" or "experts" in finding.call + below) and finding.kind != "micro-step":
        return "tokens are sent between the ranks of experts"
    if layer == "Mix" and operator in _POSITIONS and finding.kind in ("away", "other shape"):
        return "sums and positions of the tokens of each rank"
    if finding.place.startswith("Apis_Between_Modules") and operator == "Tensor.chunk":
        return "sums and positions of the tokens of each rank"
    if finding.is_final and operator == "Tensor.__itruediv__" and finding.kind == "extra":
        return "gradients are averaged over the ranks"
    if layer == "Mix" and operator == "Tensor.transpose" and "unknown" in finding.kind:
        return "each rank has the gradient of its slice of the sequence"
    if finding.kind == "unknown" and "a single number is no part" in finding.detail:
        return "sums and positions of the tokens of each rank"
    if "data-parallel rank holds a part" in finding.detail:
        return "each data-parallel rank holds a part of the gradient"
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
