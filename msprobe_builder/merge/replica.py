"""Reading one data-parallel replica and merging its ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.source import Source
from msprobe_builder.dump.task import Task, task_of
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.flow.context import Slicing, entering, slicing
from msprobe_builder.merge.flow.experts import number_experts, without_experts
from msprobe_builder.merge.join.assemble import assemble
from msprobe_builder.merge.join.slices import Slice, merge_slices
from msprobe_builder.merge.join.stages import join_stages
from msprobe_builder.merge.ranks.layout import Replica
from msprobe_builder.merge.ranks.part import StageGraph
from msprobe_builder.merge.ranks.recorded_groups import check_expert_groups, check_groups
from msprobe_builder.merge.ranks.replica_source import ReplicaSource as ReplicaSource
from msprobe_builder.merge.values.sharded import Held, parts_of_replicas
from msprobe_builder.merge.values.tensor_parallel import merge_ranks

# Reads one rank; the integer of a diagnostic's rank is filled in by the caller.
ReadRank = Callable[[Source], tuple[Side, list[Diagnostic]]]


def read_replica(
    source: ReplicaSource,
    texts: Texts,
    read_rank: ReadRank,
    begin_stage: Callable[[int], None] = lambda _: None,
) -> tuple[Side, list[Diagnostic]]:
    """One merged side; only one stage is held as single ranks at a time.

    ``begin_stage`` is told the number of each pipeline stage that is about to be read.

    Raises BuildError when a dump cannot be read or is of another task than the others.
    """
    stages: list[StageGraph] = []
    diagnostics: list[Diagnostic] = []
    own: Slicing | None = None
    task: Task | None = None
    for number in range(source.layout.pp):
        begin_stage(number)
        slices: list[Slice] = []
        for replica in (source.replica, *source.peers):
            for ranks in replica.ranks[number]:
                sides, found = _read(source, ranks, texts, read_rank)
                diagnostics += found
                task = _common_task(source, ranks, sides, task)
                holders = _holders(source, number, ranks, sides, texts, read_rank)
                found = _slices(slices, source, replica, ranks, sides, texts, holders)
                diagnostics += found
        first = slices[0].graph
        given = entering(first.tree, first.table, texts)
        own = slicing(given, source.words, source.layout.cp) or own
        merged, found = merge_slices(slices, own, texts)
        diagnostics += found
        stages.append(merged)
    layout = source.layout
    sends_within = layout.pp == 1 or (layout.cp > 1 and not layout.cuts_batch)
    model = join_stages(stages, layout.vpp, sends_within=sends_within)
    side = assemble(model, stages)
    assert side.provenance is not None
    return replace(side, provenance=replace(side.provenance, replicas=layout.dp)), diagnostics


def _read(
    source: ReplicaSource, ranks: Sequence[int], texts: Texts, read_rank: ReadRank
) -> tuple[list[Side], list[Diagnostic]]:
    """The tensor-parallel ranks of one stage, their experts numbered through."""
    layout = source.layout
    sides = []
    diagnostics: list[Diagnostic] = []
    for rank in ranks:
        side, found = read_rank(source.sources[rank])
        share = layout.expert_place(rank)["ep"]
        sides.append(number_experts(side, share, layout.ep, texts))
        diagnostics += [one.at(rank=rank) for one in found]
    diagnostics += check_groups(layout, sides[0], ranks)
    return sides, diagnostics + check_expert_groups(layout, sides[0], ranks[0])


def _holders(
    source: ReplicaSource,
    number: int,
    ranks: Sequence[int],
    sides: Sequence[Side],
    texts: Texts,
    read_rank: ReadRank,
) -> list[Held]:
    """The rank of each replica that holds parts of the same tensors, if there are such parts.

    Replicas that are joined along the batch are ranks of one.

    What went wrong with reading them is told with their own replicas.
    """
    layout = source.layout
    is_split = layout.tp * layout.ep > 1 or (layout.cp > 1 and not layout.cuts_batch)
    if is_split or not parts_of_replicas(sides[0].table, texts):
        return []
    holders = (source.replica,) if layout.cuts_batch else source.holders
    held = []
    for [rank] in (one for replica in holders for one in replica.ranks[number]):
        side = sides[0] if rank == ranks[0] else read_rank(source.sources[rank])[0]
        held.append(Held(rank, side))
    return held


def _common_task(
    source: ReplicaSource, ranks: Sequence[int], sides: Sequence[Side], task: Task | None
) -> Task:
    """The task of the ranks read so far, which must be one."""
    for side, rank in zip(sides, ranks, strict=True):
        own = task_of(side.dump)
        if task is not None and own is not task:
            raise BuildError(
                f"{source.sources[rank]} is a dump of task {own.value} and "
                f"{source} one of task {task.value}; dump all ranks with the same task."
            )
        task = own
    assert task is not None
    return task


def _slices(
    slices: list[Slice],
    source: ReplicaSource,
    replica: Replica,
    ranks: Sequence[int],
    sides: Sequence[Side],
    texts: Texts,
    holders: Sequence[Held],
) -> list[Diagnostic]:
    """Join tensor-parallel ranks and add them to the slices of a stage."""
    is_own = replica is source.replica
    shares = [source.layout.expert_place(rank)["ep"] for rank in ranks]
    if len(set(shares)) == 1:
        merged, found = merge_ranks(sides, ranks, texts, holders, source.wholes)
        slices.append(Slice(merged, shares[0], has_dense=is_own))
        return found
    found = []
    if is_own:
        merged, found = merge_ranks(
            [without_experts(side) for side in sides], ranks, texts, wholes=source.wholes
        )
        slices.append(Slice(merged, shares[0], has_experts=False))
    for side, rank, share in zip(sides, ranks, shares, strict=True):
        alone, _ = merge_ranks([side], [rank], texts)
        slices.append(Slice(alone, share, has_dense=False))
    return found
