"""Five commits that choose differently try all costly tests, each once."""

from __future__ import annotations

from itertools import compress

from hypothesis import given
from hypothesis import strategies as st

from tests import turns
from tests.conftest import REPOSITORY

FILES = ("tests/recorded/test_a.py", "tests/recorded/test_b.py", "tests/docs/test_c.py")
FUNCTIONS = st.lists(st.tuples(st.sampled_from(FILES), st.integers(0, 8)), max_size=6)


def named(functions: list[tuple[str, int]]) -> list[str]:
    """Tests, each with as many cases as it says; none has no parameters."""
    return [
        f"{file}::test_{number}{case}"
        for number, (file, count) in enumerate(functions)
        for case in ([f"[{number}-{case}]" for case in range(count)] or [""])
    ]


@given(FUNCTIONS)
def test_parts_are_all_tests_and_each_function_of_five_cases_is_in_each(
    functions: list[tuple[str, int]],
) -> None:
    tests = named(functions)
    assert turns.tried(tests, "all") == [True] * len(tests)
    parts = [[*compress(tests, turns.tried(tests, str(part)))] for part in range(turns.PARTS)]
    for test in tests:
        times = sum(test in part for part in parts)
        assert times == (turns.PARTS if test.startswith("tests/docs/") else 1)
    for number, (_, count) in enumerate(functions):
        chosen = [sum(f"::test_{number}[" in test for test in part) for part in parts]
        assert count < turns.PARTS or min(chosen) >= count // turns.PARTS


@given(FUNCTIONS)
def test_three_are_of_the_parts_that_the_commit_leaves_out(
    functions: list[tuple[str, int]],
) -> None:
    tests = [test for test in named(functions) if test.startswith(turns.COSTLY)]
    three, part = (turns.tried(tests, choice) for choice in ("three", "commit"))
    assert not [test for test, *both in zip(tests, three, part, strict=True) if all(both)]
    parts = [turns.tried(tests, str(one)) for one in range(turns.PARTS)]
    assert three in [
        [any(both) for both in zip(*(parts[one - back] for back in range(3)), strict=True)]
        for one in range(turns.PARTS)
    ]


def test_cases_of_the_same_parameters_go_together() -> None:
    cases = [f"{FILES[0]}::test_{name}[{number}]" for name in "ab" for number in range(7)]
    chosen = turns.tried(cases, "1")
    assert chosen[:7] == chosen[7:] == [False, True, False, False, False, False, True]


def test_what_is_costly_is_there() -> None:
    assert [path for path in turns.COSTLY if not (REPOSITORY / path).exists()] == []
