"""Which clue comes first, and at which call it is told: drawn programs against plain rules."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from msprobe_builder.base.codes import CallRole
from msprobe_builder.dump.names import Direction
from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part, inputs_of
from msprobe_builder.operators.operator import Kind
from msprobe_builder.operators.table import operator_of
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.arrangement import arranged_by, blindly_before
from msprobe_builder.verdict.model.blamed import first_alone
from msprobe_builder.verdict.model.clue import Clue, Evidence, idle_calls
from msprobe_builder.verdict.model.coverage import coverage
from msprobe_builder.verdict.model.exchanged import Exchanges
from msprobe_builder.verdict.model.outputs import of_draws
from msprobe_builder.verdict.model.places import placed
from msprobe_builder.verdict.model.ranking import _credible_first, once
from tests.builder.verdict.drawn_evidence import evidence_drawn

TRIED = [(seed, mixed) for seed in range(400, 420) for mixed in (False, True, None)]


@pytest.fixture(params=TRIED, ids=str)
def evidence(request: pytest.FixtureRequest) -> Evidence:
    return evidence_drawn(*request.param)


def drawn_clues(evidence: Evidence, seed: int, count: int = 60) -> list[Clue]:
    """Clues at any node and row."""
    runs, rng = evidence.runs, np.random.default_rng(seed)
    found = []
    for _ in range(count):
        side = int(rng.random() < 0.4)
        part = (runs.npu, runs.bench)[side]
        nodes = np.arange(1, len(part.tree))
        if rng.random() < 0.4:
            nodes = np.flatnonzero(part.calls.is_module)
        row = int(rng.integers(-1, len(runs.npu.table)))
        usual = (Cause.OUTPUT, Cause.BETWEEN, Cause.MISSING, Cause.EXTRA)
        cause = Cause(int(rng.choice(usual if rng.random() < 0.6 else np.arange(len(Cause)))))
        score = float(rng.choice([8.0, 29.9, 30.0, 200.0, 900.0, 5000.0]))
        found.append(Clue(score, side, int(rng.choice(nodes)), cause, row))
    return found


def test_clues_stand_in_the_order_of_the_run(evidence: Evidence) -> None:
    runs = evidence.runs
    calls, tree = runs.npu.calls, runs.npu.tree
    passes = [
        node
        for node in range(len(tree))
        if calls.is_module[node] and calls.direction[node] != Direction.NONE
    ]
    last = float(max(passes, default=0))
    place = placed(runs)
    for one in drawn_clues(evidence, 1):
        at, roots, surprising = place(one)
        is_here = one.side == 0
        if is_here and calls.direction[one.node] == Direction.NONE and one.node < last:
            assert (at, roots, surprising) == (last + 0.25, False, one.node)
            continue
        shows = int(runs.npu.table.node[one.row]) if one.row >= 0 else -1
        before = [int(other) for other in runs.bench_partner[: one.node + 1]]
        right = float(one.node) if is_here else max(0, *before) + 0.5
        ends = int(tree.subtree_end[one.node]) if is_here else 0
        if is_here and one.cause is Cause.OUTPUT and ends > one.node:
            right = ends + 0.25 * (1 - one.node / len(tree))
        if is_here and one.cause is Cause.BETWEEN and shows >= 0:
            right = shows
        if one.cause in (Cause.MISSING, Cause.EXTRA) and shows >= 0 and runs.backward[shows]:
            right = shows - 0.25
        inherits = one.cause not in (Cause.RANK, Cause.NUMBER, Cause.WEIGHT, Cause.WEIGHTS)
        assert at == pytest.approx(right)
        assert (roots, surprising) == (inherits, -one.score)


@pytest.mark.parametrize("seed", range(10))
def test_what_numbers_doubt_comes_behind_what_is_thirty_times_more(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(20):
        found = [
            Clue(float(rng.choice([8, 29.9, 30, 239, 240.1, 900])), 0, node, cause, -1)
            for node, cause in enumerate(rng.choice(np.array(list(Cause)), size=5))
        ]
        late = [
            one
            for place, one in enumerate(found)
            if one.cause in (Cause.OUTPUT, Cause.EXTERNAL, Cause.BETWEEN)
            and one.score < 30
            and any(other.score > 30 * one.score for other in found[place + 1 :])
        ]
        right = [*(one for one in found if one not in late), *late]
        assert _credible_first(found) == right
        nodes = [Clue(one.score, one.side, one.node // 2, one.cause, -1) for one in right]
        kept = {one.node: one for one in nodes[::-1]}
        assert once(nodes) == sorted(kept.values(), key=nodes.index)


def test_the_first_of_calls_that_one_side_alone_makes_is_told(evidence: Evidence) -> None:
    runs = evidence.runs
    sides = (
        (runs.npu, runs.partner, runs.origin, runs.other),
        (runs.bench, runs.bench_partner, runs.bench_origin, runs.bench_row),
    )
    for side, (part, partner, origin, other) in enumerate(sides):
        kind = part.calls.operations
        for node in range(1, len(part.tree)):
            found = first_alone(runs, Clue(9.0, side, node, Cause.EXTRA, -1), kind).node
            assert found == plainly_first(part, partner, origin, other, node)


def plainly_first(
    part: Part, partner: np.ndarray, origin: np.ndarray, other: np.ndarray, node: int
) -> int:
    if partner[node] >= 0 or not part.calls.is_forward_call[node]:
        return node

    def name(one: int) -> str:
        return operator_of(part.calls.stems[int(part.calls.stem[one])]).name

    alike = [
        one
        for one in range(node + 1)
        if part.tree.parent[one] == part.tree.parent[node]
        and part.calls.is_forward_call[one]
        and name(one) == name(node)
        and partner[one] < 0
        and part.tree.micro_step[one] == part.tree.micro_step[node]
    ]
    at = alike[0]
    while True:
        made = [int(origin[row]) for row in inputs_of(part.table, at).tolist()]
        before = [int(part.table.node[row]) for row in made if row >= 0 and other[row] < 0]
        before = [one for one in before if part.calls.is_forward_call[one] and one < at]
        if not before:
            return at
        at = min(before)


def test_calls_that_hand_on_the_tensor_itself(evidence: Evidence) -> None:
    hands_on = {Kind.CAST, Kind.SHAPE, Kind.TRANSPOSE, Kind.MASK, Kind.DRAW, Kind.TURN}
    for part in (evidence.runs.npu, evidence.runs.bench):
        found, table = idle_calls(part), part.table
        for node in range(len(part.tree)):
            first = []
            for section in (Section.INPUT, Section.OUTPUT):
                rows = [
                    row
                    for row in np.flatnonzero(table.node == node).tolist()
                    if table.is_tensor[row]
                    and table.section[row] == section
                    and table.position[row] == 0
                ]
                first += rows[-1:]
            operator = operator_of(part.calls.stems[int(part.calls.stem[node])])
            right = len(first) == 2 and bool(part.calls.is_forward_call[node])
            right = right and (operator.kind in hands_on or "itself" in operator.keeps)
            if right:
                given, made = (table.statistics[:, row] for row in first)
                right = np.array_equal(given, made, equal_nan=True)
                right = right and table.dtype_id[first[0]] == table.dtype_id[first[1]]
            assert bool(found[node]) is bool(right)


# Calls of one tensor through which elements at other places go unseen.
BLIND = {
    *(Kind.TRANSPOSE, Kind.TURN, Kind.SORT, Kind.REPEAT, Kind.SHAPE, Kind.PICK, Kind.PLACE),
    *(Kind.JOIN, Kind.POOL, Kind.COMPARE, Kind.MASK, Kind.CAST, Kind.POINTWISE, Kind.SLICE),
}
ARRANGES = BLIND - {Kind.CAST, Kind.POINTWISE, Kind.SLICE}


def kind_of(part: Part, node: int) -> Kind:
    return operator_of(part.calls.stems[int(part.calls.stem[node])]).kind


def before(part: Part, node: int, origin: np.ndarray) -> Iterator[tuple[int, int]]:
    """Calls before, nearest first, as far as nothing would have shown other places."""
    known, level = {node}, [node]
    for distance in range(12):
        further: list[int] = []
        for one in level:
            rows = inputs_of(part.table, one).tolist()
            outputs = [
                part.table.statistics[:2, row].tolist()
                for row in np.flatnonzero(part.table.node == one).tolist()
                if part.table.section[row] == Section.OUTPUT
            ]
            hides = any(low < -9e3 and -low > 1e3 * abs(high) for high, low in outputs)
            is_blind = len(rows) <= 2 and (kind_of(part, one) in BLIND or hides)
            if distance == 0 or is_blind:
                further += [int(part.table.node[origin[row]]) for row in rows if origin[row] >= 0]
        level = [one for one in dict.fromkeys(further) if one not in known]
        known.update(level)
        yield from ((distance, one) for one in level)


def test_who_may_have_put_elements_elsewhere(evidence: Evidence) -> None:
    runs = evidence.runs
    for node in range(1, len(runs.npu.tree)):
        here = list(before(runs.npu, node, runs.origin))
        assert blindly_before(runs, node) == {one for _, one in here}
        found = [
            (distance, 0, one)
            for distance, one in here
            if kind_of(runs.npu, one) in ARRANGES
            and (runs.partner[one] < 0 or one in evidence.arguments or runs.other_operator[one])
        ]
        partner = int(runs.partner[node])
        for distance, one in before(runs.bench, partner, runs.bench_origin) if partner >= 0 else ():
            if kind_of(runs.bench, one) in ARRANGES and runs.bench_partner[one] < 0:
                found.append((distance, 1, one))
        right = min(found)[1:] if found else None
        assert arranged_by(runs, node, evidence.movers, is_gross=False) == right


def near(evidence: Evidence, side: int, row: int, but: int) -> list[int]:
    """Rows of the other side, at the same place of a call, with nearly the same numbers."""
    runs = evidence.runs
    own, there = (runs.npu.table, runs.bench.table)[:: -1 if side else 1]
    values = own.statistics[:, row]
    if not np.isfinite(values).all():
        return []
    size = np.abs(values).max()

    def away(other: int) -> float:
        apart = zip(there.statistics[:, other].tolist(), values.tolist(), strict=True)
        return float(max(abs(a - b) for a, b in apart))

    return [
        other
        for other in np.flatnonzero(there.is_tensor).tolist()
        if other != but
        and (but < 0 or away(other) < away(but) / 2)
        and there.section[other] == own.section[row]
        and there.position[other] == own.position[row]
        and there.shape_id[other] == own.shape_id[row]
        and all(
            abs(a - b) <= 2.0**-6 * abs(b) + 1e-3 * size
            for a, b in zip(there.statistics[:, other].tolist(), values.tolist(), strict=True)
        )
    ]


def is_exchanged(evidence: Evidence, row: int, *, alone: bool) -> bool:
    runs = evidence.runs
    other = int(runs.other[row])
    if other < 0:
        return False
    for side, one, but in ((0, row, other), (1, other, row)):
        own, there = ((runs.npu, runs.bench), (runs.bench, runs.npu))[side]
        partner = (runs.bench_partner, runs.partner)[side]
        node = int(own.table.node[one])
        nodes = [int(there.table.node[each]) for each in near(evidence, side, one, but)]
        for given in inputs_of(own.table, node).tolist():
            if given != one:
                alike = {int(there.table.node[each]) for each in near(evidence, side, given, -1)}
                nodes = [each for each in nodes if each in alike]
        name = operator_of(own.calls.stems[int(own.calls.stem[node])]).name
        nodes = [
            each
            for each in nodes
            if operator_of(there.calls.stems[int(there.calls.stem[each])]).name == name
            and (partner[each] < 0 or not alone)
        ]
        if not nodes:
            return False
    return True


def test_calls_that_came_in_another_order(evidence: Evidence) -> None:
    runs = evidence.runs
    rows = np.flatnonzero(runs.npu.table.is_tensor)[len(runs.npu.tree) % 4 :: 4]
    for row in rows.tolist():
        node = int(runs.npu.table.node[row])
        argument = Clue(9.0, 0, node, Cause.ARGUMENT, row)
        assert Exchanges(runs).is_of_unpaired(argument) is is_exchanged(evidence, row, alone=True)
        for cause in (Cause.EXTERNAL, Cause.OUTPUT):
            clue = Clue(9.0, 0, node, cause, row)
            for backward in (False, True):
                goes = cause is Cause.EXTERNAL and bool(runs.npu.calls.is_api[node])
                goes = goes and (backward or not runs.backward[node])
                goes = goes and is_exchanged(evidence, row, alone=False)
                found = Exchanges(runs).of_paired([clue], backward=backward)
                assert found == ({clue} if goes else set())


def test_numbers_that_are_drawn_otherwise(evidence: Evidence) -> None:
    runs, seen, expected = evidence.runs, evidence.seen, evidence.expected
    with np.errstate(all="ignore"):
        found = {one.row: one for one in of_draws(evidence)}
    for row in np.flatnonzero(runs.npu.table.is_tensor).tolist():
        node = int(runs.npu.table.node[row])
        is_drawn = runs.npu.table.section[row] == Section.OUTPUT and evidence.does.draws[node]
        is_told = is_drawn and expected.told[row] > 0 and not runs.backward[node]
        if not (is_told and seen.size[row] > 0):
            assert row not in found
        elif row in found:
            one = found[row]
            cause, least = (Cause.OUTPUT, 30.0) if evidence.idle_here[node] else (Cause.RANDOM, 1.0)
            assert (one.side, one.node, one.cause) == (0, node, cause)
            assert one.score >= least
            assert (one.error, one.expected) == (seen.size[row], expected.told[row])


def test_what_nobody_judged(evidence: Evidence) -> None:
    """Calls of unknown role, and of the reference alone; not those in a module that is right."""
    runs = evidence.runs
    rng = np.random.default_rng(len(runs.npu.tree))
    roles = np.array([CallRole.UNKNOWN, CallRole.CLEAN, CallRole.CARRIER])
    role = rng.choice(roles, size=len(runs.npu.tree)).astype(np.int64)
    known = rng.random(len(role)) < 0.2
    found = coverage(evidence, role, known)
    unknown = [node for node in range(len(role)) if role[node] == CallRole.UNKNOWN]
    unknown = [node for node in unknown if not known[node]]
    if evidence.left_out.is_filtered:
        table = runs.npu.table
        has_numbers = set(table.node[table.is_tensor].tolist())
        right = [one for one in unknown if one in has_numbers and runs.partner[one] >= 0]
        assert (found.unjudged, [one.code for one in found.said]) == (
            *(len(right), ["not_judged.left_out"]),
        )
        return
    sound = {
        node
        for node in range(len(role))
        if role[node] == CallRole.CLEAN and runs.npu.calls.is_module[node]
    }
    there = {node for node in range(len(runs.bench.tree)) if int(runs.bench_partner[node]) in sound}
    lacking = [
        node
        for node in range(len(runs.bench.tree))
        if runs.bench_partner[node] < 0 and runs.bench.calls.direction[node] != Direction.NONE
    ]
    right = [one for one in unknown if not stands_in(runs.npu, one, sound)]
    assert found.unjudged == len(right) + sum(
        not stands_in(runs.bench, one, there) for one in lacking
    )


def stands_in(part: Part, node: int, modules: set[int]) -> bool:
    above = int(part.tree.parent[node])
    while above >= 0:
        if above in modules:
            return True
        above = int(part.tree.parent[above])
    return False
