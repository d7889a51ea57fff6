"""What decides single pairs, against the same written down plainly, on drawn dumps and numbers."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from hypothesis import given, settings
from numpy.typing import NDArray

from msprobe_builder.align.align import _hold_the_same, _pair_modules
from msprobe_builder.align.evidence.hands_on import hands_on
from msprobe_builder.align.evidence.scores import Known
from msprobe_builder.align.evidence.trust import Trust
from msprobe_builder.align.evidence.words import Words
from msprobe_builder.align.groups.find import _common, _shared
from msprobe_builder.align.pairing.anchors import Candidates
from msprobe_builder.align.pairing.order_and_flow import _alike
from msprobe_builder.align.pairing.pairs import Pairs
from msprobe_builder.align.pairing.same import give_way_to_hosts
from msprobe_builder.align.pairing.twins import _leaves_its_line
from msprobe_builder.base.codes import Evidence
from msprobe_builder.dump.names import parse_name
from msprobe_builder.operators.table import operator_of
from tests.alignment.test_traits import Dump, Side, numel, read, some_dump
from tests.builder.small_dumps import Record, forward, tensor
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

Int = NDArray[np.int64]
INFINITE = float("inf")


def paired(left: Side, right: Side, pairs: Iterable[tuple[int, int]] = (), **known: Any) -> Pairs:
    """Some pairs of two sides, made by evidence, with what is ``known`` beside them."""
    sizes = len(left.traits), len(right.traits)
    partner, back = (np.full(size, -1, dtype=np.int64) for size in sizes)
    for one, other in pairs:
        partner[one], back[other] = other, one
    evidence = np.where(partner >= 0, int(Evidence.LEAVES), 0)
    is_asked = np.zeros(sizes[0], dtype=bool)
    weight = np.full(sizes[0], 3.0)
    facts = cast("Known", SimpleNamespace(**known))
    return Pairs(left.traits, right.traits, facts, partner, back, evidence, weight, is_asked)


def some_pairs(random: Random, left: Side, right: Side) -> list[tuple[int, int]]:
    one, other = ([*side.nodes.values()] for side in (left, right))
    count = random.randint(0, min(len(one), len(other)))
    return [*zip(random.sample(one, count), random.sample(other, count), strict=True)]


# -- modules that hand on what they are given --------------------------------------------------

TENSORS = (
    tensor(2.0, high=1.0, low=-1.0, shape=(2, 4)),
    tensor(2.0, high=1.0, low=-1.0, shape=(8,)),
    tensor(5.0, high=3.0, low=-1.0, shape=(2, 4)),
    tensor(5.0, high=3.0, low=-1.0, shape=(4,)),
    tensor(INFINITE, high=INFINITE, low=-1.0, shape=(2, 4)),
    tensor(None, high=None, low=None, mean=None, shape=(2, 4)),
    tensor(None, high=None, low=None, mean=None, shape=(4,)),
)
WORKS = {"Torch.relu": True, "Tensor.view": False, "Functional.dropout": False}


def some_modules(random: Random) -> Dump:
    """Modules beside each other, with weights or without, that make a call or none."""
    data: dict[str, Record] = {}
    construct: dict[str, str | None] = {}
    for place in range(random.randint(1, 6)):
        name = f"Module.part{place}.Part.forward.0"
        construct[name] = None
        given, made = ([*random.choices(TENSORS, k=random.choice([1, 1, 1, 2]))] for _ in "io")
        data[name] = forward(given, made)
        if random.random() < 0.4:
            data[name]["parameters"] = {"weight": TENSORS[0]}
        if random.random() < 0.5:
            call = f"{random.choice([*WORKS])}.{place}.forward"
            construct[call] = name
            data[call] = forward([TENSORS[0]], [TENSORS[0]])
    return Dump(data, construct)


def plainly_hands_on(dump: Dump, name: str) -> int:
    given, made = dump.tensors(name, "inputs"), dump.tensors(name, "outputs")
    if len(given) != 1 or len(made) != 1:
        return -1
    is_known = given[0]["Norm"] is not None and made[0]["Norm"] is not None
    is_equal = all(given[0][key] == made[0][key] for key in ("Norm", "Max", "Min"))
    if is_known and is_equal and numel(given[0]) == numel(made[0]):
        return 1
    calls = [one for one in dump.inside(name) if one != name]
    has_weights = bool(dump.tensors(name, "parameters"))
    has_any = any(WORKS.get(one.rpartition(".forward")[0].rpartition(".")[0]) for one in dump.data)
    is_same_size = numel(given[0]) == numel(made[0])
    if not is_known and not calls and not has_weights and has_any and is_same_size:
        return 1
    works = any(WORKS[one.rpartition(".forward")[0].rpartition(".")[0]] for one in calls)
    return 0 if works or has_weights else -1


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_what_hands_on_is_told_by_numbers_and_where_there_are_none_by_calls(random: Random) -> None:
    [side] = read([some_modules(random)])
    found = hands_on(side.traits, operators_of(side))
    for name, node in side.nodes.items():
        expected = plainly_hands_on(side.dump, name) if name.startswith("Module") else -1
        assert found[node] == expected, name


def operators_of(side: Side) -> dict[str, int]:
    """Numbers by operator, as the traits of a side have them."""
    calls = {name: node for name, node in side.nodes.items() if not name.startswith("Module")}
    names = {name: operator_of(parse_name(name).stem).name for name in calls}
    return {names[name]: int(side.traits.operator[node]) for name, node in calls.items()}


# -- modules that hold the same, and such as give way to the one around them --------------------


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_modules_hold_the_same_where_no_pair_leaves_them(random: Random) -> None:
    left, right = read([some_dump(random), some_dump(random)])
    chosen = some_pairs(random, left, right)
    pairs = paired(left, right, chosen)
    for one, i in left.nodes.items():
        for other, j in right.nodes.items():
            held = {left.nodes[name] for name in left.dump.inside(one)} - {i}
            held_there = {right.nodes[name] for name in right.dump.inside(other)} - {j}
            inside = [pair for pair in chosen if pair[0] in held or pair[1] in held_there]
            is_same = all(a in held and b in held_there for a, b in inside)
            assert _hold_the_same(pairs, i, j) == (is_same and bool(inside)), (one, other)


def blocks(count: int) -> Dump:
    """Modules of one class that each make a call, and one of another class."""
    names = [f"Module.block{place}.Block.forward.0" for place in range(count)]
    names.append("Module.head.Head.forward.0")
    calls = [f"Torch.relu.{place}.forward" for place in range(count + 1)]
    data = {name: forward([tensor()], [tensor()]) for name in (*names, *calls)}
    return Dump(data, {**dict.fromkeys(names), **dict(zip(calls, names, strict=True))})


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_repeated_modules_that_leaves_leave_open_are_told_by_what_they_hold(
    random: Random,
) -> None:
    count = random.randint(2, 5)
    left, right = read([blocks(count), blocks(count)])
    names = [name for name in left.nodes if name.startswith("Module")]
    calls = [name for name in left.nodes if not name.startswith("Module")]
    chosen = [pair for pair in zip(calls, calls, strict=True) if random.random() < 0.5]
    pairs = paired(left, right, [(left.nodes[one], right.nodes[other]) for one, other in chosen])
    sure = [random.choice([0.0, 0.2, 0.25, 0.3, 1.0]) for _ in names]
    nodes, there = ([side.nodes[name] for name in names] for side in (left, right))
    is_repeated = [
        np.isin(np.arange(len(left.traits)), nodes[:count] if has else [])
        for has in random.choice([(True, False), (False, True), (True, True)])
    ]
    candidates = Candidates(nodes, there, sure)
    _pair_modules(pairs, candidates, is_repeated[0], is_repeated[1])
    for place, (name, call, share) in enumerate(zip(names, calls, sure, strict=True)):
        is_told = share >= 0.25 or place == count or (call, call) in chosen
        assert (pairs.partner[left.nodes[name]] >= 0) == is_told, name


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_a_layer_gives_way_to_the_one_around_it_whose_results_are_those_of_its_partner(
    random: Random,
) -> None:
    """Of a single number nothing tells that it is the same."""
    size = random.choice([1, 2, 3])
    given, made, other = (
        tensor(norm, high=norm / 2, low=-norm / 2, shape=(size,)) for norm in (2.0, 5.0, 9.0)
    )
    results = [random.choice([made, other]) for _ in range(2)]
    taken = random.choice([given, other])
    data = {
        "Module.around.Around.forward.0": forward([taken], [results[0]]),
        "Module.around.layer.Layer.forward.0": forward([given], [results[1]]),
    }
    names = [*data]
    around = Dump(data, {names[0]: None, names[1]: names[0]})
    alone = Dump({"Module.layer.Layer.forward.0": forward([given], [made])}, {})
    alone.construct["Module.layer.Layer.forward.0"] = None
    sides = [around, alone]
    is_exchanged = random.random() < 0.5
    left, right = read(sides[::-1] if is_exchanged else sides)
    [layer], [_, inner] = sorted(([*side.nodes.values()] for side in (left, right)), key=len)
    pair = (layer, inner) if is_exchanged else (inner, layer)
    pairs = paired(left, right, [pair], trust=SimpleNamespace(equal=2.0))
    give_way_to_hosts(pairs, left.traits, right.traits)
    gives_way = size > 1 and results == [made, other] and taken is given
    host = (right if is_exchanged else left).nodes[names[0]]
    expected = ((layer, host) if is_exchanged else (host, layer)) if gives_way else pair
    found = [(one, int(pairs.partner[one])) for one in range(len(pairs.partner))]
    assert [one for one in found if one[1] >= 0] == [expected]


# -- numbers alone -----------------------------------------------------------------------------


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_a_call_leaves_its_line_where_only_its_old_partner_stands_there(random: Random) -> None:
    """Of a layer of the library, the line of which is that of all such layers, in its module."""
    left, right = read([some_dump(random), some_dump(random)])
    sites = [np.array(random.choices([0, 1, 2], k=len(one.traits))) for one in (left, right)]
    chosen = some_pairs(random, left, right)
    exact = np.full(len(left.traits), -1)
    for one, other in chosen:
        exact[one] = random.choice([other, other, -1])
    pairs = paired(left, right, chosen, exact=exact, site=sites[0], other_site=sites[1])
    partner, holders = dict(chosen), (left.dump.construct, right.dump.construct)
    names = [{node: name for name, node in side.nodes.items()} for side in (left, right)]
    for i in left.nodes.values():
        for j in (-1, *right.nodes.values()):
            old, line = partner.get(i), sites[0][i]
            expected = (
                old is not None
                and exact[i] == old
                and line > 0
                and sites[1][old] == line
                and not (j >= 0 and sites[1][j] == line)
                and holders[0][names[0][i]] == holders[1][names[1][old]]
            )
            assert _leaves_its_line(pairs, i, j) == expected


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_rows_in_common_are_those_that_agree(random: Random) -> None:
    """Of each side the rows, and to which of the other each belongs."""
    rows = [np.array(sorted(random.sample(range(9), random.randint(1, 5)))) for _ in "ab"]
    same = np.array([[random.random() < 0.5 for _ in rows[1]] for _ in rows[0]])
    found, there, partners = _common(rows[0], rows[1], same)
    expected = [
        (int(row), int(other))
        for i, row in enumerate(rows[0])
        for j, other in enumerate(rows[1])
        if same[i, j]
    ]
    assert found == {one for one, _ in expected}
    assert there == {other for _, other in expected}
    assert {(one, other) for one, several in partners.items() for other in several} == {*expected}


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_rows_that_both_have_are_shared_one_for_one_and_the_first_that_is_left(
    random: Random,
) -> None:
    rows, there = ([*range(random.randint(0, 5))] for _ in "ab")
    random.shuffle(rows)
    partners = {row: random.sample(range(5), random.randint(1, 3)) for row in range(4)}
    common = frozenset(partners), frozenset(range(5)), partners
    expected, taken = [], set[int]()
    for row in rows:
        free = [one for one in partners.get(row, ()) if one in there and one not in taken]
        if free:
            expected.append((row, free[0]))
            taken.add(free[0])
    assert _shared(common, rows, there) == expected
    assert len(there) == len({*there}), "nothing was taken out of what was given"


@settings(max_examples=costly_examples(40))
@given(RANDOMS)
def test_calls_of_one_line_are_more_alike_and_those_of_lines_that_both_have_less(
    random: Random,
) -> None:
    left, right = read([some_dump(random), some_dump(random)])
    a, b = (np.array([*side.nodes.values()]) for side in (left, right))
    sites = [np.array(random.choices([0, 1, 2], k=len(one.traits))) for one in (left, right)]

    def alike(site: Int, other_site: Int) -> NDArray[np.float64]:
        words = [Words(side.traits.outline.tree) for side in (left, right)]
        known: dict[str, Any] = {"site": site, "other_site": other_site, "trust": Trust()}
        known |= {"words": words[0], "other_words": words[1], "products": np.array([], np.int64)}
        return _alike(paired(left, right, **known), a, b)

    told = alike(*sites) - alike(*(np.zeros_like(one) for one in sites))
    for i, one in enumerate(sites[0][a].tolist()):
        for j, other in enumerate(sites[1][b].tolist()):
            more = 0.0 if 0 in (one, other) else 1.0 if one == other else -4.0
            assert abs(told[i, j] - more) < 1e-9
