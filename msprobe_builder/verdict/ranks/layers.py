"""What differs because a model was split over ranks, and is no fault for that.

Parallel layers are told by flags how their ranks talk to each other (whether gradients are reduced
in the background, whether a sequence is gathered). Unsplit, the same layer has other flags. Such a
flag is explained where everything the call puts out agrees; where it does not, it is told of who
is accused for what it puts out. Flags outside of parallel layers, and numbers, are explained by
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part, inputs_of, tensors_of
from msprobe_builder.graph.provenance import Provenance
from msprobe_builder.merge.flow.parallel_layers import boundary_state, module_class
from msprobe_builder.operators import questions
from msprobe_builder.verdict.differences.arguments import Argument
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import Clue, Evidence
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_FLAGS = frozenset({"True", "False"})
_COMMUNICATION = "Distributed."
_DOUBT = 30.0  # a score below which numbers alone are no more than a doubt
_AS_MUCH = 4.0  # of an error: extremes of sums stray more than those of their terms


def flags_of_layers(evidence: Evidence) -> dict[int, list[Argument]]:
    """Differing flags of calls in parallel layers."""
    return {
        node: several
        for node, several in evidence.arguments.items()
        if all({one.npu, one.bench} == _FLAGS for one in several)
        and _is_in_parallel_layer(evidence.runs.npu, node)
    }


def explained_flags(
    evidence: Evidence, flags: dict[int, list[Argument]]
) -> dict[int, list[Argument]]:
    """Those of calls that put out what the reference does: the split of their layer explains it."""
    return {node: several for node, several in flags.items() if agrees(evidence, node)}


def _is_in_parallel_layer(part: Part, node: int) -> bool:
    tree, above = part.tree, int(part.tree.parent[node])
    if above <= 0 or not part.calls.is_module[above]:
        return False
    name = module_class(tree.parsed[above])
    return boundary_state(name, Direction.FORWARD, Section.OUTPUT) is not None


@dataclass(frozen=True)
class DoneOtherwise:
    """Modules that talk to other ranks inside, which the reference has no need to.

    Ranks that hold parts of a sequence go through them block by block, such as in a ring. What the
    calls inside put out is then made of other numbers; what the module puts out tells whether they
    are right, its gradients included. ``sound`` are calls inside of modules that are, ``around``
    has by node the module of other such calls, -1 without.
    """

    sound: Bool
    around: Int

    def explains(self, evidence: Evidence, clue: Clue) -> bool:
        """Whether a clue shows inside of a module that is right."""
        if clue.row < 0 and clue.side:
            return False
        at = int(evidence.runs.npu.table.node[clue.row]) if clue.row >= 0 else clue.node
        return bool(self.sound[at])


def done_otherwise(evidence: Evidence) -> DoneOtherwise:
    """The modules of a comparison that ranks go through block by block."""
    runs = evidence.runs
    tree, bench = runs.npu.tree, runs.bench.tree
    result = DoneOtherwise(np.zeros(len(tree), dtype=bool), np.full(len(tree), -1))
    talking, reference = _talking(runs.npu), _talking(runs.bench)
    for above in sorted({int(tree.parent[node]) for node in talking}):
        other = int(runs.partner[above])
        if above <= 0 or not runs.npu.calls.is_module[above] or other < 0:
            continue
        if any(other < node <= bench.subtree_end[other] for node in reference):
            continue
        if boundary_state(module_class(tree.parsed[above]), Direction.FORWARD, Section.OUTPUT):
            continue  # a parallel layer computes what the whole one does, but for its parts
        ways = [one for one in (above, int(runs.npu.calls.twin[above])) if one >= 0]
        calls = np.isin(tree.parent, ways) & runs.npu.calls.is_api
        if all(agrees(evidence, one) for one in ways):
            result.sound[:] |= calls
            continue
        result.around[calls] = tree.parent[calls]
    return result


def shares_taken(runs: Runs, provenance: Provenance | None) -> list[int]:
    """Calls that hand each rank its part of a gradient of which it has its own share, unsummed.

    So the backward pass of gathering does. Where what was gathered was used by each rank for its
    own heads, as the rotary keys of latent attention are, that is not the gradient of the whole.
    """
    if provenance is None:
        return []
    table, calls = runs.npu.table, runs.npu.calls
    gathers = calls.are(questions.one_of("all_gather_region")) & (runs.partner < 0)
    gathers &= calls.direction == Direction.BACKWARD
    given = (table.section == Section.INPUT) & gathers[table.node]
    rows = [row for row in np.flatnonzero(given).tolist() if row in provenance.unknown]
    return sorted({int(table.node[row]) for row in rows})


def follows_from_shares(evidence: Evidence, clue: Clue, shares: Sequence[int]) -> bool:
    """Whether a clue follows from such shares having been taken.

    A call hands on such a share, or is given what merging could not tell, or what is off, and is
    off itself by about as much as what comes back before it.
    """
    if clue.side or clue.row < 0 or not shares:
        return False
    runs, seen = evidence.runs, evidence.seen
    table, made = runs.npu.table, int(runs.maker[clue.row])
    if made >= 0 and int(table.node[made]) in shares:
        return True
    if clue.cause is not Cause.OUTPUT or clue.node < shares[0]:
        return False
    before = (table.node > shares[0]) & (table.node < clue.node) & (table.section == Section.OUTPUT)
    most = np.nan_to_num(seen.size[before & runs.backward[table.node]]).max(initial=0.0)
    if runs.backward[clue.node] and given_unknown(evidence, clue.node):
        return bool(most * _AS_MUCH >= clue.error)
    given = inputs_of(table, clue.node)
    return bool(clue.score < _DOUBT and evidence.off[given].any())


def given_unknown(evidence: Evidence, node: int) -> bool:
    """Whether a call is given tensors that nobody compared: merging could not tell them.

    A call in the backward pass works with what the one on the way forward was given.
    """
    runs, seen = evidence.runs, evidence.seen
    table, twin = runs.npu.table, int(runs.npu.calls.twin[node])
    nodes = [node, twin] if runs.backward[node] and twin >= 0 else [node]
    given = np.isin(table.node, nodes) & table.is_tensor & (table.section == Section.INPUT)
    given &= ~runs.discrete & (table.numel != 0)
    return bool((given & np.isnan(seen.size)).any())


def _talking(part: Part) -> list[int]:
    """Calls of communication."""
    return np.flatnonzero(part.calls.of_stems(lambda one: one.startswith(_COMMUNICATION))).tolist()


def agrees(evidence: Evidence, node: int, section: Section = Section.OUTPUT) -> bool:
    """Whether what a call puts out, or is given, is known and all like that of the reference."""
    table = evidence.runs.npu.table
    rows = tensors_of(table, node, section)
    known = np.isfinite(evidence.seen.size[rows])
    return bool(known.any() and not evidence.off[rows[known]].any())
