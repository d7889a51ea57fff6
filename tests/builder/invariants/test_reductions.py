"""Sums over ranks, however they are rounded, and what a rank gave instead of what it held."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.builder.invariants.sketched_ranks import (
    Call,
    Floats,
    Typed,
    counts_of,
    reduction,
    rounded,
    verdict_of,
)

WORLD = 5
SHAPES = ((1,), (33,), (64, 5), (7, 300))
TYPES = ("float32", "float16", "bfloat16")
OPERATIONS = ("SUM", "AVG", "MAX", "MIN")
Terms = Sequence[Floats]


def terms_of(chance: np.random.Generator, shape: tuple[int, ...], dtype: str) -> list[Floats]:
    scale = 10.0 ** chance.uniform(-3, 2)
    return [rounded(scale * chance.standard_normal(shape), dtype) for _ in range(WORLD)]


def reduced(chance: np.random.Generator, terms: Terms, dtype: str, op: str) -> Floats:
    """In any order of ranks, rounded after each."""
    if op in ("MAX", "MIN"):
        return np.asarray((np.max if op == "MAX" else np.min)(np.stack(terms), axis=0))
    total = np.zeros_like(terms[0])
    for rank in chance.permutation(len(terms)):
        total = rounded(total + terms[rank], dtype)
    return rounded(total / len(terms), dtype) if op == "AVG" else total


def all_reduces(
    change: Callable[[list[Floats]], list[Floats]] = list,
    shapes: Sequence[tuple[int, ...]] = SHAPES,
    types: Sequence[str] = TYPES,
) -> list[dict[str, Call]]:
    """One of each kind; ``change`` makes of what ranks hold what they give."""
    ranks: list[dict[str, Call]] = [{} for _ in range(WORLD)]
    chance = np.random.default_rng(5)
    for place, (shape, dtype, op) in enumerate(product(shapes, types, OPERATIONS)):
        held = terms_of(chance, shape, dtype)
        result = Typed(reduced(chance, change(list(held)), dtype, op), dtype)
        for calls, own in zip(ranks, held, strict=True):
            keywords = {"op": reduction(op)}
            call = Call([Typed(own, dtype)], [result, reduction(op)], keywords)
            calls[f"Distributed.all_reduce.{place}.forward"] = call
    return ranks


def test_any_order_and_rounding_is_right(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, all_reduces())
    assert (verdict.conclusion, verdict.suspects) == ("clean", ())
    assert counts_of(verdict) == {"reductions": len(SHAPES) * len(TYPES) * len(OPERATIONS)}


def test_without_sketches_only_extremes_are_checked(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, all_reduces(), has_sketches=False)
    each = len(SHAPES) * len(TYPES) * len(OPERATIONS) // 2
    assert verdict.conclusion == "clean"
    assert counts_of(verdict) == {"reductions": each}
    assert counts_of(verdict, "not_held") == {"reductions": each}


def test_where_little_was_checked_nothing_is_called_clean(tmp_path: Path) -> None:
    ranks = all_reduces(types=["float32"])
    for calls in ranks:
        for place, op in enumerate(OPERATIONS * len(SHAPES)):
            if op == "MIN":
                del calls[f"Distributed.all_reduce.{place}.forward"]
    verdict = verdict_of(tmp_path, ranks, has_sketches=False)
    assert verdict.conclusion == "undecided"
    assert [one.code for one in verdict.said] == ["held.little", "held", "not_held"]


@pytest.mark.parametrize(
    ("times", "said"),
    [
        (0.0, {"code": "gave.nothing", "rank": 3}),
        (2.0, {"code": "gave.times", "rank": 3, "times": 2.0}),
        (-1.0, {"code": "gave.times", "rank": 3, "times": -1.0}),
    ],
)
def test_a_rank_that_gives_a_multiple_is_named(
    tmp_path: Path, times: float, said: dict[str, Any]
) -> None:
    def change(held: list[Floats]) -> list[Floats]:
        held[3] = held[3] * np.float32(times)
        return held

    several = SHAPES[1:]  # one number is a multiple of any other
    verdict = verdict_of(tmp_path, all_reduces(change, several, ["float32"]))
    sums = [one for one in verdict.suspects if not _has_code(one.facts, "no_extreme")]
    assert len(sums) == 2 * len(several)
    for one in sums:
        assert (one.rank, one.ranks, one.strength) == (3, (3,), "strong")
        told = [fact for fact in one.facts if fact.code.startswith("gave")]
        assert [fact.code for fact in told] == [said["code"]]
        assert all(
            fact[key] == pytest.approx(value, rel=1e-2)
            for fact in told
            for key, value in said.items()
            if key != "code"
        )


def _has_code(facts: Any, code: str) -> bool:
    return any(one.code == code for one in facts)


def one_sum(
    results: Sequence[Floats], held: Terms, before: Sequence[Floats] = ()
) -> list[dict[str, Call]]:
    ranks: list[dict[str, Call]] = []
    for rank, own in enumerate(held):
        calls = {}
        if before:
            calls["Torch.relu.0.forward"] = Call([Typed(own)], [Typed(before[rank])])
        given, shown = [Typed(own)], [Typed(results[rank])]
        calls["Distributed.all_reduce.0.forward"] = Call(given, shown)
        ranks.append(calls)
    return ranks


def random(count: int, seed: int, shape: tuple[int, ...] = (20, 30)) -> list[Floats]:
    chance = np.random.default_rng(seed)
    return [chance.standard_normal(shape).astype(np.float32) for _ in range(count)]


def test_what_another_call_held_is_told(tmp_path: Path) -> None:
    held, other = random(4, 1), random(4, 2)
    wrong = held[0] + other[1] + held[2] + held[3]
    verdict = verdict_of(tmp_path, one_sum([wrong] * 4, held, other))
    [one] = verdict.suspects
    assert (one.rank, one.node) == (1, "Distributed.all_reduce.0.forward")
    assert [fact["name"] for fact in one.facts if fact.code == "gave.other"] == [
        "Torch.relu.0.forward"
    ]


def test_a_rank_with_another_result_is_named(tmp_path: Path) -> None:
    held = random(4, 3)
    results = [sum(held[1:], held[0])] * 3 + [held[3]]
    verdict = verdict_of(tmp_path, one_sum(results, held))
    assert [(one.rank, one.ranks) for one in verdict.suspects] == [(3, (3,))]


def small_errors() -> Iterator[Any]:
    yield pytest.param("float32", 1e-4, True, id="float32 sees a ten-thousandth")
    yield pytest.param("float32", 1e-7, False, id="float32 rounds a ten-millionth")
    yield pytest.param("bfloat16", 0.2, True, id="bfloat16 sees a fifth")
    yield pytest.param("bfloat16", 2e-3, False, id="bfloat16 rounds 2 in 1000")


@pytest.mark.parametrize(("dtype", "share", "is_seen"), list(small_errors()))
def test_an_error_is_seen_beyond_the_rounding_of_its_type(
    tmp_path: Path, dtype: str, share: float, *, is_seen: bool
) -> None:
    chance = np.random.default_rng(8)
    held = terms_of(chance, (40, 50), dtype)
    total = reduced(chance, held, dtype, "SUM")
    wrong = rounded(total * np.float32(1 + share), dtype)
    ranks = [
        {"Distributed.all_reduce.0.forward": Call([Typed(own, dtype)], [Typed(wrong, dtype)])}
        for own in held
    ]
    assert bool(verdict_of(tmp_path, ranks).suspects) is is_seen


def test_parts_are_reduced_and_scattered(tmp_path: Path) -> None:
    parts = [random(3, 20 + rank, (6, 8)) for rank in range(3)]
    ranks = []
    for rank in range(3):
        result = parts[0][rank] + parts[1][rank] + parts[2][rank]
        if rank == 1:  # takes the part of another
            result = parts[0][2] + parts[1][2] + parts[2][2]
        before = Typed(np.zeros((6, 8), np.float32))
        inputs = [before, list(map(Typed, parts[rank]))]
        call = Call(inputs, [Typed(result), inputs[1]])
        ranks.append({"Distributed.reduce_scatter.0.forward": call})
    verdict = verdict_of(tmp_path, ranks)
    assert [(one.rank, one.cause) for one in verdict.suspects] == [(1, "reduction")]


@pytest.mark.parametrize("share", [0.0, 0.5], ids=["right", "one rank's half"])
def test_parts_of_one_tensor_keep_their_total(tmp_path: Path, share: float) -> None:
    held = [one + 0.3 for one in random(4, 30, (16, 8))]
    given = [held[0] * np.float32(1 - share), *held[1:]]
    total = sum(given[1:], given[0])
    ranks = []
    for rank in range(4):
        before = Typed(np.zeros((4, 8), np.float32))
        result = Typed(total[4 * rank : 4 * rank + 4])
        call = Call([before, Typed(held[rank])], [result, Typed(held[rank])])
        ranks.append({"Distributed.reduce_scatter_tensor.0.forward": call})
    verdict = verdict_of(tmp_path, ranks)
    assert verdict.conclusion == ("fault" if share else "clean")
    assert counts_of(verdict) == {"reductions": 1}
