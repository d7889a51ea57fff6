"""Clues of drawn programs are those that the same rules find one tensor at a time."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from msprobe_builder.verdict.model.clue import Clue, Evidence
from msprobe_builder.verdict.model.edges import of_edges
from msprobe_builder.verdict.model.levels import level_before
from msprobe_builder.verdict.model.outputs import of_outputs
from tests.builder.verdict.columns import compared, evidence_of
from tests.builder.verdict.drawn_programs import drawn_program
from tests.builder.verdict.drawn_ranks import ranks_drawn
from tests.builder.verdict.plain_clues import PlainClues, Told
from tests.builder.verdict.plain_given import PlainGiven

SEEDS = range(100, 120)


def drawn_evidence(seed: int, *, mixed: bool | None) -> Evidence:
    """Of a drawn program of one rank; of several, which updates behind its passes, without."""
    if mixed is None:
        return ranks_drawn(seed)[0]
    return evidence_of(compared(*drawn_program(seed, 24, mixed=mixed, richly=True)))


def told(found: Iterable[Clue]) -> list[Told]:
    with np.errstate(all="ignore"):
        return [
            Told(one.side, one.node, one.cause, one.row, one.score, one.error, one.expected)
            for one in found
        ]


def assert_alike(found: Iterable[Clue], right: Iterable[Told], evidence: Evidence) -> None:
    with np.errstate(all="ignore"):
        both = sorted(told(found)), sorted(right)
    names = evidence.runs.npu.tree.names, evidence.runs.bench.tree.names
    keys = [
        [(one.side, names[one.side][one.node], one.cause.name, one.row) for one in side]
        for side in both
    ]
    assert keys[0] == keys[1]
    for own, other in zip(*both, strict=True):
        assert own[4:] == pytest.approx(other[4:], rel=1e-6), own


@pytest.mark.parametrize("mixed", [False, True, None])
@pytest.mark.parametrize("seed", SEEDS)
def test_outputs_that_are_off(seed: int, mixed: bool | None) -> None:
    evidence = drawn_evidence(seed, mixed=mixed)
    assert_alike(of_outputs(evidence), PlainClues(evidence).of_outputs(), evidence)


@pytest.mark.parametrize("mixed", [False, True, None])
@pytest.mark.parametrize("seed", SEEDS)
def test_tensors_that_calls_are_given(seed: int, mixed: bool | None) -> None:
    evidence = drawn_evidence(seed, mixed=mixed)
    plain = PlainGiven(evidence)
    right = [*plain.of_given(), *plain.of_parameter_gradients()]
    assert_alike(of_edges(evidence), right, evidence)


@pytest.mark.parametrize("mixed", [False, True, None])
@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_put_out_before_tells_what_an_unknown_tensor_is_off_by(
    seed: int, mixed: bool | None
) -> None:
    evidence = drawn_evidence(seed, mixed=mixed)
    plain = PlainGiven(evidence)
    rows = np.flatnonzero(evidence.runs.npu.table.is_tensor)
    with np.errstate(all="ignore"):
        found = level_before(evidence, rows)
        right = [plain.level_before(row) for row in rows.tolist()]
    assert found.tolist() == pytest.approx(right, rel=1e-9)
