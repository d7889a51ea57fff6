"""What a run without a reference is checked by, against the same in plain values."""

from __future__ import annotations

from math import nan
from random import Random

import numpy as np
import pytest
from hypothesis import given

from msprobe_builder.base.codes import Direction, Kind
from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.evidence import read_runs
from msprobe_builder.sketch.definition import NUMBERS
from tests.small_graphs import RANDOMS, Node, Pair, Seeded, random_pair, written


def sketch(random: Random) -> bytes | None:
    """Numbers of a sketch; some hold what is no number."""
    numbers = np.array([random.random() for _ in range(NUMBERS)], "<f4")
    if random.random() < 0.2:
        numbers[random.randrange(NUMBERS)] = np.inf
    return numbers.tobytes() if random.random() < 0.8 else None


@given(RANDOMS)
def test_tensors_have_their_sketches_and_makers(random: Random) -> None:
    pair = random_pair(random)
    nodes = pair.sides[0]
    tensors = {
        (node.node, place): one
        for node in nodes.values()
        for place, one in enumerate(node.parameters)
        if one.shape is not None
    }
    rows = {
        at: (
            sketch(random),
            random.choice((0, 0, 0, 1, 3, None)),
            random.choice((None, 1, 2, 5)),
            random.choice([(None, None), (None, 0), *tensors]),
        )
        for at in random.sample(list(tensors), random.randint(0, len(tensors)))
    }
    with written([pair]) as connection:
        connection.executemany(
            "INSERT INTO evidence VALUES (?, ?, ?, ?, ?, ?, ?, 1)",
            [(*at, *row[:3], *row[3]) for at, row in rows.items()],
        )
        connection.execute("DELETE FROM graph WHERE side = 1")
        [(run, _)] = read_runs(connection)
    rank = run.ranks[pair.rank]
    found = {(one.node, one.ordinal): one for several in rank.tensors.values() for one in several}
    assert found.keys() == rows.keys()
    for at, (numbers, left_out, maker, made_at) in rows.items():
        one, true = found[at], tensors[at]
        finite = numbers is not None and np.isfinite(np.frombuffer(numbers, "<f4")).all()
        if finite and left_out == 0:
            assert one.sketch is not None
            assert one.sketch.tobytes() == numbers
        else:
            assert one.sketch is None, "a part of a tensor says nothing of all of it"
        assert one.maker == maker
        assert one.made_at == (None if None in made_at else made_at)
        assert (one.section, one.shape, one.dtype) == (true.section, true.shape, true.dtype)
        assert (one.largest, one.least) == (true.extremes or (None, None))
        assert repr(one.norm) == repr(nan if true.is_nan else true.norm)
        assert one.maker_name == "input.0"
    for name in rank.nodes:
        assert name in nodes
    with_evidence = {node for node, _ in rows}
    forward = {one.node for one in nodes.values() if one.kind == Kind.MODULE and one.direction == 1}
    assert rank.nodes.keys() == with_evidence | forward


@given(RANDOMS)
def test_calls_are_counted_by_the_module_that_makes_them(random: Random) -> None:
    pair = random_pair(random)
    nodes = pair.sides[0]
    with written([pair]) as connection:
        connection.execute("DELETE FROM graph WHERE side = 1")
        [(run, children)] = read_runs(connection)
    expected: dict[str, dict[str, int]] = {}
    calls: dict[str, int] = {}
    for one in nodes.values():
        if one.direction != Direction.FORWARD:
            continue
        is_call = one.kind == Kind.API
        word = one.stem if is_call else one.operator
        if is_call:
            calls[word] = calls.get(word, 0) + 1
        above = nodes.get(one.parent or -1)
        if above is not None and is_forward_module(above):
            made = expected.setdefault(above.name, {})
            made[word] = made.get(word, 0) + 1
    assert run.ranks[pair.rank].calls == calls
    assert children[pair.rank] == expected


def is_forward_module(node: Node) -> bool:
    return node.kind == Kind.MODULE and node.direction == Direction.FORWARD


@pytest.mark.parametrize("numbers", [b"", bytes(4 * NUMBERS - 1), bytes(4 * NUMBERS + 4), "text"])
def test_a_sketch_of_another_length_is_damage(numbers: object) -> None:
    pair: Pair
    number = 0
    while True:
        pair = random_pair(Seeded(number))
        some = [
            (one.node, place)
            for one in pair.sides[0].values()
            for place, tensor in enumerate(one.parameters)
            if tensor.shape
        ]
        if some:
            break
        number += 1
    with written([pair]) as connection:
        connection.execute(
            "INSERT INTO evidence VALUES (?, ?, ?, 0, NULL, NULL, NULL, NULL)", (*some[0], numbers)
        )
        connection.execute("DELETE FROM graph WHERE side = 1")
        with pytest.raises(DamagedError, match=f"{NUMBERS} numbers"):
            read_runs(connection)
