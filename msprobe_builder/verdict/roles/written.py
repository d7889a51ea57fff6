"""Tensors that one side alone has written to, such as a buffer that is kept up to date."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part, inputs_of
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.findings import SUSPICIOUS, Cause, Place

Int = NDArray[np.int64]


def stale(flow: Flow) -> dict[int, Place]:
    """Inputs that are on one side what they were on the other before a call of that alone wrote.

    No call puts out what is read then, as an assignment to a part puts out nothing.
    """
    found: dict[int, Place] = {}
    differ = np.flatnonzero(
        flow.counts
        & (flow.npu.table.section == Section.INPUT)
        & (flow.bench_of >= 0)
        & ~(flow.error <= SUSPICIOUS * flow.floor)
    )
    sides = (
        (1, Cause.MISSING, flow.bench, flow.bench_unmatched),
        (0, Cause.EXTRA, flow.npu, flow.unmatched),
    )
    for side, cause, part, unmatched in sides:
        shape = flow.npu.table.shape_id[differ]
        if not side:
            shape = flow.bench.table.shape_id[flow.bench_of[differ]]
        order = np.argsort(shape, kind="stable")
        shape, rows_by_shape = shape[order], differ[order]
        for node, before in _writers(part, unmatched):
            own = part.table.shape_id[before]
            first, last = np.searchsorted(shape, own), np.searchsorted(shape, own, "right")
            if first == last:
                continue
            for row in _rows_like(flow, side, before, rows_by_shape[first:last]):
                if part.table.node[flow.bench_of[row] if side else row] > node:
                    found[row] = Place(side, node, cause)  # the last that wrote
    return found


def _writers(part: Part, unmatched: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Calls of one side that write to what they are given, and the row of that."""
    writes = part.calls.of_stems(_writes) == 1
    for node in np.flatnonzero(unmatched & part.calls.is_forward_call & writes).tolist():
        rows = inputs_of(part.table, node)
        if len(rows) and part.table.position[rows[0]] == 0:
            yield node, int(rows[0])


def _writes(stem: str) -> bool:
    return stem.endswith(".__setitem__") or (stem.endswith("_") and not stem.endswith("__"))


def _rows_like(flow: Flow, side: int, before: int, rows: Int) -> Int:
    """Of inputs of its shape those that differ and on the other side have a row's statistics."""
    npu, bench = flow.npu.table, flow.bench.table
    table = bench if side else npu
    other = flow.bench_of[rows]
    own = table.statistics[:, other if side else rows]
    now = npu.statistics[:, rows] if side else bench.statistics[:, other]
    former = table.statistics[:, [before]]
    size = np.fmax(np.abs(former[:2]).max(), 1e-30)
    with np.errstate(all="ignore"):
        near = SUSPICIOUS * flow.floor[rows] * np.array([[size]] * 3 + [[former[3, 0]]])
        alike = (np.abs(now - former) <= near).all(axis=0)
        differs = (np.abs(own - now) > near).any(axis=0)
    return np.asarray(rows[alike & differs])
