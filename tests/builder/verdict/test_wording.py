"""How a difference is said, and numbers side by side."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from msprobe_builder.verdict.model.runs import runs_of
from msprobe_builder.verdict.ruling.wording import differing, shortened, size_of
from tests.builder.small_dumps import Record
from tests.builder.verdict.columns import STATISTICS, Run, compared, measured, rows_by_name

X = measured(np.random.default_rng(1).normal(size=(6, 8)))


def changed(**numbers: float | None) -> Record:
    return {**X, **numbers}


def how(debug: Record, reference: Record = X, relative: float = 0.0) -> tuple[str, dict[str, Any]]:
    sides = Run(), Run()
    for side, made in zip(sides, (debug, reference), strict=True):
        side.call("Torch.tanh.0.forward", [measured(np.eye(3))], [made])
    result = compared(*sides)
    assert result.bench is not None
    row = rows_by_name(result)["Torch.tanh.0.forward:output.0"]
    found = differing(result.npu.table, result.bench.table, row, row, relative)
    return found.code, dict(found.arguments)


def test_the_norm_says_it_where_it_is_off_by_a_thousandth() -> None:
    for times in (1.1, 0.5, 1.002, 0.998):
        code, numbers = how(changed(Norm=X["Norm"] * times))
        assert (code, numbers["times"]) == ("differs.norm", pytest.approx(times))
    code, _ = how(changed(Norm=X["Norm"] * 1.0005, Max=X["Max"] * 1.2))
    assert code == "differs.statistic"


@pytest.mark.parametrize("name", ["Max", "Min", "Mean"])
def test_else_the_statistic_that_changed_most_says_it(name: str) -> None:
    code, numbers = how(changed(**{name: X[name] * 1.5, "Norm": X["Norm"] * 1.0002}))
    assert (code, numbers["own"], numbers["theirs"]) == (
        *("differs.statistic", pytest.approx(X[name] * 1.5)),
        pytest.approx(X[name]),
    )
    others = [one for one in ("Max", "Min", "Mean") if one != name]
    both = changed(**{name: X[name] * 1.5, others[0]: X[others[0]] * 1.4})
    assert how(both)[1]["own"] == pytest.approx(X[name] * 1.5)


def test_what_is_not_finite_on_one_side_alone() -> None:
    broken = changed(Max=math.inf)
    assert how(broken)[0] == "differs.not_finite"
    assert how(X, changed(Max=math.nan))[0] == "differs.finite"
    assert how(changed(Min=math.nan))[0] == "differs.not_finite"


def test_nothing_is_said_of_what_is_the_same_or_unknown() -> None:
    assert how(X)[0] == "differs.unknown"
    assert how(changed(**dict.fromkeys(STATISTICS)), changed(**dict.fromkeys(STATISTICS)))[0] == (
        "differs.unknown"
    )
    one = Run()
    one.call("Torch.tanh.0.forward", [X], [X])
    columns = runs_of(compared(one, one))
    for row, other in ((-1, 0), (0, -1)):
        found = differing(columns.npu.table, columns.bench.table, row, other)
        assert found.code == "differs.unknown"


@pytest.mark.parametrize(
    ("times", "relative", "code"),
    [
        (1.1, 0.41, "differs.relative"),
        (1.1, 0.39, "differs.norm"),
        (0.9, 0.41, "differs.relative"),
        (1.0005, 1e-6, "differs.relative"),
    ],
)
def test_elements_tell_more_where_the_norm_hides_most(
    times: float, relative: float, code: str
) -> None:
    found, numbers = how(changed(Norm=X["Norm"] * times), relative=relative)
    assert found == code
    if code == "differs.relative":
        assert numbers["share"] == pytest.approx(100 * relative, rel=0.05)
        assert float(f"{numbers['share']:.2g}") == numbers["share"]


@pytest.mark.parametrize(
    ("error", "expected", "code"),
    [
        *((0.5, 0.1, "size"), (9.99, 0.1, "size"), (10.0, 0.1, "size.no_rounding")),
        *((0.5, 0.0, "size.no_rounding"), (0.5, -1.0, "size.no_rounding")),
    ],
)
def test_a_size_is_told_in_times_of_what_is_expected(
    error: float, expected: float, code: str
) -> None:
    assert size_of(error, expected).code == code


def test_more_times_are_told_as_more() -> None:
    few, many = size_of(0.5, 0.1), size_of(0.5, 0.01)
    assert few.arguments["times"] != many.arguments["times"]


@pytest.mark.parametrize(
    ("debug", "reference", "shown"),
    [
        ("0.1", "0.2", ("0.1", "0.2")),
        ("0.123456789", "0.223456789", ("0.123457", "0.223457")),
        ("0.12345678901", "0.12345679901", ("0.12345679", "0.1234568")),
        ("0.123456789012", "0.123456789013", ("0.123456789012", "0.123456789013")),
        ("3", "0.3333333333333", ("3", "0.333333")),
        ("1000000007", "1000000009", ("1000000007", "1000000009")),
        ("-0.123456", "-0.5", ("-0.123456", "-0.5")),
        ("tanh", "none", ("tanh", "none")),
        ("0.5", "0.5", ("0.5", "0.5")),
    ],
)
def test_numbers_have_as_many_digits_as_tell_them_apart(
    debug: str, reference: str, shown: tuple[str, str]
) -> None:
    assert shortened(debug, reference) == shown
    assert shortened(reference, debug) == shown[::-1]


@pytest.mark.parametrize(
    ("name", "is_swapped"), [("Torch.add", True), ("Torch.mul", True), ("Torch.sub", False)]
)
@pytest.mark.parametrize(("off", "is_alike"), [(0.0, True), (5e-4, True), (2e-3, False)])
def test_operands_that_came_the_other_way_are_paired_by_what_they_hold(
    name: str, is_swapped: bool, off: float, is_alike: bool
) -> None:
    rng = np.random.default_rng(2)
    one, other = rng.normal(size=(2, 6, 8)) * [[[1.0]], [[3.0]]]
    near = [measured(values * (1 + off)) for values in (one, other)]
    sides = Run(), Run()
    made = measured(one + other)
    sides[0].call(f"{name}.0.forward", near[::-1], [made])
    sides[1].call(f"{name}.0.forward", [measured(one), measured(other)], [made])
    result = compared(*sides)
    columns, rows = runs_of(result), rows_by_name(result)
    first, second = (rows[f"{name}.0.forward:input.{place}"] for place in (0, 1))
    exchanged = is_swapped and is_alike
    assert (columns.other[first], columns.other[second]) == (
        (second, first) if exchanged else (first, second)
    )


def test_arguments_of_a_call_of_another_name_stand_in_an_order_of_their_own() -> None:
    rng = np.random.default_rng(3)
    given = [measured(rng.normal(size=(6, 8))) for _ in range(2)]
    off = [measured(rng.normal(size=(6, 8))) for _ in range(2)]
    sides = Run(), Run()
    made = measured(rng.normal(size=(6, 8)))
    sides[0].call("Torch.matmul.0.forward", [given[0], off[1]], [made])
    sides[1].call("Tensor.__matmul__.0.forward", [given[0], given[1]], [made])
    result = compared(*sides)
    columns, rows = runs_of(result), rows_by_name(result)
    if columns.partner[columns.npu.table.node[0]] >= 0:
        assert columns.other[rows["Torch.matmul.0.forward:input.0"]] >= 0
        assert columns.other[rows["Torch.matmul.0.forward:input.1"]] == -1
