"""What is read of suspects in small random graphs, against the same in plain values."""

from __future__ import annotations

import shlex
import sqlite3
from random import Random

from hypothesis import given

from msprobe_builder.base.codes import CallRole, Direction, Kind, Strength
from msprobe_builder.database.read.verdict import Suspect, read_verdict
from msprobe_builder.facts.fact import Facts, encode, fact
from tests.small_graphs import RANDOMS, Node, Pair, random_pair, written

RANKS = 2
CALLS = (
    *("Torch.add", "Distributed.all_reduce", "Mint.add", "MintFunctional.gelu"),
    *("Primitive.add", "Jit.add", "Functional.distributed"),
)
CAUSES = ("number", "missing", "extra", "wiring")
SAID: tuple[Facts, ...] = ((fact("probability", percent=37),), ())


@given(RANDOMS)
def test_suspects_are_told_in_order_with_what_runs_them_again(random: Random) -> None:
    pairs = [random_pair(random, rank) for rank in range(RANKS)]
    pairs[0].roles.setdefault(min(pairs[0].sides[0]), int(CallRole.CLEAN))  # there is a verdict
    for pair in pairs:
        for side in pair.sides:
            for node in side.values():
                if node.kind == Kind.API:
                    node.stem = random.choice(CALLS)
    with written(pairs) as connection:
        right = {
            place: suspect
            for pair in pairs
            for place, suspect in add_suspects(connection, random, pair)
            if place is not None
        }
        found = read_verdict(connection)
        assert found is not None
        assert list(found.suspects) == [right[place] for place in sorted(right)]
        strong = [one.step for one in right.values() if one.strength == "strong"]
        assert found.first_bad_step == min(strong, default=None)


def add_suspects(
    connection: sqlite3.Connection, random: Random, pair: Pair
) -> list[tuple[int | None, Suspect]]:
    """Some suspects of a rank by their place in the file, of step 5 less the rank."""
    step = 5 - pair.rank
    connection.execute("UPDATE graph SET step = ? WHERE rank = ?", (step, pair.rank))
    made = []
    for number, side in enumerate(pair.sides):
        framework = random.choice((None, "pytorch", "MindSpore", "mindspore", ""))
        folder = random.choice(("", "/dumps/a b", "/dumps/\n"))
        connection.execute(
            "UPDATE graph SET framework = ?, dump_dir = ? WHERE rank = ? AND side = ?",
            (framework, folder, pair.rank, number),
        )
        for node in random.sample([*side.values()], random.randint(0, min(4, len(side)))):
            is_torch = framework not in ("MindSpore", "mindspore")
            made.append(add(connection, random, pair, number, node, (is_torch, folder, step)))
    return made


def add(
    connection: sqlite3.Connection,
    random: Random,
    pair: Pair,
    side: int,
    node: Node,
    run: tuple[bool, str, int],
) -> tuple[int | None, Suspect]:
    """One suspect, and how it is told."""
    is_torch, folder, step = run
    is_torch &= not node.name.startswith(("Mint", "Primitive.", "Jit."))
    place = random.choice((None, node.node, 9000 - node.node))  # in the file, in any order
    strength, cause = random.choice((1, 2)), random.choice((*CAUSES, "number", "wiring"))
    error, expected = random.choice((None, 0.5)), random.choice((None, 0.25))
    source, said = random.choice((None, "train.py:7")), random.choice(SAID)
    told = random.choice((None, None, None, "5,1", "4"))
    ranks: tuple[int, ...] = {"5,1": (1, 5), "4": (4,)}.get(told or "", ())
    followers = random.randrange(5)
    connection.execute(
        "INSERT INTO suspect VALUES (NULL, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            node.node, place, strength, cause, error, expected, followers, source, encode(said),
            told,
        ),
    )  # fmt: skip
    if told is None:
        ranks = add_ranks(connection, random, node.node)
    check = random.choice((None, "passed", "failed", "not tested"))
    times = random.choice((None, 12.0))
    if check is not None:
        connection.execute(
            "INSERT INTO operator_check VALUES (?, ?, 'device', ?, '')", (node.node, check, times)
        )
    again: Facts = ()
    if check == "failed":
        by = None if times is None else fact("run_again.by", times=fact("times", times="12"))
        again = (fact("run_again.failed", by=by),)
    elif check == "passed":
        again = (fact("run_again.passed"),)
    runs_alone = node.kind == Kind.API and is_torch and not node.name.startswith("Distributed.")
    command = None
    if runs_alone and not ranks and folder and cause in ("number", "wiring"):
        call = node.name.removesuffix(f".{Direction(node.direction).name.lower()}")
        shown = shlex.quote(folder.replace("\n", "\\n"))
        command = f"msprobe-operators check {shown} --call {call}"
    return place, Suspect(
        step=step,
        rank=pair.rank,
        side=("npu", "bench")[side],
        node_id=node.node,
        node=node.name,
        direction=Direction(node.direction).name.lower(),
        strength=Strength(strength).name.lower(),
        cause=cause,
        error=error,
        expected=expected,
        followers=followers,
        source=source,
        facts=(*said, *again),
        ranks=ranks,
        check=check,
        command=command,
        is_of_torch=is_torch,
    )


def add_ranks(connection: sqlite3.Connection, random: Random, node: int) -> tuple[int, ...]:
    """What ranks a merged node came from, and which of them disagree where; these are told."""
    kind = random.choice(("none", "none", "merged", "off", "either", "later"))
    if kind == "none":
        return ()
    for rank in (2, 0):
        connection.execute("INSERT INTO origin VALUES (?, ?)", (node, rank))
    if kind == "merged":
        return (0, 2)
    insert = (
        "INSERT INTO disagreement (node_id, ordinal, rank, kind, shown_rank, suspect, is_origin,"
        " difference) VALUES (?, ?, ?, 0, ?, ?, ?, 1)"
    )
    suspect = 7 if kind == "off" else None
    connection.execute(insert, (node, 0, 7, 3, suspect, kind != "later"))
    connection.execute(insert, (node, 1, 8, 9, 8, False))
    return {"off": (7,), "either": (3, 7), "later": (0, 2)}[kind]
