"""Faults in stages that torch's own schedules run."""

from __future__ import annotations

from tests.faults.splits import pipelines
from tests.faults.splits.fault import Fault

# A step that the second rank runs, by split.
_PIPED = {
    **dict.fromkeys(("pipe_1f1b", "pipe_interleaved", "pipe_zero_bubble"), 6),
    **dict.fromkeys(("pipe_v", "pipe_dual_v"), 4),
}
OF_SCHEDULES = [
    fault
    for split, step in _PIPED.items()
    for fault in (
        Fault(
            "weight of a stage",
            split,
            pipelines.scaled(1, f"steps.{step}.gate.w1.weight", 1.03),
            (f"steps.{step}.gate.w1",),
            (1,),
        ),
        Fault(
            "epsilon of a stage",
            split,
            pipelines.other_epsilon(1, f"steps.{step}.two"),
            (f"steps.{step}.two",),
            (1,),
        ),
    )
]
