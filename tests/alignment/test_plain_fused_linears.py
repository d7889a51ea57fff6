"""One linear against several, where flow tells what they come of: against all runs of records."""

from __future__ import annotations

from random import Random
from typing import Any, cast

import numpy as np
from hypothesis import given, settings

from msprobe_builder.align.groups.fused_linears import exchanged, find_linears
from msprobe_builder.align.groups.ways import Side
from msprobe_builder.match.matching import Group
from tests.alignment.drawn_fused import fused_programs
from tests.alignment.test_plain_decisions import operators_of, paired
from tests.alignment.test_traits import numel
from tests.alignment.two_programs import INPUT, OUTPUT, PARAMETERS, Part, read_parts
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS


class Plain:
    """What the one side has as one linear, in terms of records."""

    def __init__(self, one: Part, many: Part, *, tell: bool) -> None:
        self.one, self.many, self.tell = one, many, tell

    def matrix(self, part: Part, call: str) -> int | None:
        """The largest tensor beside the first that nobody puts out."""
        rows = [
            row for row in part.rows(call, INPUT, PARAMETERS)[1:] if part.flow.producer[row] < 0
        ]
        return max(rows, key=lambda row: numel(part.records[row]), default=None)

    def adds_up(self, call: str, run: tuple[str, ...]) -> bool:
        def x(part: Part, name: str) -> int:
            return part.rows(name, INPUT, PARAMETERS)[0]

        def made(part: Part, name: str) -> int:
            return numel(part.records[part.rows(name, OUTPUT)[0]])

        size = numel(self.one.records[x(self.one, call)])
        given = [x(self.many, one) for one in run]
        if any(numel(self.many.records[row]) != size for row in given):
            return False
        if len({self.many.keys[row] for row in given}) > 1:
            return False
        if made(self.one, call) != sum(made(self.many, one) for one in run):
            return False
        own = self.one.records[cast("int", self.matrix(self.one, call))]
        its = [self.many.records[cast("int", self.matrix(self.many, one))] for one in run]
        if numel(own) != sum(map(numel, its)):
            return False
        if not self.tell or None in [one["Norm"] for one in (own, *its)]:
            return True
        square, squares = own["Norm"] ** 2, sum(one["Norm"] ** 2 for one in its)
        return bool(abs(square - squares) <= 1e-4 * max(square, squares))

    def check(self, group: Group) -> None:
        names = [
            [part.name_of[node] for node in nodes]
            for part, nodes in ((self.one, group.npu), (self.many, group.bench))
        ]
        [call, *cuts], all_run = names
        # Those that cut what the several put out are no linears.
        run = [one for one in all_run if self.matrix(self.many, one) is not None]
        assert 2 <= len(run) <= 4
        assert self.adds_up(call, tuple(run))
        first = [
            part.rows(name, INPUT, PARAMETERS)[0]
            for part, name in ((self.one, call), (self.many, run[0]))
        ]
        assert group.rows[0] == tuple(first)
        parts = [numel(self.one.records[row]) for row, _ in group.rows[1:]]
        results = [self.many.rows(one, OUTPUT)[0] for one in run] if cuts else []
        if len(run) == len(all_run):
            assert [row for _, row in group.rows[1:]] == results
        assert parts == [numel(self.many.records[row]) for _, row in group.rows[1:]]
        norm = self.one.records[cast("int", self.matrix(self.one, call))]["Norm"]
        assert group.certainty == (0.95 if self.tell and norm is not None else 0.75)


@settings(max_examples=costly_examples(80))
@given(RANDOMS)
def test_one_linear_stands_for_several_whose_weights_add_up(random: Random) -> None:
    """They come of the same; which of several runs it is must be told."""
    first, second, pairs = fused_programs(random)
    parts = read_parts(random, [first, second])
    one, many = parts
    numbers = operators_of(one) | operators_of(many)

    def of(*names: str) -> Any:
        return np.array([numbers[name] for name in names if name in numbers], dtype=np.int64)

    both = paired(
        one,
        many,
        [(one.nodes[a], many.nodes[b]) for a, b in pairs],
        moving=of("view", "to", "split"),
    )
    known = np.where(both.partner >= 0, np.arange(len(both.partner)), -1)
    sides = (
        Side(one.traits, one.flow, both, known, many.flow.is_leaf[both.partner]),
        Side(many.traits, many.flow, both, both.back.copy(), one.flow.is_leaf[both.back]),
    )
    tell = random.random() < 0.6
    found = list(
        find_linears(*sides, frozenset(of("linear", "matmul").tolist()), weights_tell=tell)
    )
    for group in found:
        Plain(one, many, tell=tell).check(group)
        turned = exchanged(group)
        assert (turned.npu, turned.bench) == (group.bench, group.npu)
        assert turned.rows == tuple((other, row) for row, other in group.rows)
        assert (turned.operation, turned.certainty) == (group.operation, group.certainty)
    members = [node for group in found for node in group.bench]
    assert len(members) == len({*members})
