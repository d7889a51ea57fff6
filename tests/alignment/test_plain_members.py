"""What belongs to a group beside its calls going forward, told by names and single tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import given, settings

from msprobe_builder.align.evidence.tolerances import EQUAL
from msprobe_builder.align.groups.members import backward_groups, with_modules
from msprobe_builder.match.matching import Group
from tests.alignment.test_plain_decisions import paired
from tests.alignment.test_plain_hierarchies import some_hierarchy
from tests.alignment.test_plain_scores import is_module
from tests.alignment.test_plain_tensors import agree
from tests.alignment.test_traits import Dump, numel
from tests.alignment.two_programs import (
    INPUT,
    KEYS,
    OUTPUT,
    Part,
    read_parts,
    reshaped,
    two_programs,
    value,
)
from tests.builder.small_dumps import Record, number
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

Rows = list[tuple[int, int]]


def some_groups(random: Random, parts: Sequence[Part], *, leaves: bool) -> list[Group]:
    """Up to three groups of calls, no call in two of them."""
    count = random.randint(1, 3)
    is_whole = random.random() < 0.2  # all calls are one group
    members: list[list[list[int]]] = []
    for part in parts:
        names = [
            one for one in part.nodes if ".forward" in one and (part.is_leaf(one) or not leaves)
        ]
        choices = [0] if is_whole else [-1, *range(count), *range(count)]
        of = [random.choice(choices) for _ in names]
        members.append(
            [
                sorted(
                    part.nodes[name] for name, one in zip(names, of, strict=True) if one == number
                )
                for number in range(count)
            ]
        )
    return [
        Group(f"operation{place}", tuple(npu), tuple(bench), (), 0.5)
        for place, (npu, bench) in enumerate(zip(*members, strict=True))
    ]


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_a_module_whose_calls_are_all_in_one_group_is_in_it(random: Random) -> None:
    """If it has no partner, and none of itself is in another."""
    parts = read_parts(random, [some_hierarchy(random) for _ in "ab"])
    groups = some_groups(random, parts, leaves=random.random() < 0.8)
    share = random.choice([0.0, 0.2])
    chosen = [
        (parts[0].nodes[one], parts[1].nodes[two])
        for one, two in zip(parts[0].nodes, parts[1].nodes, strict=False)
        if random.random() < share
    ]
    pairs = paired(parts[0], parts[1], chosen)
    found = with_modules(pairs, groups, parts[0].flow, parts[1].flow)
    for side, (part, partner) in enumerate(zip(parts, (pairs.partner, pairs.back), strict=True)):
        owner = {node: it for it, one in enumerate(groups) for node in (one.npu, one.bench)[side]}
        expected = [[*(one.npu, one.bench)[side]] for one in groups]
        for name, node in part.nodes.items():
            leaves = [part.nodes[one] for one in part.dump.inside(name)[1:] if part.is_leaf(one)]
            its = {owner.get(one, -1) for one in leaves}
            if is_module(name) and partner[node] < 0 and node not in owner and len(its) == 1:
                [only] = its
                if only >= 0:
                    expected[only].append(node)
        assert [[*(one.npu, one.bench)[side]] for one in found] == [*map(sorted, expected)]
    assert [(one.operation, one.certainty) for one in found] == [
        (one.operation, one.certainty) for one in groups
    ]


def with_gradients(random: Random, dump: Dump, pool: list[Record]) -> Dump:
    """The same with calls backward, and gradients of parameters, behind it."""
    data, construct = dict(dump.data), dict(dump.construct)
    for name in [*dump.data][::-1]:
        for record in dump.tensors(name, "inputs"):
            record["requires_grad"] = random.random() < 0.7
        if random.random() < 0.8:
            back = name.replace(".forward", ".backward")
            construct[back] = None
            given, made = (random.choices(pool, k=random.choice([0, 1, 1, 2, 2])) for _ in "ab")
            plain = [number(2)] if random.random() < 0.3 else []
            data[back] = {"input": [*given, *plain], "output": made}
        if is_module(name) and random.random() < 0.5:
            gradients = name.partition(".forward")[0] + ".parameters_grad"
            data[gradients] = {"weight": [random.choice(pool)]}
            construct[gradients] = None
    return Dump(data, construct)


class Plain:
    """The backward calls of a group."""

    def __init__(self, parts: Sequence[Part], alone: Sequence[set[str]]) -> None:
        self.parts, self.alone = parts, alone

    def backward(self, side: int, members: Sequence[int]) -> list[str]:
        part = self.parts[side]
        names = [part.name_of[one].replace(".forward", ".backward") for one in members]
        found = [one for one in names if one in part.nodes and one in self.alone[side]]
        return sorted(found, key=part.nodes.__getitem__)

    def is_whole(self, side: int, members: Sequence[int]) -> bool:
        """Whether each tensor goes into one of the calls, and is known to come from elsewhere."""
        part, seen = self.parts[side], []
        for node in filter(part.flow.is_leaf.__getitem__, members):
            for row in part.rows(part.name_of[node], INPUT):
                source = int(part.flow.producer[row])
                if source >= 0 and part.table.node[source] in members:
                    continue
                if part.records[row].get("requires_grad") is False:
                    continue
                if source < 0 or part.keys[row] in seen:
                    return False
                seen.append(part.keys[row])
        return True

    def outer(self, side: int, calls: list[str], section: int) -> list[int]:
        part = self.parts[side]

        def same(one: int, two: int) -> bool:
            x, y = part.records[one], part.records[two]
            known = all(x[key] is not None for key in KEYS)
            return known and numel(x) == numel(y) and all(x[key] == y[key] for key in KEYS)

        rows = [row for one in calls for row in part.rows(one, section)]
        others = [row for one in calls for row in part.rows(one, INPUT + OUTPUT - section)]
        rows = [row for row in rows if not any(same(row, one) for one in others)]
        if section == INPUT:
            return rows
        return [  # what a hook records as coming out of that is what went in says nothing
            row
            for row in rows
            if not any(
                part.table.node[one] == part.table.node[row]
                and agree(part.records[row], part.records[one], EQUAL)
                for one in others
            )
        ]

    def rows(
        self, calls: tuple[list[str], list[str]], *, whole: bool
    ) -> tuple[tuple[int, int], ...]:
        result: Rows = []
        for section, by_size in ((INPUT, True), (OUTPUT, whole)):
            left, right = (self.outer(side, names, section) for side, names in enumerate(calls))
            for row in [*left]:
                record = self.parts[0].records[row]
                fitting = [one for one in right if agree(record, self.parts[1].records[one], EQUAL)]
                if fitting:
                    result.append((row, fitting[0]))
                    left.remove(row)
                    right.remove(fitting[0])
            sizes = [
                [numel(part.records[row]) for row in rows]
                for part, rows in zip(self.parts, (left, right), strict=True)
            ]
            for row, size in zip(left, sizes[0], strict=True):
                if by_size and sizes[0].count(size) == sizes[1].count(size) == 1:
                    result.append((row, right[sizes[1].index(size)]))
        return tuple(result)

    def gradients(self, side: int, members: Sequence[int]) -> tuple[int, ...]:
        part = self.parts[side]
        stems = {part.name_of[one].partition(".forward")[0] for one in members}
        names = {f"{one}.parameters_grad" for one in stems} & part.nodes.keys() & self.alone[side]
        return tuple(sorted(part.nodes[one] for one in names))


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_backward_calls_of_a_group_are_one_with_what_goes_in_and_out(random: Random) -> None:
    """What is equal belongs together, then what has a size of its own; gradients come after."""
    pool = [value(random, number) for number in range(6)]
    pool += [reshaped(random, one) for one in pool[:2]]
    parts = read_parts(
        random,
        [with_gradients(random, dump, pool) for dump in two_programs(random, 5)[:2]],
    )
    groups = some_groups(random, parts, leaves=False)
    both = [one for one in parts[0].nodes if ".forward" not in one and one in parts[1].nodes]
    chosen = [one for one in both if random.random() < 0.15]
    pairs = paired(
        parts[0], parts[1], [(parts[0].nodes[one], parts[1].nodes[one]) for one in chosen]
    )
    plain = Plain(parts, [{*part.nodes} - {*chosen} for part in parts])
    expected = []
    for group in groups:
        calls = plain.backward(0, group.npu), plain.backward(1, group.bench)
        if all(calls):
            whole = plain.is_whole(0, group.npu) and plain.is_whole(1, group.bench)
            rows = plain.rows(calls, whole=whole)
            npu, bench = (
                tuple(part.nodes[one] for one in names)
                for part, names in zip(parts, calls, strict=True)
            )
            expected.append(replace(group, npu=npu, bench=bench, rows=rows))
    seen = set()
    for group in groups:
        both_sides = plain.gradients(0, group.npu), plain.gradients(1, group.bench)
        if all(both_sides) and both_sides not in seen:
            seen.add(both_sides)
            npu, bench = both_sides
            expected.append(replace(group, npu=npu, bench=bench, rows=()))
    found = backward_groups(pairs, groups, parts[0].flow, parts[1].flow)
    assert found == expected
    assert np.array([one.certainty for one in found]).all()
