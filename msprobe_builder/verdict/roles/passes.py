"""Passes over a run until no pair of tensors is left that does not belong together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.findings import SUSPICIOUS, Roles
from msprobe_builder.verdict.roles.one_pass import Pass
from msprobe_builder.verdict.roles.unrecorded import of_unrecorded

Int = NDArray[np.int64]


def judge(flow: Flow) -> Roles:
    """Passes over all calls of the npu side in the order of execution, until they agree.

    What is wrong in one pair of tensors and right wherever the tensor goes was paired wrongly, as
    calls of two implementations may be: such pairs are left out, and the pass begins anew.
    """
    roles = Pass(flow).run()
    for _ in range(_PASSES - 1):
        wrong = _pairs_in_vain(flow, roles)
        if not len(wrong):
            break
        error = flow.error.copy()
        error[wrong] = np.nan
        flow = replace(flow, error=error)
        roles = Pass(flow).run()
    return of_unrecorded(flow, roles)


_PASSES = 4


def _pairs_in_vain(flow: Flow, roles: Roles) -> Int:
    """Rows of the calls at which something is off that nothing behind them has felt."""
    nodes = {
        one.at
        for one, felt in zip(roles.findings, roles.felt.tolist(), strict=True)
        if not felt and one.root < 0 and flow.consumers.of(one.at)
    }
    table = flow.npu.table
    rows = np.flatnonzero(np.isin(table.node, sorted(nodes)))
    # What goes nowhere nobody could have felt.
    used = np.isin(rows, flow.producer) | (table.section[rows] != Section.OUTPUT)
    return np.asarray(rows[used & (flow.error[rows] > SUSPICIOUS * flow.floor[rows])])
