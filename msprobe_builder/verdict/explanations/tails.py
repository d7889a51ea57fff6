"""Errors that are merely the largest of many: of a thousand calls one stands out by chance."""

from __future__ import annotations

import numpy as np

from msprobe_builder.base.codes import CallRole
from msprobe_builder.graph.calls import operations
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.findings import CERTAIN, Cause, Roles

_MANY = 32  # calls of an operator, from which on the largest error is one of a tail
_NEAR = 0.5  # of the error, in multiples of what is expected
_SEVERAL = 4  # calls as near: a fault shows at its place once in each micro-step


def largest_of_many(flow: Flow, roles: Roles) -> set[int]:
    """Findings, by number, whose error goes on where those of other calls of the operator end.

    These are calls that were given what agrees and that put out what rounding explains.
    """
    with np.errstate(all="ignore"):
        times = roles.shown / roles.expected
    known = np.isfinite(times) & (roles.role == CallRole.CLEAN)
    kind = operations(flow.npu.calls)
    found = set()
    for number, one in enumerate(roles.findings):
        if one.side or one.cause is not Cause.OUTPUT or one.root >= 0 or one.node != one.at:
            continue
        most = one.error / one.expected if one.expected > 0 else np.inf
        if most >= CERTAIN:
            continue
        others = times[known & (kind == kind[one.node])]
        if len(others) >= _MANY and np.count_nonzero(others >= _NEAR * most) >= _SEVERAL:
            found.add(number)
    return found
