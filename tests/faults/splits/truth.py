"""The truth table of splits that are recorded on demand.

``PYTHONPATH=.:benchmarks python -m tests.faults.splits.truth FOLDER [SPLIT ...]`` prints the table
of benchmarks/results/parallel-merge.md, and what has no known cause to standard error.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from merge_causes import Finding, spread_cause
from merge_truth import Agreement, cause_lines, compare_dumps, table_lines
from msprobe_builder.merge.ranks.layout import parse_layout
from tests.faults.splits.plans import WAYS, Way
from tests.faults.splits.score import record

_TALK = tuple(f"Torch.{one}" for one in "Enter Leave Whole Lent Exchange Turn".split())
# Around what ranks send: memory for it, and putting it together.
_AROUND = (
    *"Tensor.view_as Tensor.clone Tensor.contiguous Tensor.chunk Tensor.unbind".split(),
    *"Tensor.new_empty Torch.cat Torch.stack Torch.empty Torch.empty_like".split(),
    *"Tensor.reshape Tensor.view Torch.as_strided Distributed.all_gather_single".split(),
    *"Torch.fsdp_all_gather_copy_in Torch.fsdp_split_with_sizes_copy".split(),
    *"Tensor.detach Torch.chunk Tensor.__setitem__".split(),
    *"Torch.fsdp_chunk_cat Distributed.reduce_scatter_single".split(),
)
_OF_STAGES = ("Tensor.detach", "Tensor.detach_", "Torch.cat", "Tensor.view_as")
_IS_LATE = re.compile(r"(alike on|shards of) ranks [\d, ]+(along dimension \d+)?;")
_EMBEDDINGS = ("Words", "VocabParallelEmbedding")
_POSITIONS = ("Torch.arange", "Tensor.__getitem__", "Tensor.__add__", "Tensor.__gt__")


def cause(finding: Finding, way: Way) -> str | None:
    """Why a merge differs from its truth, None if it should not."""
    plan = way.plan
    operator = finding.call.rsplit(".", 2)[0]
    if way.whole.joined > 1 and operator in ("Torch.randint", "Torch.cat"):
        return "one rank draws what the others draw each for themselves"
    if way.native.startswith("Schedule"):
        return _of_schedule(finding, operator)
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
    if finding.is_final and operator == "Tensor.__itruediv__":
        return "gradients of the parameters that a rank has are averaged over ranks"
    if ".mix" in below and plan.groups < plan.tp:
        return "several ranks hold the same keys and values"
    if layer == "Mix" and operator == "Torch.matmul" and finding.kind == "other shape":
        return "with one head on each rank nothing tells heads in the batch from the batch"
    if plan.multiple > 1 and finding.kind in ("away", "other shape"):
        return "rows of the vocabulary are filled up for the ranks"
    if layer == "Mix" and operator == "Tensor.transpose" and plan.cp > 1:
        return "each rank has the gradient of its slice of the sequence"
    if finding.kind == "unknown" and "a single number is no part" in finding.detail:
        return "sums and positions of the tokens of each rank"
    if finding.kind == "unknown" and _IS_LATE.match(finding.detail):
        return "values that are still on their way have no statistics"
    if "unknown" in finding.kind and "partial sums whose" in finding.detail:
        return "partial sums of distributed tensors, reduced later"
    if finding.kind == "away" and finding.parameter.endswith("bias") and "look.wk" in below:
        return "a gradient that is nothing but rounding"
    if "unknown" in finding.kind and "placed" in finding.detail and plan.dp > 1:
        return "each data-parallel rank holds a part of the gradient"
    if "data-parallel rank holds a part" in finding.detail:
        return "each data-parallel rank holds a part of the gradient"
    return spread_cause(finding)


def _of_schedule(finding: Finding, operator: str) -> str | None:
    """What torch's schedules do besides, and what a single rank does instead."""
    if operator in ("Tensor.div_", "Tensor.__truediv__"):
        return "a schedule averages gradients in the end, a single rank divides its loss"
    if operator in ("Tensor.chunk", "Torch.tensor_split"):
        return "a schedule cuts the batch itself"
    if operator in _OF_STAGES:
        return "communication between the ranks"
    is_put_off = "parameters_grad" in finding.call or operator == "Tensor.__iadd__"
    if is_put_off and finding.kind in ("missing", "extra"):
        return "a schedule puts gradients of weights off"
    if finding.kind == "missing tensor" and finding.call.endswith(".backward"):
        return "a schedule puts gradients of weights off"
    return spread_cause(finding)


def compared(folder: Path, name: str) -> list[Agreement]:
    way = WAYS[name]
    npu, bench = (folder / name / one / "dump" / "step0" for one in ("right", "whole"))
    layout, whole = parse_layout(way.plan.layout, name), parse_layout(way.whole.layout, name)
    if way.whole.joined > 1:
        layout = layout.joined_along_batch()
    return compare_dumps(npu, bench, layout, whole)


def main(folder: Path, names: list[str]) -> None:
    """Print the tables, then what has no known cause."""
    found: dict[str, list[Agreement]] = {}
    why: dict[int, str | None] = {}
    for name in names or WAYS:
        record(folder, name)
        found[name] = compared(folder, name)
        for one in found[name]:
            why |= {id(item): cause(item, WAYS[name]) for item in one.findings}

    def known(finding: Finding) -> str | None:
        return why[id(finding)]

    print("\n".join([*table_lines(found, known), "", *cause_lines(found, known)]))
    for name, agreements in found.items():
        for finding in (item for one in agreements for item in one.findings):
            if known(finding) is None:
                print(name, *finding, file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
