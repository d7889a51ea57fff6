"""Ranks with tokens of their own: what must hold of each tensor, whatever was called before."""

from __future__ import annotations

import tempfile
from pathlib import Path
from random import Random

from hypothesis import given, settings

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.merge.flow.context import Slicing, classify_tokens
from msprobe_builder.merge.flow.share import Share
from msprobe_builder.pipeline.compare import read_rank
from tests.builder.small_dumps import Record, forward, tensor, write_dump
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

LENGTH, RANKS = 6, 2
SHAPES = ((LENGTH, 4), (3, LENGTH), (4, 4), (8,), ())
CALLS = ("Torch.relu", "Torch.add", "Torch.matmul", "Torch.sum", "Tensor.view", "Torch.cat")


def some_tensors(random: Random, *, same: bool | None = None) -> list[Record]:
    """One tensor by rank, equal on all of them or not."""
    shape = random.choice(SHAPES)
    is_same = random.random() < 0.5 if same is None else same
    norms = [random.uniform(1, 9)] * RANKS if is_same else [random.uniform(1, 9) for _ in "ab"]
    return [tensor(norm, high=norm / 2, low=-norm / 3, mean=0.1, shape=shape) for norm in norms]


def some_ranks(random: Random) -> tuple[list[dict[str, Record]], dict[str, str | None]]:
    """Calls of a module with weights, given weights, new tensors or what calls before put out."""
    net = "Module.net.Net.forward.0"
    weights = some_tensors(random, same=True)
    tensors = [weights, some_tensors(random)]
    ranks: list[dict[str, Record]] = [{net: {}} for _ in range(RANKS)]
    construct: dict[str, str | None] = {net: None}
    for number in range(random.randint(1, 6)):
        name = f"{random.choice(CALLS)}.{number}.forward"
        given = random.choices([*tensors, some_tensors(random)], k=random.randint(1, 2))
        made = some_tensors(random)
        tensors.append(made)
        construct[name] = net
        for rank, data in enumerate(ranks):
            data[name] = forward([one[rank] for one in given], [made[rank]])
    for rank, data in enumerate(ranks):
        data[net] = forward([tensors[1][rank]], [tensors[-1][rank]])
        data[net]["parameters"] = {"weight": weights[rank]}
    return ranks, construct


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_what_ranks_hold_otherwise_is_shown_for_all_only_of_weights(random: Random) -> None:
    """A number alone has no parts, and what is cut is cut along a dimension that it has."""
    ranks, construct = some_ranks(random)
    texts = Texts()
    with tempfile.TemporaryDirectory() as folder:
        sides = [
            read_rank(write_dump(Path(folder) / str(rank), data, construct), texts)[0]
            for rank, data in enumerate(ranks)
        ]
    tables = [side.table for side in sides]
    slicing = random.choice([None, Slicing(LENGTH, (3,))])
    states = classify_tokens(sides[0].tree, tables, texts, [0, 1], slicing)
    for row, state in enumerate(states):
        one, other = (table.statistics[:, row] for table in tables)
        shape = [
            int(size)
            for size in texts.values[tables[0].shape_id[row]].strip("[]").split(",")
            if size
        ]
        if tables[0].section[row] == Section.PARAMETERS:
            assert state.share is Share.REPLICA
        elif state.share is Share.REPLICA:
            assert (one == other).all()
        if state.share is Share.SHARD:
            assert shape
        if state.cut is not None:
            assert state.cut.dimension < len(shape)
