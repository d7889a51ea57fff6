"""Everything measured between two matched hierarchies: errors of tensors, errors of nodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.bands import Band
from msprobe_builder.base.codes import STATISTIC_METRICS, Grade
from msprobe_builder.base.diagnostics import Diagnostic, about
from msprobe_builder.base.options import CPU
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.dump.task import Task
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.graph.calls import count_gradients_otherwise
from msprobe_builder.graph.memory import unwritten
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.provenance import Provenance
from msprobe_builder.graph.side import Side
from msprobe_builder.match.matching import Matching
from msprobe_builder.metrics.across_frameworks import across_frameworks, pair_sides
from msprobe_builder.metrics.apart import apart_errors, with_copies_apart, with_suspects
from msprobe_builder.metrics.checksum import equal_checksums
from msprobe_builder.metrics.comparison import Apart, Comparisons, Metric, RealData, not_compared
from msprobe_builder.metrics.grading import (
    PROFILES,
    Evidence,
    collection_errors,
    is_broken,
    is_output,
    node_errors,
)
from msprobe_builder.metrics.numbers import compare_numbers
from msprobe_builder.metrics.pairing import Pairs, no_pairs, with_chosen
from msprobe_builder.metrics.statistics import (
    StatisticsErrors,
    compare_statistics,
    errors_of,
    recorded_on_one_side,
)
from msprobe_builder.operators.questions import is_uninitialised

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


_UNWRITTEN = fact("pair.unwritten")
_ALIKE = 0.999  # share of a weight's elements that equal runs have within 1/1000


@dataclass(frozen=True)
class Measured:
    """The errors of pairs of tensors and of npu nodes, and the bands that grade them."""

    comparisons: Comparisons
    error: Float  # 0…1 of each npu node, NaN where there is none
    profile: tuple[Band, ...]
    diagnostics: list[Diagnostic]
    npu: Provenance | None  # with what the comparison told of ranks that are apart
    bench: Provenance | None


@dataclass(frozen=True)
class Compared:
    """Pairs of tensors compared, with what the errors of nodes follow from."""

    comparisons: Comparisons
    statistics: StatisticsErrors
    data: RealData
    foreign: Int  # positions of pairs of which a sketch is that of another tensor


def compare_rows(
    task: Task,
    npu: Side,
    bench: Side,
    pairs: Pairs,
    texts: Texts,
    threads: int = 1,
    device: str = CPU,
    no_data: Bool | None = None,
) -> Compared:
    """Compare pairs of tensors; ``threads`` read tensor files.

    Errors of single elements are computed on ``device``. ``no_data`` are pairs that hold memory
    which nobody has written to; when it is left out, those that were just handed out.
    """
    statistics = compare_statistics(npu.table, bench.table, pairs, texts)
    md5_equal = equal_checksums(npu.table, bench.table, pairs)
    metrics: dict[str, Metric] = {}
    apart: Apart | None = None
    data = RealData({}, {}, [], ({}, {}))
    foreign = np.empty(0, dtype=np.int64)
    if task is Task.TENSOR:
        from msprobe_builder.metrics.sketches import beyond_rounding
        from msprobe_builder.metrics.tensor import compare_real_data

        limit = beyond_rounding(npu.table, bench.table, pairs, texts)
        data = compare_real_data(npu, bench, pairs, limit, threads, device)
        metrics, apart = data.metrics, data.difference
    if task is Task.STATISTICS and npu.table.sketched and bench.table.sketched:
        from msprobe_builder.metrics.sketches import beyond_rounding, compare_sketches

        limit = beyond_rounding(npu.table, bench.table, pairs, texts)
        metrics, apart, foreign = compare_sketches(npu.table, bench.table, pairs, limit, texts)
        statistics = _with_sketches(statistics, metrics, limit)
    notes = _unmerged(npu, bench, pairs) if task is Task.MD5 else {}
    if no_data is None:
        no_data = npu.tree.calls.are(is_uninitialised)[npu.table.node[pairs.npu]]
    comparisons = Comparisons(
        pairs=pairs,
        metrics=metrics,
        of_statistics=partial(_of_statistics, npu.table, bench.table, pairs),
        error=_pair_errors(task, npu, pairs, statistics, md5_equal, data, no_data),
        requires_grad_equal=_equal_flags(
            npu.table.requires_grad[pairs.npu], bench.table.requires_grad[pairs.bench]
        ),
        md5_equal=md5_equal,
        notes=notes | data.notes | dict.fromkeys(np.flatnonzero(no_data).tolist(), _UNWRITTEN),
        apart=apart,
    )
    return Compared(comparisons, statistics, data, foreign)


def measure(
    task: Task,
    npu: Side,
    bench: Side,
    matching: Matching,
    texts: Texts,
    threads: int = 1,
    device: str = CPU,
) -> Measured:
    """Compare the parameters of all matched nodes; see :func:`compare_rows`."""
    structure = task is Task.STRUCTURE
    pairs = no_pairs() if structure else pair_sides(npu, bench, matching.npu, texts)
    if matching.values and not structure:
        pairs = with_chosen(pairs, npu, bench, matching, texts)
    fresh, bench_fresh = (unwritten(side.tree, side.table) for side in (npu, bench))
    no_data = fresh[pairs.npu] | bench_fresh[pairs.bench]
    compared = compare_rows(task, npu, bench, pairs, texts, threads, device, no_data)
    data, comparisons = compared.data, compared.comparisons
    npu, bench = _with_ranks_apart(npu, bench, pairs, data)
    is_open = compared.statistics.is_open & (npu.table.numel[pairs.npu] != 0)
    if task is Task.MD5:
        is_open = np.isin(np.arange(len(pairs)), list(comparisons.notes))
    fresh[pairs.npu[no_data]] = True
    open_rows = pairs.npu[is_open & ~no_data]
    evidence = Evidence(pairs.npu, comparisons.error, open_rows, np.flatnonzero(fresh))
    if task is Task.MD5:
        evidence = _without_foreign_checksums(evidence, npu, bench, matching, texts)
    if task in (Task.STATISTICS, Task.MD5):
        evidence = _with_numbers(task, evidence, npu, bench, matching, texts)
    of_nodes = node_errors(task, npu.tree, npu.table, matching.npu, evidence)
    of_ranks = apart_errors(npu, bench, matching, PROFILES[task])
    if not np.isnan(of_ranks).all():
        of_nodes = collection_errors(npu.tree, matching.npu, np.fmax(of_nodes, of_ranks))
    return Measured(
        comparisons,
        of_nodes,
        PROFILES[task],
        [
            *data.diagnostics,
            *_one_sided(npu, bench, pairs),
            *_added_up(npu, bench),
            *_foreign(npu, pairs, compared.foreign),
        ],
        npu.provenance,
        bench.provenance,
    )


def _without_foreign_checksums(
    evidence: Evidence, npu: Side, bench: Side, matching: Matching, texts: Texts
) -> Evidence:
    """Checksums of what two frameworks computed differ by rounding; those of weights count."""
    foreign = across_frameworks(npu, bench, matching.npu, texts)[npu.table.node[evidence.row]]
    foreign &= npu.table.section[evidence.row] != Section.PARAMETERS
    return replace(evidence, error=np.where(foreign, np.nan, evidence.error))


def _one_sided(npu: Side, bench: Side, pairs: Pairs) -> list[Diagnostic]:
    """What is graded by less than one side has recorded; merges tell of theirs themselves."""
    if npu.provenance is not None or bench.provenance is not None:
        return []
    is_bare = recorded_on_one_side(npu.table, bench.table, pairs)
    if not is_bare.any():
        return []
    message = fact("note.one_sided_statistic")
    row = pairs.npu[int(is_bare.argmax())]
    name = npu.tree.names[int(npu.table.node[row])]
    return [Diagnostic("warning", "one_sided_statistic", message, name, count=int(is_bare.sum()))]


def _foreign(npu: Side, pairs: Pairs, foreign: Int) -> list[Diagnostic]:
    """Sketches that are not of the tensors that they stand for."""
    names = [npu.tree.names[int(npu.table.node[pairs.npu[place]])] for place in foreign.tolist()]
    return about("warning", "foreign_sketch", names, fact("note.foreign_sketch"))


def _added_up(npu: Side, bench: Side) -> list[Diagnostic]:
    """Whether the two recorders mean different things by gradients of parameters."""
    if not count_gradients_otherwise(npu.tree.calls, bench.tree.calls):
        return []
    message = fact("note.gradients_added_up")
    return [Diagnostic("info", "gradients_added_up", message)]


def _with_ranks_apart(npu: Side, bench: Side, pairs: Pairs, data: RealData) -> tuple[Side, Side]:
    """Both sides with what the comparison tells of ranks that are not as they should be."""
    if npu.provenance is None and bench.provenance is None:
        return npu, bench
    from msprobe_builder.metrics.shares import with_faulty_shares

    partner = dict(zip(pairs.npu.tolist(), pairs.bench.tolist(), strict=True))
    back = {own: row for row, own in partner.items()}
    one = with_suspects(with_copies_apart(npu, data.apart[0]), bench.table, partner)
    other = with_suspects(with_copies_apart(bench, data.apart[1]), npu.table, back)
    differing = set()
    if "one_thousandth_ratio" in data.metrics:
        is_off = data.metrics["one_thousandth_ratio"].value < _ALIKE
        differing = {*zip(pairs.npu[is_off].tolist(), pairs.bench[is_off].tolist(), strict=True)}
    return (
        with_faulty_shares(one, bench, partner, {row for row, _ in differing}),
        with_faulty_shares(other, npu, back, {row for _, row in differing}, is_reference=True),
    )


def _with_sketches(
    statistics: StatisticsErrors, metrics: dict[str, Metric], limit: Float
) -> StatisticsErrors:
    """With what sketches tell: beyond rounding at least the least error that is not ok."""
    relative = metrics["relative_difference"]
    bounded = np.where(np.isnan(relative.value), 1.0, np.minimum(relative.value, 1.0))
    bounded = np.where(bounded > limit, np.fmax(bounded, _NOT_OK), bounded)
    worst = np.fmax(statistics.worst, np.where(relative.known, bounded, np.nan))
    return StatisticsErrors(statistics.is_open & ~relative.known, worst)


_NOT_OK = next(band.low or 0.0 for band in PROFILES[Task.STATISTICS] if band.grade is Grade.SLIGHT)


def _pair_errors(
    task: Task,
    npu: Side,
    pairs: Pairs,
    statistics: StatisticsErrors,
    md5_equal: NDArray[np.int8],
    data: RealData,
    no_data: Bool,
) -> Float:
    """What each pair says of its node, 0…1; ``no_data`` are those that say nothing."""
    if task is Task.MD5:
        error = np.where(md5_equal < 0, np.nan, 1.0 - md5_equal)
    elif task is Task.TENSOR:
        error = 1.0 - data.metrics["one_thousandth_ratio"].value
    else:
        error = statistics.worst.copy()
    if task is not Task.MD5:
        error[(is_broken(npu.table) & is_output(npu.table))[pairs.npu]] = 1.0
    error[no_data] = np.nan
    return error


def _with_numbers(
    task: Task, evidence: Evidence, npu: Side, bench: Side, matching: Matching, texts: Texts
) -> Evidence:
    numbers = compare_numbers(npu.table, bench.table, matching.npu, texts)
    error = 1.0 - numbers.is_equal if task is Task.MD5 else numbers.error
    row = np.r_[evidence.row, numbers.pairs.npu]
    return replace(evidence, row=row, error=np.r_[evidence.error, error])


def _unmerged(npu: Side, bench: Side, pairs: Pairs) -> dict[int, Fact]:
    """Why pairs cannot be compared of which a merge of ranks left open too much, by position."""
    found = {}
    for number, side, rows in ((1, bench, pairs.bench), (0, npu, pairs.npu)):
        unknown = side.provenance.unknown if side.provenance is not None else {}
        for position, row in enumerate(rows.tolist() if unknown else ()):
            if row in unknown:
                found[position] = not_compared("unmerged", number, unknown[row])
    return found


def _of_statistics(
    npu: ParameterTable, bench: ParameterTable, pairs: Pairs, block: slice
) -> dict[str, Metric]:
    errors = errors_of(npu, bench, pairs, block)
    values = [*errors.diff, *errors.relative]
    known = [*~errors.unknown, *~errors.unknown]
    return {
        name: Metric(value, is_known)
        for name, value, is_known in zip(STATISTIC_METRICS, values, known, strict=True)
    }


def _equal_flags(n: Int, b: Int) -> NDArray[np.int8]:
    """-1 where either is unknown, else whether they are equal."""
    return np.where((n < 0) | (b < 0), np.int8(-1), (n == b).astype(np.int8))
