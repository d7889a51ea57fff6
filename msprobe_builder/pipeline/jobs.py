"""Which rank directory is compared with which."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from uuid import uuid4

from msprobe_builder.base.diagnostics import Diagnostic, about
from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.options import BuildOptions
from msprobe_builder.dump.discover import DumpTree
from msprobe_builder.dump.source import Place, Source
from msprobe_builder.facts.fact import fact
from msprobe_builder.merge.ranks.layout import ParallelLayout, expert_peers, replicas, united
from msprobe_builder.merge.ranks.replica_source import ReplicaSource
from msprobe_builder.pipeline.compare import PairJob
from msprobe_builder.pipeline.kept import Keep

_SHOWN = 8


def pair_up(
    npu: DumpTree, bench: DumpTree | None, options: BuildOptions
) -> tuple[list[PairJob], list[Diagnostic]]:
    """One job for each step and rank, and what was left out.

    Steps and ranks must be the same on both sides; with ``allow_missing`` the common ones are
    compared. A rank given by itself is compared with the only one of the other side.
    """
    found = _strays(npu, 0)
    if bench is None:
        jobs = [
            PairJob(place.step, place.rank, directory, None, options)
            for place, directory in npu.directories.items()
        ]
        return jobs, found
    found += _strays(bench, 1)
    if npu.is_single or bench.is_single:
        return [_single(npu, bench, options)], found
    lacking = [
        ("npu_path", 0, [place for place in bench.directories if place not in npu.directories]),
        ("bench_path", 1, [place for place in npu.directories if place not in bench.directories]),
    ]
    common = [place for place in npu.directories if place in bench.directories]
    sides = {"npu_path": npu, "bench_path": bench}
    missing = "; ".join(
        f"{key} lacks {_list(places)}{_misnamed(sides[key])}"
        for key, _, places in lacking
        if places
    )
    if not common:
        raise BuildError(
            f"npu_path {npu.root} and bench_path {bench.root} have no step and rank in common: "
            f"{missing}; correct one of the paths."
        )
    if missing and not options.allow_missing:
        several = [len({place.rank for place in tree.directories}) for tree in (npu, bench)]
        of_one = min(several) == 1 < max(several)
        as_one = 'join the ranks with "parallel_merge": "auto", or ' if of_one else ""
        raise BuildError(
            f"npu_path {npu.root} and bench_path {bench.root} hold different steps and ranks: "
            f"{missing}; {as_one}compare the common ones with --allow-missing."
        )
    for key, side, places in lacking:
        message = fact("note.missing_rank", path=key, places=_list(places))
        if places:
            left_out = Diagnostic("warning", "missing_rank", message, count=len(places), side=side)
            found.append(left_out)
    jobs = [
        PairJob(place.step, place.rank, npu.directories[place], bench.directories[place], options)
        for place in common
    ]
    return jobs, found


def _misnamed(tree: DumpTree) -> str:
    """The entries that look like ranks or steps of another spelling, such as rank01."""
    found = [name for name in tree.strays if re.search(r"(rank|step)[^/]*[0-9][^/]*\Z", name)]
    return f" ({found[0]} has no such name)" if found else ""


def _single(npu: DumpTree, bench: DumpTree, options: BuildOptions) -> PairJob:
    """The job of a rank that was given by itself; it takes step and rank from the other side."""
    for many, key, single, other in (
        (npu, "npu_path", bench, "bench_path"),
        (bench, "bench_path", npu, "npu_path"),
    ):
        if len(many.directories) > 1:
            raise BuildError(
                f"{key} {many.root} holds {len(many.directories)} ranks or steps and {other} "
                f"{single.root} a single rank; give the directory of one rank as {key}."
            )
    [npu_place], [bench_place] = npu.directories, bench.directories
    place = bench_place if npu.is_single else npu_place
    return PairJob(
        place.step,
        place.rank,
        npu.directories[npu_place],
        bench.directories[bench_place],
        options,
    )


def pair_up_replicas(
    npu: DumpTree,
    bench: DumpTree | None,
    layouts: tuple[ParallelLayout, ParallelLayout | None],
    options: BuildOptions,
) -> tuple[list[PairJob], list[Diagnostic]]:
    """One job for each step and data-parallel replica, named after the replica's first rank.

    Replicas are compared in order; when one side has fewer it begins with its first again.
    """
    found = _strays(npu, 0)
    left_ranks = _ranks_by_step(npu, layouts[0], "npu")
    right_ranks = {}
    if bench is not None and layouts[1] is not None:
        right_ranks = _ranks_by_step(bench, layouts[1], "bench")
    # Now the sizes are known to be those of what is there.
    # Parts that ranks keep of a gradient are of its mean over the replicas; with replicas on the
    # other side too, each may have recorded its own gradient before it is reduced.
    left = _replica_sources(
        left_ranks,
        layouts[0],
        _experts_together(*layouts),
        joins_parts=layouts[1] is None or layouts[1].dp == 1,
    )
    # Merged nodes have the names of an unsplit model; how shards were cut is no difference.
    options = replace(options, layer_mapping=True)
    if bench is None or layouts[1] is None:
        jobs = [
            PairJob(step, source.replica.label, source, None, options)
            for step, sources in left.items()
            for source in sources
        ]
        return jobs, found
    found += _strays(bench, 1)
    together = _experts_together(layouts[1], layouts[0])
    right = _replica_sources(right_ranks, layouts[1], together, joins_parts=layouts[0].dp == 1)
    if left.keys() != right.keys():
        raise BuildError(
            f"npu_path {npu.root} holds steps {sorted(left)} and bench_path {bench.root} steps "
            f"{sorted(right)}; give dumps of the same steps."
        )
    counts = layouts[0].dp, layouts[1].dp
    if max(counts) % min(counts):
        raise BuildError(
            f"parallel_merge gives {counts[0]} replicas on the debug side and {counts[1]} on the "
            "reference side; one number must divide the other: correct rank_size, tp or pp."
        )
    found += _other_samples(counts) + _experts_of_other_tokens(layouts[0], layouts[1])
    jobs = []
    build = uuid4().hex
    for step, sources in left.items():
        others = right[step]
        # A single replica is compared with each of the other side, and need not be merged again.
        single = counts.index(1) if 1 in counts and max(counts) > 1 else None
        keep = None if single is None else Keep(single, f"{build} {step}")
        # In order, and from the first again when one side has no more.
        count = max(counts)
        sources, others = sources * (count // counts[0]), others * (count // counts[1])
        jobs += [
            PairJob(
                step,
                one.replica.label if counts[0] >= counts[1] else other.replica.label,
                one,
                other,
                options,
                keep=keep,
            )
            for one, other in zip(sources, others, strict=True)
        ]
    return jobs, found


def with_noise(jobs: list[PairJob], noise: DumpTree) -> tuple[list[PairJob], list[Diagnostic]]:
    """The same jobs with the second run of the reference, and what it lacks.

    It is split as the reference is. Raises BuildError when it has none of the steps and ranks.
    """
    result, lacking = [], []
    for job in jobs:
        own: Source | ReplicaSource | None
        if isinstance(job.bench, ReplicaSource):
            ranks = {
                one.rank: path for one, path in noise.directories.items() if one.step == job.step
            }
            is_whole = ranks.keys() >= job.bench.sources.keys()
            own = replace(job.bench, sources=ranks) if is_whole else None
        elif len(jobs) == 1 and len(noise.directories) == 1:
            [own] = noise.directories.values()
        else:
            own = noise.directories.get(Place(job.step, job.rank))
        result.append(replace(job, noise=own))
        if own is None:
            lacking.append(Place(job.step, job.rank))
    if len(lacking) == len(jobs):
        raise BuildError(
            f"noise_path {noise.root} has none of the steps and ranks that are compared; give a "
            "second dump of the reference, recorded at the same steps on the same ranks."
        )
    if not lacking:
        return result, []
    message = fact("note.missing_noise", places=_list(lacking))
    return result, [Diagnostic("warning", "missing_noise", message, count=len(lacking))]


def _other_samples(counts: tuple[int, int]) -> list[Diagnostic]:
    """Replicas of unequal numbers share out the samples of a batch in different ways."""
    if counts[0] == counts[1] or 1 in counts:
        return []
    message = fact("note.unequal_replicas", npu=counts[0], bench=counts[1])
    return [Diagnostic("info", "unequal_replicas", message)]


def _experts_together(layout: ParallelLayout, other: ParallelLayout | None) -> list[frozenset[int]]:
    """Replicas of a side whose experts are joined, as their tokens meet in one side at least.

    Only then an expert has the same tokens on both sides, however they share experts out.
    """
    sets = expert_peers(layout)
    if other is not None and other.dp == layout.dp:
        sets = united([*sets, *expert_peers(other)])
    return sets


def _ranks_by_step(
    tree: DumpTree, layout: ParallelLayout, side: str
) -> dict[int, dict[int, Source]]:
    """Rank directories of each step; BuildError unless they are those of the layout."""
    result: dict[int, dict[int, Source]] = {}
    for place, source in sorted(tree.directories.items()):
        result.setdefault(place.step, {})[place.rank] = source
    for step, ranks in result.items():
        wrong = wrong_ranks(sorted(ranks), layout.rank_size)
        if wrong:
            hint = f" ({tree.strays[0]} has no such name)" if tree.strays else ""
            raise BuildError(
                f"parallel_merge.{side} declares rank_size {layout.rank_size}, but {side}_path "
                f"{tree.root} {wrong} in step {step}; correct rank_size, or give directories "
                f"rank0 to rank{layout.rank_size - 1}{hint}."
            )
    return result


def _experts_of_other_tokens(npu: ParallelLayout, bench: ParallelLayout) -> list[Diagnostic]:
    """What to expect of experts when the sides have other numbers of replicas."""
    meeting = [max(map(len, expert_peers(layout))) for layout in (npu, bench)]
    if npu.dp == bench.dp or meeting[0] == meeting[1]:
        return []
    numbers = {"more": max(meeting), "fewer": min(meeting)}
    message = fact("note.experts_of_other_tokens", **numbers)
    side = meeting.index(max(meeting))
    return [Diagnostic("warning", "experts_of_other_tokens", message, side=side)]


def _replica_sources(
    steps: dict[int, dict[int, Source]],
    layout: ParallelLayout,
    together: Sequence[frozenset[int]],
    *,
    joins_parts: bool,
) -> dict[int, list[ReplicaSource]]:
    """The replicas of each step with those whose experts they share.

    ``joins_parts`` says that what is sharded over the replicas is to be put together.
    """
    parts = replicas(layout)
    peers = {
        index: tuple(parts[other] for other in sorted(one - {index}) if other < len(parts))
        for one in together
        for index in one
    }
    return {
        step: [
            ReplicaSource(
                layout,
                replica,
                ranks,
                peers.get(replica.index, ()),
                tuple(parts) if joins_parts and layout.dp > 1 else (),
            )
            for replica in parts
        ]
        for step, ranks in steps.items()
    }


def wrong_ranks(found: Sequence[int], size: int) -> str:
    """Which of ``size`` ranks are missing and which are too many, nothing when none are."""
    known = set(found)
    lacking = islice((rank for rank in range(size) if rank not in known), _SHOWN + 1)
    counted = size - sum(rank < size for rank in found)  # a wrong size may be astronomical
    beyond = [rank for rank in found if rank >= size]
    parts = [
        f"{word} {'rank' if count == 1 else 'ranks'} {_numbers(ranks, count)}"
        for word, ranks, count in (
            ("lacks", list(lacking), counted),
            ("has also", beyond, len(beyond)),
        )
        if count
    ]
    return " and ".join(parts)


def _numbers(ranks: Sequence[int], count: int) -> str:
    shown = ", ".join(map(str, ranks[:_SHOWN]))
    return f"{shown} and {count - _SHOWN:,} more" if count > _SHOWN else shown


def _strays(tree: DumpTree, side: int) -> list[Diagnostic]:
    message = fact("note.stray_entry")
    found = about("info", "stray_entry", tree.strays, message)
    return [one.at(side=side) for one in found]


def _list(places: Sequence[Place]) -> str:
    shown = ", ".join(f"step {place.step} rank {place.rank}" for place in places[:_SHOWN])
    more = len(places) - _SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
