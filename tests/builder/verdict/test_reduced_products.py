"""Products of float32 that take their operands with fewer digits are told, and no fault."""

from __future__ import annotations

import numpy as np
import pytest

from msprobe_builder.verdict.differences.reduced import PRODUCTS
from msprobe_builder.verdict.judge import judge_pair
from msprobe_builder.verdict.model.conduct import conduct_of
from msprobe_builder.verdict.model.noise import reduced_of
from msprobe_builder.verdict.model.observations import observe
from msprobe_builder.verdict.model.runs import runs_of
from tests.builder.verdict.columns import Run, compared, measured

COARSE = 2.0**-12  # an eighth of what it takes is not told, eight times as much is something else
KINDS = {"Functional.conv2d": 0, "Torch.lstm": 1, "Torch.matmul": 2}


def program(errors: dict[str, list[float]]) -> tuple[Run, Run]:
    """Calls by operator, given the same, each off by so much; nobody uses what they make."""
    rng = np.random.default_rng(4)
    sides = Run(), Run()
    for operator, several in errors.items():
        for place, error in enumerate(several):
            x, w, y = (rng.normal(size=shape) for shape in ((6, 8), (8, 9), (6, 9)))
            other = y + error * np.abs(y).max() * np.eye(6, 9)[::-1] * np.sign(y)
            other = y * (1 + error) if error else other
            for side, made in zip(sides, (other, y), strict=True):
                name = f"{operator}.{place}.forward"
                side.call(name, [measured(x), measured(w)], [measured(made)])
    return sides


def told(errors: dict[str, list[float]]) -> tuple[dict[str, float], list[str]]:
    result = compared(*program(errors))
    runs = runs_of(result)
    assert result.comparisons is not None
    with np.errstate(all="ignore"):
        seen = observe(runs, result.comparisons)
        does = conduct_of(runs.npu, result.texts, runs.npu.calls.is_api)
        reduced, names = reduced_of(runs, seen, does)
    tree = runs.npu.tree
    by_operator = {
        name.partition(".0.forward")[0]: float(reduced[node])
        for node, name in enumerate(tree.names)
        if name.endswith(".0.forward")
    }
    return by_operator, [one.code for one in names]


@pytest.mark.parametrize("operator", KINDS)
@pytest.mark.parametrize(
    ("errors", "one_is_enough", "most_must"),
    [
        ([COARSE] * 4, True, True),
        ([COARSE, 0.0, 0.0, 0.0], False, False),
        ([COARSE], True, False),
        ([COARSE] * 3, True, False),
        ([COARSE] * 4 + [1e-7] * 4, True, True),
        ([COARSE] * 4 + [1e-7] * 5, True, False),
        ([COARSE] * 4 + [0.0] * 5, False, False),
        ([1e-7] * 8, False, False),
        ([0.1] * 8, False, False),
    ],
)
def test_how_many_products_tell_of_fewer_digits(
    operator: str, errors: list[float], one_is_enough: bool, most_must: bool
) -> None:
    by_operator, names = told({operator: errors, "Torch.tanh": [1e-7] * 4})
    holds = most_must if operator == "Torch.matmul" else one_is_enough
    assert names == ([PRODUCTS[KINDS[operator]].code] if holds else [])
    assert (by_operator[operator] > 0) is holds
    assert by_operator["Torch.tanh"] == 0
    if holds:
        assert 2.0**-15 < by_operator[operator] < 2.0**-9


def test_each_kind_of_product_has_a_switch_of_its_own() -> None:
    by_operator, names = told(
        {"Torch.matmul": [COARSE] * 6, "Functional.conv2d": [1e-7] * 6, "Torch.lstm": [COARSE]}
    )
    assert by_operator["Functional.conv2d"] == 0
    assert names == [PRODUCTS[1].code, PRODUCTS[2].code]


def test_a_run_with_fewer_digits_is_clean_and_says_so() -> None:
    found = judge_pair(
        compared(*program({"Torch.matmul": [COARSE] * 12, "Torch.tanh": [0.0] * 12}))
    )
    assert found is not None
    assert (found.conclusion, found.is_reduced) == ("clean", True)
    assert "reduced_products" in [one.code for one in found.said]
