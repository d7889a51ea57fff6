"""The loss of a step, for the curve that everybody draws of a training run."""

from __future__ import annotations

import numpy as np

from msprobe_builder.base.codes import Section
from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameter_columns import STATISTICS
from msprobe_builder.graph.parameter_table import ParameterTable
from msprobe_builder.graph.tree import Tree
from msprobe_builder.operators import questions

_MEAN = STATISTICS.index("Mean")


def loss_of(tree: Tree, table: ParameterTable) -> float | None:
    """The mean of the micro-steps' losses; None where none was recorded.

    The loss is what the last call that makes one puts out, averaged where it is one for each token.
    Where no operator is known for it, it is the last one-element sum or mean that has a gradient.
    """
    node, calls = table.node, tree.calls
    forward = (calls.direction == Direction.FORWARD) & ~tree.is_recompute
    is_mean = (table.missing >> _MEAN) & 1 == 0
    put_out = table.is_tensor & (table.section == Section.OUTPUT) & is_mean & forward[node]
    rows = np.flatnonzero(put_out & calls.do(questions.is_loss)[node])
    if not len(rows):
        is_one = (table.numel == 1) & (table.requires_grad == 1)
        rows = np.flatnonzero(put_out & is_one & calls.are(questions.reduces)[node])
    last = dict(zip(tree.micro_step[node[rows]].tolist(), rows.tolist(), strict=True))
    if not last:
        return None
    with np.errstate(invalid="ignore"):  # of infinities with opposite signs
        return float(np.mean(table.statistics[_MEAN, list(last.values())]))
