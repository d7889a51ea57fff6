"""What the hierarchy shows of modules, against the same told by names, on drawn hierarchies."""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from hypothesis import given, settings
from numpy.typing import NDArray

from msprobe_builder.align.contradictions.of_modules import _of_other_number
from msprobe_builder.align.contradictions.passes import _passes
from msprobe_builder.align.evidence.scores import Known
from msprobe_builder.align.groups.find import _host
from msprobe_builder.align.pairing.across import around
from msprobe_builder.align.pairing.edges import Edges
from msprobe_builder.align.pairing.surroundings import surroundings
from msprobe_builder.align.pairing.weights import hosts_by_weights, twins_by_weights
from msprobe_builder.align.pairing.wrappers import cores, transparent
from tests.alignment.test_plain_decisions import operators_of, paired, some_pairs
from tests.alignment.test_traits import Dump, Side, joined, numel, read
from tests.builder.small_dumps import Record, forward, tensor
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

Int = NDArray[np.int64]
SHAPES = ((2, 4), (8,), (4,))
WEIGHTS = tuple(
    tensor(norm, high=norm / 2, low=-norm / 3, shape=shape)
    for norm in (2.0, 3.0, 3.0003)
    for shape in ((4, 4), (16,))
)
CALLS = {"Torch.relu": True, "Tensor.float": False, "Tensor.to": False}  # whether they are work


def some_hierarchy(random: Random) -> Dump:
    """Modules in modules, each called once or twice wherever it is called, with calls and weights.

    All calls of a module hold the same.
    """
    data: dict[str, Record] = {}
    construct: dict[str, str | None] = {}
    numbers: Counter[str] = Counter()
    plans: dict[str, list[Any]] = {}

    def plan(path: str, depth: int) -> None:
        inside: list[Any] = [call for call in CALLS if random.random() < 0.2]
        if depth < 3:
            for place in range(random.choice([0, 1, 1, 2, 3])):
                child = f"{path}.part{place}"
                plan(child, depth + 1)
                inside += [(child,)] * random.choice([1, 1, 2])
        held = random.sample(WEIGHTS, random.choice([0, 0, 1, 2]))
        made = [tensor(shape=random.choice(SHAPES)) for _ in range(random.choice([0, 1, 1, 1]))]
        plans[path] = [inside, held, made]

    def call(path: str, above: str | None) -> None:
        name = f"Module.{path}.Part.forward.{numbers[path]}"
        numbers[path] += 1
        inside, held, made = plans[path]
        construct[name] = above
        data[name] = forward([tensor()], made)
        if held:
            data[name]["parameters"] = {f"w{place}": one for place, one in enumerate(held)}
        for one in inside:
            if isinstance(one, tuple):
                call(one[0], name)
                continue
            data[f"{one}.{numbers[one]}.forward"] = forward([tensor()], [tensor()])
            construct[f"{one}.{numbers[one]}.forward"] = name
            numbers[one] += 1

    plan("net", 0)
    call("net", None)
    return Dump(data, construct)


def modules_of(side: Side) -> dict[str, int]:
    return {name: node for name, node in side.nodes.items() if name.startswith("Module")}


def stem(name: str) -> str:
    """Of a module without the number of its call."""
    return name.partition(".forward")[0]


def children(dump: Dump, name: str) -> list[str]:
    return [one for one, above in dump.construct.items() if above == name]


def known_of(left: Side, right: Side) -> Known:
    """Numbers of the stems of both sides."""
    ids: dict[str, int] = {"": 0}
    stems = []
    for side in (left, right):
        of_side = np.zeros(len(side.traits), dtype=np.int64)
        for name, node in side.nodes.items():
            of_side[node] = ids.setdefault(stem(name), len(ids))
        stems.append(of_side)
    trust = SimpleNamespace(equal=0.0, near=0.0)
    return cast("Known", SimpleNamespace(stem=stems[0], other_stem=stems[1], trust=trust))


# -- wrappers ----------------------------------------------------------------------------------


def passes_to(dump: Dump, name: str) -> str | None:
    """The only module in one that does nothing else."""
    inside = children(dump, name)
    modules = [one for one in inside if one.startswith("Module")]
    works = any(CALLS[one.rsplit(".", 2)[0]] for one in inside if one not in modules)
    if len(modules) != 1 or works or dump.tensors(name, "parameters"):
        return None
    made, inner = dump.tensors(name, "outputs"), dump.tensors(modules[0], "outputs")
    if made and inner and sum(map(numel, made)) != sum(map(numel, inner)):
        return None
    return modules[0]


def core_of(dump: Dump, name: str) -> str:
    inner = passes_to(dump, name) if name.startswith("Module") else None
    return name if inner is None else core_of(dump, inner)


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_a_module_comes_down_to_what_does_all_of_its_work(random: Random) -> None:
    [side] = read([some_hierarchy(random)])
    found = cores(side.traits, operators_of(side))
    for name, node in side.nodes.items():
        assert found[node] == side.nodes[core_of(side.dump, name)], name
    partner = np.array([random.choice([-1, -1, 5]) for _ in range(len(side.traits))])
    seen_through = transparent(side.traits, partner, found)
    for name, node in side.nodes.items():
        is_open = name.startswith("Module") and partner[node] < 0
        holds = any(partner[side.nodes[one]] >= 0 for one in side.dump.inside(name))
        is_wrapper = core_of(side.dump, name) != name
        assert seen_through[node] == (is_open and (holds or is_wrapper)), name


# -- hosts -------------------------------------------------------------------------------------


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_what_stands_around_a_pair_is_a_host_whose_partner_holds_the_other(random: Random) -> None:
    left, right = read([some_hierarchy(random), some_hierarchy(random)])
    chosen = dict(some_pairs(random, left, right))
    names = [{node: name for name, node in side.nodes.items()} for side in (left, right)]
    back = {other: one for one, other in chosen.items()}
    pairs = paired(left, right, [(0, 0), *chosen.items()])
    found = around(pairs, *(np.array([*side.nodes.values()]) for side in (left, right)))

    def host(side: Side, partners: dict[int, int], name: str) -> str | None:
        above = side.dump.construct[name]
        while above is not None and side.nodes[above] not in partners:
            above = side.dump.construct[above]
        return above

    def is_held(side: Side, other: Side, whose: int, one: str, two: str) -> bool:
        """Whether the partner of the host of the one holds the other; the root holds all."""
        partners = (chosen, back)[whose]
        above = host(side, partners, one)
        if above is None:
            return True
        partner = names[1 - whose][partners[side.nodes[above]]]
        return two != partner and two in other.dump.inside(partner)

    for (i, one), (j, two) in product(enumerate(left.nodes), enumerate(right.nodes)):
        expected = is_held(left, right, 0, one, two) or is_held(right, left, 1, two, one)
        assert found[i, j] == expected, (one, two)


# -- calls of one module -----------------------------------------------------------------------


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_another_call_of_a_module_that_is_called_as_often_is_none(random: Random) -> None:
    left, right = read([some_hierarchy(random), some_hierarchy(random)])
    ours, others = modules_of(left), modules_of(right)
    chosen = [
        (ours[one], others[other])
        for one, other in zip(
            random.sample([*ours], len(ours)), random.sample([*others], len(others)), strict=False
        )
    ]
    pairs = paired(left, right, chosen)
    pairs.known = known_of(left, right)
    nodes = np.array([one for one, _ in chosen])
    found = _of_other_number(pairs, nodes).tolist()
    names = [{node: name for name, node in one.items()} for one in (ours, others)]
    counts = [Counter(map(stem, one)) for one in (ours, others)]
    for one, other in chosen:
        texts = names[0][one], names[1][other]
        often = [count[stem(text)] for count, text in zip(counts, texts, strict=True)]
        places = [text.rpartition(".")[2] for text in texts]
        assert (one in found) == (often[0] == often[1] and places[0] != places[1])


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_passes_are_calls_that_their_host_makes_more_than_once(random: Random) -> None:
    """Of a module with weights in it, and not as many as a loop makes."""
    [side] = read([some_hierarchy(random)])
    with_weights = {
        name
        for name in modules_of(side)
        if any(side.dump.tensors(one, "parameters") for one in side.dump.inside(name))
    }
    counts = Counter(map(stem, with_weights))
    expected = []
    for name in with_weights:
        above = side.dump.construct[name]
        often = 1 if above is None else counts[stem(above)]
        if often < counts[stem(name)] < 8:
            expected.append(side.nodes[name])
    known = known_of(side, side)
    assert sorted(_passes(side.traits, known.stem).tolist()) == sorted(expected)


# -- weights -----------------------------------------------------------------------------------


def weights_of(dump: Dump, name: str) -> str:
    """What is known of the weights of a module together, in any order; nothing without any."""
    held = dump.tensors(name, "parameters")
    shapes = sorted(str(one["shape"]) for one in held)
    return f"{shapes} {[f'{one:.6f}' for one in joined(held)]}" if held else ""


def known_by(side: Side) -> dict[str, str]:
    """By stem of a module its weights, or those of all that it holds; nothing without any."""
    found = {}
    for name in modules_of(side):
        below = sorted(filter(None, (weights_of(side.dump, one) for one in side.dump.inside(name))))
        own = weights_of(side.dump, name)
        found[stem(name)] = f"own {own}" if own else f"held {below}" if below else ""
    return found


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_modules_are_known_by_weights_that_one_of_each_side_has(random: Random) -> None:
    """Or, without any of their own, by those of all that they hold."""
    left, right = read([some_hierarchy(random), some_hierarchy(random)])
    known = known_of(left, right)
    found = {
        "own": twins_by_weights(left.traits, right.traits, known),
        "held": hosts_by_weights(left.traits, right.traits, known),
    }
    keys, others = known_by(left), known_by(right)
    counts = Counter(keys.values()), Counter(others.values())
    for (one, i), (two, j) in product(modules_of(left).items(), modules_of(right).items()):
        key = keys[stem(one)]
        is_told = key == others[stem(two)] != "" and counts[0][key] == counts[1][key] == 1
        for kind, (number, other_number) in found.items():
            expected = is_told and key.startswith(kind)
            assert (number[i] >= 0 and number[i] == other_number[j]) == expected, (one, two)


# -- what stands around a node -----------------------------------------------------------------


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_a_module_comes_from_what_its_first_call_does_and_goes_where_its_last_one_does(
    random: Random,
) -> None:
    [side] = read([some_hierarchy(random)])
    leaves = [name for name in side.nodes if not children(side.dump, name)]
    taken: dict[int, list[tuple[int, int]]] = {}
    for _ in range(random.randint(0, 8)):
        maker, taker = (side.nodes[random.choice(leaves)] for _ in range(2))
        taken.setdefault(maker, []).append((taker, random.randint(0, 1)))
    edges = cast("Edges", SimpleNamespace(taken=taken))
    found = surroundings(edges, side.traits)
    before, behind = found[: len(found) // 2], found[len(found) // 2 :]
    for name, node in modules_of(side).items():
        inside = [one for one in side.dump.inside(name) if one in leaves]
        nodes = sorted(side.nodes[one] for one in inside)
        assert nodes
        assert (before[:, node] == before[:, nodes[0]]).all()
        assert (behind[:, node] == behind[:, nodes[-1]]).all()
    takers = {taker for several in taken.values() for taker, _ in several}
    for name in leaves:
        node = side.nodes[name]
        assert (before[:, node] != 0).all() == (node in takers)
        assert (behind[:, node] != 0).all() == (node in taken)


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_the_host_of_a_region_is_the_nearest_module_around_that_has_a_partner(
    random: Random,
) -> None:
    """The root where none has."""
    [side] = read([some_hierarchy(random)])
    outline = side.traits.outline
    partner = np.array([random.choice([-1, -1, 0, 7]) for _ in range(len(side.traits))])
    for name, node in side.nodes.items():
        above = side.dump.construct[name]
        while above is not None and partner[side.nodes[above]] < 0:
            above = side.dump.construct[above]
        expected = 0 if above is None else side.nodes[above]
        assert _host(outline.tree.parent, outline.kind, partner, node) == expected
    assert _host(outline.tree.parent, outline.kind, partner, 0) == 0
