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
from msprobe_builder.verdict.model.clue import DOUBTED, THRESHOLD, Clue, Evidence
from msprobe_builder.verdict.model.gradients import OF_MODULES
from msprobe_builder.verdict.model.observations import surprise
from msprobe_builder.verdict.model.runs import Runs

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_FLAGS = frozenset({"True", "False"})
_COMMUNICATION = "Distributed."
_FURTHEST = 16  # calls between what a rank has and what the ranks make of it
_REST = 1e-5  # of the largest gradient
_DOUBT = 30.0  # a score below which numbers alone are no more than a doubt
_OF_CALLS = (Cause.OUTPUT, Cause.ARGUMENT)  # that have a counterpart
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


def telling_flags(
    evidence: Evidence, flags: dict[int, list[Argument]]
) -> dict[int, list[Argument]]:
    """Those of calls that put out something else though they are given the same.

    A call that is given what is wrong already, or what nobody compared, is not accused for a flag.
    """
    return {
        node: several
        for node, several in flags.items()
        if agrees(evidence, node, Section.INPUT) and not agrees(evidence, node)
    }


def _is_in_parallel_layer(part: Part, node: int) -> bool:
    tree, above = part.tree, int(part.tree.parent[node])
    if above <= 0 or not part.calls.is_module[above]:
        return False
    name = module_class(tree.parsed[above])
    return boundary_state(name, Direction.FORWARD, Section.OUTPUT) is not None


@dataclass(frozen=True)
class DoneOtherwise:
    """Passes of modules that talk to other ranks inside, which the reference has no need to.

    Ranks that hold parts of a sequence go through them block by block, such as in a ring. What the
    calls inside put out is then made of other numbers: such a pass is one call, and is judged by
    what it is given and puts out. ``around`` has by node the pass that a call stands in, -1
    without, ``known`` says which calls are in one that could be judged, ``clues`` are of those
    that put out what is not explained by what they are given. Inside of these a call may be told
    that takes in what agrees.
    """

    around: Int
    known: Bool
    clues: tuple[Clue, ...]

    def explains(self, evidence: Evidence, clue: Clue) -> bool:
        """Whether a clue shows inside of a pass that is judged as a whole."""
        if clue.row < 0 and clue.side:
            return False
        at = int(evidence.runs.npu.table.node[clue.row]) if clue.row >= 0 else clue.node
        is_off = int(self.around[at]) in {one.node for one in self.clues}
        is_told = is_off and clue.cause in _OF_CALLS and agrees(evidence, at, Section.INPUT)
        return bool(self.known[at]) and not is_told


def done_otherwise(evidence: Evidence) -> DoneOtherwise:
    """The modules of a comparison that ranks go through block by block."""
    runs = evidence.runs
    tree, bench = runs.npu.tree, runs.bench.tree
    around, known = np.full(len(tree), -1), np.zeros(len(tree), dtype=bool)
    clues: list[Clue] = []
    talking, reference = _talking(runs.npu), _talking(runs.bench)
    module = _modules_around(runs.npu)
    for above in sorted({int(module[node]) for node in talking}):
        other = int(runs.partner[above])
        if above <= 0 or not runs.npu.calls.is_module[above] or other < 0:
            continue
        if any(other < node <= bench.subtree_end[other] for node in reference):
            continue
        if boundary_state(module_class(tree.parsed[above]), Direction.FORWARD, Section.OUTPUT):
            continue  # a parallel layer computes what the whole one does, but for its parts
        twin = int(runs.npu.calls.twin[above])
        for one in (way for way in (above, twin) if way >= 0):
            calls = (module == one) & runs.npu.calls.is_api
            judged = _judged(evidence, one, above)
            around[calls], known[calls] = one, judged is not None
            clues += judged or ()
    return DoneOtherwise(around, known, tuple(clues))


def _judged(evidence: Evidence, node: int, forward: int) -> list[Clue] | None:
    """What the outputs of a module's pass show, held against its inputs; None where none is known.

    The pass backward is given what the one on the way ``forward`` was, too.
    """
    runs, seen = evidence.runs, evidence.seen
    table = runs.npu.table
    given = [tensors_of(table, one, Section.INPUT) for one in sorted({node, forward})]
    errors = evidence.expected.latent[np.concatenate(given)]
    rows = tensors_of(table, node, Section.OUTPUT)
    rows = rows[np.isfinite(seen.size[rows])]
    if not len(rows) or not np.isfinite(errors).any():
        return None
    unit = (runs.coarse if runs.is_mixed else runs.fine)[rows]
    own = np.fmax(unit, evidence.noise[node])
    expected = OF_MODULES * np.hypot(np.sqrt(np.nansum(errors**2)), own)
    scores = surprise(seen, rows, expected)
    if given_unknown(evidence, node):
        scores = np.fmin(scores, DOUBTED)
    found = []
    for row, score, told in zip(rows, scores, expected, strict=True):
        if score > THRESHOLD:
            found.append(
                Clue(float(score), 0, node, Cause.OUTPUT, int(row), float(seen.size[row]), told)
            )
    return found


def _modules_around(part: Part) -> Int:
    """By node the module that it is in: calls may stand in one another."""
    parent, is_api = part.tree.parent, part.calls.is_api
    around = parent.copy()
    while len(inside := np.flatnonzero((around > 0) & is_api[around])):
        around[inside] = parent[around[inside]]
    return around


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
    inside = range(clue.node, int(runs.npu.tree.subtree_end[clue.node]) + 1)
    if (made >= 0 and int(table.node[made]) in shares) or any(one in inside for one in shares):
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


def is_rest_of_sum(evidence: Evidence, clue: Clue) -> bool:
    """Whether an update is given next to nothing, and puts out what the reference does.

    Such as the gradient of the bias of attention's keys, which cancels out: what rounding leaves of
    it depends on the order of the sum, and ranks with parts of a batch add up in another one.
    """
    table, calls, row = evidence.runs.npu.table, evidence.runs.npu.calls, clue.row
    if clue.side or row < 0 or clue.node <= calls.last_pass:
        return False
    if table.section[row] != Section.INPUT or not agrees(evidence, clue.node):
        return False
    alike = calls.stem[table.node] == calls.stem[clue.node]
    alike &= (table.name_id == table.name_id[row]) & (table.section == Section.INPUT)
    alike &= table.node > calls.last_pass
    norms = table.statistics[3]
    return bool(norms[row] < _REST * np.nanmax(norms[alike], initial=0.0))


def is_added_up_later(evidence: Evidence, clue: Clue) -> bool:
    """Whether ranks add up afterwards what is off, so that all that is made of it agrees.

    Such as gradients of a weight that several stages hold: the reference, which has it once, adds
    them up at once.
    """
    runs = evidence.runs
    table, tree = runs.npu.table, runs.npu.tree
    if clue.side or clue.row < 0 or clue.cause not in (Cause.BETWEEN, Cause.EXTERNAL):
        return False
    made_by = np.where(runs.maker >= 0, table.node[runs.maker], -1)
    inputs = table.is_tensor & (table.section == Section.INPUT)
    asked, seen, agree = [int(table.node[clue.row])], set[int](), False
    while asked:
        node = asked.pop()
        if node in seen:
            continue
        seen.add(node)
        users = np.flatnonzero(inputs & (made_by == node))
        if runs.partner[node] < 0 and tree.parsed[node].stem.startswith(_COMMUNICATION):
            known = users[np.isfinite(evidence.seen.size[users])]
            if not len(known) or evidence.off[known].any():
                return False
            agree = True
        elif not len(users) or len(seen) > _FURTHEST:
            return False
        else:
            asked += table.node[users].tolist()
    return agree


def _talking(part: Part) -> list[int]:
    """Calls of communication."""
    return np.flatnonzero(part.calls.of_stems(lambda one: one.startswith(_COMMUNICATION))).tolist()


def agrees(evidence: Evidence, node: int, section: Section = Section.OUTPUT) -> bool:
    """Whether what a call puts out, or is given, is known and all like that of the reference."""
    table = evidence.runs.npu.table
    rows = tensors_of(table, node, section)
    known = np.isfinite(evidence.seen.size[rows])
    return bool(known.any() and not evidence.off[rows[known]].any())
