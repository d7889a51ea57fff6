"""Which of several equal tensors a call was given, where it was given another one."""

from __future__ import annotations

import numpy as np

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
        (flow.npu, flow.lone, flow.producer, row, Cause.EXTRA),
        (flow.bench, flow.bench_lone, flow.bench_producer, int(flow.bench_of[row]), Cause.MISSING),
    )
    for side, (part, lone, producer, given, cause) in enumerate(sides):
        table = part.table
        if given < 0:
            continue
        limit = node if side == 0 else int(table.node[given])
        alike = (table.section == Section.OUTPUT) & lone[table.node] & (table.node < limit)
        alike &= (table.shape_id == table.shape_id[given]) & (
            table.dtype_id == table.dtype_id[given]
        )
        rows = np.flatnonzero(alike)
        same = table.statistics[:, rows] == table.statistics[:, given, None]
        rows = rows[same.all(axis=0)]
        rows = rows[~np.isin(rows, producer)]
        if len(rows):
            return Place(side, int(table.node[rows[-1]]), cause)
    return None
