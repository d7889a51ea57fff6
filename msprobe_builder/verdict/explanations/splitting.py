"""What differs because a model was split over ranks, and is no fault for that.

Parallel layers are told by flags how their ranks talk to each other (whether gradients are reduced
in the background, whether a sequence is gathered). Unsplit, the same layer has other flags. Such a
flag is explained where everything the call puts out agrees; where it does not, it is told of who
is accused for what it puts out. Flags outside of parallel layers, and numbers, are explained by
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.kept_parameters import keeps_parameters
from msprobe_builder.graph.part import Part
from msprobe_builder.graph.provenance import Provenance
from msprobe_builder.merge.flow.parallel_layers import boundary_state, module_class
from msprobe_builder.operators import questions
from msprobe_builder.verdict.differences.arguments import Argument
from msprobe_builder.verdict.differences.flow import Flow
from msprobe_builder.verdict.explanations.incomparable import is_given_unknown
from msprobe_builder.verdict.findings import SUSPICIOUS, Cause, Finding

_FLAGS = frozenset({"True", "False"})
_REST = 1e-5  # of the largest gradient
_AS_MUCH = 4.0  # of an error: extremes of sums stray more than those of their terms


def flags_of_layers(flow: Flow) -> dict[int, list[Argument]]:
    """Differing flags of calls in parallel layers."""
    if not flow.is_merged:
        return {}
    return {
        node: several
        for node, several in flow.arguments.items()
        if all({one.npu, one.bench} == _FLAGS for one in several)
        and _is_in_parallel_layer(flow.npu, node)
    }


def explained_flags(flow: Flow, flags: dict[int, list[Argument]]) -> dict[int, list[Argument]]:
    """Those of calls that put out what the reference does: the split of their layer explains it."""
    return {node: several for node, several in flags.items() if _agrees(flow, node)}


def telling_flags(flow: Flow, flags: dict[int, list[Argument]]) -> dict[int, list[Argument]]:
    """Those of calls that put out something else though they are given the same.

    A call that is given what is wrong already, or what nobody compared, is not accused for a flag.
    """
    return {
        node: several
        for node, several in flags.items()
        if _agrees(flow, node, Section.INPUT) and not _agrees(flow, node)
    }


def _is_in_parallel_layer(part: Part, node: int) -> bool:
    tree, above = part.tree, int(part.tree.parent[node])
    if above <= 0 or not part.calls.is_module[above]:
        return False
    name = module_class(tree.parsed[above])
    return boundary_state(name, Direction.FORWARD, Section.OUTPUT) is not None


def keeps_its_gradient(flow: Flow, node: int) -> bool:
    """Whether the module around a call hands back the gradients that the reference's does.

    Inside of a function with a backward of its own, such as ring attention, nothing has a history.
    Ranks that exchange tensors have such functions where one rank has none.
    """
    above = int(flow.npu.tree.parent[node])
    if not flow.is_merged or above <= 0 or not flow.npu.calls.is_module[above]:
        return False
    back = int(flow.twin[above])
    return back >= 0 and _agrees(flow, above) and _agrees(flow, back)


def done_otherwise(flow: Flow) -> NDArray[np.bool_]:
    """Calls of modules that talk to other ranks inside, which the reference has no need to.

    Ranks that hold parts of a sequence go through them block by block, such as in a ring. What the
    calls inside put out is then made of other numbers; what the module puts out tells whether they
    are right, its gradients included.
    """
    tree, bench = flow.npu.tree, flow.bench.tree
    inside = np.zeros(len(tree), dtype=bool)
    if not flow.is_merged:
        return inside
    talking, reference = _talking(flow.npu), _talking(flow.bench)
    for above in sorted({int(tree.parent[node]) for node in talking}):
        other = int(flow.partner[above])
        if above <= 0 or not flow.npu.calls.is_module[above] or other < 0:
            continue
        if any(other < node <= bench.subtree_end[other] for node in reference):
            continue
        if boundary_state(module_class(tree.parsed[above]), Direction.FORWARD, Section.OUTPUT):
            continue  # a parallel layer computes what the whole one does, but for its parts
        ways = [one for one in (above, int(flow.twin[above])) if one >= 0]
        if all(_agrees(flow, one) for one in ways):
            inside |= np.isin(tree.parent, ways) & flow.npu.calls.is_api
    return inside


def shares_taken(flow: Flow, provenance: Provenance | None) -> list[int]:
    """Calls that hand each rank its part of a gradient of which it has its own share, unsummed.

    So the backward pass of gathering does. Where what was gathered was used by each rank for its
    own heads, as the rotary keys of latent attention are, that is not the gradient of the whole.
    """
    if provenance is None or not flow.is_merged:
        return []
    table, calls = flow.npu.table, flow.npu.calls
    gathers = calls.are(questions.one_of("all_gather_region")) & flow.unmatched
    gathers &= calls.direction == Direction.BACKWARD
    given = (table.section == Section.INPUT) & gathers[table.node]
    rows = [row for row in np.flatnonzero(given).tolist() if row in provenance.unknown]
    return sorted({int(table.node[row]) for row in rows})


def follows_from_shares(flow: Flow, finding: Finding, shares: Sequence[int]) -> bool:
    """Whether a call shows what its module is given in backward since such shares were taken.

    It is given itself what merging could not tell, and is off by no more than its module's input.
    """
    is_back = flow.npu.calls.direction[finding.at] == Direction.BACKWARD
    above = int(flow.npu.tree.parent[finding.at])
    if finding.side or finding.cause is not Cause.OUTPUT or not is_back or above <= 0:
        return False
    if not shares or finding.at < shares[0] or not is_given_unknown(flow, finding):
        return False
    table = flow.npu.table
    given = table.is_tensor & (table.section == Section.INPUT) & (table.node == above)
    entering = np.nan_to_num(flow.error[given])
    return bool(len(entering) and entering.max() * _AS_MUCH >= finding.error)


def is_rest_of_sum(flow: Flow, finding: Finding) -> bool:
    """Whether an update is given next to nothing, and puts out what the reference does.

    Such as the gradient of the bias of attention's keys, which cancels out: what rounding leaves of
    it depends on the order of the sum, and ranks with parts of a batch add up in another one.
    """
    table, calls, row = flow.npu.table, flow.npu.calls, finding.row
    if not flow.is_merged or finding.side or row < 0 or finding.node <= calls.last_pass:
        return False
    if table.section[row] != Section.INPUT or not _agrees(flow, finding.node):
        return False
    alike = calls.stem[table.node] == calls.stem[finding.node]
    alike &= (table.name_id == table.name_id[row]) & (table.section == Section.INPUT)
    alike &= table.node > calls.last_pass
    norms = table.statistics[3]
    return bool(norms[row] < _REST * np.nanmax(norms[alike]))


def keeps_parameters_together(flow: Flow) -> NDArray[np.bool_]:
    """Calls outside of modules that one side alone makes to gather and scatter its parameters."""
    part = flow.npu
    moves = keeps_parameters(part.calls, part.tree.parent)
    return np.asarray(moves & flow.unmatched & flow.is_merged)


def _talking(part: Part) -> list[int]:
    """Calls of communication."""
    return np.flatnonzero(part.calls.of_stems(lambda one: one.startswith("Distributed."))).tolist()


def _agrees(flow: Flow, node: int, section: Section = Section.OUTPUT) -> bool:
    """Whether what a call puts out, or is given, is known and all like that of the reference."""
    table = flow.npu.table
    first, last = np.searchsorted(table.node, [node, node + 1]).tolist()
    rows = np.arange(first, last)
    rows = rows[table.is_tensor[rows] & (table.section[rows] == section)]
    error = flow.error[rows]
    known = np.isfinite(error)
    return bool(known.any() and np.all(error[known] <= SUSPICIOUS * flow.floor[rows[known]]))
