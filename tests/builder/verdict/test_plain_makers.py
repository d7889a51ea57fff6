"""Who may have made a tensor of which nobody knows, against the rules of it in plain words."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest

from msprobe_builder.dump.parameters import Section
from msprobe_builder.graph.part import Part
from msprobe_builder.operators.table import is_in_place
from msprobe_builder.verdict.findings import Cause
from msprobe_builder.verdict.model.clue import Clue
from msprobe_builder.verdict.model.runs import Runs
from msprobe_builder.verdict.model.unmatched import made_outside, maker_guessed, written_by
from tests.builder.verdict.drawn_evidence import evidence_drawn
from tests.builder.verdict.drawn_ranks import ranks_drawn
from tests.builder.verdict.plain_given import forward_alone

TRIED = [(seed, is_of_ranks) for seed in range(20) for is_of_ranks in (False, True)]


@functools.cache
def runs_drawn(seed: int, is_of_ranks: bool) -> Runs:
    """Those of a drawn program, of some rows of which a side does not know the maker."""
    one = ranks_drawn(seed)[0] if is_of_ranks else evidence_drawn(1000 + seed, seed % 2 == 1)
    runs, rng = one.runs, np.random.default_rng(seed)
    lost = [rng.random(len(part.table)) < 0.3 for part in (runs.npu, runs.bench)]
    return replace(
        runs,
        origin=np.where(lost[0], -1, runs.origin),
        bench_origin=np.where(lost[1], -1, runs.bench_origin),
    )


@pytest.fixture(params=TRIED, ids=str)
def runs(request: pytest.FixtureRequest) -> Runs:
    return runs_drawn(*request.param)


def sides(runs: Runs) -> list[tuple[Part, np.ndarray, np.ndarray]]:
    return [
        (runs.npu, runs.partner, runs.maker),
        (runs.bench, runs.bench_partner, runs.bench_maker),
    ]


def alone(runs: Runs, side: int) -> list[int]:
    """Forward calls that this side alone makes."""
    part, partner, _ = sides(runs)[side]
    return [
        node
        for node in range(len(part.tree))
        if part.calls.is_forward_call[node] and partner[node] < 0
    ]


def as_told(runs: Runs, clue: Clue, side: int, node: int) -> Clue:
    part, partner, _ = sides(runs)[side]
    at = forward_alone(part, partner, node)
    return replace(clue, side=side, node=at, cause=(Cause.EXTRA, Cause.MISSING)[side])


def test_what_a_module_is_given_was_made_outside_if_it_takes_part_in_training(runs: Runs) -> None:
    table = runs.npu.table
    for row in range(len(table)):
        trains = table.requires_grad[row] == 1 or runs.backward[table.node[row]]
        right = bool(table.section[row] == Section.INPUT and trains)
        assert made_outside(runs, row) == right
    assert not made_outside(runs, -1)


def test_a_call_nearby_whose_output_nobody_uses_may_have_made_it(runs: Runs) -> None:
    for node in range(len(runs.npu.tree)):
        clue = right = Clue(9.0, 0, node, Cause.EXTERNAL, -1)
        for side in (1, 0) if not runs.backward[node] else ():
            part, _, maker = sides(runs)[side]
            here = int(runs.partner[node]) if side else node
            used = {int(part.table.node[made]) for made in maker.tolist() if made >= 0}
            near = [at for at in alone(runs, side) if at not in used and 0 < here - at < 60]
            parent = part.tree.parent
            near = [at for at in near if parent[at] == parent[here]][:1] or near[-1:]
            if here >= 0 and near:
                right = as_told(runs, clue, side, near[0])
                break
        assert maker_guessed(runs, clue) == right


def test_the_last_call_that_writes_to_such_a_tensor_has_made_it(runs: Runs) -> None:
    for row, node in enumerate(runs.npu.table.node.tolist()):
        clue = right = Clue(9.0, 0, node, Cause.BETWEEN, row)
        other = int(runs.other[row])
        unknown = runs.origin[row] < 0, other >= 0 and runs.bench_origin[other] < 0
        if unknown[0] != unknown[1] and not runs.backward[node]:
            side = 1 if unknown[1] else 0
            part, _, _ = sides(runs)[side]
            table = part.table
            here = int(runs.partner[node]) if side else node
            shape = table.shape_id[other if side else row]
            writes = [
                at
                for at in alone(runs, side)
                if at < here
                and is_in_place(part.calls.stems[int(part.calls.stem[at])])
                and any(
                    table.section[one] == Section.INPUT
                    and table.position[one] == 0
                    and table.shape_id[one] == shape
                    for one in np.flatnonzero(table.node == at).tolist()
                )
            ]
            if writes:
                right = as_told(runs, clue, side, writes[-1])
        assert written_by(runs, clue) == right
