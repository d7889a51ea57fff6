"""Names of groups, and groups that are none: told by the operators of their calls."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings

from msprobe_builder.align.evidence.operators import forms
from msprobe_builder.align.groups.fused import fusions, name_of
from msprobe_builder.align.groups.no_groups import are_pairs
from msprobe_builder.base.codes import Evidence
from msprobe_builder.match.matching import Group
from msprobe_builder.operators.table import row_of
from tests.alignment.test_plain_decisions import operators_of, paired
from tests.alignment.test_plain_scores import does, is_module, shapes_of, size_of
from tests.alignment.test_traits import Dump
from tests.alignment.two_programs import NET, Part, read_parts
from tests.builder.small_dumps import forward, tensor
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS, Seeded

CALLS = (
    *("Functional.scaled_dot_product_attention", "Torch.matmul", "Functional.softmax"),
    *("Functional.silu", "Torch.sigmoid", "Torch.mul", "Torch.exp", "Torch.sum", "Torch.log"),
    *("Functional.layer_norm", "Torch.mean", "Torch.add", "Tensor.view", "Tensor.to"),
)
MOVING = ("view", "to", "reshape")


def program(random: Random, stems: list[str]) -> Dump:
    """Calls of these names, leaves of a network, with results of few sizes and values."""
    dump = Dump({NET: forward([tensor()], [tensor()])}, {NET: None})
    for place, stem in enumerate(stems):
        name = f"{stem}.{place}.forward" if "." in stem else f"Module.net.p{place}.{stem}.forward.0"
        norm = random.choice([2.0, 3.5])
        low = random.choice([-1.0, -0.5])
        made = tensor(norm, high=norm, low=low, shape=random.choice([(2, 4), (2, 4), (8,), (3,)]))
        given = [tensor() for _ in range(random.choice([1, 1, 2]))]
        dump.data[name] = forward(given, [made])
        dump.construct[name] = NET
    return dump


def calls_of(part: Part) -> list[str]:
    return [one for one in part.nodes if one != NET]


def name(call: str) -> str:
    return call.split(".")[-3].lower() if is_module(call) else does(call)


def plain_name(npu: list[str], bench: list[str]) -> str:
    """What the table says of one call against its parts; else the one telling call there is."""
    for one, many in ((npu, bench), (bench, npu)):
        for operation, calls, parts in fusions():
            if calls & {*one} and parts <= {*many} and len(many) >= len(one):
                return operation
    telling = [[it for it in side if not forms(row_of(it))] for side in (npu, bench)]
    shorter, longer = telling if len(telling[0]) <= len(telling[1]) else telling[::-1]
    for side in (shorter, longer):
        if len({*side}) == 1:
            return side[0]
    for operation, _, parts in fusions():
        if parts <= {*longer} or parts <= {*shorter}:
            return operation
    return [*npu[:0], *next(side for side in (shorter, longer, npu, bench) if side)][-1]


@settings(max_examples=costly_examples(60))
@given(RANDOMS)
def test_a_group_is_named_by_the_table_or_by_a_telling_call(random: Random) -> None:
    stems = [
        [random.choice([*CALLS, "LayerNorm"]) for _ in range(random.randint(1, 4))] for _ in "ab"
    ]
    parts = read_parts(random, [program(random, one) for one in stems])
    pairs = paired(parts[0], parts[1])
    for _ in range(5):
        chosen = [
            sorted(
                random.sample(calls_of(part), random.randint(1, len(calls_of(part)))),
                key=part.nodes.__getitem__,
            )
            for part in parts
        ]
        nodes = [[part.nodes[one] for one in of] for part, of in zip(parts, chosen, strict=True)]
        expected = plain_name(*([name(one) for one in of] for of in chosen))
        assert name_of(pairs, *nodes) == expected


@pytest.mark.parametrize(
    ("npu", "bench", "operation"),
    [
        (
            ["Torch.matmul", "Functional.softmax", "Torch.add"],
            ["Torch.add", "Torch.exp"],
            "attention",
        ),
        (["Torch.add", "Torch.exp"], ["Torch.mul", "Torch.sigmoid", "Torch.log"], "silu"),
        (["Tensor.view", "Torch.add"], ["Torch.exp", "Torch.log"], "add"),
        (["Torch.exp", "Torch.log"], ["Torch.log", "Torch.add", "Torch.exp"], "log"),
        (["Tensor.view"], ["Tensor.view", "Tensor.to"], "reshape"),
        (["Functional.silu"], ["Torch.mul", "Torch.sigmoid"], "silu"),
        (["Torch.mul", "Torch.sigmoid"], ["Functional.silu"], "silu"),
        (["LayerNorm"], ["Torch.add", "Torch.exp"], "layernorm"),
    ],
)
def test_names_of_groups(npu: list[str], bench: list[str], operation: str) -> None:
    random = Seeded(0)
    parts = read_parts(random, [program(random, one) for one in (npu, bench)])
    nodes = ([part.nodes[one] for one in calls_of(part)] for part in parts)
    assert name_of(paired(parts[0], parts[1]), *nodes) == operation
    assert name_of(paired(parts[0], parts[1]), [], []) == "call"


@settings(max_examples=costly_examples(80))
@given(RANDOMS)
def test_a_group_of_calls_that_have_counterparts_of_their_own_is_none(random: Random) -> None:
    """One call on each side that does the same; or calls that merely move, found by place."""
    pool = random.choice([("Tensor.view", "Tensor.to", "Torch.add"), ("Torch.add", "Torch.mul")])
    stems = [random.choices([*pool, *pool, "Leaf"], k=random.randint(1, 4)) for _ in "ab"]
    parts = read_parts(random, [program(random, one) for one in stems])
    for _ in range(6):
        sides = []
        for part in parts:
            names = calls_of(part)
            several = random.sample(names, min(len(names), random.choice([1, 1, 2, 3])))
            sides.append(sorted(several, key=part.nodes.__getitem__))
        check(random, parts, sides)


def check(random: Random, parts: list[Part], sides: list[list[str]]) -> None:
    numbers = operators_of(parts[0]) | operators_of(parts[1])
    moving = np.array([number for it, number in numbers.items() if it in MOVING], dtype=np.int64)
    pairs = paired(parts[0], parts[1], moving=moving, trust=SimpleNamespace())
    nodes = [[part.nodes[one] for one in of] for part, of in zip(parts, sides, strict=True)]
    by_place = random.random() < 0.6
    pairs.denied.update((i, j) for i in nodes[0] for j in nodes[1] if random.random() < 0.2)
    denied = {*pairs.denied}

    def moves(call: str) -> bool:
        return not is_module(call) and does(call) in MOVING

    def kind(call: str) -> str:
        return "module" if is_module(call) else does(call)

    def is_alike(one: str, two: str) -> bool:
        made, its = (
            part.dump.tensors(call, "outputs") for part, call in zip(parts, (one, two), strict=True)
        )
        if is_module(one) or is_module(two) or size_of(made) != size_of(its):
            return False
        if does(one) == does(two):
            return True
        given, given_there = (
            part.dump.tensors(call, "inputs") for part, call in zip(parts, (one, two), strict=True)
        )
        is_whole = all(made[0][key] % 1 == 0 for key in ("Max", "Min"))
        is_told = not by_place and not moves(one) and not moves(two) and not is_whole
        return is_told and len(given) == len(given_there) and shapes_of(made) == shapes_of(its)

    def matches() -> list[tuple[str, str]] | None:
        """Each of the fewer calls with the next one of the others that is like it."""
        is_fewer = len(sides[0]) <= len(sides[1])
        few, many = sides if is_fewer else sides[::-1]
        if not by_place and len(many) > 1:
            return None
        is_same = [*map(kind, few)] == [*map(kind, many)]
        if len(many) > 1 and not is_same and (not all(map(moves, few)) or all(map(moves, many))):
            return None
        found, begin = [], 0
        for one in few:
            pair = [(one, other) if is_fewer else (other, one) for other in many]
            place = next((it for it in range(begin, len(many)) if is_alike(*pair[it])), None)
            if place is None:
                return None
            found.append(pair[place])
            begin = place + 1
        return found

    group = Group("", tuple(nodes[0]), tuple(nodes[1]), (), 0.5)
    found = are_pairs(pairs, group, by_place=by_place)
    expected = matches() or []
    made = [(parts[0].nodes[one], parts[1].nodes[two]) for one, two in expected]
    takes = all(parts[0].dump.tensors(one, "inputs") for one in sides[0])
    if max(map(len, sides)) > 1 or (takes and [*map(kind, sides[0])] == [*map(kind, sides[1])]):
        denied -= {*made}
    assert pairs.denied == denied
    added = [pair for pair in made if pair not in denied]
    assert found == bool(expected and len(added) == len(made))
    partners = {i: int(j) for i, j in enumerate(pairs.partner) if j >= 0}
    assert partners == dict(added)
    assert all(pairs.evidence[i] == Evidence.INSIDE and pairs.weight[i] == 5.0 for i in partners)
