"""Values out of a file: what belongs there comes as it is, anything else is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import isnan
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read import cells

LOW, HIGH = -2, 3
ANY = st.one_of(
    st.none(),
    st.integers(LOW - 2, HIGH + 2),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=2),
)
COLUMNS = st.lists(ANY, min_size=1, max_size=3) | st.lists(
    st.integers(LOW - 1, HIGH + 1), min_size=1, max_size=3
)


def answer(read: Callable[[], object]) -> object:
    """What is read; the error's kind where it is refused."""
    try:
        return read()
    except DamagedError:
        return DamagedError


def is_whole(value: object) -> bool:
    return isinstance(value, int) and LOW <= value <= HIGH


@given(ANY)
@example(LOW)
@example(HIGH)
def test_a_single_value(value: Any) -> None:
    whole = value if is_whole(value) else DamagedError
    assert answer(lambda: cells.integer(value, LOW, HIGH)) == whole
    expected = None if value is None else whole
    assert answer(lambda: cells.optional_integer(value, LOW, HIGH)) == expected
    if isinstance(value, int):
        assert answer(lambda: cells.flag(value)) == (
            bool(value) if value in (0, 1) else DamagedError
        )
    if value is None or isinstance(value, str):
        assert cells.optional_text(value) == value
        assert cells.text(value) == (value or "")
    else:
        assert answer(lambda: cells.optional_text(value)) is DamagedError
    if isinstance(value, str | bytes):
        assert answer(lambda: cells.number(value)) is DamagedError
    elif value is not None:
        found = cells.number(value, 1)
        assert isinstance(found, float)
        assert found == value or isnan(value)
    assert cells.number(None) is None
    assert isnan(cells.number(None, 1) or 0.0)


def _first(read: Callable[[Any], Any], column: list[Any]) -> list[Any]:
    return [one for one, _ in zip(read(column), column, strict=False)]


@given(COLUMNS)
@example([LOW, HIGH])
def test_a_column_is_as_its_values_are(column: list[Any]) -> None:
    pairs: tuple[tuple[Callable[[Any], Any], Callable[[Any], Any]], ...] = (
        (
            lambda all_of_them: cells.integers(all_of_them, LOW, HIGH),
            lambda one: cells.integer(one, LOW, HIGH),
        ),
        (cells.numbers, cells.number),
        (cells.texts, cells.text),
    )
    if not any(isinstance(one, float) for one in column):  # 0.0 is a no as well
        pairs = (*pairs, (cells.flags, cells.flag))
    for read, single in pairs:
        # Where a column is NULL alone its texts have no end.
        found = answer(partial(_first, read, column))
        assert repr(found) == repr(answer(partial(list, map(single, column))))
    if all(map(is_whole, column)):
        assert cells.integers(column, LOW, HIGH) is column, "a copy of a large column takes long"
    assert cells.are_floats(column) == all(one is None or isinstance(one, float) for one in column)


@pytest.mark.parametrize(
    ("value", "numbers"),
    [("7", (7,)), ("3,1,3", (1, 3)), ("4294967295", (4294967295,)), (None, ())],
)
def test_a_list_of_numbers_comes_once_each_and_in_order(
    value: object, numbers: tuple[int, ...]
) -> None:
    assert cells.listed(value) == numbers


@pytest.mark.parametrize("value", ["", ",", "1,", "1, 2", "-1", "12345678901", "x", 1, b"1"])
def test_what_is_no_list_of_numbers_is_refused(value: object) -> None:
    with pytest.raises(DamagedError, match="belong"):
        cells.listed(value)


@pytest.mark.parametrize("length", [37, 38, 39, 200])
def test_long_values_are_told_in_forty_characters(length: int) -> None:
    value = "x" * length
    with pytest.raises(DamagedError) as refused:
        cells.integer(value)
    shown = str(refused.value).partition(" stands where a number from 0 to 4294967295")[0]
    assert shown == repr(value) if length <= 38 else shown == repr(value)[:39] + "…"
    assert len(shown) <= 40
