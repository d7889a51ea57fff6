"""The verdict on one step and rank by one model of error: who is to blame, and who inherits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import CallRole
from msprobe_builder.dump.names import Direction, Kind, format_name
from msprobe_builder.dump.parameters import Section
from msprobe_builder.dump.task import Task
from msprobe_builder.facts.fact import Facts, fact
from msprobe_builder.graph.part import Part
from msprobe_builder.metrics.result import Graph, PairResult
from msprobe_builder.verdict.differences.arguments import differing_arguments
from msprobe_builder.verdict.differences.loss_scale import without_loss_scale
from msprobe_builder.verdict.model.certainty import probabilities, strength
from msprobe_builder.verdict.model.choices import behind_choices
from msprobe_builder.verdict.model.clue import ONE_SIDED, Clue, Evidence
from msprobe_builder.verdict.model.clues import clues, felt, ranked
from msprobe_builder.verdict.model.conduct import conduct_of, with_draws_known
from msprobe_builder.verdict.model.limits import would_have_shown
from msprobe_builder.verdict.model.noise import noise_of, reduced_of
from msprobe_builder.verdict.model.observations import observe
from msprobe_builder.verdict.model.propagation import propagate
from msprobe_builder.verdict.model.roles import roles
from msprobe_builder.verdict.model.runs import Runs, runs_of
from msprobe_builder.verdict.model.telling import evidence_of
from msprobe_builder.verdict.roles.gradients import only_runs_forward
from msprobe_builder.verdict.ruling.conclusion import FAULT, conclude, told_of_scale
from msprobe_builder.verdict.ruling.evidence import source_line, told_of_overflow
from msprobe_builder.verdict.ruling.judged import Judgement, Suspect, edges_of, label

Int = NDArray[np.int64]
Float = NDArray[np.float64]

_MOST = 50  # suspects that are kept of one step and rank


def applies(result: PairResult) -> bool:
    """Whether the model can judge: one program with statistics, on a rank of its own.

    Not yet: checksums, a second run of the reference, batches of other sizes (other numbers of
    micro-steps it knows), and what is merged from ranks.
    """
    if result.bench is None or result.comparisons is None or result.task is Task.STRUCTURE:
        return False
    sides = (result.npu, result.bench)
    if result.baseline is not None or any(one.provenance is not None for one in sides):
        return False
    if any(one.table.md5 for one in sides) or not all(_has_statistics(one) for one in sides):
        return False
    steps = [int(one.tree.micro_step.max(initial=0)) for one in sides]
    pairs = result.comparisons.pairs
    sizes = [
        one.table.numel[rows] for one, rows in zip(sides, (pairs.npu, pairs.bench), strict=True)
    ]
    others = np.count_nonzero(sizes[0] != sizes[1])
    return steps[0] != steps[1] or bool(others <= _OF_OTHER_SIZES * len(sizes[0]))


def _has_statistics(graph: Graph) -> bool:
    table = graph.table
    return bool((table.missing[table.is_tensor] & 3 == 0).any())


_OF_OTHER_SIZES = 0.1  # of the tensors, beyond which runs are given other data


def judge_by_model(result: PairResult) -> Judgement:
    """The verdict on a comparison of one step and rank to which the model applies."""
    with np.errstate(all="ignore"):  # numbers of dumps are whatever they are
        return _judged(result)


def _judged(result: PairResult) -> Judgement:
    result, scale = without_loss_scale(result)
    assert result.bench is not None
    assert result.comparisons is not None
    runs = runs_of(result)
    seen = observe(runs, result.comparisons)
    calls = runs.npu.calls
    does = conduct_of(
        runs.npu, result.texts, calls.is_api if calls.is_api.any() else calls.is_module
    )
    does = with_draws_known(runs, seen, does)
    noise = noise_of(runs, seen, does)
    added = np.fmax(noise[runs.backward.astype(np.int64)], reduced_of(runs, seen, does))
    expected = propagate(runs, seen, does, added, behind_choices(runs, seen, does))
    arguments = differing_arguments(
        runs.npu.calls,
        runs.bench.calls,
        runs.npu.table,
        runs.bench.table,
        runs.partner,
        result.texts,
        other_types=runs.is_mixed,
    )
    flags = result.comparisons.requires_grad_equal
    needing = result.comparisons.pairs.npu[flags == 0]
    if only_runs_forward(runs.npu) != only_runs_forward(runs.bench):
        needing = needing[:0]  # training against inference
    evidence = Evidence.of(runs, seen, does, expected, added, arguments, needing, result)
    found = ranked(evidence, felt(evidence, clues(evidence)))[:_MOST]
    if scale is not None:  # which one side has a call for
        found = [one for one in found if one.row >= 0 or one.cause not in ONE_SIDED]
    chances = probabilities(found)
    order = sorted(range(len(found)), key=lambda one: (-strength(chances[one]), one))
    found, chances = [found[one] for one in order], [chances[one] for one in order]
    role, source = roles(evidence, found)
    followers = np.bincount(source[source >= 0], minlength=len(found))
    suspects = [
        _suspect(evidence, result, one, chance, max(0, int(followers[place]) - 1))
        for place, (one, chance) in enumerate(zip(found, chances, strict=True))
    ]
    compared = int(np.count_nonzero(role != CallRole.UNKNOWN))
    unjudged = int(np.count_nonzero(_unjudged(runs, role)))
    conclusion, said = conclude(
        [(one.strength, label(one, result), one.evidence, one.source) for one in suspects],
        compared,
        unjudged=unjudged,
        choice=None,
    )
    if conclusion != FAULT:
        said += would_have_shown(evidence) + not_compared(runs)
    if scale is not None:
        said += (told_of_scale(scale.factor),)
    return Judgement(
        step=result.step,
        rank=result.rank,
        suspects=suspects,
        role=role,
        given=_of_nodes(runs, expected.latent, Section.INPUT),
        shown=_of_nodes(runs, seen.size, Section.OUTPUT),
        expected=_of_nodes(runs, expected.told, Section.OUTPUT),
        suspect=source,
        reasons=_reasons(evidence, role),
        edges=edges_of(runs.npu.table, runs.maker, source),
        conclusion=conclusion,
        said=said,
        compared=compared,
        noise=float(noise[0]),
    )


def _suspect(
    evidence: Evidence, result: PairResult, clue: Clue, chance: float, followers: int
) -> Suspect:
    assert result.bench is not None
    graph: Graph = result.npu if clue.side == 0 else result.bench
    name = graph.tree.parsed[clue.node]
    is_back = name.direction is Direction.BACKWARD
    forward = [format_name(name._replace(direction=Direction.FORWARD))] if is_back else []
    return Suspect(
        side=clue.side,
        node=clue.node,
        strength=strength(chance),
        cause=clue.cause,
        error=clue.error,
        expected=clue.expected,
        followers=followers,
        evidence=(
            *evidence_of(evidence, clue),
            *([fact("followers", nodes=followers)] if followers else ()),
            fact("probability", percent=round(100 * chance)),
            *told_of_overflow(graph, clue.node),
        ),
        source=source_line(graph.dump.stacks, graph.tree.names[clue.node], forward),
        ranks=(),
    )


def _of_nodes(runs: Runs, column: Float, section: Section) -> Float:
    """The largest value of a node's tensors of a section, NaN without."""
    table = runs.npu.table
    rows = np.flatnonzero(runs.rows(section) & ~np.isnan(column))
    result = np.full(len(runs.npu.tree), -1.0)
    np.maximum.at(result, table.node[rows], column[rows])
    return np.where(result < 0, np.nan, result)


def _unjudged(runs: Runs, role: Int) -> NDArray[np.bool_]:
    """Calls of which nobody can say anything."""
    return np.asarray((role == CallRole.UNKNOWN) & (runs.npu.calls.direction != Direction.NONE))


def _reasons(evidence: Evidence, role: Int) -> dict[int, str]:
    """Why the role of a node is unknown."""
    runs = evidence.runs
    tree, table = runs.npu.tree, runs.npu.table
    recorded = np.zeros(len(tree), dtype=bool)
    recorded[table.node[np.isin(table.section, (Section.OUTPUT, Section.PARAMETERS_GRAD))]] = True
    result = {}
    for node in np.flatnonzero(role == CallRole.UNKNOWN).tolist():
        if tree.parsed[node].kind is Kind.COLLECTION or node == 0:
            continue
        if runs.partner[node] < 0:
            result[node] = "unmatched"
        elif evidence.does.free[node]:
            result[node] = "random"
        else:
            result[node] = "no_statistics" if recorded[node] else "no_output"
    return result


def not_compared(runs: Runs) -> Facts:
    """Gradients of parameters that one side alone has: nobody compared them."""
    lacking = sum(
        int(np.count_nonzero(part.table.is_tensor[alone] & _are_gradients(part)[alone]))
        for part, alone in ((runs.npu, runs.other < 0), (runs.bench, runs.bench_row < 0))
    )
    return (fact("not_judged.gradients", gradients=lacking),) if lacking else ()


def _are_gradients(part: Part) -> NDArray[np.bool_]:
    return np.asarray(part.table.section == Section.PARAMETERS_GRAD)
