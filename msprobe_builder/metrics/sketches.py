"""What sketches tell of pairs of tensors: how far they are apart, and where."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import SKETCH_METRICS, SLICES
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.shapes import LARGEST, parse_numbers
from msprobe_builder.facts.fact import Facts
from msprobe_builder.graph.floating import epsilons, in_use, is_boolean, is_complex
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.metrics.comparison import Apart, Metric
from msprobe_builder.metrics.pairing import Pairs
from msprobe_builder.metrics.where import MERE, Shape, difference_words
from msprobe_builder.sketch.definition import FLAT
from msprobe_builder.sketch.estimates import Estimates, Layouts, estimates, layouts_of, moved_slices

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_BLOCK = 1 << 12  # pairs at a time
_NORM = 3
_BEYOND = 8.0  # times the rounding of a type: no rounding of many calls comes to that
_LEAST_BEYOND = 1e-4  # of single precision and finer types, which sketches sum as single
_OTHER = 8.0  # times: a sketch whose length is so far from the norm is that of another tensor
_LEAST = 1e-30  # norms below leave the range of single precision when they are squared


def beyond_rounding(
    npu: ParameterTable, bench: ParameterTable, pairs: Pairs, texts: Texts
) -> Float:
    """Of each pair the relative difference that no rounding comes to.

    Where half precision is in use all over, what is single was mostly made of it.
    """
    units = np.fmax(
        epsilons(npu.dtype_id, texts)[pairs.npu], epsilons(bench.dtype_id, texts)[pairs.bench]
    )
    return np.asarray(np.fmax(_BEYOND * np.fmax(units, in_use(units)), _LEAST_BEYOND))


def compare_sketches(
    npu: ParameterTable, bench: ParameterTable, pairs: Pairs, limit: Float, texts: Texts
) -> tuple[dict[str, Metric], Apart, Int]:
    """Metrics of all pairs, where they differ, and pairs with the sketch of another tensor.

    ``limit`` is what :func:`beyond_rounding` says of the pairs.
    """
    assert npu.sketched is not None
    assert bench.sketched is not None
    count = len(pairs)
    apart = Apart(np.zeros((count, 2 * SLICES), dtype=np.uint8), {})
    foreign = np.zeros(count, dtype=bool)
    values = np.full((len(SKETCH_METRICS), count), np.nan)
    known = np.zeros(count, dtype=bool)
    layout, shapes, layouts = _layouts(npu, bench, pairs, texts)
    debug_row = npu.sketched.row[pairs.npu].astype(np.int64)
    reference_row = bench.sketched.row[pairs.bench]
    told = np.flatnonzero((debug_row >= 0) & (reference_row >= 0) & (layout >= 0))
    # Many records show one tensor, which has one row on each side.
    keys = debug_row[told] * (reference_row.max(initial=0) + 1) + reference_row[told]
    keys = keys * max(1, len(shapes)) + layout[told]
    _, once, again = np.unique(keys, return_index=True, return_inverse=True)
    once = told[once]
    for first in range(0, len(once), _BLOCK):
        at = once[first : first + _BLOCK]
        ours = npu.sketched.sketches.rows(debug_row[at])
        reference = bench.sketched.sketches.rows(reference_row[at])
        norm, other = (
            whole_norms(table.statistics[_NORM, rows[at]], sketch)
            for table, rows, sketch in ((npu, pairs.npu, ours), (bench, pairs.bench, reference))
        )
        foreign[at] = is_of_another(ours, norm) | is_of_another(reference, other)
        found = estimates(ours, reference, norm, other, layouts.of(layout[at]))
        alike = np.ones(len(at), dtype=bool)
        for gaps in ("nans", "infinities"):
            alike &= ours[gaps] == reference[gaps]
        # What is NaN or infinite on one side only is as wrong as can be, and has no size.
        values[:, at] = np.where(alike, _metrics(found), np.nan)
        known[at] = ~foreign[at] & (~alike | ~np.isnan(found.relative))
        is_off = known[at] & alike & (found.relative > limit[at])
        apart.slices[at[known[at]]] = found.shares[known[at]]
        off = np.flatnonzero(is_off)
        moved = moved_slices(ours[off], reference[off], other[off], layouts.of(layout[at[off]]))
        said = _said(found, off, layout[at[off]], moved, shapes)
        apart.said.update((int(at[off[place]]), facts) for place, facts in said.items())
    shown = once[again]
    for column in (foreign, known, apart.slices):
        column[told] = column[shown]
    values[:, told] = values[:, shown]
    if apart.said:
        is_said = np.zeros(count, dtype=bool)
        is_said[list(apart.said)] = True
        which = is_said[shown]
        for place, source in zip(told[which].tolist(), shown[which].tolist(), strict=True):
            apart.said[place] = apart.said[source]
    metrics = {name: Metric(row, known) for name, row in zip(SKETCH_METRICS, values, strict=True)}
    for name in _SHARES:
        metrics[name] = Metric(metrics[name].value, known & ~np.isnan(metrics[name].value))
    return metrics, apart, np.flatnonzero(foreign)


_SHARES = ("factor_share", "offset_share")


def _metrics(found: Estimates) -> Float:
    """In the order of SKETCH_METRICS."""
    return np.stack([found.cosine, found.relative, found.factor_share, found.offset_share])


def _layouts(
    npu: ParameterTable, bench: ParameterTable, pairs: Pairs, texts: Texts
) -> tuple[Int, list[Shape], Layouts]:
    """Of each pair the number of its layout, -1 where tensors are not laid out alike; all layouts.

    Truth values beside numbers may say the same in other numbers.
    """
    shape = npu.shape_id[pairs.npu].astype(np.int64)
    two, other = (
        is_complex(table.dtype_id[rows], texts)
        for table, rows in ((npu, pairs.npu), (bench, pairs.bench))
    )
    truths, there = (
        is_boolean(table.dtype_id[rows], texts)
        for table, rows in ((npu, pairs.npu), (bench, pairs.bench))
    )
    alike = (shape == bench.shape_id[pairs.bench]) & (two == other) & (truths == there)
    return shape_layouts(np.where(alike, shape, -1), two, texts)


def shape_layouts(shape: Int, two: Bool, texts: Texts) -> tuple[Int, list[Shape], Layouts]:
    """Of each tensor the number of its layout, -1 where its shape is unknown; all layouts.

    ``shape`` is an id of ``texts`` or -1, ``two`` says that its elements are complex.
    """
    keys = np.where(shape >= 0, 2 * shape + two, 2 * len(texts))
    shapes: list[Shape] = []
    place = np.full(2 * len(texts) + 1, -1, dtype=np.int64)
    for key in np.flatnonzero(np.bincount(keys, minlength=1)[: 2 * len(texts)]).tolist():
        sizes = parse_numbers(texts.values[key // 2])
        if sizes is None or min(sizes, default=1) < 1 or prod(sizes) > LARGEST:
            continue
        if key % 2:  # complex numbers count as two beside each other
            sizes = [*sizes[:-1], 2 * sizes[-1]] if sizes else [2]
        place[key] = len(shapes)
        shapes.append(tuple(sizes))
    return place[keys], shapes, layouts_of(shapes)


def whole_norms(recorded: Float, rows: NDArray[np.void]) -> Float:
    """The recorded norms, NaN where they are not those of what the sketches sum."""
    is_whole = (rows["nans"] == 0) & (rows["infinities"] == 0) & np.isfinite(recorded)
    return np.where(is_whole, recorded, np.nan)


def is_of_another(rows: NDArray[np.void], norms: Float) -> Bool:
    """Sketches that cannot be those of tensors of these norms, NaN unknown."""
    with np.errstate(all="ignore"):
        length = np.linalg.norm(rows["numbers"][:, :FLAT].astype(np.float64), axis=1)
        is_off = (length > _OTHER * norms) | (norms > _OTHER * length)
    return np.asarray(is_off & np.isfinite(length) & (np.fmax(norms, length) > _LEAST))


def _said(
    found: Estimates, which: Int, layout: Int, moved: NDArray[np.int8], shapes: list[Shape]
) -> dict[int, Facts]:
    """What is said of some pairs, by place in ``which``."""
    shares = found.factor_share, found.offset_share, found.factor, found.offset
    columns: list[NDArray[Any]] = [one[which] for one in (found.rows, found.columns, *shares)]
    told = (columns[0] | columns[1] > 0) | (moved >= 0).any(axis=1)
    told |= (columns[2] > MERE) | (columns[3] > MERE)
    places = np.flatnonzero(told)
    said = {}
    for place, number, rows, across, *rest in zip(
        *(one.tolist() for one in (places, layout[places], *(one[places] for one in columns))),
        strict=True,
    ):
        facts = difference_words(shapes[number], (rows, across), moved[place], *rest)
        if facts:
            said[place] = facts
    return said
