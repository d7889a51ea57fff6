"""Who put out what a call takes in, against the same looked up in plain records."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings

from msprobe_builder.align.evidence.flow import alike, guessed, inputs_of, outputs_of
from msprobe_builder.align.evidence.tolerances import EQUAL, NEAR
from tests.alignment.test_plain_decisions import operators_of
from tests.alignment.test_traits import Dump, numel
from tests.alignment.two_programs import (
    INPUT,
    KEYS,
    OUTPUT,
    PARAMETERS,
    Part,
    read_parts,
    two_programs,
)
from tests.builder.small_dumps import Record, forward, tensor
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS, Seeded


def leaf_of(part: Part, row: int) -> bool:
    return part.is_leaf(part.name_of[int(part.table.node[row])])


def makers(part: Part) -> list[int]:
    """Of each row the last call before in its micro-step that put out a tensor of this record.

    What was recorded of it counts instead, where it names what an earlier call put out.
    """
    table, origins = part.table, part.table.origins
    made = [one for one in range(len(table)) if table.section[one] == OUTPUT and leaf_of(part, one)]
    found = []
    for row, key in enumerate(part.keys):
        node = int(table.node[row])
        if table.section[row] != INPUT or not leaf_of(part, row):
            found.append(-1)
            continue
        before = [one for one in made if table.node[one] < node]
        told = -1 if origins is None else int(origins.maker[row])
        if told in before:
            found.append(told)
            continue
        same = [
            one
            for one in before
            if part.step[int(table.node[one])] == part.step[node]
            and key is not None
            and part.keys[one] == key
        ]
        found.append(same[-1] if same else -1)
    return found


def element_maker(part: Part, maker: list[int], row: int) -> int:
    """The row that made the elements of one, beyond calls that are known to keep them."""
    if maker[row] >= 0:
        return element_maker(part, maker, maker[row])
    node = int(part.table.node[row])
    if part.table.section[row] == OUTPUT and part.traits.keeps[node]:
        [given] = part.rows(part.name_of[node], INPUT)
        return element_maker(part, maker, given)
    return row


def keys_of(part: Part, maker: list[int]) -> list[object]:
    """What tells a tensor from others: its numbers, or who is recorded to have made it."""
    if part.table.origins is None:
        return [*part.keys]
    return [
        element_maker(part, maker, row)
        if key is None and part.table.is_tensor[row] and part.table.missing[row]
        else key
        for row, key in enumerate(part.keys)
    ]


def first_maker(part: Part, maker: list[int], row: int) -> int:
    """Beyond calls that put out the very tensor which they take in, and which somebody made."""
    keys = keys_of(part, maker)
    found = maker[row]
    while found >= 0:
        key = keys[found]
        given = [
            maker[one]
            for one in part.rows(part.name_of[int(part.table.node[found])], INPUT)
            if key is not None and keys[one] == key and maker[one] >= 0
        ]
        if not given:
            break
        found = given[0]
    return found


@settings(max_examples=costly_examples(25))
@given(RANDOMS)
def test_a_tensor_comes_from_the_last_call_that_put_it_out(random: Random) -> None:
    dump, _, _ = two_programs(random, 10)
    [part] = read_parts(random, [dump], origins=random.random() < 0.5)
    flow = part.flow
    maker = makers(part)
    first = [first_maker(part, maker, row) for row in range(len(part.table))]
    assert flow.producer.tolist() == maker
    assert flow.source.tolist() == first
    for row, key in enumerate(keys_of(part, maker)):
        assert flow.taken(row) == [one for one, made in enumerate(first) if made == row]
        assert (flow.key[row] != 0) == (key is not None)
    for name, node in part.nodes.items():
        assert [*flow.rows(node)] == part.rows(name, INPUT, OUTPUT, PARAMETERS)
        assert inputs_of(flow, node) == part.rows(name, INPUT, PARAMETERS)
        assert outputs_of(flow, node) == part.rows(name, OUTPUT)
        assert flow.is_leaf[node] == part.is_leaf(name)
    assert not flow.is_guessed


@settings(max_examples=costly_examples(25))
@given(RANDOMS)
def test_of_shapes_alone_the_last_of_that_shape_is_taken_but_of_no_twin(random: Random) -> None:
    """Twins are projections, or modules with matrices, of the same operator and shapes."""
    dump, _, _ = two_programs(random, 10)
    [part] = read_parts(random, [dump])
    products = ("linear", "matmul")
    numbers = [number for name, number in operators_of(part).items() if name in products]
    flow = guessed(part.traits, part.flow, np.array(numbers, dtype=np.int64))
    assert flow.is_guessed
    assert flow.source is flow.producer

    def kind(name: str) -> object:
        """What twins have in common; each other call is of a kind of its own."""
        shapes = [
            sorted(str(one["shape"]) for one in part.dump.tensors(name, section))
            for section in ("inputs", "parameters")
        ]
        stem = "" if name.startswith("Module") else name.split(".")[1]
        held = part.dump.tensors(name, "parameters")
        matrices = bool(held) and any(len(one["shape"]) != 1 for one in held)
        return (stem, *map(str, shapes)) if stem in products or matrices else name

    for row in range(len(part.table)):
        record, node = part.records[row], int(part.table.node[row])
        name = part.name_of[node]
        expected = -1
        if part.table.section[row] == INPUT and part.is_leaf(name) and numel(record) > 1:
            # Of each kind of call the last; of the calls those of the last two kinds.
            before = [
                other
                for other in range(row)
                if part.table.section[other] == OUTPUT
                and leaf_of(part, other)
                and part.records[other]["shape"] == record["shape"]
                and part.step[int(part.table.node[other])] == part.step[node]
                and kind(part.name_of[int(part.table.node[other])]) != kind(name)
            ]
            expected = before[-1] if before else -1
        assert flow.producer[row] == expected, (name, row)


def agree(one: Record, two: Record, share: float) -> bool:
    both = [(one[key], two[key]) for key in KEYS]
    if numel(one) != numel(two) or any(x is None or y is None for x, y in both):
        return False
    if not np.isfinite([x for pair in both for x in pair]).all():
        return False
    largest = max(abs(x) for pair in both[:2] for x in pair)
    units = [largest, largest, largest, max(map(abs, both[3]))]
    return all(abs(x - y) <= share * unit for (x, y), unit in zip(both, units, strict=True))


@settings(max_examples=costly_examples(25))
@given(RANDOMS)
def test_statistics_are_alike_within_a_share_of_the_norm_and_of_the_largest(
    random: Random,
) -> None:
    first, second, _ = two_programs(random)
    parts = read_parts(random, [first, second])
    share = random.choice([EQUAL, NEAR])
    # Each statistic is moved by itself to either side of what is allowed, in turn.
    for part in parts:
        for key in range(4):
            by = random.choices([0.0, 0.0, 0.0, share / 3, -share * 3, np.inf], k=len(part.table))
            part.table.statistics[key] += by
    rows = [np.arange(len(part.table)) for part in parts]
    found = alike(parts[0].table, parts[1].table, rows[0], rows[1], share)

    def record(part: Part, row: int) -> Record:
        values = [None if np.isnan(one) else float(one) for one in part.table.statistics[:, row]]
        return {**part.records[row], **dict(zip(KEYS, values, strict=True))}

    for i, j in product(*(one.tolist() for one in rows)):
        assert found[i, j] == agree(record(parts[0], i), record(parts[1], j), share), (i, j)


@pytest.mark.parametrize(("more", "is_alike"), [(0.9, True), (1.1, False)])
@pytest.mark.parametrize("key", range(4))
def test_a_statistic_is_alike_up_to_the_tolerance(key: int, more: float, is_alike: bool) -> None:
    """Of the norm its own share, of the others one of the largest element, wherever that is."""
    call = {"Torch.relu.0.forward": forward([], [tensor()])}
    random = Seeded(0)
    first, second = (
        part.table for part in read_parts(random, [Dump(call, dict.fromkeys(call))] * 2)
    )
    row = np.array([0])
    for norm, high, low in ((8.0, 4.0, -1.0), (8.0, 1.0, -4.0)):
        for table in (first, second):
            table.statistics[:, 0] = high, low, 0.0, norm
        second.statistics[key, 0] -= more * EQUAL * (norm if key == 3 else 4.0)
        assert alike(first, second, row, row, EQUAL)[0, 0] == is_alike
