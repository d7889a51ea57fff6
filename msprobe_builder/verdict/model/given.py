"""What forward calls and modules are given, and whether it is the same to the last bit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.metrics.comparison import Comparisons
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_FEW = 0.5  # of what comes from outside; more differs where other devices have computed it


def is_given(runs: Runs, rows: Int) -> Bool:
    """Which rows are inputs or parameters of forward calls."""
    table, section = runs.npu.table, runs.npu.table.section[rows]
    given = (section == int(Section.INPUT)) | (section == int(Section.PARAMETERS))
    return np.asarray(given & ~runs.backward[table.node[rows]])


def hold_most_bits(runs: Runs, comparisons: Comparisons) -> bool:
    """Whether most of what comes from outside has equal checksums.

    Other bits in the same numbers are then elements at other places, and no rounding.
    """
    assert comparisons.md5_equal is not None
    rows = comparisons.pairs.npu
    outside = (comparisons.md5_equal >= 0) & (runs.maker[rows] < 0) & is_given(runs, rows)
    return bool(outside.any() and (comparisons.md5_equal[outside] == 0).mean() < _FEW)
