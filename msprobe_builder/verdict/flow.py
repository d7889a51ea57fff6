"""Both sides of one step and rank as columns by row of the npu table: what the pass reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.calls import Calls, carries, has_own_gradient
from msprobe_builder.graph.floating import discrete_types
from msprobe_builder.graph.part import Part, put_out_by
from msprobe_builder.graph.producers import producers, through_wrappers
from msprobe_builder.metrics.comparison import Comparisons
from msprobe_builder.metrics.groups import GroupResults
from msprobe_builder.metrics.memory import meaningless
from msprobe_builder.verdict.arguments import Argument, differing_arguments
from msprobe_builder.verdict.bits import altered_calls
from msprobe_builder.verdict.consumers import Consumers, consumers_of
from msprobe_builder.verdict.distance import distances, fillers
from msprobe_builder.verdict.findings import SUSPICIOUS, Place
from msprobe_builder.verdict.grouped import Grouped, grouped_of
from msprobe_builder.verdict.kinks import errors_of_norm, kinked_gradients
from msprobe_builder.verdict.masks import sizes_behind_masks
from msprobe_builder.verdict.mispaired import (
    mispaired,
    other_edges,
    other_parameters,
    other_places,
    resized,
    swapped_operands,
)
from msprobe_builder.verdict.operators import (
    Family,
    families,
    has_other_precision,
    idle_casts,
    normalising,
    over_few_samples,
)
from msprobe_builder.verdict.updates import Update, updates, updates_of_both

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class Flow:
    """Tensors and where they came from.

    Columns by row of the npu table: ``error`` (NaN unknown), ``floor`` (what rounding and the run's
    own noise explain), ``scale`` (root mean square of the reference), ``counts`` (whether it is
    a tensor), ``informative`` (whether its statistics tell it from others), ``producer`` (row),
    ``bench_of`` (row of the bench table, -1 without). By node: ``partner``, ``lone`` (does
    what no call or group of the other side does), ``family``,
    ``carries`` (hands on what it was given), ``twin`` (the other direction of the same call),
    ``gain`` (how much larger errors get there as a rule), ``reach`` (largest number it is given,
    1 to 100), ``mixing`` (by how much a normalisation stretches; else 0),
    ``kinked`` (gives gradients back through a slope that jumps; ``in_norm`` by row judges these).
    """

    npu: Part
    bench: Part
    is_merged: bool  # one of them was put together from the parts of ranks
    partner: Int
    bench_partner: Int
    grouped: Grouped
    lone: Bool
    bench_lone: Bool
    error: Float
    floor: Float
    noise: float  # of one call given equal tensors; NaN when it cannot be told
    scale: Float
    counts: Bool
    is_line: Bool  # of one dimension
    discrete: Bool  # of whole numbers or truth values
    informative: Bool
    producer: Int
    bench_producer: Int
    bench_of: Int
    npu_of: Int
    family: Int
    carries: Bool
    twin: Int
    gain: Float
    mixing: Float
    kinked: Bool
    over_few: Bool  # normalises so few samples that rounding may make anything of them
    in_norm: Float
    reach: Float
    arguments: dict[int, list[Argument]]
    apart: dict[int, Place]  # npu rows in which the ranks of a merged model differ, and since where
    consumers: Consumers
    altered: frozenset[int]  # calls that alone put out other bits, with the same statistics
    updates: dict[int, Update]  # by row what an optimizer puts out that divides


def flow_of(
    npu: Part,
    bench: Part,
    partner: Int,
    bench_partner: Int,
    comparisons: Comparisons,
    texts: Texts,
    baseline: Float | None = None,
    groups: GroupResults | None = None,
    *,
    is_merged: bool = False,
    apart: dict[int, Place] | None = None,
) -> Flow:
    """Measure all pairs and find where every tensor came from.

    ``baseline`` is the error that a second run of the reference makes of each row of its table;
    ``groups`` are calls without a partner that are compared together;
    ``is_merged`` says that a side was put together from the parts of ranks, ``apart`` in which rows
    these differ.
    """
    size, table, calls = len(npu.table), npu.table, npu.calls
    family, handing_on = families(calls), carries(calls)
    grouped = grouped_of(calls, bench.calls, groups)
    other_types = has_other_precision(npu, bench.table, comparisons)
    error, floor = np.full(size, np.nan), np.full(size, 2.0**-20)
    informative = np.zeros(size, dtype=bool)
    bench_of: NDArray[Any] = np.full(size, -1, dtype=np.int32)
    npu_of: NDArray[Any] = np.full(len(bench.table), -1, dtype=np.int32)
    with np.errstate(all="ignore"):
        norm = table.statistics[3].copy()
    visible = np.full(size, np.nan)
    # Mixed precision casts inside of products, modules and own functions, unseen where they cast
    # back; and gradients are made of what was cast all over.
    coarse = calls.is_module | (family == Family.PRODUCT) | (calls.direction != Direction.FORWARD)
    coarse |= calls.of_stems(has_own_gradient) == 1
    normalised = put_out_by(npu, normalising(calls))
    coarsest, altered = 0.0, frozenset[int]()
    for one in (comparisons,) if groups is None else (comparisons, groups.comparisons):
        found = distances(
            table, bench.table, one, texts, other_types=other_types, normalised=normalised
        )
        new = bench_of[one.pairs.npu] < 0
        rows, there = one.pairs.npu[new], one.pairs.bench[new]
        error[rows], informative[rows] = found.error[new], found.informative[new]
        floor[rows] = found.rounding[new]
        if other_types:
            coarsest = max(coarsest, found.coarsest)
            inside = coarse[table.node[rows]]
            floor[rows[inside]] = np.fmax(floor[rows], found.cast[new])[inside]
        altered |= altered_calls(npu, one, found.altered)
        bench_of[rows], norm[rows] = there, bench.table.statistics[3][there]
        visible[rows] = found.visible[new]
        npu_of[there] = np.where(npu_of[there] < 0, rows, npu_of[there])
        del found, new, rows, there  # of a million calls 25 MB each
    with np.errstate(all="ignore"):
        scale = np.nan_to_num(norm / np.sqrt(np.fmax(table.numel, 1)), nan=0.0, posinf=0.0)
    producer = producers(npu.tree, calls, table)
    bench_producer = producers(bench.tree, bench.calls, bench.table)
    is_whole = discrete_types(texts)
    discrete = is_whole[table.dtype_id]
    masked = sizes_behind_masks(npu, producer, visible, discrete)
    larger = masked > visible
    error[larger] *= visible[larger] / masked[larger]
    scale = np.where(np.isnan(masked), scale, masked)
    off = error > SUSPICIOUS * floor
    arguments = differing_arguments(
        calls,
        bench.calls,
        table,
        bench.table,
        partner,
        texts,
        other_types=other_types,
        ranges_differ=is_merged,
    )
    other = other_parameters(table, bench.table, bench_of, texts) & off
    told = np.zeros(size, dtype=bool)
    if not is_merged:  # ranks hold parts
        beyond = off & (error > SUSPICIOUS * coarsest)  # what was cast before is rounded as that
        told = resized(npu, bench, partner, bench_of, beyond, arguments)[table.node]
    other &= ~told
    error[other] = np.nan
    error[other_places(npu, bench, partner, off)] = np.nan
    if groups is not None:
        error[other_edges(table, groups.comparisons.pairs.npu, off, producer)] = np.nan
    error[swapped_operands(calls, table, bench.table, bench_of, off)] = 0.0
    holds_nothing = meaningless(npu, producer, texts)
    empty = meaningless(bench, bench_producer, texts)
    rows = np.flatnonzero(bench_of >= 0)
    holds_nothing[rows[empty[bench_of[rows]]]] = True
    error[holds_nothing] = np.nan
    error[mispaired(calls, table, error, floor, producer, informative) & ~told] = np.nan
    wrongly_matched = _with_rows(npu, off & np.isnan(error) & ~holds_nothing)
    twin = calls.twin
    noise = _own_noise(
        calls,
        _seen(npu, error, floor, twin),
        handing_on | np.isin(family, (Family.RANDOM, Family.UNINITIALISED)),
    )
    if noise == noise:
        floor = np.maximum(floor, 4.0 * noise)
    if baseline is not None:
        rows = np.flatnonzero(bench_of >= 0)
        told = baseline[bench_of[rows]]
        floor[rows] = np.fmax(floor[rows], _DRAWS * told)
        noise = float(np.nanmedian(told)) if np.isfinite(told).any() else noise
    if is_merged:
        error[discrete & (error < _REORDERED)] = 0.0
    lone = (partner < 0) & (grouped.npu < 0) & ~idle_casts(npu, is_whole)
    bench_lone = (bench_partner < 0) & (grouped.bench < 0) & ~idle_casts(bench, is_whole)
    producer = through_wrappers(npu, producer, lone)
    bench_producer = through_wrappers(bench, bench_producer, bench_lone)
    return Flow(
        npu=npu,
        bench=bench,
        is_merged=is_merged,
        partner=partner,
        bench_partner=bench_partner,
        grouped=grouped,
        lone=lone,
        bench_lone=bench_lone,
        error=error,
        floor=floor,
        noise=noise,
        scale=scale,
        counts=table.is_tensor,
        discrete=discrete,
        is_line=np.array([text.count(",") == 0 for text in texts.values] + [False])[table.shape_id],
        informative=informative,
        producer=producer,
        bench_producer=bench_producer,
        bench_of=bench_of,
        npu_of=npu_of,
        family=family,
        carries=handing_on,
        twin=twin,
        mixing=_mixing(calls, bench, partner, twin),
        kinked=kinked_gradients(npu),
        over_few=over_few_samples(npu, texts),
        in_norm=errors_of_norm(table, bench.table, bench_of),
        gain=_gains(npu, _seen(npu, error, floor, twin)),
        reach=_reach(npu, discrete),
        arguments={
            node: several
            for node, several in arguments.items()
            if not wrongly_matched[node] or any(one.is_order for one in several)
        },
        apart=apart or {},
        consumers=consumers_of(table, producer, len(npu.tree)),
        altered=altered,
        updates=updates_of_both(updates(npu, texts), updates(bench, texts), bench_of),
    )


# Of whole numbers a merge adds up mean and norm in another order, in float64.
_REORDERED = 2.0**-40


def _with_rows(npu: Part, rows: Bool) -> Bool:
    """Calls with such rows."""
    result = np.zeros(len(npu.tree), dtype=bool)
    result[npu.table.node[rows]] = True
    return result


_DRAWS = 2.0  # two draws of one noise: the error of a difference is seldom more than twice another
_ENOUGH = 4  # calls that a level of noise is learnt from


def _own_noise(calls: Calls, seen: Seen, left_out: Bool) -> float:
    """What calls of this run make of tensors that are equal on both sides.

    No fault reaches them, as everything they were given agrees to the last digit; a few of them may
    be the fault itself, hence the lower quartile. NaN when there are too few such calls.
    """
    fresh = seen.put_out[
        calls.is_forward_call & ~left_out & (seen.given == 0) & ~np.isnan(seen.put_out)
    ]
    return float(np.sort(fresh)[len(fresh) // 4]) if len(fresh) >= _ENOUGH else float("nan")


@dataclass(frozen=True)
class Seen:
    """Of each node the largest error seen of what it was given and put out, NaN unknown."""

    given: Float
    put_out: Float
    floor: Float


def _seen(part: Part, error: Float, floor: Float, twin: Int) -> Seen:
    """A backward call is given what its forward call was given and put out, too."""
    table, size = part.table, len(part.tree)
    known = table.is_tensor & ~np.isnan(error) & ~np.isnan(table.statistics[3])
    given, put_out, floors = (np.full(size, np.nan) for _ in range(3))
    is_input = known & np.isin(table.section, (Section.INPUT, Section.PARAMETERS))
    np.fmax.at(given, table.node[is_input], error[is_input])
    is_output = known & ~is_input
    np.fmax.at(put_out, table.node[is_output], error[is_output])
    np.fmax.at(floors, table.node[known], floor[known])
    back = np.flatnonzero((twin >= 0) & (part.calls.direction == Direction.BACKWARD))
    with_twin = given.copy()
    with_twin[back] = np.fmax(given[back], np.fmax(given[twin[back]], put_out[twin[back]]))
    return Seen(with_twin, put_out, floors)


_MOST_GAIN = 4.0


def _gains(part: Part, seen: Seen) -> Float:
    """How many times the error it is given each call may put out, as learnt at other places.

    A place is a module and an operator in it: a fault sits at one place, and is there in every
    micro-step. The gain of a place is the median of its calls; allowed at a place is the median
    of the other places where the same operator is called. More than 4 is never granted: where
    one fault shows at many places, it must not excuse itself.
    """
    calls, result = part.calls, np.ones(len(part.tree))
    with np.errstate(all="ignore"):
        ratio = seen.put_out / np.fmax(seen.given, seen.floor)
    nodes = np.flatnonzero(np.isfinite(ratio))
    if not len(nodes):
        return result
    classes: dict[str, int] = {}
    last = calls.of_stems(lambda stem: classes.setdefault(stem.rpartition(".")[2], len(classes)))
    is_module = calls.is_module[nodes]
    operator = np.where(is_module, last[nodes] + len(calls.stems), calls.stem[nodes])
    operator = operator * len(Direction) + calls.direction[nodes]
    above = calls.stem[part.tree.parent[nodes]]
    place = np.where(is_module, calls.stem[nodes], above) + operator * len(calls.stems)
    order = np.lexsort((ratio[nodes], place))
    starts = np.flatnonzero(np.r_[True, np.diff(place[order]) != 0])
    counts = np.diff(np.r_[starts, len(order)])
    ranked = ratio[nodes[order]]
    median = (ranked[starts + (counts - 1) // 2] + ranked[starts + counts // 2]) / 2
    allowed = _median_of_others(median, operator[order[starts]])
    result[nodes[order]] = np.repeat(np.clip(allowed, 1.0, _MOST_GAIN), counts)
    return result


def _median_of_others(value: Float, group: Int) -> Float:
    """For each value the median of the others in its group, 1 where it is alone."""
    result = np.ones(len(value))
    order = np.lexsort((value, group))
    starts = np.flatnonzero(np.r_[True, np.diff(group[order]) != 0])
    for members in np.split(order, starts[1:]):
        others = len(members) - 1
        if others:
            ranked = value[members]
            at = np.arange(len(members))
            low, high = (others - 1) // 2, others // 2
            # Leaving out what stands before moves the middle up by one.
            result[members] = (ranked[low + (at <= low)] + ranked[high + (at <= high)]) / 2
    return result


def _mixing(npu: Calls, bench: Part, partner: Int, twin: Int) -> Float:
    """By how much normalisations stretch what they are given, at their calls of both directions.

    A gradient is stretched as much before all that is common to its elements is subtracted.
    """
    table, calls = bench.table, bench.calls
    with np.errstate(all="ignore"):
        mean, norm = np.nan_to_num(table.statistics[2]), table.statistics[3]
        spread = np.sqrt(np.fmax(norm**2 / np.fmax(table.numel, 1) - mean**2, 0.0))
    spread[fillers(table.statistics, table.statistics).any(axis=0)] = 0.0  # that of a mask
    size = len(calls.kind)
    given, put_out = np.zeros(size), np.zeros(size)
    first = table.is_tensor & (table.position == 0) & np.isfinite(spread)
    for section, of_node in ((Section.INPUT, given), (Section.OUTPUT, put_out)):
        rows = np.flatnonzero(first & (table.section == section))
        of_node[table.node[rows]] = spread[rows]
    with np.errstate(all="ignore"):
        stretch = np.where(normalising(calls) & (given > 0), put_out / given, 0.0)
    result = np.zeros(len(partner))
    back = np.flatnonzero((twin >= 0) & (partner >= 0))
    forward = partner[twin[back]]
    known = forward >= 0
    result[back[known]] = stretch[forward[known]]
    ahead = np.flatnonzero((partner >= 0) & (npu.direction == Direction.FORWARD))
    result[ahead] = stretch[partner[ahead]]
    return result


def _reach(part: Part, discrete: Bool) -> Float:
    """The largest number each call is given; labels and their like are names, no numbers."""
    table = part.table
    with np.errstate(all="ignore"):
        extreme = np.abs(table.statistics[:2])
        extreme = np.where(np.isfinite(extreme) & (extreme < 1e3), extreme, 0.0).max(axis=0)
    result = np.ones(len(part.tree))
    counts = ~discrete | part.calls.are({"pow", "rpow"})[table.node]
    rows = np.flatnonzero(table.is_tensor & (table.section == Section.INPUT) & counts)
    # A number to the power of what is given sees its logarithm, too: 16 is that of nearly 10⁷.
    stretch = np.where(part.calls.are({"rpow"}), 16.0, 1.0)[table.node[rows]]
    np.maximum.at(result, table.node[rows], np.clip(extreme[rows] * stretch, 1.0, 100.0))
    return result
