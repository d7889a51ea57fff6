"""Both sides of one step and rank as columns by row of the npu table: what the pass reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import Fact, Facts
from msprobe_builder.graph.calls import carries, count_gradients_otherwise, has_own_gradient
from msprobe_builder.graph.floating import SINGLE, discrete_types, epsilons
from msprobe_builder.graph.memory import meaningless
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.part import Part, outermost, put_out_by
from msprobe_builder.graph.producers import producers, through_wrappers
from msprobe_builder.metrics.comparison import Comparisons
from msprobe_builder.metrics.groups import GroupResults
from msprobe_builder.verdict.differences.arguments import Argument, differing_arguments
from msprobe_builder.verdict.differences.bits import (
    altered_calls,
    differ_by_habit,
    exact_elsewhere,
)
from msprobe_builder.verdict.differences.consumers import Consumers, consumers_of, makers
from msprobe_builder.verdict.differences.distance import OTHER_BITS, distances
from msprobe_builder.verdict.differences.drawn import drawing_calls
from msprobe_builder.verdict.differences.exchanged import traded_calls
from msprobe_builder.verdict.differences.grouped import Grouped, grouped_of
from msprobe_builder.verdict.differences.habits import gains, mixing, own_noise, reach, seen_of
from msprobe_builder.verdict.differences.hidden import most_hidden
from msprobe_builder.verdict.differences.left_out import LeftOut, left_out_of
from msprobe_builder.verdict.differences.masks import sizes_behind_masks, sizes_of_terms
from msprobe_builder.verdict.differences.mispaired import (
    inside_cells,
    mispaired,
    other_edges,
    other_parameters,
    other_places,
    resized,
    shares_of_gradients,
    swapped_operands,
)
from msprobe_builder.verdict.differences.non_smooth import errors_of_norm, non_smooth_gradients
from msprobe_builder.verdict.differences.operators import (
    Family,
    families,
    has_other_precision,
    idle_casts,
    normalising,
    over_few_samples,
)
from msprobe_builder.verdict.differences.reduced import (
    REDUCED,
    REDUCED_GRADIENTS,
    made_of,
    reduced_products,
)
from msprobe_builder.verdict.differences.resolution import noise_of_slices, rounded_before
from msprobe_builder.verdict.differences.truths import operands_apart
from msprobe_builder.verdict.differences.undecided import of_one_origin, rows_of, shifted
from msprobe_builder.verdict.differences.updates import Update, updates, updates_of_both
from msprobe_builder.verdict.differences.weights import errors_of_weights
from msprobe_builder.verdict.findings import SUSPICIOUS, Place

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class Flow:
    """Tensors and where they came from.

    Columns by row of the npu table: ``error`` (NaN unknown), ``floor`` (what rounding and the run's
    own noise explain), ``scale`` (root mean square of the reference), ``counts`` (whether it is
    a tensor), ``informative`` (whether its statistics tell it from others), ``producer`` (row),
    ``bench_of`` (row of the bench table, -1 without). By node: ``partner``, ``unmatched`` (does
    what no call or group of the other side does), ``family``,
    ``carries`` (hands on what it was given), ``twin`` (the other direction of the same call),
    ``gain`` (how much larger errors get there as a rule), ``reach`` (largest number it is given,
    1 to 100), ``mixing`` (by how much a normalisation stretches; else 0),
    ``non_smooth`` (gives gradients back through a slope that jumps; ``in_norm`` judges these).
    """

    npu: Part
    bench: Part
    is_merged: bool  # one of them was put together from the parts of ranks
    partner: Int
    bench_partner: Int
    grouped: Grouped
    unmatched: Bool
    bench_unmatched: Bool
    error: Float
    floor: Float
    noise: float  # of one call given equal tensors; NaN when it cannot be told
    scale: Float
    counts: Bool
    is_line: Bool  # of one dimension
    discrete: Bool  # of whole numbers or truth values
    in_half: Bool  # of a type coarser than single precision
    hidden: Float  # the most that it may hold of what rounding did before
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
    non_smooth: Bool
    over_few: Bool  # normalises so few samples that rounding may make anything of them
    in_norm: Float
    reach: Float
    arguments: dict[int, list[Argument]]
    apart: dict[int, Place]  # npu rows in which the ranks of a merged model differ, and since where
    consumers: Consumers
    altered: frozenset[int]  # calls that alone put out other bits, with the same statistics
    by_sum: Bool  # rows of which a checksum alone tells
    is_untold: bool  # and calls put out other bits as a habit, so that those say nothing
    is_exact: Bool  # nodes whose operator puts out equal bits for equal ones at other places
    updates: dict[int, Update]  # by row what an optimizer puts out that divides
    reduced: list[Fact]  # products of single precision whose operands are rounded to fewer digits
    left_out: LeftOut  # by a filter of what is recorded
    relative: Float  # by row ‖n - b‖ / ‖b‖ where sketches or tensors tell it, else NaN
    said: dict[int, Facts]  # by row where they differ, or by what kind of difference
    loss_scale: float = 1.0  # by how much more this run multiplies its loss, which was undone


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
    undecided: Int | None = None,
    is_merged: bool = False,
    apart: dict[int, Place] | None = None,
) -> Flow:
    """Measure all pairs and find where every tensor came from.

    ``baseline`` is the error that a second run of the reference makes of each row of its table;
    ``groups`` are calls without a partner that are compared together, ``undecided`` as from
    :func:`~msprobe_builder.verdict.differences.undecided.undecided_calls`;
    ``is_merged`` says that a side was put together from the parts of ranks, ``apart`` in which rows
    these differ.
    """
    size, table, calls = len(npu.table), npu.table, npu.calls
    is_line = np.array([text.count(",") == 0 for text in texts.values] + [False])[table.shape_id]
    drawn, handing_on = drawing_calls(npu, texts), carries(calls)
    family = families(calls)
    family[(family == Family.RANDOM) & ~drawn] = Family.PLAIN
    family[drawn] = Family.RANDOM
    grouped = grouped_of(calls, bench.calls, groups)
    other_types = has_other_precision(npu, bench.table, comparisons)
    error, floor = np.full(size, np.nan), np.full(size, 2.0**-20)
    informative = np.zeros(size, dtype=bool)
    bench_of: NDArray[Any] = np.full(size, -1, dtype=np.int32)
    npu_of: NDArray[Any] = np.full(len(bench.table), -1, dtype=np.int32)
    with np.errstate(all="ignore"):
        norm = table.statistics[3].copy()
    visible, relative = np.full(size, np.nan), np.full(size, np.nan)
    said: dict[int, Facts] = {}
    # Mixed precision casts inside of products, modules and own functions, unseen where they cast
    # back; and gradients are made of what was cast all over.
    coarse = calls.is_module | (family == Family.PRODUCT) | (calls.direction != Direction.FORWARD)
    coarse |= calls.of_stems(has_own_gradient) == 1
    normalised = put_out_by(npu, normalising(calls))
    coarsest, altered = 0.0, frozenset[int]()
    by_sum, is_altered = (np.zeros(size, dtype=bool) for _ in range(2))
    other_bits = np.nan if differ_by_habit(npu, comparisons) else OTHER_BITS
    for one in (comparisons,) if groups is None else (comparisons, groups.comparisons):
        found = distances(
            table,
            bench.table,
            one,
            texts,
            other_types=other_types,
            normalised=normalised,
            other_bits=other_bits,
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
        visible[rows], by_sum[rows] = found.visible[new], found.by_sum[new]
        is_altered[rows] = found.altered[new]
        npu_of[there] = np.where(npu_of[there] < 0, rows, npu_of[there])
        if "relative_difference" in one.metrics:
            relative[rows] = one.metrics["relative_difference"].value[new]
        if one.apart is not None:
            said |= {int(one.pairs.npu[place]): facts for place, facts in one.apart.said.items()}
        del found, new, rows, there  # of a million calls 25 MB each
    with np.errstate(all="ignore"):
        scale = np.nan_to_num(norm / np.sqrt(np.fmax(table.numel, 1)), nan=0.0, posinf=0.0)
    is_whole = discrete_types(texts)
    discrete = is_whole[table.dtype_id]
    producer = producers(npu.tree, calls, table)
    producer = operands_apart(npu, producer, discrete)
    bench_producer = producers(bench.tree, bench.calls, bench.table)
    bench_producer = operands_apart(bench, bench_producer, is_whole[bench.table.dtype_id])
    floor = np.fmax(
        floor, rounded_before(npu, bench.table, bench_of, producer, texts, other_types=other_types)
    )
    masked = sizes_behind_masks(npu, producer, visible, discrete)
    larger = masked > visible
    error[larger] *= visible[larger] / masked[larger]
    scale = np.where(np.isnan(masked), scale, masked)
    sums = family == Family.SUM
    terms = sizes_of_terms(npu, bench.table, bench_of, producer, sums, handing_on)
    left = np.flatnonzero(~np.isnan(terms) & ~np.isnan(error))
    error[left] = np.abs(table.statistics[:2, left]).max(axis=0) / terms[left]
    scale[left] = masked[left] = terms[left]
    if other_types and not is_merged:
        of_weights = errors_of_weights(table, bench.table, bench_of, is_line, texts)
        error = np.where(of_weights > error, of_weights, error)
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
    error[other_places(npu, bench, partner, off) | inside_cells(npu)] = np.nan
    error[shares_of_gradients(npu, producer, error, off)] = np.nan
    if groups is not None:
        error[other_edges(table, groups.comparisons.pairs.npu, off, producer)] = np.nan
    error[swapped_operands(calls, table, bench.table, bench_of, off)] = 0.0
    if count_gradients_otherwise(calls, bench.calls):
        # Nor does anybody know whether they were set to zero before.
        error[table.section == Section.PARAMETERS_GRAD] = np.nan
    holds_nothing = meaningless(npu, producer, texts)
    empty = meaningless(bench, bench_producer, texts)
    rows = np.flatnonzero(bench_of >= 0)
    holds_nothing[rows[empty[bench_of[rows]]]] = True
    error[holds_nothing] = np.nan
    error[mispaired(calls, table, error, floor, producer, informative) & ~told] = np.nan
    exchanged = traded_calls(npu, bench, partner, arguments)
    arguments = {node: one for node, one in arguments.items() if node not in exchanged}
    wrongly_matched = _with_rows(npu, off & np.isnan(error) & ~holds_nothing)
    twin = calls.twin
    seen = seen_of(npu, error, floor, twin)
    noise = own_noise(
        calls, seen, handing_on | np.isin(family, (Family.RANDOM, Family.UNINITIALISED))
    )
    if noise == noise:
        floor = np.maximum(floor, 4.0 * noise)
    # Beside a gradient that cancels, such as a bias's before a normalisation, the others tell.
    back = (calls.direction == Direction.BACKWARD)[table.node]
    told = np.where(back & (error > SUSPICIOUS * REDUCED_GRADIENTS), np.nan, error)
    seen = seen_of(npu, told, floor, twin)
    is_reduced, reduced = reduced_products(calls, family == Family.PRODUCT, seen, arguments)
    if reduced:
        single = made_of(npu, is_reduced, producer) & (epsilons(table.dtype_id, texts) == SINGLE)
        forward = (calls.direction == Direction.FORWARD)[table.node[single]]
        floor[single] = np.fmax(floor[single], np.where(forward, REDUCED, REDUCED_GRADIENTS))
    del seen
    data = _whole_from_outside(npu, bench.table, discrete, producer, bench_producer, bench_of)
    floor[data] = _EXACT
    error[data[is_altered[data]]] = OTHER_BITS
    floor = np.fmax(floor, noise_of_slices(npu, error, floor))
    if baseline is not None:
        rows = np.flatnonzero(bench_of >= 0)
        told = baseline[bench_of[rows]]
        floor[rows] = np.fmax(floor[rows], _DRAWS * told)
        noise = float(np.nanmedian(told)) if np.isfinite(told).any() else noise
    unmatched = (partner < 0) & (grouped.npu < 0) & ~idle_casts(npu, is_whole)
    bench_unmatched = (bench_partner < 0) & (grouped.bench < 0) & ~idle_casts(bench, is_whole)
    if undecided is not None:
        undecided = of_one_origin(undecided, partner, (npu, bench), (producer, bench_producer))
        unmatched[undecided[0]] = bench_unmatched[undecided[1]] = False
        rows, there = rows_of(undecided, npu, bench)
        bench_of[rows], npu_of[there] = there, rows  # their errors stay unknown
    sides, made_by = (npu, bench), (producer, bench_producer)
    near = SUSPICIOUS * float(np.median(floor[bench_of >= 0])) if (bench_of >= 0).any() else 0.0
    ends = shifted((partner, bench_partner), (unmatched, bench_unmatched), sides, made_by, near)
    unmatched[ends[0]] = bench_unmatched[ends[1]] = False
    error[np.isin(table.node, ends[2])] = np.nan
    producer = through_wrappers(npu, producer, unmatched)
    bench_producer = through_wrappers(bench, bench_producer, bench_unmatched)
    fixed = discrete | ~np.isnan(masked)
    return Flow(
        npu=npu,
        bench=bench,
        is_merged=is_merged,
        partner=partner,
        bench_partner=bench_partner,
        grouped=grouped,
        unmatched=unmatched,
        bench_unmatched=bench_unmatched,
        error=error,
        floor=floor,
        noise=noise,
        scale=scale,
        counts=table.is_tensor,
        discrete=discrete,
        hidden=most_hidden(npu, bench.table.statistics, bench_of, floor, fixed),
        in_half=table.is_tensor & (epsilons(table.dtype_id, texts) > SINGLE),
        is_line=is_line,
        informative=informative,
        producer=producer,
        bench_producer=bench_producer,
        bench_of=bench_of,
        npu_of=npu_of,
        family=family,
        carries=handing_on,
        twin=twin,
        mixing=mixing(calls, bench, partner, twin),
        non_smooth=non_smooth_gradients(npu),
        over_few=over_few_samples(npu, texts),
        in_norm=errors_of_norm(table, bench.table, bench_of),
        gain=gains(npu, seen_of(npu, error, floor, twin)),
        reach=reach(npu, discrete, masked),
        arguments={
            node: several
            for node, several in arguments.items()
            if not wrongly_matched[node] or any(one.is_order for one in several)
        },
        apart=apart or {},
        consumers=consumers_of(table, producer, len(npu.tree)),
        altered=altered,
        by_sum=by_sum,
        is_untold=bool(np.isnan(other_bits) and by_sum.any()),
        is_exact=exact_elsewhere(npu, comparisons),
        updates=updates_of_both(updates(npu, texts), updates(bench, texts), bench_of),
        reduced=reduced,
        left_out=LeftOut() if is_merged else left_out_of(npu, bench),
        relative=relative,
        said=said,
    )


def _with_rows(npu: Part, rows: Bool) -> Bool:
    """Calls with such rows."""
    result = np.zeros(len(npu.tree), dtype=bool)
    result[npu.table.node[rows]] = True
    return result


def _whole_from_outside(
    npu: Part,
    bench: ParameterTable,
    discrete: Bool,
    producer: Int,
    bench_producer: Int,
    bench_of: Int,
) -> Int:
    """Rows of whole numbers that no call of either side has made: data, which nothing rounds.

    What is given to modules and calls that stand in no other.
    """
    table = npu.table
    is_data = discrete & table.is_tensor & (table.section == Section.INPUT) & (bench_of >= 0)
    is_data &= outermost(npu)[table.node]
    rows = np.flatnonzero(is_data)
    for side, made_by, of_side in (
        (table, producer, rows),
        (bench, bench_producer, bench_of[rows]),
    ):
        made = makers(side, made_by, of_side)
        other = (side.statistics[:, made] != side.statistics[:, of_side]).any(axis=0)
        is_data[rows[(made >= 0) & ~other]] = False  # else merely of the same extremes
    return np.flatnonzero(is_data)


_EXACT = 2.0**-20
_DRAWS = 2.0  # two draws of one noise: the error of a difference is seldom more than twice another
