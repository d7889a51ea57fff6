"""What clues of outputs are made of, at every tensor and call, by the rules in plain words.

Clues themselves show it only where it decides (test_plain_clues.py).
"""

from __future__ import annotations

import numpy as np
import pytest

from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part, inputs_of
from msprobe_builder.operators.table import operator_of
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model import blamed, outputs
from msprobe_builder.verdict.model.arrangement import blindly_before
from msprobe_builder.verdict.model.clue import Clue, Evidence
from msprobe_builder.verdict.model.runs import Runs
from tests.builder.verdict.drawn_evidence import evidence_drawn
from tests.builder.verdict.plain_clues import PlainClues

TRIED = [(seed, mixed) for seed in range(1300, 1312) for mixed in (False, True, None)]


@pytest.fixture(params=TRIED, ids=str)
def evidence(request: pytest.FixtureRequest) -> Evidence:
    return evidence_drawn(*request.param)


def test_what_goes_in_agrees_if_no_rounding_of_it_chooses_otherwise(evidence: Evidence) -> None:
    plain = PlainClues(evidence)
    found = outputs._given_agrees(evidence)
    for row in plain.tensors:
        assert found[row] == plain._agrees(row)


def test_elements_step_at_once_where_inputs_agree_to_the_last_digit(evidence: Evidence) -> None:
    plain = PlainClues(evidence)
    rows = np.flatnonzero(evidence.runs.npu.table.is_tensor & (evidence.runs.other >= 0))
    with np.errstate(all="ignore"):
        found = outputs._stepped_at_once(evidence, rows)
        right = [plain._steps_at_once(row) for row in rows.tolist()]
    assert found.tolist() == right


def test_calls_are_asked_what_they_were_given(evidence: Evidence) -> None:
    plain, runs = PlainClues(evidence), evidence.runs
    unknown = outputs._given_unknown(runs, evidence.seen)
    carried = outputs._carried(runs, evidence.seen)
    for node in range(len(runs.npu.tree)):
        twin = int(runs.npu.calls.twin[node])
        own = plain._carried(node)
        if runs.backward[node] and twin >= 0:
            own = max(own, plain._carried(twin))
        assert unknown[node] == plain._is_given_unknown(node)
        assert carried[node] == own
        if runs.partner[node] >= 0:
            assert outputs.same_shapes(runs, node) == plain._has_same_shapes(node)


def test_scores_of_a_call_count_together_where_they_are_alike(evidence: Evidence) -> None:
    plain = PlainClues(evidence)
    rng = np.random.default_rng(len(plain.tensors))
    rows = [row for row in plain.tensors if evidence.runs.other[row] >= 0]
    scores = rng.choice([0.0, 1.0, 1.9, 2.0, 2.1, 5.0], size=len(rows))
    found = outputs._with_repetitions(evidence.runs, np.array(rows), scores)
    assert found.tolist() == pytest.approx(plain._together(rows, scores.tolist()))


def sides(runs: Runs) -> list[tuple[Part, np.ndarray, np.ndarray, np.ndarray]]:
    return [
        (runs.npu, runs.partner, runs.origin, runs.other),
        (runs.bench, runs.bench_partner, runs.bench_origin, runs.bench_row),
    ]


def makers(part: Part, origin: np.ndarray, rows: list[int]) -> list[int]:
    """The calls that have made some rows, in the order of these."""
    return [int(part.table.node[origin[row]]) for row in rows if origin[row] >= 0]


def test_a_call_of_one_side_alone_has_made_what_was_not_compared(evidence: Evidence) -> None:
    runs = evidence.runs

    def made_alone(node: int) -> tuple[int, int] | None:
        for side, (part, partner, origin, other) in enumerate(sides(runs)):
            at = int(runs.partner[node]) if side else node
            rows = [row for row in inputs_of(part.table, at).tolist() if other[row] < 0]
            for _ in range(4):  # casts are looked through
                alone = [
                    one
                    for one in makers(part, origin, rows)
                    if partner[one] < 0 and part.calls.is_forward_call[one]
                ]
                for one in alone:
                    does = operator_of(part.calls.stems[int(part.calls.stem[one])])
                    if does.kind.name != "CAST" and "itself" not in does.keeps:
                        return side, one
                rows = [row for one in alone for row in inputs_of(part.table, one).tolist()]
        return None

    for node in range(len(runs.npu.tree)):
        if runs.partner[node] >= 0:
            assert blamed._given_by_unmatched(evidence, node) == made_alone(node)


def operation(part: Part, node: int) -> tuple[str, int]:
    stem = part.calls.stems[int(part.calls.stem[node])]
    return operator_of(stem).name, int(part.calls.direction[node])


def test_calls_alone_stand_for_the_first_of_those_behind_one_another(evidence: Evidence) -> None:
    runs = evidence.runs
    for node in range(1, len(runs.npu.tree)):
        if not runs.npu.calls.is_api[node]:
            continue
        first = node
        while True:
            before = [
                one
                for one in makers(runs.npu, runs.origin, inputs_of(runs.npu.table, first).tolist())
                if one < first
                and operation(runs.npu, one) == operation(runs.npu, first)
                and (runs.partner[one] < 0 or runs.other_operator[one])
            ]
            if not before:
                break
            first = before[0]
        assert blamed._first_of_alike(runs, node) == first
    for side, (part, _, origin, other) in enumerate(sides(runs)):
        for node in range(len(part.tree)):
            first = node
            while True:
                rows = inputs_of(part.table, first).tolist()
                open_rows = [row for row in rows if origin[row] >= 0 and other[origin[row]] < 0]
                before = [
                    one
                    for one in makers(part, origin, open_rows)
                    if one < first and part.calls.is_forward_call[one]
                ]
                if not before:
                    break
                first = min(before)
            assert blamed._before_unknown(runs, side, node) == first


def test_an_argument_is_shown_by_what_is_made_with_it(evidence: Evidence) -> None:
    runs, table = evidence.runs, evidence.runs.npu.table
    rng = np.random.default_rng(len(table))
    found = []
    for _ in range(60):
        row = int(rng.integers(-1, len(table)))
        node = int(rng.integers(1, len(runs.npu.tree)))
        if evidence.arguments and rng.random() < 0.6:
            node = int(rng.choice(list(evidence.arguments)))
        cause = (Cause.OUTPUT, Cause.ARGUMENT, Cause.WIRING)[int(rng.integers(3))]
        score, error = float(rng.choice([20.0, 31.0])), float(rng.choice([0.1, 0.3]))
        side = int(rng.random() < 0.15)
        found.append(Clue(score, side, node, cause, row, error, 0.1))
    shown: set[int] = set()
    for one in found:
        if one.cause is Cause.OUTPUT and one.score > 30 and one.row >= 0:
            shown |= set(blindly_before(runs, int(table.node[one.row])))
    for node in range(len(runs.npu.tree)):
        rows = [row for row in np.flatnonzero(table.node == node).tolist() if table.is_tensor[row]]
        sections = {int(table.section[row]) for row in rows if evidence.off[row]}
        gives_back = Section.OUTPUT in sections and Section.INPUT not in sections
        if runs.backward[node] and gives_back:
            shown.add(int(runs.npu.calls.twin[node]))

    def asked(node: int) -> tuple[object, ...]:
        given = tuple((one.npu, one.bench) for one in evidence.arguments[node])
        return operation(runs.npu, node), given

    told = {
        asked(one.node)
        for one in found
        if one.cause is Cause.ARGUMENT and one.node in evidence.arguments and one.error > 0.2
    }
    shown |= {node for node in evidence.arguments if asked(node) in told}
    marks = [one.shows_behind for one in outputs.shown_behind(evidence, found)]
    assert marks == [
        one.cause is Cause.ARGUMENT and one.side == 0 and one.node in shown for one in found
    ]
