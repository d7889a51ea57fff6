"""What a call is given that nobody can compare: of another size, or unknown on one side."""

from __future__ import annotations

import numpy as np

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.findings import Finding


def resized_inputs(flow: Flow, finding: Finding) -> list[int]:
    """The rows of another size that the call is given, so that nobody can compare them.

    What it puts out then follows from what it was given, not from what it does. That one statistic
    agrees, such as the maximum of masked scores, says nothing. A parameter's gradient is made of
    what its module is given, forward and back.
    """
    if finding.side:
        return []
    nodes = [finding.at]
    if finding.row >= 0 and flow.npu.table.section[finding.row] == Section.PARAMETERS_GRAD:
        around = int(flow.npu.tree.parent[finding.at])
        nodes += [around, *flow.twin[[around]].tolist()]
    return [row for node in nodes if node >= 0 for row in _of_another_size(flow, node)]


def _of_another_size(flow: Flow, node: int) -> list[int]:
    """The rows of what one call is given in another size than the reference's."""
    table = flow.npu.table
    first, last = np.searchsorted(table.node, [node, node + 1]).tolist()
    rows = np.arange(first, last)
    rows = rows[table.is_tensor[rows] & (table.section[rows] == Section.INPUT)]
    is_told = flow.informative[rows] & ~np.isnan(flow.error[rows])
    rows = rows[(flow.bench_of[rows] >= 0) & ~is_told]
    sizes, reference = table.numel[rows], flow.bench.table.numel[flow.bench_of[rows]]
    # Of what ranks have of their own the size may be unknown, which says nothing.
    is_other = (sizes != reference) & ~np.isnan(sizes) & ~np.isnan(reference)
    return [int(row) for row in rows[is_other]]


def is_given_unknown(flow: Flow, finding: Finding) -> bool:
    """Whether the call is given numbers that one side lacks, so that nobody compared them."""
    return bool(given_unknown(flow, finding.at))


def given_unknown(flow: Flow, node: int) -> list[int]:
    """The rows of tensors that a call is given and that nobody compared.

    A call in the backward pass works with what the one on the way forward was given.
    """
    table = flow.npu.table
    back = flow.npu.tree.parsed[node].direction is Direction.BACKWARD
    nodes = [node, int(flow.twin[node])] if back and flow.twin[node] >= 0 else [node]
    rows = np.concatenate(
        [np.arange(*np.searchsorted(table.node, [one, one + 1]).tolist()) for one in nodes]
    )
    rows = rows[table.is_tensor[rows] & (table.section[rows] == Section.INPUT)]
    rows = rows[(flow.bench_of[rows] >= 0) & ~flow.discrete[rows] & ~flow.by_sum[rows]]
    debug, reference = (
        table.statistics[:, rows],
        flow.bench.table.statistics[:, flow.bench_of[rows]],
    )
    is_open, is_reference_open = np.isnan(debug).all(axis=0), np.isnan(reference).all(axis=0)
    unknown = is_open != is_reference_open
    # Or neither has: merging could not tell it, or it was still on its way between ranks.
    unknown |= is_open & is_reference_open & (table.numel[rows] != 0) & np.isnan(flow.error[rows])
    return [int(row) for row in rows[unknown]]
