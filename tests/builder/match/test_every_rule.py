"""What holds for matching by any rule, on drawn models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.base.options import BuildOptions
from msprobe_builder.dump.source import InMemoryDump
from msprobe_builder.graph.side import Side
from tests.builder.match.models import Api, Model, Module, dump_of, match, models

RULES = {
    "default": BuildOptions(),
    "fuzzy": BuildOptions(fuzzy_match=True),
    "layer mapping": BuildOptions(layer_mapping=True),
}
every_rule = pytest.mark.parametrize("options", RULES.values(), ids=RULES)


@st.composite
def changed(draw: st.DrawFn, model: Model) -> Model:
    """A model with calls left out, repeated, resized and modules renamed."""
    result: list[Module | Api] = []
    for part in model:
        change = draw(st.sampled_from(["keep"] * 6 + ["drop", "repeat", "resize", "rename"]))
        if change == "drop":
            continue
        sizes = (*part.sizes, 8) if change == "resize" else part.sizes
        if isinstance(part, Module):
            name = "Renamed" if change == "rename" else part.name
            part = Module(part.layer, name, draw(changed(part.inside)), sizes)
        else:
            part = Api("Torch.other" if change == "rename" else part.stem, sizes)
        result += [part, part] if change == "repeat" else [part]
    return tuple(result)


pairs = models.flatmap(lambda model: st.tuples(st.just(model), changed(model) | models))


@every_rule
@given(pairs)
def test_matches_are_one_to_one_and_the_rest_is_explained(
    options: BuildOptions, pair: tuple[Model, Model]
) -> None:
    result = match(dump_of(pair[0]), dump_of(pair[1]), options)
    matching = result.matching
    npu, bench = matching.npu.tolist(), matching.bench.tolist()
    assert npu[0] == bench[0] == 0
    assert [(i, j) for i, j in enumerate(npu) if j >= 0] == sorted(
        (i, j) for j, i in enumerate(bench) if i >= 0
    )
    for partner, unmatched, other in (
        (npu, matching.npu_unmatched, bench),
        (bench, matching.bench_unmatched, npu),
    ):
        assert unmatched.node.tolist() == [i for i, j in enumerate(partner) if j < 0]
        assert (unmatched.reason > 0).all()
        assert len(unmatched.detail) == len(unmatched.node) == len(unmatched.candidate)
        assert all(-1 <= candidate < len(other) for candidate in unmatched.candidate.tolist())


@every_rule
@given(models)
def test_equal_models_match_completely(options: BuildOptions, model: Model) -> None:
    result = match(dump_of(model), dump_of(model), options)
    assert result.matching.npu.tolist() == list(range(len(result.npu.tree)))
    assert not result.diagnostics


@every_rule
@given(pairs)
def test_the_sides_can_be_swapped_without_losing_modules(
    options: BuildOptions, pair: tuple[Model, Model]
) -> None:
    there = match(dump_of(pair[0]), dump_of(pair[1]), options).pairs()
    back = match(dump_of(pair[1]), dump_of(pair[0]), options).pairs()

    def modules(found: dict[str, str]) -> set[tuple[str, str]]:
        return {(i, j) for i, j in found.items() if i.startswith("Module")}

    assert modules(there) == {(j, i) for i, j in modules(back)}


@given(pairs)
def test_the_default_rule_is_that_of_a_simple_matcher(pair: tuple[Model, Model]) -> None:
    dumps = dump_of(pair[0]), dump_of(pair[1])
    result = match(*dumps)
    left = described(result.npu, dumps[0])
    right = described(result.bench, dumps[1])
    expected = {name: name for name in left if right.get(name) == left[name]}
    assert result.pairs() == expected


@given(pairs)
def test_fuzzy_keeps_modules_and_completes_what_the_default_rule_found(
    pair: tuple[Model, Model],
) -> None:
    dumps = dump_of(pair[0]), dump_of(pair[1])
    strict = match(*dumps).pairs()
    result = match(*dumps, RULES["fuzzy"])
    fuzzy = result.pairs()
    assert {name for name in strict if name.startswith("Module")} <= set(fuzzy)
    assert sum(1 for name in fuzzy if is_call(name)) >= sum(1 for name in strict if is_call(name))
    for name, partner in fuzzy.items():
        if is_call(name):
            assert name.rsplit(".", 2)[0] == partner.rsplit(".", 2)[0]
            shapes = (shapes_of(dumps[0], name), shapes_of(dumps[1], partner))
            assert all(mine == theirs for mine, theirs in zip(*shapes, strict=False))


calls = st.lists(st.sampled_from(["Torch.add", "Torch.mul", "Tensor.to"]), max_size=8)


@given(calls, calls, st.data())
def test_an_extra_call_shifts_nothing(
    first: list[str], second: list[str], data: st.DataObject
) -> None:
    """The numbers of all later calls change by it; it alone stays without a partner."""
    place = data.draw(st.integers(0, len(first)))
    extra = data.draw(st.sampled_from(["Torch.add", "Torch.new"]))
    more = [*first[:place], extra, *first[place:]]
    result = match(two_blocks(more, second), two_blocks(first, second), RULES["fuzzy"])
    assert [
        name for name in result.bench.tree.names[1:] if name not in result.pairs().values()
    ] == []
    in_second = [
        (mine, theirs)
        for mine, theirs in result.pairs().items()
        if host(result.npu, mine) == "Module.b.Block.forward.0" and is_call(mine)
    ]
    own = [name for name in result.npu.tree.names if host(result.npu, name).startswith("Module.b")]
    other = [
        name for name in result.bench.tree.names if host(result.bench, name).startswith("Module.b")
    ]
    assert in_second == list(zip(own, other, strict=True))


def two_blocks(first: list[str], second: list[str]) -> InMemoryDump:
    blocks = (("a", first), ("b", second))
    return dump_of(tuple(Module(layer, "Block", tuple(map(Api, ops))) for layer, ops in blocks))


def is_call(name: str) -> bool:
    return name.endswith(".forward")


def host(side: Side, name: str) -> str:
    parent = side.tree.parent[side.tree.names.index(name)]
    return side.tree.names[parent] if parent >= 0 else ""


def shapes_of(dump: InMemoryDump, name: str) -> list[Any]:
    return [value.get("shape") for value in dump.dump["data"][name]["input_args"]]


def described(side: Side, dump: InMemoryDump) -> dict[str, Any]:
    """Everything the default rule looks at, read from the dump."""

    def ancestors(node: int) -> Iterator[str]:
        while node:
            node = int(side.tree.parent[node])
            yield side.tree.names[node]

    what: Callable[[dict[str, Any]], tuple[Any, Any]] = lambda value: (  # noqa: E731
        value["type"],
        value.get("shape"),
    )
    return {
        name: (
            list(ancestors(node)),
            [what(value) for value in dump.dump["data"].get(name, {}).get("input_args", [])],
        )
        for node, name in enumerate(side.tree.names)
        if node
    }
