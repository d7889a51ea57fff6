"""Random small models of two authors: all that both make find together, and nothing else does."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings

from tests.alignment.generated import Style, model, some_shape, some_style, truth
from tests.alignment.respell import (
    Change,
    Recording,
    added_casts,
    chained,
    dropped_calls,
    is_layer,
    other_attributes,
    other_classes,
    other_seed,
    other_sizes,
    prefixed,
    scaled_behind,
    without_calls,
    without_statistics,
    wrapped,
)
from tests.alignment.score import partners, said, score
from tests.alignment.test_groups import groups
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS, Seeded

RENAMED = chained(other_classes, other_attributes)
SAME = chained()
# What becomes of both sides. Where values tell, each author calls things in an order of their own.
TELLING: dict[str, tuple[Change, Change]] = {
    "the same": (SAME, SAME),
    "other names": (RENAMED, SAME),
    "modules alone": (without_calls, without_calls),
    "fewer calls, more casts": (chained(RENAMED, dropped_calls(0.06, 3)), added_casts(0.06, 4)),
    "wrappers": (chained(RENAMED, wrapped(is_layer, "base", "Wrap"), prefixed("x")), SAME),
}
SILENT: dict[str, tuple[Change, Change]] = {
    "structure": (without_statistics, without_statistics),
    "structure, other names": (chained(RENAMED, without_statistics), without_statistics),
    "other seed": (other_seed(1), SAME),
    "other names and seed": (chained(RENAMED, other_seed(1)), SAME),
    "a fault": (chained(RENAMED, scaled_behind("Functional.linear.2.forward", 1.7)), SAME),
}


def judge(npu: Recording, bench: Recording) -> None:
    right, added = truth(npu, bench)
    found = score(partners(npu.source(), bench.source()), right, added)
    assert (found.alone, found.wrong) == ((), ())
    assert found.right > 0


@pytest.mark.parametrize("kind", TELLING)
@settings(max_examples=costly_examples(8))
@given(RANDOMS)
def test_values_tell_who_belongs_together(kind: str, random: Random) -> None:
    change, other = TELLING[kind]
    shape = some_shape(random)
    judge(change(model(shape, some_style(random))), other(model(shape, some_style(random))))


@pytest.mark.parametrize("kind", SILENT)
@settings(max_examples=costly_examples(8))
@given(RANDOMS)
def test_order_and_sizes_tell_where_values_do_not(kind: str, random: Random) -> None:
    change, other = SILENT[kind]
    shape, style, another = some_shape(random), some_style(random), some_style(random)
    style = replace(style, order=another.order, gate_first=another.gate_first)
    judge(change(model(shape, style)), other(model(shape, another)))


@settings(max_examples=costly_examples(8))
@given(RANDOMS)
def test_models_of_another_size_go_together(random: Random) -> None:
    shape, style = some_shape(random), some_style(random)
    change = chained(RENAMED, other_sizes, other_seed(2))
    judge(change(model(shape, style)), model(shape, style))


# Calls of modules that make many, whose results are handed on as they are.
HANDED_ON = ("Tensor.__add__", "Tensor.mean")


@settings(max_examples=costly_examples(8))
@given(RANDOMS)
def test_a_call_more_stays_alone_whatever_comes_of_it(random: Random) -> None:
    """All that follows has other values; what stands before and behind it finds together."""
    shape, style, another = some_shape(random), some_style(random), some_style(random)
    another = replace(another, order=style.order, gate_first=style.gate_first)
    bench = model(shape, style)
    calls = [tag for tag in bench.origin.values() if tag and tag.endswith(HANDED_ON)]
    more = random.choice([tag for tag in calls if " mask " not in tag])
    npu = RENAMED(model(shape, replace(another, more=more)))
    assert sorted(npu.origin.values(), key=str).count("more Tensor.__mul__") == 1
    judge(npu, bench)
    right, _ = truth(npu, bench)
    found = partners(bench.source(), npu.source())
    assert {found.get(theirs) for theirs in right.values()} == set(right)


@settings(max_examples=costly_examples(8))
@given(RANDOMS)
def test_a_layer_more_stays_alone(random: Random) -> None:
    shape, style = some_shape(random), some_style(random)
    more = replace(shape, layers=shape.layers + 1)
    npu, bench = model(more, style), RENAMED(model(shape, style))
    right, _ = truth(npu, bench)
    found = partners(npu.source(), bench.source())
    last = f"layer {shape.layers}"
    for name, tag in npu.origin.items():
        if tag is not None and tag.startswith(last):
            assert name not in found
        elif tag is not None and tag.startswith("layer"):
            assert found[name] == right[name]


@settings(max_examples=costly_examples(8))
@given(RANDOMS)
def test_one_attention_and_its_parts_are_a_group(random: Random) -> None:
    shape = some_shape(random)
    if "attention" not in shape.kinds:
        shape = replace(shape, kinds=("attention", *shape.kinds))
    one, parts = replace(some_style(random), is_one_call=True), some_style(random)
    npu, bench = RENAMED(model(shape, one)), model(shape, parts)
    calls = [own_calls(npu, bench), own_calls(bench, npu)]
    assert set(calls[0]) == set(calls[1]) == {f"layer {place}" for place in range(shape.layers)}
    for left, right, order in ((npu, bench, 1), (bench, npu, -1)):
        found = groups(left.source(), right.source())
        assert set(found.values()) == {"attention"}
        # What merely turns a tensor may belong to it or not.
        computing = {
            tuple(frozenset(one for one in side if ".transpose." not in one) for side in members)
            for members in found
        }
        assert computing == {
            tuple(frozenset(side[layer]) for side in calls[::order]) for layer in calls[0]
        }


def own_calls(side: Recording, other: Recording) -> dict[str, set[str]]:
    """Calls that compute and that the other author does not make, by layer."""
    found: dict[str, set[str]] = {}
    for name, tag in side.origin.items():
        if tag is None or tag in other.origin.values() or not tag.startswith("layer"):
            continue
        if " attention0 " in tag and not name.startswith(("Module", "Tensor.transpose")):
            found.setdefault(" ".join(tag.split()[:2]), set()).add(name)
    return found


@settings(max_examples=costly_examples(8))
@given(RANDOMS)
def test_the_sides_exchanged_say_the_same(random: Random) -> None:
    shape = some_shape(random)
    npu, bench = (model(shape, some_style(random)).source() for _ in range(2))
    assert said(npu, bench) == said(bench, npu, is_turned=True)


def test_styles_are_told_apart() -> None:
    """What the truth rests on: each call has a tag of its own, and authors differ."""
    shape = some_shape(Seeded(3))
    plain, other = model(shape, Style()), model(shape, Style(is_inlined=True, has_blocks=False))
    for one in (plain, other):
        assert len(set(one.origin.values())) == len(one.origin)
    assert set(plain.origin) != set(other.origin)
