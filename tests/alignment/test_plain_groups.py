"""Groups that values and places show, against the same told one tensor at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import product
from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings

from msprobe_builder.align.evidence.tolerances import EQUAL
from msprobe_builder.align.evidence.trust import Trust, levels
from msprobe_builder.align.groups import find
from msprobe_builder.align.groups.fused import name_of
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.base.codes import Evidence
from msprobe_builder.match.matching import Group
from tests.alignment.test_plain_decisions import operators_of, paired
from tests.alignment.test_plain_tensors import agree
from tests.alignment.test_traits import Dump, numel
from tests.alignment.two_programs import (
    INPUT,
    OUTPUT,
    PARAMETERS,
    Part,
    read_parts,
    two_programs,
)
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

Test = Callable[["Drawn"], None]


class Drawn:
    """Two programs, some of whose calls are pairs, and what is not paired."""

    def __init__(
        self, random: Random, programs: tuple[Dump, Dump, list[tuple[str, str]]] | None = None
    ) -> None:
        self.random = random
        first, second, both = programs or two_programs(random)
        self.left, self.right = read_parts(random, [first, second])
        share = 0.95 if programs else random.choice([0.75, 1.0])
        kept = [pair for pair in both if random.random() < share]
        if random.random() < (0.02 if programs else 0.2):
            kept = [*zip([a for a, _ in kept], random.sample([b for _, b in kept], len(kept)))]  # noqa: B905
        hosts = {name for name in self.left.nodes if not self.left.is_leaf(name)}
        there = {name for name in self.right.nodes if not self.right.is_leaf(name)}
        kept += [(one, one) for one in hosts & there if random.random() < 0.8]
        self.partner = dict(kept)
        self.back = {two: one for one, two in kept}
        trust = Trust(
            equal=random.choice([0.0, 2.0, 2.0]),
            same_sizes=random.random() < 0.7,
            weights=random.choice([0.0, 1.5]),
        )
        numbers = operators_of(self.left) | operators_of(self.right)

        def of(*names: str) -> Any:
            return np.array([numbers[one] for one in names if one in numbers], dtype=np.int64)

        self.numbers = numbers
        self.pairs: Pairs = paired(
            self.left,
            self.right,
            [(0, 0), *((self.left.nodes[a], self.right.nodes[b]) for a, b in kept)],
            trust=trust,
            moving=of("view", "to"),
            products=of("linear", "matmul"),
            sums=of("add"),
        )
        for node in self.left.nodes.values():
            if self.pairs.partner[node] >= 0:
                self.pairs.evidence[node] = random.choice([0, 2, 2, 3])
                self.pairs.asked[node] = random.random() < 0.1

    @property
    def parts(self) -> tuple[Part, Part]:
        return self.left, self.right

    def free(self) -> tuple[list[str], list[str]]:
        return (
            [one for one in self.left.nodes if self.left.is_leaf(one) and one not in self.partner],
            [one for one in self.right.nodes if self.right.is_leaf(one) and one not in self.back],
        )

    def nodes(self, side: int, names: Collection[str]) -> list[int]:
        return sorted(self.parts[side].nodes[one] for one in names)

    def leave_alone(self, name: str) -> None:
        """Take a pair apart."""
        self.pairs.drop(self.left.nodes[name])
        del self.back[self.partner.pop(name)]

    def evidence(self, name: str) -> int:
        return int(self.pairs.evidence[self.left.nodes[name]])


def of_drawn(test: Test) -> Callable[[], None]:
    """A test of drawn programs."""

    @settings(max_examples=costly_examples(30))
    @given(RANDOMS)
    def tried(random: Random) -> None:
        test(Drawn(random))

    tried.__name__ = test.__name__
    return tried


def name_at(part: Part, row: int) -> str:
    return part.name_of[int(part.table.node[row])]


def is_new(part: Part, row: int) -> bool:
    """Whether a call that is given something puts out here what it was not given."""
    given = part.rows(name_at(part, row), INPUT, PARAMETERS)
    keys = [part.keys[one] for one in given]
    return bool(part.table.section[row] == OUTPUT and given) and part.keys[row] not in keys


@of_drawn
def test_what_a_call_makes_anew_it_was_not_given(drawn: Drawn) -> None:
    part = drawn.left
    inside = drawn.random.sample([*part.nodes], len(part.nodes) // 2)
    for row in range(len(part.table)):
        assert find._is_new(part.flow, row) == is_new(part, row)
    rows = find._rows(part.flow, drawn.nodes(0, inside)).tolist()
    assert rows == [
        row
        for row in range(len(part.table))
        if name_at(part, row) in inside and part.keys[row] is not None
    ]


def sliced(part: Part, row: int, inside: Collection[str], common: Collection[int]) -> Any:
    """The calls inside by which a tensor is made, and the rows that go into them."""
    nodes, rows = set[str](), set[int]()

    def visit(name: str) -> None:
        if name in nodes:
            return
        nodes.add(name)
        for taken in part.rows(name, INPUT, PARAMETERS):
            source = int(part.flow.producer[taken])
            if source >= 0 and taken not in common and name_at(part, source) in inside:
                visit(name_at(part, source))
            else:
                rows.add(taken)

    visit(name_at(part, row))
    return nodes, rows


@of_drawn
def test_a_slice_goes_back_to_what_both_have_or_comes_from_outside(drawn: Drawn) -> None:
    part, random = drawn.left, drawn.random
    inside = random.sample([*part.nodes], 2 * len(part.nodes) // 3)
    common = frozenset(row for row in range(len(part.table)) if random.random() < 0.2)
    for row in (row for name in part.nodes for row in part.rows(name, OUTPUT)):
        found = find._slice(part.flow, row, {part.nodes[one] for one in inside}, common)
        names, rows = sliced(part, row, inside, common)
        assert found.nodes == {part.nodes[one] for one in names}
        assert sorted(found.inputs) == sorted(rows)


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_slices_that_share_a_call_are_one_group(random: Random) -> None:
    def some(size: int) -> list[int]:
        return sorted(random.sample(range(12), size))

    slices = [
        find._Slices(some(random.randint(1, 3)), some(random.randint(1, 2)), [(place, place)])
        for place in range(random.randint(0, 6))
    ]
    together = [{place} for place in range(len(slices))]
    for one, two in product(range(len(slices)), repeat=2):
        if {*slices[one].npu} & {*slices[two].npu} or {*slices[one].bench} & {*slices[two].bench}:
            first, second = (next(part for part in together if it in part) for it in (one, two))
            if first is not second:
                together.remove(second)
                first |= second
    expected = [
        (
            sorted({node for one in part for node in slices[one].npu}),
            sorted({node for one in part for node in slices[one].bench}),
            sorted((one, one) for one in part),
        )
        for part in together
    ]
    found = [(one.npu, one.bench, sorted(one.rows)) for one in find._joined(slices)]
    assert sorted(found) == sorted(expected)


@of_drawn
def test_a_row_of_a_group_belongs_to_one_of_the_other_side(drawn: Drawn) -> None:
    """The first that comes; pairs that a group contradicts are dropped."""
    random, pairs = drawn.random, drawn.pairs
    rows = [(random.randrange(4), random.randrange(4)) for _ in range(random.randint(0, 6))]
    members = [
        drawn.nodes(side, {*random.choices([*part.nodes], k=random.randint(1, 3))})
        for side, part in enumerate(drawn.parts)
    ]
    group = find._group(pairs, find._Slices(members[0], members[1], rows), 0.5)
    expected: list[tuple[int, int]] = []
    for row, other in rows:
        if all(row != one and other != two for one, two in expected):
            expected.append((row, other))
    operation = name_of(pairs, *members)
    assert group == Group(operation, (*members[0],), (*members[1],), (*expected,), 0.5)
    before = pairs.partner.copy()
    find._settle(pairs, group)
    for node, partner in enumerate(before.tolist()):
        is_in = node in members[0] or partner in members[1]
        assert pairs.partner[node] == (-1 if is_in else partner)


@of_drawn
def test_weak_pairs_are_made_by_place_and_put_out_nothing_that_is_the_same(drawn: Drawn) -> None:
    """Where values do not tell, nothing of one size."""
    left, right = drawn.parts
    trust = drawn.pairs.known.trust
    found = find._weak(drawn.pairs, left.flow, right.flow)
    for one, i in left.nodes.items():
        two = drawn.partner.get(one)
        expected = False
        if two and left.is_leaf(one) and drawn.evidence(one) == Evidence.INSIDE:
            made, its = left.dump.tensors(one, "outputs"), right.dump.tensors(two, "outputs")
            both = [*product(made, its)]
            both_there = bool(both) and not drawn.pairs.asked[i]
            j = right.nodes[two]
            all_agree = levels(
                left.traits.outputs, right.traits.outputs, np.array([i]), np.array([j])
            )
            if trust.equal:
                same = any(agree(a, b, EQUAL) for a, b in both) or all_agree[0] == 2
            else:
                same = any(numel(a) == numel(b) for a, b in both)
            is_told = bool(trust.equal) or trust.same_sizes
            # Of as many elements together, one is of a size that the other has.
            as_many = sum(map(numel, made)) == sum(map(numel, its))
            if not trust.equal and as_many:
                same = True
            expected = is_told and both_there and not same
        assert found[i] == expected, one


@of_drawn
def test_regions_are_calls_without_partners_below_partners_in_one_micro_step(drawn: Drawn) -> None:
    left, right = drawn.parts
    weak = {one for one in drawn.partner if left.is_leaf(one) and drawn.random.random() < 0.3}
    is_weak = np.isin(np.arange(len(left.traits)), drawn.nodes(0, weak))

    def host(part: Part, partners: Collection[str], name: str) -> str | None:
        above = part.dump.construct[name]
        while above is not None and above not in partners:
            above = part.dump.construct[above]
        return above

    expected: dict[object, tuple[list[int], list[int]]] = {}
    for side, (part, of, weak_ones) in enumerate(
        (
            (left, drawn.partner, weak),
            (right, drawn.back, {drawn.partner[one] for one in weak}),
        )
    ):
        for name in part.nodes:
            if part.is_leaf(name) and (name not in of or name in weak_ones):
                above = host(part, of, name)
                above = drawn.partner[above] if side == 0 and above else above
                key = above, part.step[part.nodes[name]]
                expected.setdefault(key, ([], []))[side].append(part.nodes[name])
    free = [drawn.nodes(side, names) for side, names in enumerate(drawn.free())]
    regions = [
        (sorted(npu), sorted(bench))
        for npu, bench in expected.values()
        if npu and bench and ({*npu} & {*free[0]} or {*bench} & {*free[1]})
    ]
    found = find._regions(drawn.pairs, left.flow, right.flow, is_weak)
    assert sorted((one.npu, one.bench) for one in found) == sorted(regions)


@of_drawn
def test_a_group_has_calls_without_a_partner_or_one_side_multiplies_more_often(
    drawn: Drawn,
) -> None:
    random = drawn.random
    names = [{*random.choices([*part.nodes], k=2)} for part in drawn.parts]
    group = Group("", (*drawn.nodes(0, names[0]),), (*drawn.nodes(1, names[1]),), (), 1.0)
    is_open = any(one not in drawn.partner for one in names[0])
    other_is_open = any(one not in drawn.back for one in names[1])
    times, other_times = (
        sum(one.split(".")[1] in ("linear", "matmul") for one in side) for side in names
    )
    expected = (
        (is_open and other_is_open)
        or (is_open and times > other_times)
        or (other_is_open and other_times > times)
    )
    assert find._has_open(drawn.pairs, group) == expected
