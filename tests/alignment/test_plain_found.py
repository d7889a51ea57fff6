"""Which groups values show, and what all groups have in common."""

from __future__ import annotations

from collections.abc import Collection
from itertools import product
from random import Random

import numpy as np
from hypothesis import given, settings

from msprobe_builder.align.evidence.tolerances import EQUAL
from msprobe_builder.align.groups import find
from msprobe_builder.align.groups.find import Region, _Slices
from msprobe_builder.align.pairing.edges import Kinds
from msprobe_builder.match.matching import Group
from tests.alignment.drawn_fused import Writer, fresh, fused_programs
from tests.alignment.test_plain_groups import Drawn, is_new, name_at, of_drawn, sliced
from tests.alignment.test_plain_tensors import agree
from tests.alignment.test_traits import Dump
from tests.alignment.two_programs import Part
from tests.builder.small_dumps import Record
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

Rows = list[tuple[int, int]]


def groups_of(drawn: Drawn, slices: list[_Slices], certainty: float) -> list[Group]:
    return [find._group(drawn.pairs, one, certainty) for one in find._joined(slices)]


def nodes(part: Part, names: Collection[str]) -> list[int]:
    return sorted(part.nodes[one] for one in names)


@of_drawn
def test_values_show_groups_whose_output_both_sides_make_anew(drawn: Drawn) -> None:
    """From tensors that both have to one that a call of each puts out and was not given."""
    left, right = drawn.parts
    region = [
        drawn.random.sample([one for one in part.nodes if part.is_leaf(one)], k)
        for part in drawn.parts
        for k in [sum(map(part.is_leaf, part.nodes)) * 3 // 4]
    ]
    members = [nodes(part, names) for part, names in zip(drawn.parts, region, strict=True)]
    rows, others = (
        [row for row in range(len(part.table)) if name_at(part, row) in names and part.keys[row]]
        for part, names in zip(drawn.parts, region, strict=True)
    )
    same = [
        (one, two)
        for one, two in product(rows, others)
        if agree(left.records[one], right.records[two], EQUAL)
    ]
    common, there = {one for one, _ in same}, {two for _, two in same}
    found = []
    for row in rows:
        places = [two for one, two in same if one == row and is_new(right, two)]
        if not is_new(left, row) or not places:
            continue
        mine = sliced(left, row, region[0], common)
        its = sliced(right, places[0], region[1], there)
        # What goes in on both sides: each row once, the first that is left.
        free = find._slice(right.flow, places[0], {*members[1]}, frozenset(there)).inputs
        inputs: Rows = []
        for one in find._slice(left.flow, row, {*members[0]}, frozenset(common)).inputs:
            fitting = [two for own, two in same if own == one and two in free]
            if fitting:
                inputs.append((one, fitting[0]))
                free.remove(fitting[0])
        if inputs:
            made = nodes(left, mine[0]), nodes(right, its[0])
            found.append(_Slices(*made, [*inputs, (row, places[0])]))
    expected = [one for one in groups_of(drawn, found, 0.98) if find._has_open(drawn.pairs, one)]
    if not drawn.pairs.known.trust.equal:
        expected = []
    assert find._by_values(drawn.pairs, left.flow, right.flow, Region(*members)) == expected


def between_pairs(random: Random) -> tuple[Dump, Dump, list[tuple[str, str]]]:
    """What makes a tensor of others and what takes it in are pairs; what is between is none."""
    writers = Writer(), Writer()
    both: list[tuple[str, str]] = []
    for _ in range(random.randint(1, 2)):
        makers: list[list[Record]] = []
        for place in range(random.choice([1, 1, 2])):
            names = []
            for side, writer in enumerate(writers):
                made = [fresh(random, (2, 4)) for _ in range(random.choice([1, 1, 1, 2]))]
                makers.append(made) if side == 0 else makers[place].extend(made)
                names.append(writer.call("Torch.exp", [fresh(random, (2, 4))], made))
            both.append((names[0], names[1]))
        shape = random.choice([(2, 4), (8,)])
        same = fresh(random, (2, 4))
        stem = random.choice(["Torch.add", "Torch.add", "Tensor.view", "Torch.relu"])
        names = []
        for writer, own in zip(writers, (0, -1), strict=True):
            given = [one[own] for one in makers]
            for _ in range(random.choice([0, 0, 1, 2])):
                inner = fresh(random, (2, 4))
                writer.call(random.choice(["Torch.mul", "Torch.relu"]), given, [inner])
                given = [inner, *given[1:]]
            out = fresh(random, shape if random.random() < 0.85 else (3, 4))
            made = [out, fresh(random)][: random.choice([1, 1, 2])]
            writer.call("Torch.matmul", given, made)
            if random.random() < 0.2:  # what hands it on is seen through
                again = {**out, "shape": [8]} if out["shape"] != [3, 4] else out
                writer.call("Tensor.view", [out], [again])
            more = [fresh(random) for _ in range(random.choice([0, 1, 1]))]
            taken = [*more, out] if random.random() < 0.8 else [out, *more]
            result = [same] if random.random() < 0.3 else [fresh(random, (2, 4))]
            names.append(writer.call(stem, taken, result))
        both.append((names[0], names[1]))
    return writers[0].dump, writers[1].dump, both


@settings(max_examples=costly_examples(80))
@given(RANDOMS)
def test_groups_are_found_by_values_then_between_pairs(random: Random) -> None:
    """A call is in one group, and has no partner then; what is between comes of the same."""
    programs = random.choice([None, between_pairs, between_pairs, fused_programs])
    drawn = Drawn(random, programs(random) if programs else None)
    left, right = drawn.parts
    pairs = drawn.pairs
    sums, maps = (
        frozenset(drawn.numbers[one] for one in names if one in drawn.numbers)
        for names in (("add",), ("linear", "matmul"))
    )
    asked = np.flatnonzero(pairs.asked & (pairs.partner >= 0))
    before = pairs.partner[asked].tolist()
    found = find.find_groups(pairs, left.flow, right.flow, Kinds(sums, frozenset(), maps))
    for side, partner in ((0, pairs.partner), (1, pairs.back)):
        members = [node for one in found for node in (one.npu, one.bench)[side]]
        assert len(members) == len({*members})
        assert all(partner[node] < 0 for node in members)
        assert all(drawn.parts[side].flow.is_leaf[node] for node in members)
    assert all(one.npu and one.bench for one in found)
    for one in found:
        for part, nodes_of, rows in zip(
            drawn.parts, (one.npu, one.bench), zip(*one.rows, strict=True), strict=False
        ):
            assert {int(part.table.node[row]) for row in rows} <= {*nodes_of}
    if not pairs.known.trust.equal:
        assert 0.98 not in [one.certainty for one in found]
        assert pairs.partner[asked].tolist() == before
    if not pairs.known.trust.weights:
        assert 0.95 not in [one.certainty for one in found]
    partners = np.flatnonzero(pairs.partner >= 0)
    assert (pairs.back[pairs.partner[partners]] == partners).all()
