"""Names of modules as evidence: labels, places in lists and agreement, written down plainly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings

from msprobe_builder.align.evidence.words import Words, named, words_of
from tests.alignment.test_plain_scores import is_module
from tests.alignment.test_traits import Dump
from tests.alignment.two_programs import read_parts
from tests.builder.small_dumps import forward, tensor
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS, Seeded

ATTRIBUTES = (
    "layers",
    "blocks",
    "q_proj",
    "query",
    "wk",
    "gate_up",
    "gate",
    "norm1",
    "attn",
    "head",
)
CLASSES = ("Block", "Linear", "LayerNorm", "Dropout", "SelfAttention")
ROLES = ("query", "key", "value", "gate", "up", "down")
# By class what frameworks say that it does.
KINDS = {"Linear": "linear", "LayerNorm": "norm", "Dropout": "dropout"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("self_attn", {"self", "attention"}),
        ("inputLayernorm", {"input", "norm"}),
        ("GPT2Block", {"gpt", "2", "layer"}),
        ("fc1", {"linear", "1"}),
        ("wte", {"embedding"}),
        ("MLP", {"mlp"}),
        ("o_proj", {"output", "projection"}),
        ("RMSNorm", {"norm"}),
        ("feed_forward", {"mlp"}),
        ("", set()),
    ],
)
def test_words_of_names(name: str, words: set[str]) -> None:
    assert words_of(name) == words


def some_names(random: Random) -> list[str]:
    """Modules in lists, counted one way or the other, and modules that have names alone."""
    names = []
    for _ in range(random.randint(1, 3)):
        attribute, kind = random.choice(ATTRIBUTES), random.choice(CLASSES)
        attribute = random.choice(["net.", "net.", ""]) + attribute
        numbers = random.sample(range(7), random.choice([0, 1, 2, 3, 4]))
        numbers = random.choice([numbers, sorted(numbers), sorted(numbers)[::-1]])
        names += [f"Module.{attribute}.{one}.{kind}" for one in numbers]
        if random.random() < 0.4:
            names.append(f"Module.{attribute}.{kind}")
        if random.random() < 0.1:
            names.append(f"Module.{random.randrange(3)}.{kind}")
    if random.random() < 0.1:
        names.append(f"Module.{random.choice(CLASSES)}")
    return [*dict.fromkeys(names or ["Module.net.head.Block"])]


def dump_of(names: Sequence[str]) -> Dump:
    data = {f"{one}.forward.0": forward([tensor()], [tensor()]) for one in names}
    data["Torch.relu.0.forward"] = forward([tensor()], [tensor()])
    construct: dict[str, str | None] = dict.fromkeys(data)
    construct["Torch.relu.0.forward"] = f"{names[0]}.forward.0"
    return Dump(data, construct)


@dataclass
class Plain:
    """What a name says."""

    attribute: set[str]
    kind: set[str]
    class_name: str
    number: int = -1
    place: int = -1
    of: int = 0
    back: bool = False

    @property
    def role(self) -> str:
        found = self.attribute & {*ROLES}
        return min(found) if len(found) == 1 else ""

    @property
    def does(self) -> str:
        return KINDS.get(self.class_name, "")


def labels_of(names: Sequence[str]) -> dict[str, Plain]:
    labels = {}
    lists: dict[tuple[str, str], list[str]] = {}
    for name in names:
        *path, class_name = name.split(".")[1:]
        number = -1
        if path and path[-1].isdigit():
            number = int(path.pop())
            lists.setdefault((".".join(path), class_name), []).append(name)
        label = Plain(
            set(words_of(path[-1] if path else "")), set(words_of(class_name)), class_name
        )
        label.number = number
        labels[name] = label
    for members in lists.values():
        its = [labels[one] for one in members]
        numbers = [one.number for one in its]
        back = numbers == sorted(numbers)[::-1]
        if len(its) == 1 or (back and len(its) < 3):
            for one in its:
                one.number = -1
            continue
        for one, number in zip(its, numbers, strict=True):
            one.place, one.of, one.back = sorted(numbers).index(number), len(its), back
            if back:
                one.place, one.number = len(its) - 1 - one.place, max(numbers) - number
    return labels


def said(one: Plain, two: Plain) -> float:
    result = -5.0 if one.does and two.does and one.does != two.does else 0.0
    for words, others, weight in (
        (one.attribute, two.attribute, 1.2),
        (one.kind, two.kind, 0.8),
    ):
        if words and others:
            result += weight * len(words & others) / len(words | others)
    if one.role and two.role:
        result += 1.5 if one.role == two.role else -1.5
    return result


def shift_of(pairs: list[tuple[int, int, Plain, Plain]]) -> int | None:
    """By how much most modules of one size are counted otherwise; of several the smallest."""
    counted = [one for one in pairs if one[2].number >= 0 and one[3].number >= 0]
    shifts = Counter(one.number - two.number for _, _, one, two in counted)
    most = min(len({i for i, *_ in counted}), len({j for _, j, *_ in counted}))
    if not shifts or max(shifts.values()) < max(2, 0.75 * most):
        return None
    best = min(one for one, often in shifts.items() if often == max(shifts.values()))
    return best if shifts[best] > shifts[0] else 0


@settings(max_examples=costly_examples(80))
@given(RANDOMS)
def test_names_agree_by_words_roles_numbers_and_what_classes_do(random: Random) -> None:
    names = [some_names(random) for _ in "ab"]
    if random.random() < 0.5:
        names[1] = [one for one in names[0] if random.random() < 0.9] or names[0]
    parts = read_parts(random, [dump_of(one) for one in names])
    words = [Words(part.traits.outline.tree) for part in parts]
    labels = [labels_of(one) for one in names]
    a, b = (
        np.array([part.nodes[f"{one}.forward.0"] for one in of], dtype=np.int64)
        for part, of in zip(parts, names, strict=True)
    )
    share, offset = random.choice([0.0, 0.3, 0.9]), random.choice([0, 0, 1])
    alike = np.array(
        [
            [
                random.random() < share if random.random() < 0.3 else i + offset == j
                for j in range(len(b))
            ]
            for i in range(len(a))
        ]
    )
    tell = random.random() < 0.5
    found = words[0].agreement(a, words[1], b, alike, sizes_tell=tell)
    by_words = words[0].said(a, words[1], b)
    own, its = ([of[one] for one in side] for of, side in zip(labels, names, strict=True))
    pairs = [
        (i, j, one, two)
        for (i, one), (j, two) in product(enumerate(own), enumerate(its))
        if alike[i, j]
    ]
    shift = shift_of(pairs)
    # What one author counts the other one names.
    is_named = any((one.number < 0) != (two.number < 0) for _, _, one, two in pairs)
    for (i, one), (j, two) in product(enumerate(own), enumerate(its)):
        expected = said(one, two)
        assert abs(by_words[i, j] - expected) < 1e-9
        counts = one.number >= 0 and two.number >= 0 and not is_named
        if tell and not alike[i, j] and one.of != two.of:
            counts = False
        if counts:
            same = one.number == two.number + (shift or 0)
            if shift is None and one.of == two.of:
                same = one.place == two.place
            expected += 1.0 if same else -1.0
        assert abs(found[i, j] - expected) < 1e-9, (names[0][i], names[1][j])
    for node, label in zip(a.tolist(), own, strict=True):
        assert words[0].attribute(node) == label.attribute
    count = min(len(a), len(b))
    other_things = words[0].do_other_things(a[:count], words[1], b[:count])
    partner = np.full(len(parts[0].traits), -1, dtype=np.int64)
    partner[a[:count]] = b[:count]
    recounted = words[0].recounted(words[1], partner)
    for place, (one, two) in enumerate(zip(own, its, strict=False)):
        is_other_kind = one.does and two.does and one.does != two.does
        is_other_role = one.role and two.role and one.role != two.role
        assert other_things[place] == bool(is_other_kind or is_other_role)
        as_many = one.of == two.of > 0 and one.back == two.back
        assert recounted[a[place]] == (as_many and one.place != two.place)


@settings(max_examples=costly_examples(20))
@given(RANDOMS)
def test_a_call_is_named_by_the_module_that_makes_it(random: Random) -> None:
    [part] = read_parts(random, [dump_of(some_names(random))])
    nodes = np.array([*part.nodes.values()])
    found = named(part.traits, nodes)
    for name, node in zip(part.nodes, found.tolist(), strict=True):
        host = part.dump.construct[name]
        assert node == part.nodes[name if is_module(name) or host is None else host]


def test_a_side_without_modules_has_no_words() -> None:
    data = {"Torch.relu.0.forward": forward([tensor()], [tensor()])}
    [part] = read_parts(Seeded(0), [Dump(data, dict.fromkeys(data))])
    words = Words(part.traits.outline.tree)
    node = np.array([0])
    assert words.attribute(0) == frozenset()
    assert words.said(node, words, node).tolist() == [[0.0]]
    assert not words.do_other_things(node, words, node).any()
