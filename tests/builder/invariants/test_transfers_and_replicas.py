"""What arrives is what was sent, weights are those of all replicas, and additions add."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.builder.invariants.sketched_ranks import Call, Floats, Typed, counts_of, verdict_of
from tests.builder.invariants.test_reductions import random

ZERO = np.zeros((20, 30), np.float32)
A, B = random(2, 70)


def exchanges(held: list[Floats], arrived: Callable[[int, int], Floats]) -> list[dict[str, Call]]:
    """Three ranks; ``arrived`` is what a rank gets from another."""
    ranks = []
    for rank in range(3):
        got = [Typed(arrived(rank, other)) for other in range(3)]
        zeros = [Typed(ZERO)] * 3
        own = Typed(held[rank])
        calls = {
            "Distributed.all_gather.0.forward": Call([zeros, own], [got, own]),
            "Distributed.broadcast.0.forward": Call([own, 1], [got[1], 1]),
        }
        if rank == 0:
            calls["Distributed.send.0.forward"] = Call([own, 2], [own, 2])
        if rank == 2:
            calls["Distributed.recv.0.forward"] = Call([Typed(ZERO), 0], [got[0], 0])
        ranks.append(calls)
    return ranks


def test_what_was_sent_arrives(tmp_path: Path) -> None:
    held = random(3, 1)
    verdict = verdict_of(tmp_path, exchanges(held, lambda _, other: held[other]))
    assert verdict.conclusion == "clean"
    assert counts_of(verdict) == {"transfers": 3}


def test_what_arrives_otherwise_is_told_where_it_arrives(tmp_path: Path) -> None:
    """Rows in another order have the same statistics."""
    held = random(3, 1)

    def arrived(rank: int, other: int) -> Floats:
        return held[0][::-1].copy() if (rank, other) == (2, 0) else held[other]

    verdict = verdict_of(tmp_path, exchanges(held, arrived))
    assert {(one.rank, one.node.split(".")[1]) for one in verdict.suspects} == {
        (2, "all_gather"),
        (2, "recv"),
    }


def models(weights: list[dict[str, Floats]]) -> list[dict[str, Call]]:
    """Each rank holds these weights, by module and name."""
    ranks = []
    for own in weights:
        calls: dict[str, Call] = {}
        for name, one in own.items():
            module, _, key = name.rpartition(".")
            call = Call([Typed(ZERO)], [Typed(ZERO)], parameters={key: Typed(one)})
            calls[f"Module.{module}.Layer.forward.0"] = call
        ranks.append(calls)
    return ranks


def alike(ranks: int = 4) -> list[dict[str, Floats]]:
    matrices = random(4, 2)
    vector = random(1, 3, (30,))[0]
    own = {f"layers.{place}.weight": one for place, one in enumerate(matrices)}
    return [{**own, "norm.weight": vector} for _ in range(ranks)]


@pytest.mark.parametrize("name", ["layers.1.weight", "norm.weight"])
@pytest.mark.parametrize("share", [1e-5, 0.2])
def test_a_replica_that_drifted_is_named(tmp_path: Path, name: str, share: float) -> None:
    weights = alike()
    weights[2][name] = weights[2][name] * np.float32(1 + share)
    verdict = verdict_of(tmp_path, models(weights))
    assert [(one.rank, one.cause) for one in verdict.suspects] == [(2, "replica")]
    assert name.partition(".weight")[0] in verdict.suspects[0].node


def test_of_two_ranks_nobody_knows_which_one_drifted(tmp_path: Path) -> None:
    weights = alike(2)
    weights[1]["norm.weight"] = weights[1]["norm.weight"] * np.float32(1.01)
    verdict = verdict_of(tmp_path, models(weights))
    assert [(one.rank, one.ranks) for one in verdict.suspects] == [(0, ()), (1, ())]


def test_ranks_that_are_added_later_are_heard_with_the_others(tmp_path: Path) -> None:
    weights = alike()
    weights[2]["norm.weight"] = weights[2]["norm.weight"] * np.float32(1.01)
    ranks = models(weights)
    ranks[0]["Torch.add.0.forward"] = Call([Typed(A), Typed(B)], [Typed(A)])
    few = verdict_of(tmp_path / "added", ranks[:3])
    assert [one.cause for one in few.suspects] == ["replica", "addition"]
    added, at_once = (verdict_of(tmp_path / name, ranks) for name in ("added", "at_once"))
    assert counts_of(added) == counts_of(at_once) == {"weights": 5, "additions": 1}
    suspects = [
        [(one.rank, one.node, one.facts) for one in each.suspects] for each in (added, at_once)
    ]
    assert suspects[0] == suspects[1]
    assert len(suspects[0]) == 2
    assert [one.said for one in added.places] == [one.said for one in at_once.places]


def experts(weights: list[dict[str, Floats]]) -> None:
    """One matrix of four is each rank's own."""
    for own, one in zip(weights, random(4, 9), strict=True):
        own["layers.3.weight"] = one


def stages(weights: list[dict[str, Floats]]) -> None:
    """Nothing is shared, but what no training has changed; one stage has been trained."""
    for rank, own in enumerate(weights):
        for place, one in enumerate(random(4, 40 + rank)):
            own[f"layers.{place}.weight"] = one
        own["norm.weight"] = np.ones(30, np.float32)
    weights[3]["norm.weight"] = weights[3]["norm.weight"] * np.float32(1.01)


def parts(weights: list[dict[str, Floats]]) -> None:
    """Split matrices, and a vector that each rank has trained for its own part."""
    for rank, own in enumerate(weights):
        for place, one in enumerate(random(4, 50 + rank)):
            own[f"layers.{place}.weight"] = one
        own["norm.weight"] = 1 + np.float32(0.01) * random(1, 60 + rank, (30,))[0]


@pytest.mark.parametrize("change", [experts, stages, parts], ids=lambda one: one.__name__)
def test_what_is_a_ranks_own_is_no_replica(
    tmp_path: Path, change: Callable[[list[dict[str, Floats]]], None]
) -> None:
    weights = alike()
    change(weights)
    ranks = models(weights)
    for calls in ranks:  # without any check there would be no verdict
        calls["Torch.add.0.forward"] = Call([Typed(ZERO), Typed(ZERO)], [Typed(ZERO)])
    assert verdict_of(tmp_path, ranks).suspects == ()


def test_where_products_are_split_a_vector_of_all_is_one_of_all(tmp_path: Path) -> None:
    weights = alike()
    for rank, own in enumerate(weights):
        for place, one in enumerate(random(4, 50 + rank)):
            own[f"layers.{place}.weight"] = one
    weights[1]["norm.weight"] = weights[1]["norm.weight"] * np.float32(1.01)
    verdict = verdict_of(tmp_path, models(weights))
    assert [(one.rank, one.node) for one in verdict.suspects] == [
        (1, "Module.norm.Layer.forward.0")
    ]


@pytest.mark.parametrize(
    ("name", "inputs", "output", "says"),
    [
        ("Tensor.__add__", [A, B], A + B, None),
        ("Tensor.sub_", [A, B], A - B, None),
        ("Tensor.__rsub__", [A, B], B - A, None),
        ("Tensor.__add__", [A, B], A, "no_sum.term"),
        ("Tensor.__iadd__", [A, B], A + B * np.float32(1.001), "no_sum"),
        ("Torch.add", [A, B[:1]], A + B[:1], None),  # of other shapes: not looked at
        ("Torch.mul", [A, B], A * B, None),
    ],
)
def test_an_addition_adds(
    tmp_path: Path, name: str, inputs: list[Any], output: Floats, says: str | None
) -> None:
    calls = {
        f"{name}.0.forward": Call(list(map(Typed, inputs)), [Typed(output)]),
        "Torch.add.1.forward": Call([Typed(A), Typed(A)], [Typed(A + A)]),
    }
    verdict = verdict_of(tmp_path, [calls])
    assert [one.facts[0].code for one in verdict.suspects] == ([says] if says else [])
    assert verdict.conclusion == ("fault" if says else "clean")
