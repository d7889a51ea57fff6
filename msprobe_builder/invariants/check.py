"""Everything that can be checked of the ranks of one step."""

from __future__ import annotations

from collections.abc import Sequence

from msprobe_builder.invariants.gradients import check_updates
from msprobe_builder.invariants.reductions import check_reductions
from msprobe_builder.invariants.replicas import check_replicas, replicas
from msprobe_builder.invariants.run import Run
from msprobe_builder.invariants.totals import check_totals
from msprobe_builder.invariants.transfers import check_transfers, is_same_message
from msprobe_builder.invariants.violation import Found
from msprobe_builder.invariants.wiring import Children, check_calls, check_siblings, check_wiring
from msprobe_builder.link.calls import Call
from msprobe_builder.link.pairing import pair_calls


def check_run(run: Run, calls: Sequence[Call], children: Children) -> Found:
    """What does not hold between the ranks; ``calls`` are those of communication."""
    found = Found()
    pairing = pair_calls(list(calls), tuple(sorted(run.ranks)), is_same_message(run))
    check_reductions(run, pairing.together, found)
    check_transfers(run, pairing.together, pairing.deliveries, found)
    check_totals(run, pairing.together, found)
    groups = replicas(run)
    check_replicas(run, groups, found)
    check_updates(run, groups, found)
    check_wiring(run, groups, pairing.together, found)
    check_calls(run, groups, children, found)
    check_siblings(run, children, found)
    return found
