"""Numbers of a fine type that were made of a coarse one keep the rounding of that.

A model in half precision casts to single where it normalises or masks. What it computes there is
as far from the other run as half precision is, although its type would tell otherwise, until a
sum over many elements or a product averages that out. And a slice may hold more of the noise than
the whole shows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.floating import discrete_types, epsilons
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.part import Part
from msprobe_builder.operators import questions
from msprobe_builder.verdict.differences.operators import Family, families
from msprobe_builder.verdict.findings import SUSPICIOUS

Float = NDArray[np.float64]
Int = NDArray[np.int64]

_STEPS = 6  # calls in single precision between two casts
_ROUNDED = 0.25  # of a unit: each side rounds by half of it at most, and suspicious is eight times


def rounded_before(
    npu: Part,
    bench: ParameterTable,
    bench_of: Int,
    producer: Int,
    texts: Texts,
    *,
    other_types: bool,
) -> Float:
    """By row of the npu table what rounding in a coarser type before explains, 0 without.

    As a fraction of the size, like the unit of the row's own type. Unless the runs are of
    ``other_types``, a cast of this run alone to a type coarser than any of the reference explains
    nothing: it is what is wrong.
    """
    table, calls = npu.table, npu.calls
    whole = discrete_types(texts)
    unit = np.where(table.is_tensor & ~whole[table.dtype_id], epsilons(table.dtype_id, texts), 0.0)
    paired = np.flatnonzero(bench_of >= 0)
    reference = bench.dtype_id[bench_of[paired]]
    unit[paired] = np.fmax(
        unit[paired], np.where(whole[reference], 0.0, epsilons(reference, texts))
    )
    if not other_types and len(bench):
        used = np.where(
            bench.is_tensor & ~whole[bench.dtype_id], epsilons(bench.dtype_id, texts), 0
        )
        alone = bench_of < 0
        unit[alone] = np.fmin(unit[alone], used.max(initial=0.0))
    kept = unit.copy()
    forward = calls.is_forward_call[table.node] & table.is_tensor
    given = np.flatnonzero(forward & (table.section == Section.INPUT) & (producer >= 0))
    put_out = np.flatnonzero(forward & (table.section == Section.OUTPUT) & (unit > 0))
    family = families(calls)
    put_out = put_out[family[table.node[put_out]] != Family.PRODUCT]
    adds = np.isin(family, (Family.SUM, Family.CURVE))  # up, where there is less than before
    if not len(given) or unit.max(initial=0.0) <= unit[put_out].min(initial=np.inf):
        return np.zeros(len(table))
    inputs = np.flatnonzero(forward & (table.section == Section.INPUT))
    for _ in range(_STEPS):
        kept[given] = np.fmax(unit[given], kept[producer[given]])
        coarsest, largest = (np.zeros(len(npu.tree)) for _ in range(2))
        np.maximum.at(coarsest, table.node[inputs], kept[inputs])
        np.maximum.at(largest, table.node[inputs], np.nan_to_num(table.numel[inputs]))
        nodes = table.node[put_out]
        averaged = adds[nodes] & (table.numel[put_out] < largest[nodes])
        made = np.where(averaged, 0.0, coarsest[nodes])
        new = np.fmax(unit[put_out], made)
        if np.array_equal(new, kept[put_out]):
            break
        kept[put_out] = new
    return np.where(kept > unit, _ROUNDED * kept, 0.0)


def noise_of_slices(npu: Part, error: Float, floor: Float) -> Float:
    """By row what the noise of a whole comes to in the slices that a call picks of it, 0 without.

    At most all of it stands in one. It is in all elements alike, but for what an outer product has
    made: there each slice has a factor of its own.
    """
    table = npu.table
    picks = (npu.calls.are(questions.slices) & npu.calls.is_forward_call)[
        table.node
    ] & table.is_tensor
    given = np.flatnonzero(picks & (table.section == Section.INPUT) & (table.position == 0))
    of_whole, elements = np.zeros(len(npu.tree)), np.zeros(len(npu.tree))
    is_noise = error[given] <= SUSPICIOUS * floor[given]
    of_whole[table.node[given]] = np.where(is_noise, error[given], 0.0)
    elements[table.node[given]] = table.numel[given]
    result = np.zeros(len(table))
    rows = np.flatnonzero(picks & (table.section == Section.OUTPUT))
    parts = elements[table.node[rows]] / np.fmax(table.numel[rows], 1.0)
    result[rows] = of_whole[table.node[rows]] * np.sqrt(np.fmax(parts, 1.0))
    return np.nan_to_num(result)
