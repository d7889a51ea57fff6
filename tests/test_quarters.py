"""Four commits that choose differently try all costly tests, each once."""

from __future__ import annotations

from itertools import compress

from hypothesis import given
from hypothesis import strategies as st

from tests import quarters
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
def test_parts_are_all_tests_and_each_function_of_four_cases_is_in_each(
    functions: list[tuple[str, int]],
) -> None:
    tests = named(functions)
    assert quarters.tried(tests, "all") == [True] * len(tests)
    parts = [[*compress(tests, quarters.tried(tests, str(part)))] for part in range(quarters.PARTS)]
    for test in tests:
        times = sum(test in part for part in parts)
        assert times == (quarters.PARTS if test.startswith("tests/docs/") else 1)
    for number, (_, count) in enumerate(functions):
        chosen = [sum(f"::test_{number}[" in test for test in part) for part in parts]
        assert count < quarters.PARTS or min(chosen) >= count // quarters.PARTS


@given(FUNCTIONS)
def test_half_are_two_of_the_parts_that_the_commit_leaves_out(
    functions: list[tuple[str, int]],
) -> None:
    tests = [test for test in named(functions) if test.startswith(quarters.COSTLY)]
    half, part = (quarters.tried(tests, choice) for choice in ("half", "commit"))
    assert not [test for test, *both in zip(tests, half, part, strict=True) if all(both)]
    parts = [quarters.tried(tests, str(one)) for one in range(quarters.PARTS)]
    assert half in [
        [a or b for a, b in zip(parts[one], parts[(one + 1) % 4], strict=True)] for one in range(4)
    ]


def test_cases_of_the_same_parameters_go_together() -> None:
    cases = [f"{FILES[0]}::test_{name}[{number}]" for name in "ab" for number in range(7)]
    chosen = quarters.tried(cases, "1")
    assert chosen[:7] == chosen[7:] == [False, True, False, False, False, True, False]


def test_what_is_costly_is_there() -> None:
    assert [path for path in quarters.COSTLY if not (REPOSITORY / path).exists()] == []
