"""What was sent is found as what was received, whoever sent it and however it is cut."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from msprobe_builder.link.calls import group_key
from tests.builder.invariants.sketched_ranks import Call, Floats, Typed, counts_of, verdict_of
from tests.builder.invariants.test_reductions import random

Calls: TypeAlias = dict[str, Call]
ZERO = np.zeros((20, 30), np.float32)
A, B, C, D = random(4, 11)
UP, DOWN = A, A[::-1].copy()  # with the same statistics


def sent(*messages: tuple[Floats, int], tag: int = 0) -> Calls:
    """A rank that sends these to those ranks."""
    return {
        f"Distributed.send.{n}.forward": Call([Typed(one), to], [Typed(one), to], {"tag": tag})
        for n, (one, to) in enumerate(messages)
    }


def got(*messages: tuple[Floats, int | None], name: str = "recv", tag: int = 0) -> Calls:
    """A rank that receives these from those ranks, or from anyone."""
    made: Calls = {}
    for n, (one, source) in enumerate(messages):
        named = [] if source is None else [source]
        call = Call([Typed(ZERO), *named], [Typed(one), *named], {"tag": tag})
        made[f"Distributed.{name}.{n}.forward"] = call
    return made


def in_a_group(calls: Calls, *ranks: int) -> Calls:
    group = {"type": "torch.ProcessGroup", "group_ranks": list(ranks)}
    group["group_id"] = group_key(ranks)
    return {
        name: call._replace(keywords={**call.keywords, "group": group})
        for name, call in calls.items()
    }


def batch(*operations: tuple[str, Floats, Floats, int]) -> Calls:
    """A call of many: what each does, its tensor before and after, and with whom."""
    sides: list[list[dict[str, Any]]] = [[], []]
    for kind, before, after, peer in operations:
        for side, tensor in zip(sides, (before, after), strict=True):
            head = {"class_type": "torch.distributed.P2POp", "tensor": Typed(tensor)}
            group = group_key((0, 1, 2))
            side.append({**head, "op": kind, "peer": peer, "tag": 0, "group_id": group})
    befores, afters = sides
    return {"Distributed.batch_isend_irecv.0.forward": Call([befores], [afters])}


def swapped(parts: Callable[[int, int], Floats], arrived: Callable[[int, int], Floats]) -> Any:
    """Three ranks that exchange lists; what a rank gives to another, and what it got of one."""

    def made(rank: int) -> Calls:
        given = [Typed(parts(rank, other)) for other in range(3)]
        empty = [Typed(np.zeros_like(parts(other, rank))) for other in range(3)]
        after = [Typed(arrived(rank, other)) for other in range(3)]
        return {"Distributed.all_to_all.0.forward": Call([empty, given], [after, given])}

    return [made(rank) for rank in range(3)]


def uneven(sender: int, receiver: int) -> Floats:
    """Parts of other lengths, one of them without any number."""
    return random(1, 70 + 3 * sender + receiver, (4 * ((sender + receiver) % 3), 6))[0]


CORRECT: dict[str, list[Calls]] = {
    "alike by statistics, in another order": [
        sent((UP, 2)),
        sent((DOWN, 2)),
        got((DOWN, None), (UP, None)),
    ],
    "anyone before a rank that is named": [
        got((B, None), (C, 1), (A, None)),
        sent((B, 0), (C, 0)),
        sent((A, 0)),
    ],
    "a rank that is named before anyone": [
        got((A, 2), (B, None), (D, None), (C, 1)),
        sent((B, 0), (C, 0)),
        sent((A, 0), (D, 0)),
    ],
    "one that waits gets what came last": [
        {**got((C, None), name="irecv"), **got((B, 1), (A, None))},
        sent((B, 0), (C, 0)),
        sent((A, 0)),
    ],
    "by tag": [
        {**got((A, None), tag=5), **got((B, None), tag=6, name="irecv")},
        sent((B, 0), tag=6),
        sent((A, 0), tag=5),
    ],
    "one of the senders is not recorded": [
        in_a_group(got((D, None), (B, None)), 0, 1, 3),
        in_a_group(sent((B, 0)), 0, 1, 3),
    ],
    "nobody says that one is not recorded": [got((D, None), (B, None)), sent((B, 0))],
    "a batch around a ring, and one from anyone": [
        {**batch(("isend", A, A, 1), ("irecv", ZERO, C, 2)), **got((D, None))},
        {**batch(("isend", B, B, 2), ("irecv", ZERO, A, 0)), **sent((D, 0))},
        batch(("isend", C, C, 0), ("irecv", ZERO, B, 1)),
    ],
    "uneven lists": swapped(uneven, lambda rank, other: uneven(other, rank)),
}


@pytest.mark.parametrize("name", CORRECT)
def test_nobody_is_accused_where_it_arrived(tmp_path: Path, name: str) -> None:
    verdict = verdict_of(tmp_path, CORRECT[name])
    assert verdict.suspects == ()
    assert verdict.conclusion == "clean"
    assert counts_of(verdict)["transfers"] >= 1


def test_of_uneven_lists_all_is_checked(tmp_path: Path) -> None:
    verdict = verdict_of(tmp_path, CORRECT["uneven lists"])
    assert counts_of(verdict) == {"transfers": 1}
    assert counts_of(verdict, "not_held") == {}


def exchanged(rank: int, other: int) -> Floats:
    """Rank 2 has what was meant for another."""
    if rank == 2 and other == 0:
        return uneven(0, 2)[::-1].copy()
    return uneven(other, rank)


WRONG: dict[str, tuple[list[Calls], set[tuple[int, str]], list[str]]] = {
    "one of several from anyone": (
        [got((UP, None), (C, None)), sent((DOWN, 0)), sent((C, 0))],
        {(0, "recv")},
        ["not_arrived"],
    ),
    "one of several that wait": (
        [got((UP, None), (C, None), name="irecv"), sent((DOWN, 0)), sent((C, 0))],
        {(0, "irecv")},
        ["not_arrived"],
    ),
    "twice the same": (
        [got((B, None), (B, None)), sent((B, 0)), sent((C, 0))],
        {(0, "recv")},
        ["not_arrived"],
    ),
    "from whom nobody knows": (
        [got((D, None), (B + 1, None)), sent((B, 0)), sent((C, 0))],
        {(0, "recv")},
        ["not_arrived.from_any"] * 2,
    ),
    "a part of a list": (swapped(uneven, exchanged), {(2, "all_to_all")}, ["not_arrived"]),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_arrived_otherwise_is_named(tmp_path: Path, name: str) -> None:
    ranks, wanted, says = WRONG[name]
    verdict = verdict_of(tmp_path, ranks)
    assert {(one.rank, one.node.split(".")[1]) for one in verdict.suspects} == wanted
    assert [one.facts[0].code for one in verdict.suspects] == says
