"""Calls that do a part of what others do, and who puts out a tensor, by plain records."""

from __future__ import annotations

import tempfile
from itertools import product
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings

from msprobe_builder.align.contradictions.parts import (
    _equal,
    _first_rows,
    _has_fewer,
    take_back_parts,
)
from msprobe_builder.align.contradictions.parts import _Side as Putting
from msprobe_builder.align.evidence.exchanged import _first_outputs
from msprobe_builder.align.pairing.weights import both_kinds
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.match.outline import outline_of
from msprobe_builder.pipeline.compare import read_rank
from tests.alignment.drawn_fused import Writer, fresh
from tests.alignment.test_plain_decisions import operators_of, paired
from tests.alignment.test_plain_scores import does
from tests.alignment.test_traits import numel, read, some_dump
from tests.alignment.two_programs import read_parts
from tests.builder.small_dumps import Record, write_dump
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_a_part_takes_in_one_tensor_less(
    random: Random,
) -> None:
    left, right = read([some_dump(random), some_dump(random)])
    for (one, i), (two, j) in product(left.nodes.items(), right.nodes.items()):
        section = "parameters" if one.startswith("Module") else "inputs"
        other = "parameters" if two.startswith("Module") else "inputs"
        mine, its = left.dump.tensors(one, section), right.dump.tensors(two, other)
        if section == other:
            fewer = _has_fewer(left.traits, np.array([i]), right.traits, np.array([j]))
            assert fewer.tolist() == [0 < len(mine) == len(its) - 1]


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_first_rows_and_their_equality_are_those_of_the_records(random: Random) -> None:
    tables, dumps = [], [some_dump(random), some_dump(random)]
    texts = Texts()
    with tempfile.TemporaryDirectory() as folder:
        for place, dump in enumerate(dumps):
            path = write_dump(Path(folder) / str(place), dump.data, dump.construct)
            tables.append(read_rank(path, texts)[0])
    firsts: list[dict[int, Record]] = []
    for side, dump in zip(tables, dumps, strict=True):
        found = _first_rows(side.table, Section.OUTPUT, len(side.tree))
        firsts.append({})
        for node, name in enumerate(side.tree.names):
            made = dump.tensors(name, "outputs") if name in dump.data else []
            assert (found[node] >= 0) == bool(made)
            if made:
                firsts[-1][int(found[node])] = made[0]
                assert side.table.node[found[node]] == node
    for (row, one), (other, two) in product(firsts[0].items(), firsts[1].items()):
        is_equal = _equal(tables[0].table, tables[1].table, np.array([row]), np.array([other]))
        assert is_equal.tolist() == [are_equal(one, two)], (one, two)


def are_equal(one: Record, two: Record) -> bool:
    """Whether statistics are equal but for rounding, of as many elements."""
    both = [(one[key], two[key]) for key in ("Norm", "Max", "Min", "Mean")]
    if None in (one["Norm"], two["Norm"]) or numel(one) != numel(two):
        return False
    largest = max(abs(x) for pair in both[1:3] for x in pair)
    limits = [max(both[0]), largest, largest, largest]
    return all(abs(x - y) <= 1e-5 * limit for (x, y), limit in zip(both, limits, strict=True))


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_who_puts_out_a_tensor_is_told_by_its_first_output(random: Random) -> None:
    """Not a single number, nor one of length 0 or of none that is known."""
    left, right = [*read([some_dump(random), some_dump(random)])]
    texts, parts = Texts(), []
    with tempfile.TemporaryDirectory() as folder:
        for place, side in enumerate((left, right)):
            path = write_dump(Path(folder) / str(place), side.dump.data, side.dump.construct)
            table = read_rank(path, texts)[0].table
            rows = _first_rows(table, Section.OUTPUT, len(side.traits))
            none = np.array([], np.int64)
            parts.append(Putting(side.traits, table, rows, [], none))

    def tells(one: Record) -> bool:
        return bool(one["Norm"]) and numel(one) > 1

    for side, part in zip((left, right), parts, strict=True):
        for name, node in side.nodes.items():
            made = side.dump.tensors(name, "outputs")[:1]
            assert part.is_known[node] == any(map(tells, made)), name
    for name, node in left.nodes.items():
        for first in left.dump.tensors(name, "outputs")[:1] if parts[0].is_known[node] else ():
            found = parts[1].putting_out(parts[0].table, int(parts[0].rows[node]), 0).tolist()
            assert found == sorted(
                other
                for two, other in right.nodes.items()
                for its in right.dump.tensors(two, "outputs")[:1]
                if tells(its) and are_equal(first, its)
            )


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_numbers_of_two_kinds_of_weights_are_never_the_same(random: Random) -> None:
    drawn = [np.array(random.choices([-1, 0, 1, 2, 3], k=6)) for _ in range(4)]
    found = both_kinds((drawn[0], drawn[1]), (drawn[2], drawn[3]))
    plain = [
        [
            ("own", one) if one >= 0 else ("held", below) if below >= 0 else None
            for one, below in both
        ]
        for both in (zip(drawn[side], drawn[side + 2], strict=True) for side in (0, 1))
    ]
    for i, j in product(range(6), range(6)):
        assert (found[0][i] < 0) == (plain[0][i] is None)
        assert (found[0][i] == found[1][j]) == (plain[0][i] == plain[1][j])


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_the_first_output_that_says_something_stands_for_a_call(random: Random) -> None:
    """One of a size and norm; of several the first."""
    dump, texts = some_dump(random), Texts()
    with tempfile.TemporaryDirectory() as folder:
        side = read_rank(write_dump(Path(folder), dump.data, dump.construct), texts)[0]
    found = _first_outputs(side, outline_of(side.tree, side.table))
    for node, name in enumerate(side.tree.names):
        made = dump.tensors(name, "outputs") if name in dump.data else []
        telling = [place for place, one in enumerate(made) if one["Norm"] and numel(one) > 1]
        assert (found[node] >= 0) == bool(telling)
        if telling:
            row = int(found[node])
            assert side.table.node[row] == node
            assert side.table.position[row] == telling[0]


STEMS = (
    "Functional.linear",
    "Functional.conv2d",
    "Functional.layer_norm",
    "Torch.add",
    "Tensor.to",
)
MAPS = ("linear", "conv2d")


class DrawnParts:
    """Linear maps of both sides with what stands behind them; a few tensors in all."""

    def __init__(self, random: Random, *, equal: float) -> None:
        writers = Writer(), Writer()
        both = []
        pool = [fresh(random, (2, 4)) for _ in range(3)]
        pool.append(random.choice([fresh(random, (2, 4), 0.0), fresh(random, ())]))
        for _ in range(random.randint(1, 3)):
            stem = random.choice([*STEMS[:2], "Linear"])
            x = fresh(random, (2, 4))
            names = []
            behind: list[dict[str, str]] = []
            for writer in writers:
                given = [x if random.random() < 0.9 else random.choice(pool)]
                given += [fresh(random, (4, 4)) for _ in range(random.choice([1, 2, 2, 3]))]
                names.append(writer.call(stem, given, [random.choice(pool[:3])]))
                made = [random.choice(pool) for _ in range(random.choice([0, 1, 1, 2]))]
                followers = [(random.choice([*STEMS, *STEMS[2:], "Norm"]), one) for one in made]
                behind.append({it: writer.call(it, [x], [one]) for it, one in followers})
            if random.random() < 0.9:
                both.append((names[0], names[1]))
            for it in behind[0].keys() & behind[1].keys():
                if random.random() < 0.4:
                    both.append((behind[0][it], behind[1][it]))
        self.sides = read_parts(random, [one.dump for one in writers])
        left, right = self.sides
        self.partner = dict(both)
        self.back = {two: one for one, two in self.partner.items()}
        chosen = [(left.nodes[one], right.nodes[two]) for one, two in self.partner.items()]
        self.operators = operators_of(left) | operators_of(right)
        self.pairs = paired(left, right, chosen, trust=SimpleNamespace(equal=equal))
        for one in self.partner:
            if random.random() < 0.1:
                self.pairs.evidence[left.nodes[one]] = 0

    def tried(self) -> list[tuple[str, str]]:
        """Automatic pairs of linear maps, and of modules with weights."""
        left = self.sides[0]
        return [
            (one, two)
            for one, two in self.partner.items()
            if self.pairs.evidence[left.nodes[one]]
            and (left.dump.tensors(one, "parameters") or does(one) in MAPS)
        ]

    def behind(self, side: int, name: str) -> bool:
        """Whether what comes next is a norm without a partner."""
        part = self.sides[side]
        leaves = sorted((part.nodes[one], one) for one in part.nodes if part.is_leaf(one))
        after = [one for node, one in leaves if node > part.nodes[name]]
        if not after or after[0] in (self.partner, self.back)[side]:
            return False
        return "norm" in after[0].lower()

    def weighs(self, side: int, name: str) -> int:
        section = "parameters" if name.startswith("Module") else "inputs"
        return len(self.sides[side].dump.tensors(name, section))


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_without_values_a_bias_more_on_one_side_has_taken_in_the_norm_of_the_other(
    random: Random,
) -> None:
    drawn = DrawnParts(random, equal=0.0)
    left, right = drawn.sides
    tried = drawn.tried()
    expected = set()
    for one, two in tried:
        mine, its = drawn.weighs(0, one), drawn.weighs(1, two)
        less, more = drawn.behind(0, one), drawn.behind(1, two)
        if (0 < mine == its - 1 and less and not more) or (
            0 < its == mine - 1 and more and not less
        ):
            expected.add(one)
    before = {*drawn.partner}
    take_back_parts(drawn.pairs, left.table, right.table, drawn.operators)
    found = {one for one in before if drawn.pairs.partner[left.nodes[one]] < 0}
    assert found == expected


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_one_does_a_part_whose_partner_puts_out_what_a_later_call_does(random: Random) -> None:
    """Given the same, but for a bias that is added; and nobody puts out there what it puts out."""
    drawn = DrawnParts(random, equal=2.0)
    left, right = drawn.sides

    def first(side: int, name: str, section: str) -> Record | None:
        return next(iter(drawn.sides[side].dump.tensors(name, section)), None)

    def told(side: int, name: str) -> Record | None:
        made = first(side, name, "outputs")
        return made if made and made["Norm"] and numel(made) > 1 else None

    def is_same(one: Record | None, two: Record | None) -> bool:
        if one is None or two is None or None in (*one.values(), *two.values()):
            return False
        return are_equal(one, two)

    def putting_out(side: int, record: Record | None, step: int) -> list[str]:
        part = drawn.sides[side]
        names = [
            one
            for one in part.nodes
            if part.step[part.nodes[one]] == step and is_same(told(side, one), record)
        ]
        return sorted(names, key=part.nodes.__getitem__)

    def is_part(side: int, name: str, other: str) -> bool:
        part, its = drawn.sides[side], drawn.sides[1 - side]
        step = part.step[part.nodes[name]]
        later = [
            one
            for one in putting_out(side, first(1 - side, other, "outputs"), step)
            if part.nodes[one] > part.nodes[name]
            and (one.startswith("Module") or does(one) != "to")
        ]
        if not later or (not later[0].startswith("Module") and does(later[0]) == "add"):
            return False
        its_step = its.step[its.nodes[other]]
        return not putting_out(1 - side, first(side, name, "outputs"), its_step)

    expected = {
        one
        for one, two in drawn.tried()
        if is_same(first(0, one, "inputs"), first(1, two, "inputs"))
        and told(0, one)
        and told(1, two)
        and not is_same(first(0, one, "outputs"), first(1, two, "outputs"))
        and (is_part(0, one, two) or is_part(1, two, one))
    }
    before = {*drawn.partner}
    take_back_parts(drawn.pairs, left.table, right.table, drawn.operators)
    found = {one for one in before if drawn.pairs.partner[left.nodes[one]] < 0}
    assert found == expected
