"""Reading one data-parallel replica and merging its ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from msprobe_builder.diagnostics import Diagnostic
from msprobe_builder.dump.source import Source
from msprobe_builder.errors import BuildError
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.assemble import assemble
from msprobe_builder.merge.layout import ParallelLayout, Replica
from msprobe_builder.merge.recorded_groups import check_groups
from msprobe_builder.merge.stages import join_stages
from msprobe_builder.merge.tensor_parallel import merge_ranks
from msprobe_builder.task import Task, task_of
from msprobe_builder.texts import Texts

# Reads one rank; the integer of a diagnostic's rank is filled in by the caller.
ReadRank = Callable[[Source], tuple[Side, list[Diagnostic]]]


@dataclass(frozen=True)
class ReplicaSource:
    """The ranks of one replica and the layout they were run in."""

    layout: ParallelLayout
    replica: Replica
    sources: Mapping[int, Source]

    def __str__(self) -> str:
        return str(self.sources[self.replica.label])


def read_replica(
    source: ReplicaSource, texts: Texts, read_rank: ReadRank
) -> tuple[Side, list[Diagnostic]]:
    """One merged side; only one stage is held as single ranks at a time.

    Raises BuildError when a dump cannot be read or is of another task than the others.
    """
    stages = []
    task: Task | None = None
    diagnostics: list[Diagnostic] = []
    for stage in source.replica.ranks:
        sides = []
        ranks = [rank for slices in stage for rank in slices]
        for rank in ranks:
            side, found = read_rank(source.sources[rank])
            own = task_of(side.dump)
            task = task or own
            if own is not task:
                raise BuildError(
                    f"{source.sources[rank]} is a dump of task {own.value} and "
                    f"{source} one of task {task.value}; dump all ranks with the same task."
                )
            sides.append(side)
            diagnostics += [one.at(rank=rank) for one in found]
        diagnostics += check_groups(source.layout, sides[0], ranks)
        merged, found = merge_ranks(sides, ranks, texts)
        diagnostics += found
        stages.append(merged)
    model = join_stages(stages, source.layout.vpp)
    return assemble(model, stages), diagnostics
