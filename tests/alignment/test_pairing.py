"""Steps of alignment by themselves: random models of two authors, of which some pairs are known."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings

from msprobe_builder.align.evidence.operators import forms, moves, numbers_of
from msprobe_builder.align.evidence.scores import Known
from msprobe_builder.align.evidence.traits import Traits, traits_of
from msprobe_builder.align.evidence.trust import Trust
from msprobe_builder.align.evidence.words import Words
from msprobe_builder.align.groups.no_groups import are_pairs
from msprobe_builder.align.pairing.across import around
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.base.codes import Kind
from msprobe_builder.base.texts import Texts
from msprobe_builder.graph.side import Side
from msprobe_builder.match.matching import Group, inverse
from msprobe_builder.match.outline import outline_of
from msprobe_builder.operators.questions import any_of
from msprobe_builder.pipeline.compare import read_rank
from tests.alignment.generated import model, some_shape, some_style, truth
from tests.alignment.respell import Recording
from tests.builder.small_dumps import forward, tensor
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS


@dataclass(frozen=True)
class Sides:
    """Two recordings as alignment begins with them, and their nodes by name."""

    pairs: Pairs
    npu: dict[str, int]
    bench: dict[str, int]


def sides_of(npu: Recording, bench: Recording, known_pairs: dict[str, str]) -> Sides:
    texts, operators = Texts(), dict[str, int]()
    read: list[tuple[Side, Traits]] = []
    for one in (npu, bench):
        side, _ = read_rank(one.source(), texts)
        outline = outline_of(side.tree, side.table)
        read.append((side, traits_of(side, outline, operators, texts)))
    (left, own), (right, other) = read
    names, others = (
        {name: node for node, name in enumerate(side.tree.names)} for side in (left, right)
    )
    partner = np.full(len(own), -1, dtype=np.int64)
    partner[0] = 0
    for name, its in known_pairs.items():
        partner[names[name]] = others[its]
    none, none_there = (np.full(len(one), -1, dtype=np.int64) for one in (own, other))
    zero, zero_there = (np.zeros(len(one), dtype=np.int64) for one in (own, other))
    known = Known(
        exact=none,
        words=Words(left.tree),
        other_words=Words(right.tree),
        stem=zero,
        other_stem=zero_there,
        call=left.tree.calls.call,
        other_call=right.tree.calls.call,
        twin=none,
        other_twin=none_there,
        trust=Trust(),
        layouts=np.empty(0, np.int64),
        padded=np.empty(0, np.int64),
        moving=numbers_of(operators, any_of(moves, forms)),
        products=np.empty(0, np.int64),
        taking=np.empty(0, np.int64),
        site=zero,
        other_site=zero_there,
        hands_on=none,
        other_hands_on=none_there,
        guess=none,
        other_guess=none_there,
    )
    pairs = Pairs(
        own,
        other,
        known,
        partner,
        inverse(partner, len(other)),
        np.zeros(len(own), dtype=np.int64),
        np.zeros(len(own)),
        np.zeros(len(own), dtype=bool),
    )
    return Sides(pairs, names, others)


def host(side: Traits, partner: np.ndarray, node: int) -> int:
    """The nearest module above a node that has a partner, one step up after the other."""
    tree = side.outline.tree
    above = int(tree.parent[node])
    while above > 0 and (partner[above] < 0 or side.outline.kind[above] != Kind.MODULE):
        above = int(tree.parent[above])
    return max(above, 0)


@settings(max_examples=costly_examples(8))
@given(RANDOMS)
def test_around_is_whose_host_holds_the_other(random: Random) -> None:
    shape = some_shape(random)
    npu, bench = (model(shape, some_style(random)) for _ in range(2))
    right, _ = truth(npu, bench)
    some = {name: right[name] for name in right if random.random() < 0.5}
    pairs = sides_of(npu, bench, some).pairs
    a, b = np.arange(1, len(pairs.npu)), np.arange(1, len(pairs.bench))
    found = around(pairs, a, b)
    ends = pairs.npu.outline.tree.subtree_end, pairs.bench.outline.tree.subtree_end
    for (row, i), (column, j) in product(enumerate(a.tolist()), enumerate(b.tolist())):
        there = int(pairs.partner[host(pairs.npu, pairs.partner, i)])
        here = int(pairs.back[host(pairs.bench, pairs.back, j)])
        is_held = there < j <= ends[1][there] or here < i <= ends[0][here]
        assert found[row, column] == is_held


# Calls of both sides of a group that was found by its place, and which of them are pairs: one side
# merely moves numbers, by calls that the other side makes in that order among others.
TURN, SPREAD, TIMES, RISE = "Tensor.transpose", "Tensor.reshape", "Tensor.__mul__", "Torch.exp"
BY_PLACE = [
    ([TURN], [TURN, TIMES], {0: 0}),
    ([TURN], [TIMES, TURN], {0: 1}),
    ([TURN, SPREAD], [TURN, TIMES, SPREAD], {0: 0, 1: 2}),
    ([TURN, SPREAD], [SPREAD, TIMES, TURN], None),  # in another order
    ([TURN], [TURN, SPREAD], None),  # both merely move: they may come to the same
    ([TIMES], [TIMES, TURN], None),  # the one computes
    ([TURN], [TIMES, RISE], None),
    ([TIMES], [TIMES], {0: 0}),
    ([TIMES], [RISE], None),
]


def calls(stems: list[str], shape: tuple[int, ...] = (4, 6), high: float = 1.5) -> Recording:
    data = {
        f"{stem}.0.forward": forward([tensor(shape=shape)], [tensor(2.5, high=high, shape=shape)])
        for stem in stems
    }
    head = {"task": "statistics", "level": "mix", "framework": "pytorch"}
    return Recording(head, data, dict.fromkeys(data), {name: name for name in data})


@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("by_place", [True, False])
@pytest.mark.parametrize(("few", "many", "expected"), BY_PLACE)
def test_a_group_that_is_no_more_than_equal_calls_is_pairs(
    few: list[str],
    many: list[str],
    expected: dict[int, int] | None,
    *,
    by_place: bool,
    is_turned: bool,
) -> None:
    recordings = (calls(many), calls(few)) if is_turned else (calls(few), calls(many))
    sides = sides_of(*recordings, {})
    nodes = [
        tuple(sorted(names[name] for name in one.data))
        for one, names in zip(recordings, (sides.npu, sides.bench), strict=True)
    ]
    group = Group("", nodes[0], nodes[1], (), 1.0)
    if not by_place:  # one call on each side is a pair by its values, whatever it is called
        expected = {0: 0} if len(many) == 1 else None
    assert are_pairs(sides.pairs, group, by_place=by_place) == (expected is not None)
    found = {
        (nodes[0].index(i), nodes[1].index(int(sides.pairs.partner[i])))
        for i in nodes[0]
        if sides.pairs.partner[i] >= 0
    }
    assert found == {pair[:: -1 if is_turned else 1] for pair in (expected or {}).items()}


@pytest.mark.parametrize(("stems", "high"), [((TIMES, RISE), 1.0), ((TURN, TIMES), 1.5)])
def test_equal_values_of_whole_numbers_or_of_what_moves_are_no_pair(
    stems: tuple[str, str], high: float
) -> None:
    sides = sides_of(calls([stems[0]], high=high), calls([stems[1]], high=high), {})
    here, there = (f"{one}.0.forward" for one in stems)
    group = Group("", (sides.npu[here],), (sides.bench[there],), (), 1.0)
    assert not are_pairs(sides.pairs, group, by_place=False)


def test_equal_calls_that_put_out_another_size_are_no_pairs() -> None:
    sides = sides_of(calls([TURN]), calls([TURN], (4, 7)), {})
    group = Group(
        "", (sides.npu[f"{TURN}.0.forward"],), (sides.bench[f"{TURN}.0.forward"],), (), 1.0
    )
    assert not are_pairs(sides.pairs, group, by_place=True)
