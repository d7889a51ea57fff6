"""Expected errors of drawn programs, held against the same written down one tensor at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from msprobe_builder.verdict.model.conduct import conduct_of
from msprobe_builder.verdict.model.observations import observe
from msprobe_builder.verdict.model.propagation import beside_noise, propagate
from msprobe_builder.verdict.model.runs import runs_of
from tests.builder.verdict.columns import compared
from tests.builder.verdict.drawn_programs import drawn_program
from tests.builder.verdict.plain_errors import Plain


def both_ways(seed: int, *, mixed: bool) -> tuple[Plain, Any]:
    result = compared(*drawn_program(seed, mixed=mixed))
    assert result.comparisons is not None
    runs = runs_of(result)
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        seen = observe(runs, result.comparisons)
        exact = (rng.random(len(seen.size)) < 0.1) & ~np.isnan(seen.size)
        seen.exact[exact] = seen.size[exact]
        does = conduct_of(runs.npu, result.texts, runs.npu.calls.is_api | runs.npu.calls.is_module)
        noise = np.where(
            rng.random(len(runs.npu.tree)) < 0.5, 0, 10.0 ** rng.uniform(-7, -3, len(runs.npu.tree))
        )
        chosen = rng.random(len(seen.size)) < (0.15 if seed % 3 == 0 else 0.0)
        found = propagate(runs, seen, does, noise, chosen)
    return Plain(runs, seen, does, noise, chosen).settle(), found


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("seed", range(24))
def test_an_expected_error_is_as_in_plain_numbers(seed: int, mixed: bool) -> None:
    plain, found = both_ways(seed, mixed=mixed)
    names = plain.runs.npu.tree.names
    for row in range(len(plain.size)):
        where = f"{names[plain.node[row]]} {row}"
        if not plain.runs.npu.table.is_tensor[row]:
            continue
        assert found.told[row] == pytest.approx(plain.told[row], rel=0.03, nan_ok=True), where
        assert found.latent[row] == pytest.approx(plain.latent[row], rel=0.03, nan_ok=True), where
        if not math.isnan(plain.told[row]):
            assert bool(found.is_whole[row]) is plain.whole[row], where


def test_a_second_run_of_the_reference_is_expected_three_times() -> None:
    result = compared(*drawn_program(3))
    assert result.comparisons is not None
    runs = runs_of(result)
    rng = np.random.default_rng(3)
    with np.errstate(all="ignore"):
        seen = observe(runs, result.comparisons)
        does = conduct_of(runs.npu, result.texts, runs.npu.calls.is_api)
        none = np.zeros(len(runs.npu.tree))
        before = propagate(runs, seen, does, none, none[runs.npu.table.node] > 0)
    noise = np.where(rng.random(len(runs.bench.table)) < 0.3, np.nan, 0.02)
    after = beside_noise(runs, before, noise)
    for row, other in enumerate(runs.other.tolist()):
        own = math.nan if other < 0 else float(noise[other])
        for column, times, was in (
            (after.told, 3.0, float(before.told[row])),
            (after.latent, 1.0, float(before.latent[row])),
        ):
            is_open = math.isnan(was) and times > 1
            right = was if math.isnan(own) or is_open else np.fmax(was, times * own)
            assert column[row] == pytest.approx(right, nan_ok=True)
