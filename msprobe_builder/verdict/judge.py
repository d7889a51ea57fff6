"""The verdict on one step and rank by one model of error: who is to blame, and who inherits."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import takewhile

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.base.codes import CallRole
from msprobe_builder.base.diagnostics import LAYOUT_CONFLICT
from msprobe_builder.base.kinds import CLUES
from msprobe_builder.base.memory import give_back_pieces
from msprobe_builder.dump.names import Direction, Kind, format_name
from msprobe_builder.dump.parameters import Section
from msprobe_builder.dump.task import Task
from msprobe_builder.facts.fact import Fact, Facts, fact, has_code
from msprobe_builder.facts.words import HIDDEN
from msprobe_builder.graph.tree import LARGE
from msprobe_builder.metrics.comparison import Comparisons
from msprobe_builder.metrics.grading import is_output
from msprobe_builder.metrics.result import Graph, PairResult
from msprobe_builder.verdict.differences.arguments import differing_arguments
from msprobe_builder.verdict.differences.histories import without_history
from msprobe_builder.verdict.differences.loss_scale import without_loss_scale
from msprobe_builder.verdict.findings import Cause, Weighed, strength
from msprobe_builder.verdict.model.certainty import (
    in_order,
    probabilities,
    told_of_chance,
)
from msprobe_builder.verdict.model.choices import behind_choices, chosen_otherwise
from msprobe_builder.verdict.model.clue import (
    CHOSE,
    LEAST,
    ONE_SIDED,
    ROOTS,
    Clue,
    Evidence,
    is_merged,
)
from msprobe_builder.verdict.model.clues import clues, felt
from msprobe_builder.verdict.model.conduct import conduct_of, with_draws_known, with_falling_powers
from msprobe_builder.verdict.model.coverage import Coverage, coverage, told_of_alone
from msprobe_builder.verdict.model.lacking import gradients_alone, trains_otherwise
from msprobe_builder.verdict.model.limits import limits_of
from msprobe_builder.verdict.model.noise import noise_of, reduced_of
from msprobe_builder.verdict.model.observations import observe
from msprobe_builder.verdict.model.places import Spare, placed
from msprobe_builder.verdict.model.propagation import beside_noise, propagate
from msprobe_builder.verdict.model.ranking import once, ranked
from msprobe_builder.verdict.model.rivals import Rivals
from msprobe_builder.verdict.model.roles import roles
from msprobe_builder.verdict.model.runs import Runs, only_runs_forward, runs_of
from msprobe_builder.verdict.model.telling import evidence_of
from msprobe_builder.verdict.model.weighing import Weighing
from msprobe_builder.verdict.ranks.apart import ranks_off, told_of_ranks
from msprobe_builder.verdict.ruling.conclusion import (
    CLEAN,
    FAULT,
    OTHER_LAYOUT,
    UNDECIDED,
    conclude,
    told_of_products,
    told_of_scale,
)
from msprobe_builder.verdict.ruling.evidence import source_line, told_of_overflow
from msprobe_builder.verdict.ruling.judged import (
    Judgement,
    Suspect,
    edges_of,
    label,
    without_numbers,
)

Int = NDArray[np.int64]
Float = NDArray[np.float64]
Bool = NDArray[np.bool_]

_MOST = 50  # suspects that are kept of one step and rank
_MOST_UNUSUAL = 3  # of what rounding explains, what is worth a word
_OF_CALLS = (Cause.OUTPUT, Cause.EXTERNAL, *ONE_SIDED)


def judge_pair(result: PairResult, without: frozenset[str] = frozenset()) -> Judgement | None:
    """The verdict on a comparison of one step and rank; None where nothing was compared.

    ``without`` are kinds of clues and of explanations that are left out, see base/kinds.py.
    """
    if result.bench is None or result.matching is None or result.comparisons is None:
        return None
    is_empty = not (len(result.npu.table) and len(result.bench.table))
    if result.task is Task.STRUCTURE or is_empty:
        return without_numbers(result)
    with np.errstate(all="ignore"):  # numbers of dumps are whatever they are
        return _judged(result, Weighing(without))


def _judged(result: PairResult, weighing: Weighing) -> Judgement:
    scale = None
    if "loss_scale" not in weighing.without:
        result, scale = without_loss_scale(result)
    evidence, behind, products, noise = _evidence_of(result, weighing.without)
    runs, ranks = evidence.runs, None
    spare = Spare()
    if evidence.is_merged:
        from msprobe_builder.verdict.ranks.explained import of_ranks

        ranks = of_ranks(evidence, result)
        evidence = ranks.evidence
        given = ranks.unexplained(clues(evidence, weighing), weighing)
        given += weighing.wanted(ranks.clues())
    else:
        given = clues(evidence, weighing, spare)
    noticed, vanished = felt(evidence, given, weighing, spare=spare)
    rivals = Rivals(evidence, weighing)
    found = once([rivals.beside(one) for one in ranked(evidence, noticed, weighing)[:_MOST]])
    found = _certain_first(found) if ranks is None else _roots_first(found)
    is_elsewhere = ranks is not None and bool(found)
    is_elsewhere &= any(one.code == LAYOUT_CONFLICT for one in result.diagnostics)
    if is_elsewhere:
        found = []  # ranks are put together wrongly
    if scale is not None:  # which one side has a call for
        found = [one for one in found if one.row >= 0 or one.cause not in ONE_SIDED]
    found, chances, otherwise = in_order(found)
    weighed = weighing.weighed(given, found, placed(runs), spare)
    for kind, times in (("loss_scale", int(scale is not None)), ("fewer_digits", len(products))):
        weighed += (Weighed(kind, times, 0),) if times else ()
    role, source = roles(evidence, found, [one for one in vanished if one.meets_again])
    followers = np.bincount(source[source >= 0], minlength=len(found))
    suspects = [
        _suspect(evidence, result, one, chance, max(0, int(followers[place]) - 1), other)
        for place, (one, chance, other) in enumerate(zip(found, chances, otherwise, strict=True))
    ]
    compared = int(np.count_nonzero(role != CallRole.UNKNOWN))
    judged = np.zeros(len(role), dtype=bool) if ranks is None else ranks.judged
    choice = None if suspects else chosen_otherwise(evidence, behind)
    rest = Coverage(0) if suspects else coverage(evidence, role, judged)
    conclusion, said = conclude(
        [(one.strength, label(one, result), one.evidence, one.source) for one in suspects],
        compared,
        unjudged=rest.unjudged,
        choice=None if choice is None else result.npu.tree.names[choice],
    )
    said += rest.said
    if is_elsewhere:
        conclusion, said = UNDECIDED, (OTHER_LAYOUT,)
    if ranks is not None:
        said += ranks.said(is_clean=conclusion == CLEAN, is_fault=conclusion == FAULT)
        if conclusion != FAULT and ranks.updates is not None and ranks.updates.uncompared:
            conclusion = UNDECIDED
    if conclusion != FAULT:
        conclusion, said = _with_limits(evidence, conclusion, said, compared)
        said += told_of_vanished(runs, vanished)
    if conclusion == CLEAN:
        said += told_of_alone(runs)
    if has_code(said, HIDDEN):
        unusual = _unusual(evidence, given, weighing, spare)
        chances = probabilities(unusual)
        suspects = [
            _suspect(evidence, result, one, chance, 0)
            for one, chance in zip(unusual, chances, strict=True)
        ]
    if scale is not None:
        said += (told_of_scale(scale.factor),)
    if products and conclusion == CLEAN:
        said += (told_of_products(products),)
    if conclusion == CLEAN and not weighing.without.isdisjoint(CLUES):
        conclusion = UNDECIDED  # nobody looked for what was left out
    if weighing.without:
        said += (fact("without", kinds=sorted(weighing.without)),)
    return Judgement(
        step=result.step,
        rank=result.rank,
        suspects=suspects,
        role=role,
        given=_of_nodes(runs, evidence.expected.latent, Section.INPUT),
        shown=_of_nodes(runs, evidence.seen.shown, Section.OUTPUT),
        expected=_of_nodes(runs, evidence.expected.told, Section.OUTPUT),
        suspect=source,
        reasons=_reasons(evidence, role),
        edges=edges_of(runs.npu.table, runs.maker, source),
        conclusion=conclusion,
        said=said,
        compared=compared,
        noise=noise,
        is_reduced=bool(products),
        weighed=weighed,
    )


def _evidence_of(
    result: PairResult, without: frozenset[str]
) -> tuple[Evidence, Bool, list[Fact], float]:
    """All that clues are taken from, what follows from choices, products of few digits, noise."""
    assert result.comparisons is not None
    runs = runs_of(result)
    seen = observe(runs, result.comparisons)
    calls = runs.npu.calls
    does = conduct_of(
        runs.npu, result.texts, calls.is_api if calls.is_api.any() else calls.is_module
    )
    does = with_draws_known(runs, seen, with_falling_powers(runs, does))
    noise = noise_of(runs, seen, does)
    added, products = noise[runs.backward.astype(np.int64)], list[Fact]()
    if "fewer_digits" not in without:
        reduced, products = reduced_of(runs, seen, does)
        added = np.fmax(added, reduced)
    behind = behind_choices(runs, seen, does)
    expected = propagate(runs, seen, does, added, behind)
    if result.baseline is not None:
        expected = beside_noise(runs, expected, result.baseline)
    arguments = (
        {}
        if "argument" in without
        else differing_arguments(
            runs.npu.calls,
            runs.bench.calls,
            runs.npu.table,
            runs.bench.table,
            runs.partner,
            result.texts,
            other_types=runs.is_mixed,
            ranges_differ=is_merged(result),
        )
    )
    needing = _needing_otherwise(runs, result.comparisons)
    evidence = Evidence.of(runs, seen, does, expected, added, arguments, needing, result)
    if len(runs.npu.tree) >= LARGE:
        give_back_pieces()  # columns of outputs, which are too small to be given back at once
    return evidence, behind, products, float(noise[0])


def _needing_otherwise(runs: Runs, comparisons: Comparisons) -> Int:
    """Rows that need a gradient on one side alone, of what has a history on both."""
    if only_runs_forward(runs.npu) != only_runs_forward(runs.bench):
        return np.zeros(0, dtype=np.int64)  # training against inference
    needing = comparisons.pairs.npu[comparisons.requires_grad_equal == 0]
    alone = without_history(runs.npu, runs.maker)
    there = np.append(without_history(runs.bench, runs.bench_maker), False)
    return np.asarray(needing[~(alone | there[runs.partner])[runs.npu.table.node[needing]]])


def _with_limits(
    evidence: Evidence, conclusion: str, said: Facts, compared: int
) -> tuple[str, Facts]:
    """What is concluded where nothing is certain, with what would have shown and what may not."""
    runs, seen = evidence.runs, evidence.seen
    if conclusion == CLEAN and (runs.by_sum & runs.rows(Section.OUTPUT) & (seen.size > 0)).any():
        conclusion, said = UNDECIDED, (fact("cannot_tell.other_bits"),)
    gradients = not_compared(runs)
    if conclusion == CLEAN and not evidence.is_merged and trains_otherwise(runs):
        conclusion = UNDECIDED
    limits = limits_of(evidence)
    if conclusion == CLEAN and limits.hides:
        conclusion, said = UNDECIDED, (fact("cannot_tell.hidden", nodes=compared), *said[1:])
    return conclusion, said + limits.told + gradients


def _unusual(evidence: Evidence, given: list[Clue], weighing: Weighing, spare: Spare) -> list[Clue]:
    """Where half precision explains all, what it explains worst: the likeliest, if there is one."""
    found, _ = felt(evidence, given, weighing, LEAST, spare)
    found = [one for one in ranked(evidence, found, weighing) if one.cause in _OF_CALLS]
    found.sort(key=lambda one: -_times(evidence, one))
    told = (fact("unusual", times=_times(evidence, one)) for one in found)
    return [replace(one, told=(*one.told, each)) for one, each in zip(found, told, strict=True)][
        :_MOST_UNUSUAL
    ]


def _times(evidence: Evidence, clue: Clue) -> float:
    """How many times further off it is than usual; the score of what was measured is a power."""
    is_measured = clue.row >= 0 and not np.isnan(evidence.seen.exact[clue.row])
    return clue.error / clue.expected if is_measured and clue.expected else clue.score


def _certain_first(found: list[Clue]) -> list[Clue]:
    """What is certain comes before gradients that may be sums of several, or that meet again.

    A backward pass runs on behind forward calls.
    """
    doubts = list(takewhile(lambda one: one.rival == "sum_of_uses" or one.meets_again, found))
    behind = found[len(doubts) :]
    if not behind or behind[0].rival or behind[0].meets_again or behind[0].row < 0:
        return found
    is_certain = behind[0].cause in (Cause.ARGUMENT, *ONE_SIDED) and behind[0].score > CHOSE
    return [behind[0], *doubts, *behind[1:]] if is_certain else found


def _roots_first(found: list[Clue]) -> list[Clue]:
    """What inherits from nothing, such as from weights, comes before doubts of what is before it.

    Behind the parts of ranks that are put together much is a doubt.
    """
    doubts = len(list(takewhile(lambda one: bool(one.rival) or one.meets_again, found)))
    roots = [one for one in found[: doubts + 1] if one.cause in ROOTS][:1]
    return [*roots, *(one for one in found if one not in roots)]


def _suspect(
    evidence: Evidence,
    result: PairResult,
    clue: Clue,
    chance: float,
    followers: int,
    otherwise: float = math.nan,
) -> Suspect:
    assert result.bench is not None
    graph: Graph = result.npu if clue.side == 0 else result.bench
    name = graph.tree.parsed[clue.node]
    is_back = name.direction is Direction.BACKWARD
    forward = [format_name(name._replace(direction=Direction.FORWARD))] if is_back else []
    is_by_sum = clue.row >= 0 and bool(evidence.runs.by_sum[clue.row])
    return Suspect(
        side=clue.side,
        node=clue.node,
        strength=strength(chance),
        cause=clue.cause,
        error=0.0 if is_by_sum else clue.error,  # of checksums nobody knows it
        expected=clue.expected,
        followers=followers,
        evidence=(
            *evidence_of(evidence, clue),
            *told_of_ranks(graph.table, graph.provenance, clue.node, evidence.runs.texts),
            *([fact("followers", nodes=followers)] if followers else ()),
            *told_of_chance(chance, otherwise),
            *told_of_overflow(graph, clue.node),
        ),
        source=source_line(graph.dump.stacks, graph.tree.names[clue.node], forward),
        ranks=()
        if clue.side
        else ranks_off(
            evidence.runs,
            graph.provenance,
            result.bench.provenance,
            clue.node,
            evidence.runs.texts,
        ),
    )


def _of_nodes(runs: Runs, column: Float, section: Section) -> Float:
    """The largest value of a node's tensors of a section, NaN without."""
    table = runs.npu.table
    rows = np.flatnonzero(runs.rows(section) & ~np.isnan(column))
    result = np.full(len(runs.npu.tree), -1.0)
    np.maximum.at(result, table.node[rows], column[rows])
    return np.where(result < 0, np.nan, result)


def _reasons(evidence: Evidence, role: Int) -> dict[int, str]:
    """Why the role of a node is unknown."""
    runs = evidence.runs
    tree, table = runs.npu.tree, runs.npu.table
    recorded = np.zeros(len(tree), dtype=bool)
    recorded[table.node[is_output(table)]] = True
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


def told_of_vanished(runs: Runs, vanished: list[Clue]) -> Facts:
    """Calls that put out something else of which nothing comes: how many, and the first."""
    nodes = sorted({(one.side, one.node) for one in vanished})
    if not nodes:
        return ()
    side, first = nodes[0]
    name: Fact | str = (runs.bench if side else runs.npu).tree.names[first]
    if side:
        name = fact("accused.of_reference", name=name)
    return (fact("vanished", nodes=len(nodes), name=name),)


def not_compared(runs: Runs) -> Facts:
    """Gradients of parameters that one side alone has: nobody compared them."""
    lacking = gradients_alone(runs)
    return (fact("not_judged.gradients", gradients=lacking),) if lacking else ()
