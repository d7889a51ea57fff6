"""A loss that each side divides by the micro-steps it makes.

Gradients add up over the passes of a step, so that a script divides by their number, or multiplies
by its inverse. With another number of passes, as where two replicas share them, that is no fault;
what it puts out differs all the same, and so does everything behind it.
"""

from __future__ import annotations

from math import isclose

from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.findings import Finding

_SAME = 1e-6  # two spellings of one number


def shares_of_passes(flow: Flow, finding: Finding) -> tuple[int, int] | None:
    """The micro-steps of both sides where all that differs of a call goes with them."""
    own, theirs = flow.npu.tree.micro_steps, flow.bench.tree.micro_steps
    several = flow.arguments.get(finding.node, []) if finding.side == 0 else []
    if own == theirs or not several:
        return None
    for one in several:
        try:
            ratio = float(one.npu) / float(one.bench)
        except (ValueError, ZeroDivisionError):
            return None
        if not any(isclose(ratio, due, rel_tol=_SAME) for due in (own / theirs, theirs / own)):
            return None
    return own, theirs
