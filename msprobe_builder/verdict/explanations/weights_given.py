"""Weights that differ, told from data, and a weight of its own from weights all over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from msprobe_builder.base.standing import GATHERING
from msprobe_builder.dump.parameters import Section
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.findings import CERTAIN, Cause, Finding

_SEVERAL = 4


def of_weights(flow: Flow, findings: list[Finding]) -> list[Finding]:
    """The same findings, with weights told from data, and one weight from weights all over."""
    table = flow.npu.table
    weights = table.section == Section.PARAMETERS
    ratio = (flow.error / flow.floor)[weights & ~np.isnan(flow.error)]
    most = len(ratio) >= _SEVERAL and float(np.median(ratio)) >= CERTAIN
    cause = Cause.WEIGHTS if most else Cause.WEIGHT
    gathers = flow.npu.calls.of_stems(lambda stem: stem.startswith(GATHERING)) == 1
    return [
        replace(one, cause=cause)
        if one.cause is Cause.EXTERNAL and (weights[one.row] or gathers[one.at])
        else one
        for one in findings
    ]
