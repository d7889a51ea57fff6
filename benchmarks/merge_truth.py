"""How well merged splits of a training agree with the same training on a single rank.

``python benchmarks/merge_truth.py FOLDER`` writes tables of benchmarks/results/parallel-merge.md;
FOLDER holds the unpacked archives ``megatron_*`` of tests/data. Causes are told apart by
:func:`cause`; what has none of the known ones is printed to standard error.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from merge_causes import KINDS, Finding, cause, other_cause, spread_cause
from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.options import BuildOptions
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.discover import discover
from msprobe_builder.dump.names import Direction, Kind, format_name
from msprobe_builder.facts.wording import tell
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.flow.context import entering
from msprobe_builder.merge.flow.wholes import whole_shapes
from msprobe_builder.merge.ranks.layout import ParallelLayout, parse_layout
from msprobe_builder.merge.replica import ReplicaSource, read_replica
from msprobe_builder.merge.values.later_mean import with_mean_of_passes
from msprobe_builder.merge.values.own_tokens import with_common_mean
from msprobe_builder.pipeline.compare import read_rank
from msprobe_builder.pipeline.jobs import pair_up_replicas
from result_tables import write_tables

# Sums over other orders, measured against the largest statistic of the tensor. The coarsest
# dtype of a run counts: what is computed of bfloat16 in float32 carries its rounding along.
TOLERANCE = 1e-4
COARSE_TOLERANCES = {"torch.float16": 3e-3, "torch.bfloat16": 2e-2}


class Split(NamedTuple):
    """A dump of the training on many ranks, how it was split, and the dump it must equal."""

    name: str
    layout: dict[str, Any]
    truth: str


SPLITS = (
    Split("megatron_tp1pp2", {"rank_size": 2, "tp": 1, "pp": 2}, "megatron_tp1pp1"),
    Split("megatron_tp1pp2vpp2", {"rank_size": 2, "tp": 1, "pp": 2, "vpp": 2}, "megatron_tp1pp1"),
    Split("megatron_tp2pp1", {"rank_size": 2, "tp": 2, "pp": 1}, "megatron_tp1pp1"),
    Split("megatron_tp2pp2", {"rank_size": 4, "tp": 2, "pp": 2}, "megatron_tp1pp1"),
    Split("megatron_tp2pp1_L0", {"rank_size": 2, "tp": 2, "pp": 1}, "megatron_tp1pp1_L0"),
    Split("megatron_tp2pp1dp2", {"rank_size": 4, "tp": 2, "pp": 1}, "megatron_tp1pp1dp2"),
)

# Of other trainings, for what the splits above do not have.
OTHER_SPLITS = (
    Split("recompute_tp2pp2sp", {"rank_size": 4, "tp": 2, "pp": 2}, "recompute_tp1pp1"),
    Split("uneven_tp1pp4", {"rank_size": 4, "tp": 1, "pp": 4}, "uneven_tp1pp1"),
    Split("pipeline_tp2pp2", {"rank_size": 4, "tp": 2, "pp": 2}, "pipeline_tp1pp1"),
)

# Experts and sequences that are spread over ranks, and the optimizer of Megatron.
SPREAD_SPLITS = (
    Split("moe_tp2sp", {"rank_size": 2, "tp": 2, "pp": 1}, "moe_tp1"),
    Split("moe_tp2ep2etp1", {"rank_size": 2, "tp": 2, "pp": 1, "ep": 2, "etp": 1}, "moe_tp1"),
    Split("optimizer_tp1pp2vpp2", {"rank_size": 2, "tp": 1, "pp": 2, "vpp": 2}, "optimizer_tp1pp1"),
    Split("shared_tp2ep2etp1", {"rank_size": 2, "tp": 2, "pp": 1, "ep": 2, "etp": 1}, "shared_tp1"),
    Split("context_cp2heads", {"rank_size": 2, "tp": 1, "pp": 1, "cp": 2}, "context_cp1"),
    Split("context_tp2cp2sp", {"rank_size": 4, "tp": 2, "pp": 1, "cp": 2}, "context_cp1"),
    Split(
        "interleaved_tp1pp2vpp2",
        {"rank_size": 2, "tp": 1, "pp": 2, "vpp": 2},
        "interleaved_tp1pp1",
    ),
    Split("half_tp2", {"rank_size": 2, "tp": 2, "pp": 1}, "half_tp1"),
    Split("context_cp2", {"rank_size": 2, "tp": 1, "pp": 1, "cp": 2}, "context_cp1"),
    Split("context_cp2ring", {"rank_size": 2, "tp": 1, "pp": 1, "cp": 2}, "context_cp1ring"),
    Split("heads_tp4", {"rank_size": 4, "tp": 4, "pp": 1}, "heads_tp1"),
    Split("tied_tp1pp2", {"rank_size": 2, "tp": 1, "pp": 2}, "tied_tp1pp1"),
    Split("grouped_tp2sp", {"rank_size": 2, "tp": 2, "pp": 1}, "grouped_tp1"),
    Split(
        "grouped_tp2ep2etp1",
        {"rank_size": 2, "tp": 2, "pp": 1, "ep": 2, "etp": 1},
        "grouped_tp1",
    ),
    Split("ulysses_tp2cp2sp", {"rank_size": 4, "tp": 2, "pp": 1, "cp": 2}, "ulysses_tp1"),
    Split("ring_tp2cp2", {"rank_size": 4, "tp": 2, "pp": 1, "cp": 2}, "ring_tp1"),
    Split("halves_tp2pp2sp", {"rank_size": 4, "tp": 2, "pp": 2}, "halves_tp1"),
)


@dataclass
class Agreement:
    """One merged replica against its truth."""

    nodes: int = 0
    values: int = 0
    findings: list[Finding] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)


def compare_split(folder: Path, split: Split) -> list[Agreement]:
    """Merge each replica of a split and compare it with the truth."""
    layout = parse_layout(split.layout, split.name)
    whole = parse_layout({"rank_size": layout.dp, "tp": 1, "pp": 1}, split.truth)
    steps = folder / split.name / "step0", folder / split.truth / "step0"
    return compare_dumps(*steps, layout, whole)


def compare_dumps(
    npu: Path, bench: Path, layout: ParallelLayout, whole: ParallelLayout
) -> list[Agreement]:
    """Each replica of a split training, merged as the builder does it, and its truth."""
    trees = discover(npu, "npu_path"), discover(bench, "bench_path")
    result = []
    for job in pair_up_replicas(*trees, (layout, whole), BuildOptions())[0]:
        assert isinstance(job.npu, ReplicaSource)
        assert isinstance(job.bench, ReplicaSource)
        texts = Texts()
        read = partial(read_rank, texts=texts)
        truth, _ = read_replica(job.bench, texts, read)
        source = replace(job.npu, wholes=whole_shapes(truth) if layout.tp > 1 else {})
        if layout.cuts_batch:
            source = replace(source, words=entering(truth.tree, truth.table, texts).shape)
        merged, found = read_replica(source, texts, read)
        merged = with_common_mean(merged, truth, texts)
        merged = with_mean_of_passes(merged, truth, texts)
        result.append(_agreement(merged, truth, texts, found))
    return result


def _agreement(merged: Side, truth: Side, texts: Texts, found: list[Diagnostic]) -> Agreement:
    pairs = _aligned(merged, truth)
    result = Agreement(diagnostics=found)
    result.findings += _alone("extra", merged, {one for one, _ in pairs})
    result.findings += _alone("missing", truth, {other for _, other in pairs})
    rows = _rows(merged), _rows(truth)
    is_final = _final(truth)
    tolerance = _tolerance(truth, texts)
    for one, other in pairs:
        result.nodes += 1
        names, parent = truth.tree.names, truth.tree.parent
        place = names[other], names[parent[other]], other in is_final
        if merged.tree.micro_step[one] != truth.tree.micro_step[other]:
            result.findings.append(Finding("micro-step", *place))
        left, right = rows[0][one], rows[1][other]
        for kind, keys in (
            ("missing tensor", right.keys() - left.keys()),
            ("extra tensor", left.keys() - right.keys()),
        ):
            result.findings += [Finding(kind, *place, texts.values[key[1]]) for key in keys]
        for key in left.keys() & right.keys():
            result.values += 1
            parameter = texts.values[key[1]]
            for kind, detail in _differences(
                merged, left[key], truth, right[key], texts, tolerance
            ):
                result.findings.append(Finding(kind, *place, parameter, detail))
    return result


def _tolerance(truth: Side, texts: Texts) -> float:
    dtypes = {texts.values[dtype] for dtype in set(truth.table.dtype_id.tolist()) if dtype >= 0}
    return max((COARSE_TOLERANCES.get(dtype, 0.0) for dtype in dtypes), default=0.0) or TOLERANCE


def _differences(
    merged: Side, row: int, truth: Side, other: int, texts: Texts, tolerance: float
) -> Iterator[tuple[str, str]]:
    recipes = {} if merged.provenance is None else merged.provenance.recipes
    shapes = int(merged.table.shape_id[row]), int(truth.table.shape_id[other])
    if shapes[0] < 0 <= shapes[1]:
        yield "unknown shape", tell(recipes.get(row, ()))
    elif shapes[0] != shapes[1]:
        yield "other shape", f"{texts.values[shapes[0]]}, truth {texts.values[shapes[1]]}"
    expected = truth.table.statistics[:, other]
    if merged.table.missing[row] == 0b1111:
        if np.isfinite(expected).any():
            yield "unknown", tell(recipes.get(row, ()))
        return
    own = merged.table.statistics[:, row]
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
    if not np.allclose(own, expected, rtol=tolerance, atol=tolerance * scale, equal_nan=True):
        yield "away", f"{own.tolist()}, truth {expected.tolist()}"


def _final(side: Side) -> set[int]:
    """Calls outside of modules after the last backward pass."""
    backward = [
        int(side.tree.subtree_end[node])
        for node, name in enumerate(side.tree.parsed)
        if name.kind is Kind.MODULE and name.direction is Direction.BACKWARD
    ]
    last = max(backward, default=len(side.tree))
    return {node for node in range(last + 1, len(side.tree)) if _is_outside(side, node)}


def _is_outside(side: Side, node: int) -> bool:
    above = int(side.tree.parent[node])
    return above == 0 or side.tree.parsed[above].kind is Kind.COLLECTION


def _aligned(merged: Side, truth: Side) -> list[tuple[int, int]]:
    """Nodes of equal name and order below nodes that are aligned themselves."""
    children = _children(merged), _children(truth)
    pairs = [(0, 0)]
    for one, other in pairs:
        left, right = children[0][one], children[1][other]
        keys = [_key(merged, node) for node in left], [_key(truth, node) for node in right]
        pairs += [
            (left[block.a + step], right[block.b + step])
            for block in SequenceMatcher(None, *keys, autojunk=False).get_matching_blocks()
            for step in range(block.size)
        ]
    return pairs


def _children(side: Side) -> dict[int, list[int]]:
    """Children by parent; calls of collections count as children of what holds the collection."""
    parents = side.tree.parent.tolist()
    result: dict[int, list[int]] = defaultdict(list)
    for node, parent in enumerate(parents[1:], start=1):
        if side.tree.parsed[node].kind is Kind.COLLECTION:
            continue
        is_grouped = side.tree.parsed[parent].kind is Kind.COLLECTION
        result[parents[parent] if is_grouped else parent].append(node)
    return result


def _key(side: Side, node: int) -> tuple[Any, ...]:
    name = side.tree.parsed[node]
    # Extra calls shift the numbers of later calls of the same API.
    return (format_name(name),) if name.kind is Kind.MODULE else (name.stem, name.direction)


def _alone(kind: str, side: Side, known: set[int]) -> list[Finding]:
    """Calls without partner."""
    names, parent, is_final = side.tree.names, side.tree.parent, _final(side)
    return [
        Finding(kind, names[node], names[parent[node]], node in is_final)
        for node in range(1, len(names))
        if node not in known and side.tree.parsed[node].kind is not Kind.COLLECTION
    ]


def _rows(side: Side) -> dict[int, dict[tuple[int, int], int]]:
    table = side.table
    result: dict[int, dict[tuple[int, int], int]] = defaultdict(dict)
    for row in np.flatnonzero(table.is_tensor).tolist():
        result[int(table.node[row])][int(table.section[row]), int(table.name_id[row])] = row
    return result


def table_lines(
    found: Mapping[str, Sequence[Agreement]], why: Callable[[Finding], str | None] = cause
) -> Iterator[str]:
    """The table as Markdown."""
    yield f"| split | calls | tensors | {' | '.join(KINDS.values())} | without a known cause |"
    yield f"|---|{'--:|' * (len(KINDS) + 3)}"
    for name, agreements in found.items():
        findings = [finding for one in agreements for finding in one.findings]
        kinds = Counter(finding.kind for finding in findings)
        numbers = [
            sum(one.nodes for one in agreements),
            sum(one.values for one in agreements),
            *(kinds[kind] for kind in KINDS),
            sum(why(finding) is None for finding in findings),
        ]
        yield f"| `{name}` | {' | '.join(f'{number:,}' for number in numbers)} |"


def cause_lines(
    found: Mapping[str, Sequence[Agreement]], why: Callable[[Finding], str | None] = cause
) -> Iterator[str]:
    """The causes with their numbers as Markdown."""
    counts: Counter[tuple[str | None, str]] = Counter()
    for agreements in found.values():
        counts.update((why(item), item.kind) for one in agreements for item in one.findings)
    yield "| cause | " + " | ".join(KINDS.values()) + " |"
    yield f"|---|{'--:|' * len(KINDS)}"
    for reason in sorted({reason for reason, _ in counts}, key=str):
        numbers = " | ".join(f"{counts[reason, kind]:,}" for kind in KINDS)
        yield f"| {reason or '**not known**'} | {numbers} |"


def main() -> None:
    """Write the tables, print every difference without a known cause."""
    folder = Path(sys.argv[1])
    groups = (
        ("GPT of Megatron-Core", SPLITS, cause),
        ("Recomputation, uneven stages, a pipeline written by hand", OTHER_SPLITS, other_cause),
        ("Experts, parts of a sequence, optimizers, float16", SPREAD_SPLITS, spread_cause),
    )
    for heading, splits, why in groups:
        found = {split.name: compare_split(folder, split) for split in splits}
        tables = table_lines(found, why), cause_lines(found, why)
        write_tables("parallel-merge.md", heading, tables)
        for name, agreements in found.items():
            for finding in (item for one in agreements for item in one.findings):
                if why(finding) is None:
                    print(name, *finding, file=sys.stderr)


if __name__ == "__main__":
    main()
