"""From clues to a judgement on one step and rank, against the rules of it in plain words."""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import numpy as np
import pytest

from msprobe_builder.base.codes import CallRole
from msprobe_builder.dump.parameters import Section
from msprobe_builder.facts.fact import fact
from msprobe_builder.graph.part import Part
from msprobe_builder.metrics.result import PairResult
from msprobe_builder.operators.table import operator_of
from msprobe_builder.verdict import judge
from msprobe_builder.verdict.differences.left_out import LeftOut
from msprobe_builder.verdict.findings import Cause, strength
from msprobe_builder.verdict.model.certainty import in_order, probabilities
from msprobe_builder.verdict.model.clue import Clue, Evidence
from msprobe_builder.verdict.model.clues import clues, felt
from msprobe_builder.verdict.model.coverage import coverage
from msprobe_builder.verdict.model.lacking import (
    gradients_alone,
    left_out_inside,
    trains_otherwise,
)
from msprobe_builder.verdict.model.limits import limits_of
from msprobe_builder.verdict.model.ranking import _is_of_left_out, _of_its_module, once, ranked
from msprobe_builder.verdict.model.rivals import Rivals
from msprobe_builder.verdict.model.roles import roles
from msprobe_builder.verdict.model.telling import evidence_of as told_of
from msprobe_builder.verdict.model.unmatched import made_outside
from msprobe_builder.verdict.model.weighing import Weighing
from tests.builder.verdict.columns import compared, evidence_of
from tests.builder.verdict.drawn_programs import drawn_program
from tests.builder.verdict.drawn_ranks import ranks_drawn

TRIED = [(seed, is_of_ranks) for seed in range(14) for is_of_ranks in (False, True)]


@functools.cache
def drawn(seed: int, is_of_ranks: bool) -> tuple[Evidence, PairResult]:
    if is_of_ranks:
        return ranks_drawn(seed)[:2]
    result = compared(*drawn_program(900 + seed, 24, mixed=seed % 2 == 1, richly=True))
    return evidence_of(result), result


@pytest.fixture(params=TRIED, ids=str)
def evidence(request: pytest.FixtureRequest) -> Evidence:
    return drawn(*request.param)[0]


def some_clues(rng: np.random.Generator, count: int) -> list[Clue]:
    rivals = ("", "", "sum_of_uses", "sum_of_uses", "merged")
    return [
        Clue(
            float(rng.choice([8.0, 29.0, 31.0, 900.0])),
            int(rng.integers(2)),
            int(node),
            Cause(int(rng.integers(len(Cause)))),
            int(rng.integers(-1, 3)),
            meets_again=bool(rng.random() < 0.2),
            rival=str(rng.choice(rivals)),
        )
        for node in rng.permutation(40)[:count]
    ]


@pytest.mark.parametrize("seed", range(60))
def test_what_is_certain_comes_before_sums_of_several(seed: int) -> None:
    found = some_clues(np.random.default_rng(seed), seed % 5)
    if seed % 3 == 0:
        found = [replace(one, rival="sum_of_uses") for one in found[:2]] + found[2:]
    sums = 0
    while sums < len(found) and found[sums].rival == "sum_of_uses":
        sums += 1
    right = list(found)
    if sums < len(found):
        one = found[sums]
        is_certain = one.cause in (Cause.ARGUMENT, Cause.MISSING, Cause.EXTRA) and one.score > 30
        if is_certain and not one.rival and not one.meets_again and one.row >= 0:
            right.insert(0, right.pop(sums))
    assert judge._certain_first(found) == right


@pytest.mark.parametrize("seed", range(60))
def test_what_inherits_from_nothing_comes_before_doubts(seed: int) -> None:
    found = some_clues(np.random.default_rng(seed), 1 + seed % 5)
    right = list(found)
    for place, one in enumerate(found):
        if one.cause in (Cause.RANK, Cause.NUMBER, Cause.WEIGHT, Cause.WEIGHTS):
            right.insert(0, right.pop(place))
            break
        if not one.rival and not one.meets_again:
            break
    assert judge._roots_first(found) == right


@pytest.mark.parametrize("seed", range(40))
def test_suspects_stand_by_strength_and_those_without_a_chance_are_left_out(seed: int) -> None:
    found = some_clues(np.random.default_rng(seed), seed % 12)
    chances = probabilities(found)
    sure = [strength(one) for one in chances]
    order = [place for level in (2, 1, 0) for place, one in enumerate(sure) if one == level]
    rest = [
        place for place, one in enumerate(found) if one.cause not in (Cause.WEIGHT, Cause.WEIGHTS)
    ]
    alone = [min(one, 0.4) for one in probabilities([found[one] for one in rest])]
    other = dict(zip(rest, alone, strict=True))
    likely = [max(chance, other.get(place, 0.0)) for place, chance in enumerate(chances)]
    kept = [place for at, place in enumerate(order) if at == 0 or likely[place] >= 0.005]
    clues, sure_of, otherwise = in_order(found)
    assert clues == [found[one] for one in kept]
    assert sure_of == [chances[one] for one in kept]
    told = [None if math.isnan(one) else one for one in otherwise]
    is_told = len(rest) < len(found)
    assert told == [
        other[one] if is_told and one in other and other[one] > chances[one] else None
        for one in kept
    ]


def test_a_node_is_off_by_what_its_worst_tensor_is(evidence: Evidence) -> None:
    runs = evidence.runs
    table = runs.npu.table
    for column in (evidence.expected.latent, evidence.seen.shown, evidence.expected.told):
        for section in (Section.INPUT, Section.OUTPUT):
            largest: dict[int, float] = {}
            for row in np.flatnonzero(table.is_tensor).tolist():
                if table.section[row] == section and not np.isnan(column[row]):
                    node = int(table.node[row])
                    largest[node] = max(float(column[row]), largest.get(node, 0.0))
            found = judge._of_nodes(runs, column, section)
            assert {node: float(one) for node, one in enumerate(found) if one >= 0} == largest


def test_a_role_is_unknown_for_a_reason(evidence: Evidence) -> None:
    runs = evidence.runs
    role = np.where(np.random.default_rng(1).random(len(runs.npu.tree)) < 0.7, CallRole.UNKNOWN, 1)
    table = runs.npu.table
    told = {
        int(table.node[row])
        for row in range(len(table))
        if table.section[row] in (Section.OUTPUT, Section.PARAMETERS_GRAD)
    }
    right = {}
    for node, name in enumerate(runs.npu.tree.names):
        if role[node] != CallRole.UNKNOWN or node == 0 or "Between_Modules" in name:
            continue
        if runs.partner[node] < 0:
            right[node] = "unmatched"
        elif evidence.does.free[node]:
            right[node] = "random"
        else:
            right[node] = "no_statistics" if node in told else "no_output"
    assert judge._reasons(evidence, role) == right


def test_calls_of_which_nothing_comes_are_counted_once_each(evidence: Evidence) -> None:
    names = evidence.runs.npu.tree.names
    several = [Clue(9.0, side, node, Cause.OUTPUT, -1) for side in (0, 1) for node in (5, 3, 3)]
    told = judge.told_of_vanished(evidence.runs, several)
    assert told == (fact("vanished", nodes=4, name=names[3]),)
    name = fact("accused.of_reference", name=evidence.runs.bench.tree.names[3])
    assert judge.told_of_vanished(evidence.runs, several[3:]) == (
        fact("vanished", nodes=2, name=name),
    )
    assert judge.told_of_vanished(evidence.runs, []) == ()


def trained(part: Part) -> set[tuple[str, int]]:
    """Parameters that have a gradient, by their module and name."""
    table = part.table
    return {
        (part.tree.names[int(table.node[row])].split(".parameters_grad")[0], int(name))
        for row, name in enumerate(table.name_id.tolist())
        if table.is_tensor[row] and table.section[row] == Section.PARAMETERS_GRAD
    }


def without_gradients(part: Part, share: float) -> Part:
    """The same, of which some gradients of parameters are told as something else."""
    table = part.table
    lost = (table.section == Section.PARAMETERS_GRAD) & (
        np.random.default_rng(len(table)).random(len(table)) < share
    )
    section = np.where(lost, Section.OUTPUT, table.section).astype(table.section.dtype)
    return replace(part, table=replace(table, section=section))


@pytest.mark.parametrize("shares", [(0.0, 0.0), (0.3, 0.0), (1.0, 0.0), (0.0, 0.4), (0.2, 0.2)])
def test_parameters_that_one_side_alone_trains(
    evidence: Evidence, shares: tuple[float, float]
) -> None:
    runs = evidence.runs
    runs = replace(
        runs,
        npu=without_gradients(runs.npu, shares[0]),
        bench=without_gradients(runs.bench, shares[1]),
    )
    here, there = trained(runs.npu), trained(runs.bench)
    is_other = len(here) > 0 and len(there) > 0 and len(here) != len(there)
    assert trains_otherwise(runs) == is_other
    alone = sum(
        bool(part.table.is_tensor[row]) and int(other[row]) < 0
        for part, other in ((runs.npu, runs.other), (runs.bench, runs.bench_row))
        for row in np.flatnonzero(part.table.section == Section.PARAMETERS_GRAD).tolist()
    )
    assert gradients_alone(runs) == alone
    told = (fact("not_judged.gradients", gradients=alone),) if alone else ()
    assert judge.not_compared(runs) == told


def test_of_a_module_that_calls_nothing_the_first_call_there_is_told(evidence: Evidence) -> None:
    runs = evidence.runs
    bench = runs.bench
    idle = ("CAST", "SHAPE", "QUERY", "EMPTY", "MAKE", "SLICE")
    for node, name in enumerate(runs.npu.tree.names[1:], 1):
        for cause in (Cause.OUTPUT, Cause.WIRING):
            for side in (0, 1):
                clue = Clue(9.0, side, node, cause, -1)
                partner = int(runs.partner[node])
                inside = [
                    at
                    for at in range(partner, int(bench.tree.subtree_end[partner]) + 1)
                    if bench.tree.names[at].startswith(("Torch", "Tensor", "Func", "Distr"))
                    and bench.tree.names[at].endswith("forward")
                    and runs.bench_partner[at] < 0
                ]
                inside = [
                    at
                    for at in inside
                    for does in [operator_of(bench.tree.names[at].rsplit(".", 2)[0])]
                    if does.kind.name not in idle and "itself" not in does.keeps
                ]
                is_empty = name.startswith("Module.") and not runs.open[node]
                right = clue
                if side == 0 and cause is Cause.OUTPUT and is_empty and partner >= 0 and inside:
                    right = replace(clue, side=1, node=inside[0], cause=Cause.MISSING)
                assert left_out_inside(runs, clue) == right


def filters() -> list[LeftOut]:
    calls, none = frozenset({1}), frozenset[int]()
    return [
        LeftOut(),
        LeftOut(gradients=True),
        LeftOut(skips=(True, False)),
        LeftOut(skips=(False, True)),
        LeftOut(modules=True),
        LeftOut(kinds=(calls, none)),
        LeftOut(kinds=(none, calls)),
    ]


def test_what_calls_made_that_a_filter_left_out(evidence: Evidence) -> None:
    runs = evidence.runs
    table = runs.npu.table
    one_sided = (Cause.MISSING, Cause.EXTRA)
    for left_out in filters():
        known = replace(evidence, left_out=left_out)
        for row, section in enumerate(table.section.tolist()):
            for cause in (*one_sided, Cause.EXTERNAL, Cause.BETWEEN, Cause.OUTPUT):
                side = row % 2
                clue = Clue(9.0, side, int(table.node[row]), cause, row)
                if section == Section.PARAMETERS_GRAD:
                    right = left_out.gradients
                elif section != Section.INPUT or runs.discrete[row]:
                    right = False
                elif cause in one_sided:
                    right = left_out.skips[1 - side]
                else:
                    right = left_out.modules or True in left_out.skips
                    right &= cause in (Cause.EXTERNAL, Cause.BETWEEN)
                    if cause is Cause.EXTERNAL:
                        right &= made_outside(runs, row)
                assert _is_of_left_out(known, clue) == right, clue
        assert not _is_of_left_out(known, Clue(9.0, 0, 1, Cause.EXTERNAL, -1))


def test_calls_of_a_kind_that_one_side_lacks_are_told_with_their_module(
    evidence: Evidence,
) -> None:
    runs = evidence.runs
    sides = (runs.npu, runs.partner), (runs.bench, runs.bench_partner)
    for left_out in filters():
        known = replace(evidence, left_out=left_out)
        for side, (part, partner) in enumerate(sides):
            for node, name in enumerate(part.tree.names):
                if node == 0 or "Between_Modules" in name:
                    continue
                clue = Clue(9.0, side, node, Cause.MISSING, 0)
                kind = 0 if name.startswith("Module.") else 1
                right = clue
                if kind in left_out.kinds[1 - side]:
                    around = int(part.tree.parent[node])
                    while around > 0 and partner[around] < 0:
                        around = int(part.tree.parent[around])
                    at = int(partner[around]) if side else around
                    if at > 0:
                        right = replace(clue, side=0, node=at, cause=Cause.OUTPUT)
                assert _of_its_module(known, clue) == right


@pytest.mark.parametrize("case", TRIED, ids=str)
def test_a_judgement_is_made_of_its_clues(case: tuple[int, bool]) -> None:
    evidence, result = drawn(*case)
    found = judge.judge_pair(result)
    assert found is not None
    assert result.bench is not None
    weighing = Weighing()
    with np.errstate(all="ignore"):
        given = clues(evidence, weighing)
        noticed, vanished = felt(evidence, given, weighing)
        rivals = Rivals(evidence, weighing)
        order = once([rivals.beside(one) for one in ranked(evidence, noticed, weighing)[:50]])
        order, chances, otherwise = in_order(judge._certain_first(order))
        role, source = roles(evidence, order, [one for one in vanished if one.meets_again])
        limits = limits_of(evidence)
        rest = coverage(evidence, role, np.zeros(len(role), dtype=bool))
    names = result.npu.tree.names, result.bench.tree.names
    assert [(one.side, one.node, one.cause) for one in found.suspects] == [
        (one.side, one.node, one.cause) for one in order
    ]
    for place, (one, clue, chance) in enumerate(zip(found.suspects, order, chances, strict=True)):
        followers = max(0, np.count_nonzero(source == place) - 1)
        assert one.followers == followers
        assert one.strength == strength(chance)
        assert (one.error, one.expected) == (clue.error, clue.expected)
        right = told_of(evidence, clue)
        if followers:
            right.append(fact("followers", nodes=followers))
        right.append(fact("probability", percent=round(100 * chance)))
        if not math.isnan(otherwise[place]):
            right.append(fact("probability.otherwise", percent=round(100 * otherwise[place])))
        assert list(one.evidence[: len(right)]) == right, names[one.side][one.node]
    assert found.role.tolist() == role.tolist()
    assert found.suspect.tolist() == source.tolist()
    assert found.compared == sum(one != CallRole.UNKNOWN for one in role.tolist())
    strengths = [one.strength for one in found.suspects]
    if 2 in strengths:
        assert found.conclusion == "fault"
        assert "limits" not in {one.code.split(".")[0] for one in found.said}
        return
    lacking = gradients_alone(evidence.runs)
    told = (fact("not_judged.gradients", gradients=lacking),) if lacking else ()
    ending = (*limits.told, *told, *judge.told_of_vanished(evidence.runs, vanished))
    assert found.said[len(found.said) - len(ending) :] == ending
    if strengths or rest.unjudged or limits.hides or trains_otherwise(evidence.runs):
        assert found.conclusion == "undecided"
