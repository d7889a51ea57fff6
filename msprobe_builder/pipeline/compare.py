"""From two rank directories to a verdict on every node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.settled import align_rest
from msprobe_builder.base.codes import Grade
from msprobe_builder.base.diagnostics import Diagnostic, about
from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.memory import give_back_pieces
from msprobe_builder.base.options import CPU, DEFAULT_OPTIONS, BuildOptions
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.argument_gradients import has_argument_gradients
from msprobe_builder.dump.read import read_dump
from msprobe_builder.dump.source import Source
from msprobe_builder.dump.stack import stack_path
from msprobe_builder.dump.task import Task, common_task, require_same_framework, task_of
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.part import Part
from msprobe_builder.graph.recorded_origins import recorded_origins
from msprobe_builder.graph.shared import Shared
from msprobe_builder.graph.side import Side
from msprobe_builder.graph.sketch_rows import sketch_rows
from msprobe_builder.graph.tree import LARGE
from msprobe_builder.match.choose import match_nodes
from msprobe_builder.match.matching import Told
from msprobe_builder.merge.ranks.replica_source import ReplicaSource
from msprobe_builder.metrics.grading import grades
from msprobe_builder.metrics.measure import measure
from msprobe_builder.metrics.result import Graph, PairResult
from msprobe_builder.pipeline.kept import Keep, Keeper, Kept
from msprobe_builder.verdict.differences.baseline import baseline

# Called with the name of the stage that begins.
Report = Callable[[str], None]

_NAMES = ("debug", "reference", "noise")


@dataclass(frozen=True)
class PairJob:
    """One step and rank to build."""

    step: int
    rank: int
    npu: Source | ReplicaSource
    bench: Source | ReplicaSource | None
    options: BuildOptions = DEFAULT_OPTIONS
    threads: int = 1  # for reading tensor files
    export_to: Path | None = None  # where merged sides are written as dumps
    keep: Keep | None = None  # the side that jobs after this one need as well
    inputs: tuple[str | None, str | None] = (None, None)  # of npu and bench, see dump/inputs.py
    noise: Source | ReplicaSource | None = None  # the reference once more: what is mere noise
    told: Told | None = None  # what another step or rank has paired

    @cached_property
    def by_argument(self) -> bool:
        """Whether all dumps of the job tell gradients by argument."""
        sides = [self.npu] if self.bench is None else [self.npu, self.bench]
        return all(map(has_argument_gradients, chain.from_iterable(map(_ranks, sides))))

    @property
    def stages(self) -> int:
        """How often a build of it reports: each pipeline stage or rank read, then three more."""
        sources = [one for one in (self.npu, self.bench, self.noise) if one is not None]
        return sum(map(_reads, sources)) + 3  # match, measure, store


def build_pair(job: PairJob, report: Report, keeper: Keeper) -> PairResult:
    """Build or compare one step and rank; raises BuildError when a dump cannot be used.

    What jobs after this one need as well is left with ``keeper``.
    """
    texts = Texts()
    diagnostics: list[Diagnostic] = []
    if job.bench is None:
        npu = read_side(job, 0, job.npu, texts, diagnostics, report)
        task, graph = task_of(npu.dump), _ungraded(npu)
        return PairResult(job.step, job.rank, task, texts, graph, None, None, None, diagnostics)
    npu, bench, texts = _read_both(job, job.bench, diagnostics, report, keeper)
    task = common_task(npu.dump, bench.dump)
    if job.options.exact and not (job.options.layer_mapping or job.options.layer_mapping_file):
        require_same_framework(npu.dump, bench.dump, texts)
    if job.options.device != CPU and task is not Task.TENSOR:
        message = fact("note.device_without_use", device=job.options.device, task=task.value)
        unused = Diagnostic("warning", "device_without_use", message)
        diagnostics.append(unused.at(step=job.step, rank=job.rank))
    report("match")
    matching, found = match_nodes(
        npu,
        bench,
        job.options,
        texts,
        step=job.step,
        rank=job.rank,
        align=None if job.options.exact else partial(align_rest, told=job.told),
    )
    diagnostics += [one.at(step=job.step, rank=job.rank) for one in found]
    report("measure")
    measured = measure(task, npu, bench, matching, texts, job.threads, job.options.device)
    groups = None
    if matching.groups:
        from msprobe_builder.metrics.groups import measure_groups

        groups = measure_groups(
            task, npu, bench, matching.groups, measured.profile, texts, job.threads
        )
    diagnostics += [
        one.at(side=one.side, step=job.step, rank=job.rank) for one in measured.diagnostics
    ]
    noise = _baseline(job, bench, task, texts, report)
    npu_graph = Graph(
        npu.dump,
        npu.tree,
        npu.table,
        measured.error,
        grades(measured.error, matching.npu, measured.profile),
        np.zeros(len(npu.tree), dtype=np.int64),
        provenance=measured.npu,
    )
    bench_graph = _ungraded(replace(bench, provenance=measured.bench))
    bench_graph.grade[matching.bench < 0] = Grade.UNMATCHED
    return PairResult(
        job.step,
        job.rank,
        task,
        texts,
        npu_graph,
        bench_graph,
        matching,
        measured.comparisons,
        diagnostics,
        groups,
        noise,
    )


def _baseline(
    job: PairJob, bench: Side, task: Task, texts: Texts, report: Report
) -> NDArray[np.float64] | None:
    """What the second run of the reference differs from it by, if there is one."""
    if job.noise is None or task is Task.STRUCTURE:
        return None
    noise, _ = _read(job, 2, job.noise, texts, report, Shared())
    if task_of(noise.dump) is not task:
        raise BuildError(
            f"noise_path {job.noise} is a dump of task {task_of(noise.dump).value}, those to "
            f"compare are of task {task.value}; record the reference twice with one configuration."
        )
    matching, _ = match_nodes(noise, bench, job.options, texts, step=job.step, rank=job.rank)
    measured = measure(task, noise, bench, matching, texts, job.threads, job.options.device)
    own, other = (Part(one.tree, one.table) for one in (noise, bench))
    return baseline(own, other, measured.comparisons, texts)


def _read_both(
    job: PairJob,
    bench: Source | ReplicaSource,
    diagnostics: list[Diagnostic],
    report: Report,
    keeper: Keeper,
) -> tuple[Side, Side, Texts]:
    """Both sides and their texts; one that was kept from another job is not read again."""
    sources = job.npu, bench
    if isinstance(job.npu, ReplicaSource) and isinstance(bench, ReplicaSource):
        from msprobe_builder.pipeline.two_splits import told_by_each_other

        sources = told_by_each_other((job.npu, bench), lambda one, own: read_rank(one, own)[0])
    texts, shared = Texts(), Shared()
    sides: dict[int, tuple[Side, list[Diagnostic]]] = {}
    if job.keep is None:
        keeper.forget()
    else:
        kept, is_old = keeper.obtain(job.keep.name, partial(_to_keep, job, sources, report))
        sides[job.keep.side], texts = (kept.side, kept.found), kept.texts
        for _ in range(_reads(sources[job.keep.side]) if is_old else 0):
            report(f"keep {_NAMES[job.keep.side]}")
    # Where one side is not cut it tells how the other is, so it is read first.
    for number in sorted(range(2), key=lambda one: _pieces(sources[one])):
        if number not in sides:
            source = sources[number]
            if 1 - number in sides:
                source = _with_wholes(source, sources[1 - number], sides[1 - number][0])
            sides[number] = _read(job, number, source, texts, report, shared)
    del shared  # and with it the names of all calls
    if max(len(side.tree) for side, _ in sides.values()) >= LARGE:
        give_back_pieces()
    for number in range(2):
        diagnostics += _placed(sides[number][1], job, number)
    npu, bench_side = sides[0][0], sides[1][0]
    if not any(isinstance(source, ReplicaSource) for source in sources):
        return npu, bench_side, texts
    from msprobe_builder.merge.values.later_mean import with_mean_of_passes
    from msprobe_builder.merge.values.own_tokens import with_common_mean

    def adjusted(side: Side, other: Side) -> Side:
        return with_mean_of_passes(with_common_mean(side, other, texts), other, texts)

    return (
        adjusted(npu, bench_side),
        adjusted(bench_side, npu),
        texts,
    )


def _parts(source: Source | ReplicaSource) -> int:
    """In how many parts the layers of a side are cut."""
    return source.layout.tp if isinstance(source, ReplicaSource) else 1


def _pieces(source: Source | ReplicaSource) -> tuple[int, int]:
    """The same, and in how many parts its sequences are."""
    return _parts(source), source.layout.cp if isinstance(source, ReplicaSource) else 1


def _with_wholes(
    source: Source | ReplicaSource, other: Source | ReplicaSource, side: Side
) -> Source | ReplicaSource:
    """A source that is cut with the shapes of the other side, which is read and not cut."""
    if not isinstance(source, ReplicaSource):
        return source
    if source.layout.cp > 1 and not (isinstance(other, ReplicaSource) and other.layout.cp > 1):
        from msprobe_builder.merge.flow.context import entering

        texts = side.dump.parameters.texts
        source = replace(source, words=entering(side.tree, side.table, texts).shape)
    if source.layout.tp == 1 or _parts(other) > 1:
        return source
    from msprobe_builder.merge.flow.wholes import whole_shapes

    return replace(source, wholes=whole_shapes(side))


def _to_keep(job: PairJob, sources: Sequence[Source | ReplicaSource], report: Report) -> Kept:
    """The side of a job that others need as well."""
    assert job.keep is not None
    texts = Texts()
    side, found = _read(job, job.keep.side, sources[job.keep.side], texts, report, Shared())
    return Kept(side, texts, found)


def read_side(
    job: PairJob,
    side: int,
    source: Source | ReplicaSource,
    texts: Texts,
    diagnostics: list[Diagnostic],
    report: Report,
) -> Side:
    """Read one side of a job, merged when it is a replica of many ranks."""
    result, found = _read(job, side, source, texts, report, Shared())
    diagnostics += _placed(found, job, side)
    return result


def _read(
    job: PairJob,
    side: int,
    source: Source | ReplicaSource,
    texts: Texts,
    report: Report,
    shared: Shared,
) -> tuple[Side, list[Diagnostic]]:
    name, last = _NAMES[side], _reads(source)
    if not isinstance(source, ReplicaSource):
        report(f"read {name}")
        return read_rank(source, texts, job.by_argument, flat=job.options.flat, shared=shared)

    def begin_stage(number: int) -> None:
        report(f"read {name} stage {number + 1} of {last}" if last > 1 else f"read {name}")

    from msprobe_builder.merge.replica import read_replica

    read = partial(read_rank, texts=texts, gradients_by_argument=job.by_argument, shared=shared)
    return read_replica(source, texts, read, begin_stage)


def _ranks(source: Source | ReplicaSource) -> Iterable[Source]:
    return source.sources.values() if isinstance(source, ReplicaSource) else (source,)


def _reads(source: Source | ReplicaSource) -> int:
    """How often reading it reports: for each pipeline stage, or once."""
    return source.layout.pp if isinstance(source, ReplicaSource) else 1


def _placed(found: Iterable[Diagnostic], job: PairJob, side: int) -> list[Diagnostic]:
    return [
        one.at(side=side, step=job.step, rank=job.rank if one.rank is None else one.rank)
        for one in found
    ]


def read_rank(
    source: Source,
    texts: Texts,
    gradients_by_argument: bool = False,
    *,
    flat: bool = False,
    shared: Shared | None = None,
) -> tuple[Side, list[Diagnostic]]:
    """One rank with its hierarchy, of which ``shared`` may know parts from another."""
    shared = shared or Shared()
    dump = read_dump(source, texts, gradients_by_argument, flat=flat, latest=shared.latest)
    tree, found = shared.tree(dump)
    found += about(
        "warning",
        "malformed_record",
        dump.malformed,
        fact("note.malformed_record"),
    )
    found += about(
        "warning",
        "call_twice_in_construct",
        dump.twice,
        fact("note.call_twice"),
    )
    found += about(
        "warning",
        "key_repeated",
        dump.repeated,
        fact("note.key_repeated"),
    )
    found += about("info", "shape_pass", dump.shape_pass, fact("note.shape_pass"))
    if dump.is_cut_off:
        found.append(Diagnostic("warning", "cut_off", fact("note.cut_off")))
    if dump.parameters.odd_statistics:
        message = fact("note.odd_statistic")
        count = dump.parameters.odd_statistics
        found.append(Diagnostic("warning", "odd_statistic", message, count=count))
    if not dump.records and dump.task != Task.STRUCTURE.value:
        message = fact("note.no_record_at_all")
        found.append(Diagnostic("warning", "no_record_at_all", message))
    if dump.parameters.unreadable:
        message = fact("note.unreadable_value")
        count = dump.parameters.unreadable
        found.append(Diagnostic("warning", "unreadable_value", message, count=count))
    if isinstance(source, Path) and not flat and not stack_path(source).exists():
        found.append(Diagnostic("info", "no_stacks", fact("note.no_stacks")))
    if dump.stacks.skipped:
        message = fact("note.malformed_stack")
        count = dump.stacks.skipped
        found.append(Diagnostic("info", "malformed_stack", message, count=count))
    parameters, flow, sketches = dump.parameters, dump.flow, dump.sketches
    # What is handed on holds no names of calls, which are as large as all columns.
    dump = replace(dump.without_calls(), stacks=shared.stacks(dump.stacks))
    table = shared.table(tree, parameters)
    if flow is not None:
        origins = recorded_origins(tree, table, flow, by_argument=dump.by_argument)
        table = replace(table, origins=origins)
    if sketches is not None:
        sketched = sketch_rows(tree, table, sketches, by_argument=dump.by_argument)
        table = replace(table, sketched=sketched)
    if len(tree) >= LARGE:
        give_back_pieces()
    return Side(dump, tree, table), found


def _ungraded(side: Side) -> Graph:
    size = len(side.tree)
    return Graph(
        side.dump,
        side.tree,
        side.table,
        np.full(size, np.nan),
        np.full(size, Grade.UNGRADED, dtype=np.int64),
        np.zeros(size, dtype=np.int64),
        provenance=side.provenance,
    )
