"""One call against several where values do not tell, written down a second time, plainly."""

from __future__ import annotations

import math
from collections import Counter
from random import Random
from typing import Any, cast

import numpy as np
from hypothesis import given, settings

from msprobe_builder.align.groups.fused_linears import exchanged, find_linears
from msprobe_builder.align.groups.ways import Side
from msprobe_builder.match.matching import Group
from tests.alignment.test_plain_decisions import operators_of, paired
from tests.alignment.test_traits import Dump, numel
from tests.alignment.two_programs import INPUT, NET, OUTPUT, PARAMETERS, Part, read_parts
from tests.builder.small_dumps import Record, forward, tensor
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

FUSED = {
    "Functional.scaled_dot_product_attention": ("Torch.matmul", "Functional.softmax"),
    "Functional.rms_norm": ("Torch.rsqrt", "Torch.mul"),
    "Functional.silu": ("Torch.sigmoid", "Torch.mul"),
    "Torch.relu": ("Torch.mul",),
}
FORMS = ("Tensor.view", "Tensor.to")
OTHERS = ("Torch.add", "Torch.exp", *FORMS)
SHAPES = ((2, 4), (2, 4), (8,), (3, 4), ())


class Writer:
    """One side as it is written, call after call."""

    def __init__(self) -> None:
        self.dump = Dump({NET: forward([tensor()], [tensor()])}, {NET: None})
        self.numbers: Counter[str] = Counter()

    def call(self, stem: str, given: list[Record], made: list[Record]) -> str:
        if "." not in stem:  # a module
            name = f"Module.net.{stem.lower()}{self.numbers[stem]}.{stem}.forward.0"
            self.dump.data[name] = forward(given[:1], made)
            self.dump.data[name]["parameters"] = {
                f"w{place}": one for place, one in enumerate(given[1:])
            }
        else:
            name = f"{stem}.{self.numbers[stem]}.forward"
            self.dump.data[name] = forward(given, made)
        self.numbers[stem] += 1
        self.dump.construct[name] = NET
        return name


def fresh(
    random: Random, shape: tuple[int, ...] | None = None, norm: float | None = None
) -> Record:
    norm = random.uniform(2, 9) if norm is None else norm
    shape = random.choice(SHAPES) if shape is None else shape
    return tensor(norm, high=norm / 2, low=-norm / 3, shape=shape)


def a_call(random: Random, sides: tuple[Writer, Writer]) -> None:
    """A call of a table on the one side, and what may be its parts on the other."""
    stem = random.choice([*FUSED])
    given = [fresh(random) for _ in range(random.randint(1, 3))]
    made = fresh(random)
    sides[0].call(stem, given, [made] if random.random() < 0.9 else [])
    parts = [one for one in FUSED[stem] if random.random() < 0.9]
    parts += random.choices(OTHERS, k=random.randint(0, 3))
    random.shuffle(parts)
    last = random.choice(given)
    for place, part in enumerate(parts):
        is_last = place == len(parts) - 1
        out = {**made} if is_last or random.random() < 0.3 else fresh(random)
        taken = [last, *random.sample(given, random.randint(0, len(given)))]
        sides[1].call(part, taken, [out] if random.random() < 0.95 else [])
        last = out


def a_linear(random: Random, sides: tuple[Writer, Writer]) -> None:
    """One linear, with what splits its result or not, and several that are as large together."""
    count = random.choice([2, 2, 2, 3, 3, 4])
    widths = [random.choice([4, 4, 4, 2]) for _ in range(count)]
    x = fresh(random, (2, 4))
    norms = [random.uniform(2, 9) for _ in widths]
    total = math.sqrt(sum(one**2 for one in norms)) * random.choice([1.0, 1.0, 1.00008, 1.001])
    width = sum(widths) + random.choice([0, 0, 0, 0, 1])
    kind = random.choice(["Linear", "Functional.linear"])
    weight = fresh(random, (width, random.choice([4, 4, 4, 4, 5])), total)
    if random.random() < 0.15:
        weight = tensor(None, high=None, low=None, mean=None, shape=(width, 4))
    bias = random.random() < 0.2
    made = fresh(random, (2, width))
    sides[0].call(kind, [x, weight, *([fresh(random, ())] if bias else [])], [made])
    for _ in range(random.choice([0, 0, 1])):
        sides[0].call("Torch.exp", [fresh(random)], [fresh(random)])
    for _ in range(random.choice([0, 1, 1, 2])):
        parts = [fresh(random, (2, one)) for one in widths]
        split = random.choice([[made], [made], [made], [], [fresh(random)]])
        sides[0].call("Torch.split", split, parts[: random.choice([count, count, count - 1])])
    other_kind = random.choice(["Linear", "Functional.linear"])
    other = x if random.random() < 0.9 else fresh(random, (8,))
    for place, (one, norm) in enumerate(zip(widths, norms, strict=True)):
        given = other if place or random.random() < 0.9 else fresh(random, (2, 4))
        out = fresh(random, (2, one))
        sides[1].call(other_kind, [given, fresh(random, (one, 4), norm)], [out])
    if random.random() < 0.2:  # which of them add up to it does not tell
        sides[1].call(other_kind, [other, fresh(random, (widths[0], 4), norms[0])], [out])


def fused_programs(random: Random) -> tuple[Dump, Dump, list[tuple[str, str]]]:
    """Calls that both sides have, some of them pairs, and between these the one and the many."""
    sides = Writer(), Writer()
    pairs = []
    for _ in range(random.randint(1, 2)):
        for _ in range(random.randint(0, 2)):
            stem = random.choice(["Torch.add", "Torch.exp", *FORMS])
            x, y = fresh(random), fresh(random)
            names = [one.call(stem, [x], [y]) for one in sides]
            if random.random() < 0.8:
                pairs.append((names[0], names[1]))
        random.choice([a_call, a_linear])(random, sides)
    if random.random() < 0.7:
        x, y = fresh(random), fresh(random)
        pairs.append((sides[0].call("Torch.exp", [x], [y]), sides[1].call("Torch.exp", [x], [y])))
    return sides[0].dump, sides[1].dump, pairs


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
        [call, *cuts], run = names
        assert 2 <= len(run) <= 4
        assert self.adds_up(call, tuple(run))
        first = [
            part.rows(name, INPUT, PARAMETERS)[0]
            for part, name in ((self.one, call), (self.many, run[0]))
        ]
        assert group.rows[0] == tuple(first)
        parts = [numel(self.one.records[row]) for row, _ in group.rows[1:]]
        results = [self.many.rows(one, OUTPUT)[0] for one in run] if cuts else []
        assert [row for _, row in group.rows[1:]] == results
        assert parts == [numel(self.many.records[row]) for row in results]
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
        products=of("linear", "matmul"),
    )
    known = np.where(both.partner >= 0, np.arange(len(both.partner)), -1)
    sides = (
        Side(one.traits, one.flow, both, known, many.flow.is_leaf[both.partner]),
        Side(many.traits, many.flow, both, both.back.copy(), one.flow.is_leaf[both.back]),
    )
    tell = random.random() < 0.6
    found = list(find_linears(*sides, weights_tell=tell))
    for group in found:
        Plain(one, many, tell=tell).check(group)
        turned = exchanged(group)
        assert (turned.npu, turned.bench) == (group.bench, group.npu)
        assert turned.rows == tuple((other, row) for row, other in group.rows)
        assert (turned.operation, turned.certainty) == (group.operation, group.certainty)
    members = [node for group in found for node in group.bench]
    assert len(members) == len({*members})
