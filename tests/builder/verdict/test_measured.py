"""What was measured says more than four numbers, and what it is held against is what calls make.

Each call is computed with numbers of its own here, and what it makes of an error is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from msprobe_builder.dump.parameters import Section
from msprobe_builder.verdict.model.conduct import conduct_of
from msprobe_builder.verdict.model.noise import spread_of
from msprobe_builder.verdict.model.observations import observe
from msprobe_builder.verdict.model.propagation import propagate
from msprobe_builder.verdict.model.runs import runs_of
from tests.builder.verdict.columns import Run, compared, evidence_of, measured

Array = NDArray[Any]
ERROR = 1e-3


def _mostly_negative(rng: np.random.Generator) -> Array:
    return rng.normal(-1.5, 0.7, size=(64, 64))


def _all_alike(rng: np.random.Generator) -> Array:
    return rng.uniform(0.9, 1.1, size=(64, 64))


def _of_both_signs(rng: np.random.Generator) -> Array:
    return rng.normal(size=(64, 64))


CALLS: dict[str, tuple[Callable[[Array], Array], Callable[[np.random.Generator], Array]]] = {
    "Torch.square": (lambda x: x * x, _all_alike),
    "Functional.relu": (lambda x: np.maximum(x, 0), _mostly_negative),
    "Functional.leaky_relu": (lambda x: np.where(x > 0, x, 0.01 * x), _mostly_negative),
    "Functional.elu": (lambda x: np.where(x > 0, x, np.expm1(x)), _of_both_signs),
    "Functional.silu": (lambda x: x / (1 + np.exp(-x)), _mostly_negative),
    "Torch.clamp": (lambda x: np.clip(x, -0.2, 0.2), _of_both_signs),
}


def told_of(name: str, given: tuple[Array, Array], made: tuple[Array, Array]) -> float:
    """What the model expects of the one call of a run."""
    sides = Run(), Run()
    for side, went_in, came_out in zip(sides, given, made, strict=True):
        side.call(f"{name}.0.forward", [measured(went_in)], [measured(came_out)])
    result = compared(*sides)
    assert result.comparisons is not None
    runs = runs_of(result)
    with np.errstate(all="ignore"):
        seen = observe(runs, result.comparisons)
        seen.size[:] = [off(*given), off(*made)]  # as sketches tell it
        seen.exact[:] = seen.size
        does = conduct_of(runs.npu, result.texts, runs.npu.calls.is_api)
        quiet = np.zeros(len(runs.npu.tree))
        found = propagate(runs, seen, does, quiet, np.zeros(len(seen.size), dtype=bool))
    return float(found.told[1])


def off(debug: Array, reference: Array) -> float:
    return float(np.linalg.norm(debug - reference) / np.linalg.norm(reference))


def test_a_recurrent_layer_is_off_by_twice_what_one_step_rounds() -> None:
    rng = np.random.default_rng(3)
    x = _of_both_signs(rng)
    # What goes in agrees, so that what it rounds itself is all that is expected.
    one, many = (told_of(name, (x, x), (x, x)) for name in ("Torch.tanh", "VF.gru"))
    assert many == pytest.approx(2 * one)


def test_of_quotients_few_are_off_by_all_that_may_be() -> None:
    """Ten that are off by a twentieth of what is expected make no eleventh be expected less."""
    for name, least in (("Torch.reciprocal", 1.0), ("Torch.tanh", 0.5)):
        sides, rng = (Run(), Run()), np.random.default_rng(5)
        for place in range(12):
            x = _of_both_signs(rng)
            for side, error in zip(sides, (1e-3, 0.0), strict=True):
                off = rng.normal(size=x.shape)
                given, made = x * (1 + error * off), x * (1 + error * off / 20)
                side.call(f"{name}.{place}.forward", [measured(given)], [measured(made)])
        evidence = evidence_of(compared(*sides))
        put_out = np.flatnonzero(evidence.runs.rows(Section.OUTPUT))
        told = evidence.runs, evidence.seen, evidence.does, evidence.expected
        assert spread_of(*told, put_out).min() == pytest.approx(least)


@pytest.mark.parametrize("name", CALLS)
def test_what_a_call_makes_of_an_error_is_expected_and_little_more(name: str) -> None:
    rng = np.random.default_rng(7)
    of, draw = CALLS[name]
    reference = draw(rng)
    size = np.sqrt(np.mean(reference**2))
    debug = reference + ERROR * size * rng.normal(size=reference.shape)
    made = of(debug), of(reference)
    told = told_of(name, (debug, reference), made)
    # Of how many elements a slope of nothing keeps the error away nobody knows.
    assert off(*made) / 1.4 < told < 6 * off(*made)
