"""Three commits that choose differently try all costly tests, each once."""

from __future__ import annotations

from itertools import compress

from hypothesis import given
from hypothesis import strategies as st

from tests import thirds
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
def test_parts_are_all_tests_and_each_function_of_three_cases_is_in_each(
    functions: list[tuple[str, int]],
) -> None:
    tests = named(functions)
    assert thirds.tried(tests, "all") == [True] * len(tests)
    parts = [[*compress(tests, thirds.tried(tests, str(part)))] for part in range(thirds.PARTS)]
    for test in tests:
        times = sum(test in part for part in parts)
        assert times == (thirds.PARTS if test.startswith("tests/docs/") else 1)
    for number, (_, count) in enumerate(functions):
        chosen = [sum(f"::test_{number}[" in test for test in part) for part in parts]
        assert count < thirds.PARTS or min(chosen) >= count // thirds.PARTS


@given(FUNCTIONS)
def test_most_are_those_that_the_commit_leaves_out(functions: list[tuple[str, int]]) -> None:
    tests = [test for test in named(functions) if test.startswith(thirds.COSTLY)]
    most, part = (thirds.tried(tests, choice) for choice in ("most", "commit"))
    assert most == [not one for one in part]


def test_cases_of_the_same_parameters_go_together() -> None:
    cases = [f"{FILES[0]}::test_{name}[{number}]" for name in "ab" for number in range(7)]
    chosen = thirds.tried(cases, "1")
    assert chosen[:7] == chosen[7:] == [False, True, False, False, True, False, False]


def test_what_is_costly_is_there() -> None:
    assert [path for path in thirds.COSTLY if not (REPOSITORY / path).exists()] == []
