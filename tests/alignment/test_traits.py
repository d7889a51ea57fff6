"""What alignment weighs of two sides, against the same looked up in plain records."""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
from hypothesis import given

from msprobe_builder.align.evidence.sites import shared_sites
from msprobe_builder.align.evidence.sizes import given_other_sizes, other_form, takes_more
from msprobe_builder.align.evidence.traits import Traits, has_values, traits_of
from msprobe_builder.align.evidence.trust import disagreeing, levels, trust_of
from msprobe_builder.align.pairing.offers import _free_around
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.source import InMemoryDump
from msprobe_builder.match.outline import outline_of
from msprobe_builder.pipeline.compare import read_rank
from tests.builder.small_dumps import Record, forward, number, tensor, write_dump
from tests.small_graphs import RANDOMS

SHAPES = ((), (4,), (2, 2), (2, 4), (4, 2), (2, 2, 2))
CALLS = ("Torch.relu", "Torch.add", "Functional.linear", "Tensor.view")
MODULES = ("Module.net.Net", "Module.net.first.Part", "Module.net.second.Part")
EQUAL, NEAR = 1e-5, 2e-2  # of two runs on other hardware, and of one in half precision
SECTIONS = ("inputs", "outputs", "parameters")


@dataclass(frozen=True)
class Dump:
    """One side as it is written: records by name, and the module that makes each call."""

    data: dict[str, Record]
    construct: dict[str, str | None]

    def inside(self, name: str) -> list[str]:
        """A record, and all that it holds."""
        held = [one for one, above in self.construct.items() if above == name]
        return [name, *(deeper for one in held for deeper in self.inside(one))]

    def tensors(self, name: str, section: str) -> list[Record]:
        record = self.data.get(name, {})
        found = {
            "inputs": [
                *record.get("input", ()),  # of a backward call
                *record.get("input_args", ()),
                *record.get("input_kwargs", {}).values(),
            ],
            "outputs": record.get("output", ()),
            "parameters": [*record.get("parameters", {}).values()],
        }[section]
        return [one for one in found if "shape" in one]

    def arguments(self, name: str) -> Counter[str]:
        record = self.data.get(name, {})
        found = [*record.get("input_args", ()), *record.get("input_kwargs", {}).values()]
        return Counter(f"{one['type']} {one['value']}" for one in found if "value" in one)


def some_tensor(random: Random, *, large: bool = False) -> Record:
    """Two in five with the same numbers as another; some nearly, some without numbers."""
    norm = random.choice([1.0, 1.0 + 2e-6, 1.01, 2.0, 0.0, None])
    if norm is None:
        return tensor(None, high=None, low=None, mean=None, shape=random.choice(SHAPES))
    high = random.choice([1.0, 1.0 + 2e-6, 1.01]) * (norm + large)
    return tensor(norm, high=high, low=-high / 2, shape=random.choice(SHAPES))


def some_dump(random: Random) -> Dump:
    """A network, parts of it that may hold weights, and calls in any of them."""
    names = [f"{name}.forward.0" for name in MODULES]
    construct: dict[str, str | None] = {names[0]: None}
    construct |= dict.fromkeys(random.sample(names[1:], random.randint(0, 2)), names[0])
    data: dict[str, Record] = {}
    for name in [*construct]:
        data[name] = forward([some_tensor(random)], [some_tensor(random)])
        if random.random() < 0.6:
            weights = {"weight": some_tensor(random), "bias": some_tensor(random)}
            data[name]["parameters"] = dict([*weights.items()][: random.randint(1, 2)])
    numbers: Counter[str] = Counter()
    for _ in range(random.randint(0, 5)):
        stem = random.choice(CALLS)
        name = f"{stem}.{numbers[stem]}.forward"
        numbers[stem] += 1
        construct[name] = random.choice([*data])
        if not construct[name].startswith("Module"):  # type: ignore[union-attr]
            construct[name] = names[0]
        given = [some_tensor(random) for _ in range(random.randint(0, 2))]
        plain = [number(random.choice([1, 2, "floor"])) for _ in range(random.randint(0, 2))]
        made = [some_tensor(random, large=True) for _ in range(random.randint(0, 2))]
        data[name] = forward([*given, *plain], made)
    return Dump(data, construct)


@dataclass(frozen=True)
class Side:
    dump: Dump
    traits: Traits
    nodes: dict[str, int]


def read(dumps: list[Dump]) -> Iterator[Side]:
    """The same as alignment has it, with ids in common."""
    texts, operators = Texts(), dict[str, int]()
    for dump in dumps:
        content = {"task": "statistics", "level": "mix", "framework": "pytorch", "data": dump.data}
        side, _ = read_rank(InMemoryDump(content, dump.construct, {}), texts)
        traits = traits_of(side, outline_of(side.tree, side.table), operators, texts)
        names = {name: node for node, name in enumerate(side.tree.names) if name in dump.data}
        assert names.keys() == dump.data.keys()
        yield Side(dump, traits, names)


def numel(one: Record) -> int:
    return math.prod(one["shape"])


def joined(several: list[Record]) -> list[float]:
    """Norm of some tensors together, the largest and the smallest element; NaN where unknown."""
    if not several or any(one["Norm"] is None for one in several):
        norm = math.nan
    else:
        norm = math.sqrt(sum(one["Norm"] ** 2 for one in several))
    highs = [one["Max"] for one in several if one["Max"] is not None]
    lows = [one["Min"] for one in several if one["Min"] is not None]
    return [norm, max(highs, default=math.nan), min(lows, default=math.nan)]


@given(RANDOMS)
def test_traits_are_what_the_records_say(random: Random) -> None:
    sides = [*read([some_dump(random), some_dump(random)])]
    for side in sides:
        traits = side.traits
        for name, node in side.nodes.items():
            for section in SECTIONS:
                several = side.dump.tensors(name, section)
                found = getattr(traits, section)
                assert found.count[node] == len(several)
                assert found.numel[node] == sum(map(numel, several))
                np.testing.assert_allclose(found.values[:, node], joined(several), rtol=1e-6)
            below = [
                one
                for held in side.dump.inside(name)
                for one in side.dump.tensors(held, "parameters")
            ]
            squares = sum((one["Norm"] or 0.0) ** 2 for one in below)
            expected = [squares, sum(map(numel, below))]
            np.testing.assert_allclose(traits.parameters_below[:, node], expected, rtol=1e-6)
            calls = [held for held in side.dump.inside(name) if not held.startswith("Module")]
            assert traits.below[node].sum() == len(calls)
            assert (traits.operator[node] < 0) == name.startswith("Module")
        # A call of which one tensor has no numbers has none.
        norms = [joined(side.dump.tensors(name, "inputs"))[0] for name in side.nodes]
        assert has_values(traits) != all(map(math.isnan, norms))
    left, right = sides
    for (one, node), (two, other) in product(left.nodes.items(), right.nodes.items()):
        for section in SECTIONS:
            mine, theirs = getattr(left.traits, section), getattr(right.traits, section)
            shapes, others = (
                Counter(tuple(tensor["shape"]) for tensor in side.dump.tensors(name, section))
                for side, name in ((left, one), (right, two))
            )
            assert (mine.shapes[node] == theirs.shapes[other]) == (shapes == others)
            # A tensor without dimensions adds nothing to them.
            ranks, other_ranks = (
                Counter(len(shape) for shape in several.elements() if shape)
                for several in (shapes, others)
            )
            assert (mine.ranks[node] == theirs.ranks[other]) == (ranks == other_ranks)
            vectors = bool(shapes) and all(len(shape) == 1 for shape in shapes)
            assert mine.are_vectors(np.array([node]))[0] == vectors
        alike = left.dump.arguments(one) == right.dump.arguments(two)
        assert (left.traits.arguments[node] == right.traits.arguments[other]) == alike
        both_calls = not one.startswith("Module") and not two.startswith("Module")
        if both_calls:
            same = one.split(".")[:2] == two.split(".")[:2]
            assert (left.traits.operator[node] == right.traits.operator[other]) == same


def level_of(mine: list[Record], theirs: list[Record]) -> int:
    """2 where all that both have is equal, 1 where it is near, 0 where anything is apart."""
    x, y = joined(mine), joined(theirs)
    both = [place for place in range(3) if not math.isnan(x[place] + y[place])]
    if not any(x[place] != 0 for place in both):
        return 0
    if len(mine) == len(theirs) and sum(map(numel, mine)) != sum(map(numel, theirs)):
        return 0

    def is_within(share: float) -> bool:
        largest = [
            max((abs(one) for one in pair if not math.isnan(one)), default=0.0)
            for pair in zip(x, y, strict=True)
        ]
        units = [largest[0] or 1.0, max(largest), max(largest)]
        return all(
            x[place] == y[place] or abs(x[place] - y[place]) <= share * units[place]
            for place in both
        )

    return 2 if is_within(EQUAL) else 1 if is_within(NEAR) else 0


@given(RANDOMS)
def test_pairs_are_weighed_by_what_the_records_say(random: Random) -> None:
    left, right = read([some_dump(random), some_dump(random)])
    a, b = (np.array([*side.nodes.values()]) for side in (left, right))
    found = {
        section: levels(
            getattr(left.traits, section), getattr(right.traits, section), a[:, None], b[None, :]
        )
        for section in SECTIONS
    }
    sizes = given_other_sizes(left.traits, right.traits, a, b)
    more = takes_more(left.traits, right.traits, a, b)
    form = other_form(left.traits, right.traits, a, b)
    differing = 0
    for (i, one), (j, two) in product(enumerate(left.nodes), enumerate(right.nodes)):
        mine = {section: left.dump.tensors(one, section) for section in SECTIONS}
        theirs = {section: right.dump.tensors(two, section) for section in SECTIONS}
        for section in SECTIONS:
            assert found[section][i, j] == level_of(mine[section], theirs[section]), (one, two)
        given, other_given = mine["inputs"], theirs["inputs"]
        of_one = mine["parameters"] and theirs["parameters"] and len(given) == len(other_given) == 1
        assert sizes[i, j] == bool(of_one and numel(given[0]) != numel(other_given[0]))
        tensors = len(given) - len(other_given)
        elements = sum(map(numel, given)) - sum(map(numel, other_given))
        # A number that one side holds as a tensor is none more.
        assert more[i, j] == (tensors * elements > 0 and abs(elements) > abs(tensors))
        shapes = [
            (
                Counter(str(tensor["shape"]) for tensor in part["inputs"]),
                Counter(str(tensor["shape"]) for tensor in part["outputs"]),
            )
            for part in (mine, theirs)
        ]
        turns = Counter(
            len(tensor["shape"]) for tensor in mine["inputs"] if tensor["shape"]
        ) == Counter(len(tensor["shape"]) for tensor in mine["outputs"] if tensor["shape"])
        other = shapes[0][1] != shapes[1][1] and (shapes[0][0] != shapes[1][0] or turns)
        assert form[i, j] == other
        x, y = joined(mine["outputs"]), joined(theirs["outputs"])
        if not math.isnan(x[0] + y[0]) and (x[0] != 0 or y[0] != 0):
            differing += level_of(mine["outputs"], theirs["outputs"]) < 2
    grid = np.repeat(a, len(b)), np.tile(b, len(a))
    assert disagreeing(left.traits.outputs, right.traits.outputs, *grid).sum() == differing


RELATIONS = (1.0, 1.01, 2.0)  # equal, near and another norm


def layers(weights: list[float], outputs: list[float]) -> Dump:
    """A network of layers with weights of these norms, which put out tensors of these."""
    data: dict[str, Record] = {}
    construct: dict[str, str | None] = {}
    for place, (weight, output) in enumerate(zip(weights, outputs, strict=True)):
        name = f"Module.net.part{place}.Part.forward.0"
        construct[name] = None
        made = tensor(output * (1 + place), high=output, low=-output, shape=(2, 4))
        data[name] = forward([tensor(shape=(2, 4))], [made])
        held = tensor(weight * (1 + place), high=weight, low=-weight, shape=(4, 4))
        data[name]["parameters"] = {"weight": held}
    return Dump(data, construct)


@given(RANDOMS)
def test_what_agrees_is_trusted_as_far_as_weights_and_results_do(random: Random) -> None:
    """By the shares that are equal, near or other; where weights differ, by the last result."""
    count = random.randint(2, 8)
    norms = [[random.choice(RELATIONS) for _ in range(count)] for _ in range(2)]
    left, right = read([layers(*norms), layers([1.0] * count, [1.0] * count)])
    a, b = (np.array([*side.nodes.values()]) for side in (left, right))
    found = trust_of(left.traits, right.traits, a, b)
    weights, outputs = ([one.count(value) / count for value in RELATIONS] for one in norms)
    differ = weights[0] < 0.5
    assert found.weights == (0.0 if differ else 1.5)
    none = differ and norms[1][-1] != 1.0
    assert found.equal == (2.0 if outputs[0] >= 0.08 and not none else 0.0)
    is_near = outputs[1] >= 0.08 and outputs[0] + outputs[1] >= 0.4
    assert found.near == (1.0 if is_near and not none else 0.0)
    assert found.same_sizes
    assert found.same_shapes


@given(RANDOMS)
def test_what_stands_around_a_node_is_free_up_to_the_first_with_a_partner(random: Random) -> None:
    [side] = read([some_dump(random)])
    nodes = side.nodes
    partner = np.array([random.choice([-1, -1, 0, 7]) for _ in range(len(side.traits))])
    for name, node in nodes.items():
        around = []
        above = side.dump.construct[name]
        while above is not None and partner[nodes[above]] < 0:
            around.append(nodes[above])
            above = side.dump.construct[above]
        assert _free_around(side.traits, partner, node) == around


LINES = ("x = f(x)", "x = g(x)")


@given(RANDOMS)
def test_a_call_site_is_the_two_innermost_lines_of_ones_own_code(random: Random) -> None:
    """Whatever stands outside of them, in between of a framework, or is the number of a line."""
    sides, sites = [], []
    with tempfile.TemporaryDirectory() as folder:
        texts = Texts()
        for side in range(2):
            stack, lines = {}, {}
            for number in range(random.randint(1, 4)):
                name = f"Torch.relu.{number}.forward"
                own = [random.choice(LINES) for _ in range(random.randint(0, 4))]
                frames = []
                for line in own:
                    place = random.randint(1, 99)
                    if random.random() < 0.3:
                        frames.append("File /site-packages/torch/nn/a.py, line 3, in call, \n f()")
                    frames.append(f"File /home/user/m.py, line {place}, in step, \n {line}")
                stack[name], lines[name] = frames, tuple(own[:2])
            data = {name: forward([tensor()], [tensor()]) for name in stack}
            path = write_dump(Path(folder) / str(side), data, dict.fromkeys(data), stack)
            read_side, _ = read_rank(path, texts)
            sides.append(read_side)
            sites.append(lines)
    found = shared_sites(*sides)
    known: list[dict[tuple[str, ...], int]] = [{}, {}]
    for side, (part, lines) in enumerate(zip(sides, sites, strict=True)):
        for node, name in enumerate(part.tree.names):
            own_lines = lines.get(name, ())
            is_shared = bool(own_lines) and own_lines in sites[1 - side].values()
            number = int(found[side][node])
            assert bool(number) == is_shared
            if number:
                assert known[side].setdefault(own_lines, number) == number
    for shared in known[0].keys() & known[1].keys():
        assert known[0][shared] == known[1][shared]
    assert len(set(known[0].values())) == len(known[0])


def test_numbers_of_memory_that_nobody_has_written_to_are_no_evidence() -> None:
    """Of two calls with one list those that find other numbers in their room are as near."""
    part, room = tensor(2.0, shape=(4,)), tensor(7e30, high=9e29, low=0.0, shape=(8,))
    data = {
        "Torch.empty.0.forward": forward([number(8)], [room]),
        "Tensor.view.0.forward": forward([room, number(2)], [{**room, "shape": [2, 4]}]),
        "Torch.stack.0.forward": {
            **forward([part], []),
            "input_kwargs": {"out": {**room, "shape": [2, 4]}},
        },
    }
    [side] = read([Dump(data, dict.fromkeys(data))])
    inputs, outputs = side.traits.inputs, side.traits.outputs
    at = [side.nodes[name] for name in data]
    assert np.isnan(outputs.values[:, at[:2]]).all()
    assert inputs.values[:, at[2]].tolist() == joined([part])
    assert inputs.count[at[2]] == 2
    assert inputs.numel[at[2]] == numel(part) + numel(room)
