"""Tensors that look like others: which of them a call was given, and which are sums of several."""

from __future__ import annotations

import numpy as np

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.findings import Cause, Place


def made_alone(flow: Flow, row: int) -> Place | None:
    """The call of one side alone that put out just what a row holds, and that nothing else reads.

    Of equal tensors the latest counts as the one that is given. Where that is another tensor than
    in the reference though both were made alike, it was the one that a single side has.
    """
    node = int(flow.npu.table.node[row])
    sides = (
        (flow.npu, flow.unmatched, flow.producer, row, Cause.EXTRA),
        (
            flow.bench,
            flow.bench_unmatched,
            flow.bench_producer,
            int(flow.bench_of[row]),
            Cause.MISSING,
        ),
    )
    for side, (part, unmatched, producer, given, cause) in enumerate(sides):
        table = part.table
        if given < 0:
            continue
        limit = node if side == 0 else int(table.node[given])
        # What reads a tensor has its shape, too.
        alike = np.flatnonzero(table.shape_id == table.shape_id[given])
        rows = alike[(table.section[alike] == Section.OUTPUT) & (table.node[alike] < limit)]
        rows = rows[unmatched[table.node[rows]] & (table.dtype_id[rows] == table.dtype_id[given])]
        same = table.statistics[:, rows] == table.statistics[:, given, None]
        rows = rows[same.all(axis=0)]
        # What a module hands out was made by the call inside; a wrapper makes nothing.
        nodes = table.node[rows]
        rows = rows[(part.tree.subtree_end[nodes] == nodes) & ~np.isin(rows, producer[alike])]
        if len(rows):
            return Place(side, int(table.node[rows[-1]]), cause)
    return None


def is_sum(flow: Flow, row: int) -> bool:
    """Whether a gradient that looks like one call's may be the sum of what several give back.

    Nothing looks like it in the reference, where the others give back nothing; or what does is a
    call on the way forward, which a function with a derivative of its own has made for itself.
    """
    reference, maker = int(flow.bench_of[row]), int(flow.npu.table.node[flow.producer[row]])
    is_back = flow.npu.calls.direction[maker] == Direction.BACKWARD
    return bool(reference >= 0 > flow.bench_producer[reference] or not is_back)
