"""Loss scaling: in float16 the loss is multiplied before it is derived, that gradients stay normal.

All gradients are then that many times those of a run that scales otherwise, as one in another type
does, or one whose scale was halved behind an overflow. That is no fault: they are judged as if both
runs had scaled alike. The factor is a power of two, as ``torch.amp.GradScaler`` and Megatron take
it, so that nothing is rounded by it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameter_columns import ALL_MISSING
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.floating import FLOAT16, epsilons
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.part import Part, inputs_of, tensors_of
from msprobe_builder.metrics.comparison import Comparisons
from msprobe_builder.metrics.result import Graph, PairResult
from msprobe_builder.operators import questions

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_NORM = 3


@dataclass(frozen=True)
class LossScale:
    """The calls that multiply the loss on each side, and by how much more this run does.

    ``factor`` is below one where the reference does by more.
    """

    npu: Int
    bench: Int
    factor: float


def without_loss_scale(result: PairResult) -> tuple[PairResult, LossScale | None]:
    """The comparison as if both runs had multiplied the loss alike; unchanged where they did."""
    assert result.bench is not None
    assert result.comparisons is not None
    npu, bench = (Part(one.tree, one.table) for one in (result.npu, result.bench))
    if not any(_has_half(one, result.texts) for one in (npu, bench)):
        return result, None
    power = _common_power(npu, bench, result.comparisons)
    if power == 0:
        return result, None
    debug, debug_powers = _scalings(npu)
    reference, reference_powers = _scalings(bench)
    told = debug_powers - reference_powers if max(len(debug), len(reference)) else None
    if told is None and (abs(power) < _CERTAIN or not _is_untold(npu)):
        return result, None
    if told is not None and told != power:
        return result, None
    scale = LossScale(debug, reference, 2.0**power)
    rows, there = _made_of_gradients(npu, bench, result.comparisons, power)
    for part, scalings, chosen in ((npu, debug, rows), (bench, reference, there)):
        back = np.isin(part.table.node, part.calls.twin[scalings])
        chosen[back & (part.table.section == Section.INPUT)] = False  # it is not scaled yet
    left = _scaled(result.npu, debug, rows, max(1.0, 1.0 / scale.factor))
    right = _scaled(result.bench, reference, there, max(1.0, scale.factor))
    groups = result.groups
    if groups is not None:
        groups = replace(groups, comparisons=_by_statistics(groups.comparisons, npu))
    comparisons = _by_statistics(result.comparisons, npu)
    return replace(result, npu=left, bench=right, comparisons=comparisons, groups=groups), scale


def _factors(table: ParameterTable, node: int) -> Int:
    """The rows of what a loss is multiplied by; none where it is a plain number."""
    rows = inputs_of(table, node)
    return np.asarray(rows[table.requires_grad[rows] != 1])


_CERTAIN = 3  # a scale of 8 or more; below that it may as well be a mean that was taken otherwise
_NEAR = 0.1
_ENOUGH = 4


def _has_half(part: Part, texts: Texts) -> bool:
    table = part.table
    return bool(np.any((epsilons(table.dtype_id, texts) == FLOAT16) & table.is_tensor))


def _gradients(part: Part) -> Bool:
    """Rows of gradients: what passes give back, and what parameters get."""
    direction = part.calls.direction[part.table.node]
    return np.asarray(part.table.is_tensor & (direction != Direction.FORWARD))


def _common_power(npu: Part, bench: Part, comparisons: Comparisons) -> int:
    """The power of two by which most gradients are larger than in the reference; 0 without."""
    pairs = comparisons.pairs
    chosen = _gradients(npu)[pairs.npu]
    debug = npu.table.statistics[_NORM, pairs.npu[chosen]]
    reference = bench.table.statistics[_NORM, pairs.bench[chosen]]
    with np.errstate(all="ignore"):
        ratio = np.log2(debug / reference)
    ratio = ratio[np.isfinite(ratio)]
    if len(ratio) < _ENOUGH:
        return 0
    power = round(float(np.median(ratio)))
    most = float(np.mean(np.abs(ratio - power) < _NEAR))
    return power if most > 0.5 else 0


def _scalings(part: Part) -> tuple[Int, int]:
    """The calls that multiply the loss by a power of two right before it is derived, and which.

    No call, and 0, where there is none or the factors differ.
    """
    calls, table = part.calls, part.table
    found, powers = [], set()
    back = calls.direction == Direction.BACKWARD
    for node in np.flatnonzero(
        calls.are(questions.one_of("mul")) & calls.is_forward_call & (calls.twin >= 0)
    ):
        put_out = tensors_of(table, int(node), Section.OUTPUT).tolist()
        if len(put_out) != 1 or table.numel[put_out[0]] != 1:
            continue
        if back[node : int(calls.twin[node])].any():
            continue
        power = _power(table, int(node), put_out[0])
        if power:
            found.append(int(node))
            powers.add(power)
    if len(powers) != 1:
        return np.empty(0, dtype=np.int64), 0
    return np.array(found, dtype=np.int64), powers.pop()


def _power(table: ParameterTable, node: int, put_out: int) -> int:
    """By which power of two a number is multiplied that needs a gradient; 0 when by none."""
    loss = inputs_of(table, node)
    loss = loss[table.requires_grad[loss] == 1]
    if len(loss) != 1:
        return 0
    with np.errstate(all="ignore"):
        factor = table.statistics[0, put_out] / table.statistics[0, loss[0]]
        power = np.log2(factor)
    if not np.isfinite(power) or abs(power - round(float(power))) > _EXACT:
        return 0
    return round(float(power))


_EXACT = 1e-3  # the product may be of half precision


def _is_untold(part: Part) -> bool:
    """Whether the loss is derived where nobody recorded it, as by another rank of a pipeline."""
    calls, table = part.calls, part.table
    if not calls.is_api.any():
        return True
    back = (calls.direction == Direction.BACKWARD)[table.node] & table.is_tensor
    rows = np.flatnonzero(back)
    return bool(len(rows)) and bool(table.numel[rows[0]] > 1)


def _made_of_gradients(
    npu: Part, bench: Part, comparisons: Comparisons, power: int
) -> tuple[Bool, Bool]:
    """Rows of both tables that hold gradients, or what is worked out of them in backward.

    Such a function is also given what was there before, and the next pass runs forward again: those
    numbers were not multiplied.
    """
    debug, reference = _gradients(npu), _gradients(bench)
    behind = npu.table.node > int(np.argmax(npu.calls.direction == Direction.BACKWARD))
    pairs = comparisons.pairs
    chosen = (behind & npu.table.is_tensor & ~debug)[pairs.npu]
    rows, there = pairs.npu[chosen], pairs.bench[chosen]
    with np.errstate(all="ignore"):
        apart = np.log2(npu.table.statistics[_NORM, rows] / bench.table.statistics[_NORM, there])
        nearer = np.abs(apart - power) < _NEAR
    debug[rows[nearer]] = True
    reference[there[nearer]] = True
    return debug, reference


def _scaled(graph: Graph, scalings: Int, rows: Bool, factor: float) -> Graph:
    """One side with these rows multiplied, and without what scaling itself puts out."""
    table = graph.table
    statistics, missing = table.statistics, table.missing
    if factor != 1.0:
        statistics = statistics.copy()
        statistics[:, rows] *= factor
    if len(scalings):
        missing = missing.copy()
        put_out = np.isin(table.node, scalings) & (table.section == Section.OUTPUT)
        factors = [row for node in scalings.tolist() for row in _factors(table, node)]
        told = np.append(np.flatnonzero(put_out & table.is_tensor), factors).astype(int)
        same = table.is_tensor & (table.numel == 1) & ~rows
        same &= np.isin(table.statistics[_NORM], table.statistics[_NORM, told])
        missing[same] = ALL_MISSING
    return replace(graph, table=replace(table, statistics=statistics, missing=missing))


def _by_statistics(comparisons: Comparisons, npu: Part) -> Comparisons:
    """Without what elements and checksums of gradients tell, which were not multiplied."""
    rows = _gradients(npu)[comparisons.pairs.npu]
    metrics = {
        name: replace(metric, known=metric.known & ~rows)
        for name, metric in comparisons.metrics.items()
    }
    md5 = comparisons.md5_equal
    if md5 is not None:
        md5 = np.where(rows, -1, md5).astype(md5.dtype)
    return replace(comparisons, metrics=metrics, md5_equal=md5)
