"""Gradients that several passes have added to: no call puts these out.

A parameter keeps the sum of what all passes of a step, and all its uses, have given back. Who
reads it outside of all modules, to clip it or to train, is given a tensor that was recorded
nowhere. It is made of the gradients of its shape.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.verdict.distance import WORST
from msprobe_builder.verdict.findings import NONE
from msprobe_builder.verdict.flow import Flow

# Single gradients that cancel are known as such; that sums of several cancel as well is seldom.
_CANCELLED = 8.0


class Gradients:
    """What the passes have put out so far, by shape; looked for where it is asked for alone."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._rows: dict[int, list[int]] | None = None
        self._worst: dict[int, tuple[int, float, float, int]] = {}

    def summed(self, row: int, latent: Sequence[float], root: Sequence[int]) -> tuple[float, int]:
        """The error that a row may hold if it is such a sum, and its root.

        The calls of several optimizers stand together, some before the passes that they follow:
        of gradients that come later in the order of rows what is seen counts.
        """
        if self._rows is None:
            self._rows = _gradients(self._flow)
        shape = int(self._flow.npu.table.shape_id[row])
        rows = self._rows.get(shape, [])
        if not rows:
            return NONE
        known, amount, error, source = self._worst.get(shape, (0, 0.0, 0.0, -1))
        while known < len(rows) and rows[known] < row:
            one = rows[known]
            if latent[one] > error:
                error, source = latent[one], root[one]
            amount = max(amount, latent[one] * float(self._flow.scale[one]))
            known += 1
        self._worst[shape] = known, amount, error, source
        if known < len(rows):
            later = np.nan_to_num(self._flow.error[rows[known:]])
            error = max(error, float(later.max()))
            amount = max(amount, float((later * self._flow.scale[rows[known:]]).max()))
        size = float(self._flow.scale[row])
        cancelled = min(amount / size, _CANCELLED * error) if size > 0 else error
        return min(max(error, cancelled), WORST), source


def _gradients(flow: Flow) -> dict[int, list[int]]:
    """Rows of gradients by their shape, in order."""
    table, calls = flow.npu.table, flow.npu.calls
    back = (calls.direction == Direction.BACKWARD)[table.node]
    back &= table.section == Section.OUTPUT
    found: dict[int, list[int]] = {}
    for row in np.flatnonzero(
        table.is_tensor & (back | (table.section == Section.PARAMETERS_GRAD))
    ):
        found.setdefault(int(table.shape_id[row]), []).append(int(row))
    return found
