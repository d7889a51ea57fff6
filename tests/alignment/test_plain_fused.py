"""One call against several where values do not tell, written down a second time, plainly."""

from __future__ import annotations

import math
from collections import Counter
from itertools import chain
from random import Random

import numpy as np
from hypothesis import given, settings

from msprobe_builder.align.evidence.operators import forms
from msprobe_builder.align.groups.fused import fusions
from msprobe_builder.align.groups.fused_calls import exchanged, find_by_shapes
from msprobe_builder.dump.names import parse_name
from msprobe_builder.match.matching import Group
from msprobe_builder.operators.operator import Kind
from msprobe_builder.operators.table import operator_of, row_of
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
    """What the one side has as one call, in terms of records."""

    def __init__(self, one: Part, many: Part, partner: dict[str, str], *, tell: bool) -> None:
        self.one, self.many, self.partner, self.tell = one, many, partner, tell
        self.back = {two: one for one, two in partner.items()}

    def name(self, call: str) -> str:
        if call.startswith("Module"):
            return parse_name(call).stem.rpartition(".")[2].lower()
        return operator_of(parse_name(call).stem).name

    def is_form(self, call: str) -> bool:
        return not call.startswith("Module") and forms(operator_of(parse_name(call).stem))

    def between(self, call: str, free: list[str]) -> list[str]:
        """What is free between the partners of the nearest pairs around, forms left out."""
        names = sorted(self.one.nodes, key=self.one.nodes.__getitem__)
        marks = [
            one
            for one in names
            if one in self.partner and self.one.is_leaf(one) and not self.is_form(one)
        ]
        place = self.one.nodes[call]
        before = [
            self.many.nodes[self.partner[one]] for one in marks if self.one.nodes[one] < place
        ]
        behind = [
            self.many.nodes[self.partner[one]] for one in marks if self.one.nodes[one] > place
        ]
        low = before[-1] if before else 0
        high = behind[0] if behind else math.inf
        return [one for one in free if low < self.many.nodes[one] < high]

    def is_product(self, name: str) -> bool:
        return row_of(name).kind is Kind.PRODUCT

    def windows(self, call: str, run: list[str], parts: frozenset[str]) -> list[list[str]]:
        """What stands without a product between products, or between the two of an attention."""
        names = [self.name(one) for one in run]
        products = [place for place, one in enumerate(names) if self.is_product(one)]
        if self.is_product(self.name(call)):
            centre = max(names.index(one) for one in parts if not self.is_product(one))
            before = [place for place in products if place < centre]
            behind = [place for place in products if place > centre]
            if "attention" not in row_of(self.name(call)).traits:
                last = max(place for place, one in enumerate(run) if not self.is_form(one))
                behind = [centre] if last == centre and len(products) == 1 else []
            return [run[before[-1] : behind[0] + 1]] if before and behind else []
        found = []
        window: list[str] = []
        is_first = True
        for place in [*range(len(run)), None]:
            if place is not None and not self.is_product(names[place]):
                window.append(run[place])
                continue
            while len(window) > 1 and (
                self.is_form(window[0]) or (not is_first and self.is_bias(window[0]))
            ):
                window = window[1:]
            while len(window) > 1 and self.is_form(window[-1]):
                window = window[:-1]
            if parts <= {self.name(one) for one in window}:
                found.append(window)
            window, is_first = [], False
        return found

    def is_bias(self, call: str) -> bool:
        given, made = (
            sum(numel(self.many.records[row]) for row in self.many.rows(call, section))
            for section in (INPUT, OUTPUT)
        )
        return row_of(self.name(call)).kind is Kind.SUM and given < 2 * made

    def told_by_table(self, call: str, run: list[str]) -> Group | None:
        names = {self.name(one) for one in run}
        names |= {"matmul"} if any(map(self.is_product, names)) else set()
        for operation, calls, parts in fusions():
            if self.name(call) not in calls or not parts <= names:
                continue
            for members in self.windows(call, run, parts):
                made, its = self.one.rows(call, OUTPUT), self.many.rows(members[-1], OUTPUT)
                if not made or not its:
                    continue
                if numel(self.one.records[made[0]]) != numel(self.many.records[its[0]]):
                    continue
                rows = self.inputs(call, members)
                if rows:
                    rows.append((made[0], its[0]))
                    nodes = tuple(self.many.nodes[one] for one in members)
                    return Group(operation, (self.one.nodes[call],), nodes, tuple(rows), 0.75)
        return None

    def inputs(self, call: str, members: list[str]) -> list[tuple[int, int]]:
        def is_outer(row: int) -> bool:
            source = int(self.many.flow.producer[row])
            return source < 0 or self.many.name_of[int(self.many.table.node[source])] not in members

        free = [
            row
            for row in chain(*(self.many.rows(one, INPUT, PARAMETERS) for one in members))
            if is_outer(row)
        ]
        found = []
        for row in self.one.rows(call, INPUT, PARAMETERS):
            record = self.one.records[row]
            others = self.many.records
            fitting = [one for one in free if numel(others[one]) == numel(record)]
            equal = [one for one in fitting if others[one]["shape"] == record["shape"]]
            is_attention = "attention" in row_of(self.name(call)).traits
            fitting = [*equal, *fitting] if is_attention else equal
            if fitting and numel(record) > 1:
                found.append((row, fitting[0]))
                free.remove(fitting[0])
        return found

    def weights(self, part: Part, call: str) -> list[int]:
        rows = part.rows(call, INPUT, PARAMETERS)[1:]
        found = [
            row for row in rows if part.flow.producer[row] < 0 and numel(part.records[row]) > 1
        ]
        return found if part.rows(call, OUTPUT) else []

    def adds_up(self, call: str, run: list[str]) -> bool:
        x = self.one.rows(call, INPUT, PARAMETERS)[0]
        given = [self.many.rows(one, INPUT, PARAMETERS)[0] for one in run]
        shape = self.one.records[x]["shape"]
        if any(self.many.records[one]["shape"] != shape for one in given):
            return False
        if len({self.many.keys[one] for one in given}) > 1:
            return False

        def made(part: Part, one: str) -> int:
            return numel(part.records[part.rows(one, OUTPUT)[0]])

        if made(self.one, call) != sum(made(self.many, one) for one in run):
            return False
        own = [self.one.records[row] for row in self.weights(self.one, call)]
        its = [self.many.records[row] for one in run for row in self.weights(self.many, one)]
        if sum(map(numel, own)) != sum(map(numel, its)):
            return False
        norms = [one["Norm"] for one in (*own, *its)]
        if not self.tell or None in norms:
            return True
        square = sum(one["Norm"] ** 2 for one in own)
        squares = sum(one["Norm"] ** 2 for one in its)
        return bool(abs(square - squares) <= 1e-4 * max(square, squares))

    def linears(self, free: list[str], other_free: list[str]) -> list[Group]:
        many = [one for one in other_free if self.weights(self.many, one)]
        found: list[Group] = []
        taken: set[str] = set()
        for call in free:
            if not self.weights(self.one, call):
                continue
            runs = [
                many[begin : begin + size]
                for begin in range(len(many))
                for size in (2, 3)
                if begin + size <= len(many)
            ]
            runs = [one for one in runs if not taken & {*one} and self.adds_up(call, one)]
            if len(runs) != 1:
                continue
            [run] = runs
            taken |= {*run}
            outs = [self.many.rows(one, OUTPUT)[0] for one in run]
            sizes = [numel(self.many.records[one]) for one in outs]
            size = numel(self.one.records[self.one.rows(call, OUTPUT)[0]])
            members = [call]
            x, y = (
                part.rows(name, INPUT, PARAMETERS)[0]
                for part, name in ((self.one, call), (self.many, run[0]))
            )
            rows = [(x, y)]
            for split in free[free.index(call) + 1 :]:
                given, parts = self.one.rows(split, INPUT, PARAMETERS), self.one.rows(split, OUTPUT)
                is_given = bool(given) and numel(self.one.records[given[0]]) == size
                if is_given and [numel(self.one.records[one]) for one in parts] == sizes:
                    members.append(split)
                    rows += zip(parts, outs, strict=True)
                    break
            own = [self.one.records[row]["Norm"] for row in self.weights(self.one, call)]
            certainty = 0.95 if self.tell and None not in own else 0.75
            nodes = tuple(self.one.nodes[one] for one in members)
            others = tuple(self.many.nodes[one] for one in run)
            found.append(Group("linear", nodes, others, tuple(rows), certainty))
        return found

    def groups(self, free: list[str], other_free: list[str]) -> list[Group]:
        found: list[Group] = []
        taken: set[int] = set()
        for call in free:
            run = [
                one for one in self.between(call, other_free) if self.many.nodes[one] not in taken
            ]
            if call in self.partner or any(one in self.back for one in run):
                continue
            group = self.told_by_table(call, run)
            if group:
                found.append(group)
                taken |= {*group.bench}
        used = {node for group in found for node in group.npu}
        return found + self.linears(
            [one for one in free if self.one.nodes[one] not in used],
            [one for one in other_free if self.many.nodes[one] not in taken],
        )


@settings(max_examples=costly_examples(80))
@given(RANDOMS)
def test_one_call_stands_for_several_by_a_table_or_by_weights_that_add_up(random: Random) -> None:
    """Between the same neighbours, with inputs and an output of the same size."""
    first, second, pairs = fused_programs(random)
    one, many = read_parts(random, [first, second])
    partner = dict(pairs)
    columns = [np.full(len(part.traits), -1, dtype=np.int64) for part in (one, many)]
    for name, other in pairs:
        columns[0][one.nodes[name]] = many.nodes[other]
        columns[1][many.nodes[other]] = one.nodes[name]
    # What has a partner may be free as well, as a weak pair.
    free = [name for name in one.nodes if name != NET and name not in partner]
    free += [name for name in partner if random.random() < 0.1]
    other_free = [name for name in many.nodes if name != NET and name not in partner.values()]
    other_free += [name for name in partner.values() if random.random() < 0.1]
    free.sort(key=one.nodes.__getitem__)
    other_free.sort(key=many.nodes.__getitem__)
    tell = random.random() < 0.6
    found = find_by_shapes(
        one.traits,
        one.flow,
        [one.nodes[name] for name in free],
        columns[0],
        many.traits,
        many.flow,
        [many.nodes[name] for name in other_free],
        columns[1],
        weights_tell=tell,
    )
    assert found == Plain(one, many, partner, tell=tell).groups(free, other_free)
    for group in found:
        turned = exchanged(group)
        assert (turned.npu, turned.bench) == (group.bench, group.npu)
        assert turned.rows == tuple((other, row) for row, other in group.rows)
        assert (turned.operation, turned.certainty) == (group.operation, group.certainty)
