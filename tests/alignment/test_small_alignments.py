"""What each step of alignment is needed for, in small networks of two authors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pytest

from msprobe_builder.align.settled import align_rest
from msprobe_builder.base.codes import Evidence
from msprobe_builder.base.texts import Texts
from msprobe_builder.match.matching import Told
from msprobe_builder.match.outline import outline_of
from tests.alignment.small_networks import (
    OURS,
    THEIRS,
    WIDTH,
    Network,
    aligned,
    network,
    same_tags,
    with_backward,
    with_sines,
)
from tests.builder.small_dumps import forward, tensor


@pytest.mark.parametrize("has_values", [True, False])
@pytest.mark.parametrize("outer", [0, 2])
def test_other_names_do_not_matter(has_values: bool, outer: int) -> None:
    left = network(OURS, has_values=has_values, outer=outer)
    right = network(THEIRS, has_values=has_values, outer=outer)
    found = aligned(left, right)
    assert found.partners() == same_tags(left, right)
    for tag in ("net", "block 0", "up 1", "down 2"):
        assert found.evidence(tag)[0] in (Evidence.LEAVES, Evidence.INSIDE), tag


@pytest.mark.parametrize(
    "kind", ["other weights", "half precision", "a fault", "calls alone", "calls alone, structure"]
)
def test_whatever_statistics_say_what_belongs_together_is_found(kind: str) -> None:
    """Order and flow tell where they differ; what is near is enough where most is."""
    has_values = not kind.endswith("structure")
    left = network(OURS, seed=5 * (kind == "other weights"), has_values=has_values)
    right = network(THEIRS, has_values=has_values)
    if kind == "half precision":
        for record in left.data.values():
            for one in (*record["output"], *record["input_args"]):
                one.update({key: one[key] * 1.01 for key in ("Max", "Min", "Norm")})
    if kind == "a fault":
        behind = ("act 1", "down 1", "sum 1", "block 1", "up 2", "act 2", "down 2", "sum 2")
        for name, record in left.data.items():
            if left.tags[name] in behind:
                for one in record["output"]:
                    one.update({key: one[key] * 3 for key in ("Max", "Min", "Norm")})
    if kind.startswith("calls alone"):
        for side in (left, right):
            calls = {name for name in side.data if name.startswith("Torch")}
            side.data = {name: side.data[name] for name in calls}
            side.construct = dict.fromkeys(side.data)
            side.tags = {name: side.tags[name] for name in side.data}
    for one, two in ((left, right), (right, left)):
        assert aligned(one, two).partners() == same_tags(one, two)


def test_pairs_that_were_asked_for_stay() -> None:
    left, right = network(OURS), network(THEIRS)
    texts = Texts()
    npu, bench = left.side(texts), right.side(texts)
    outlines = outline_of(npu.tree, npu.table), outline_of(bench.tree, bench.table)
    nodes = [
        {made.tags.get(name): node for node, name in enumerate(side.tree.names)}
        for side, made in ((npu, left), (bench, right))
    ]
    partner = np.full(len(npu.tree), -1, dtype=np.int64)
    partner[nodes[0]["up 0"]] = nodes[1]["up 1"]
    partner[nodes[0]["block 2"]] = nodes[1]["block 2"]
    asked = partner >= 0
    found = align_rest(npu, bench, *outlines, partner.copy(), asked, texts)
    assert (found.partner[asked] == partner[asked]).all()
    assert (found.evidence[asked] == 0).all()
    assert found.partner[0] == 0
    for tag in ("net", "up 2", "act 0", "down 1", "sum 2"):
        assert found.partner[nodes[0][tag]] == nodes[1][tag], tag
    assert found.partner[nodes[0]["up 1"]] != nodes[1]["up 1"]


@pytest.mark.parametrize("is_merged", [True, False])
def test_a_layer_with_an_adapter_is_the_layer_into_which_it_was_merged(is_merged: bool) -> None:
    """Whether it puts out the same, or weights and all that follows differ a little."""
    left, right = network(OURS), network(THEIRS)
    data, construct, tags = {}, {}, {}
    for name, record in left.data.items():
        tag, host = left.tags[name], left.construct[name]
        if not tag.startswith("up"):
            data[name], construct[name], tags[name] = record, host, tag
            continue
        layer = tag.split()[1]
        path = name.removesuffix(".Linear.forward.0")
        around = f"{path}.Lora.forward.0"
        base, low, high = (
            f"{path}.{one}.Linear.forward.0" for one in ("base_layer", "lora_A", "lora_B")
        )
        x, y = record["input_args"], record["output"]
        apart = left.tensor(f"base {layer}", 2, 3 * WIDTH)
        small, more = (
            left.tensor(f"small {layer}", 2, 2),
            left.tensor(f"more {layer}", 2, 3 * WIDTH),
        )
        weight = left.tensor(f"frozen {layer}", 3 * WIDTH, WIDTH)
        data[around] = forward(x, y)
        data[base] = forward(x, [apart]) | {"parameters": {"weight": weight}}
        factors = left.tensor(f"a {layer}", 2, WIDTH), left.tensor(f"b {layer}", 3 * WIDTH, 2)
        data[low] = forward(x, [small]) | {"parameters": {"weight": factors[0]}}
        data[high] = forward([small], [more]) | {"parameters": {"weight": factors[1]}}
        data[f"Torch.mul.{layer}.forward"] = forward([apart, more], y)
        construct |= {around: host} | dict.fromkeys(
            (base, low, high, f"Torch.mul.{layer}.forward"), around
        )
        tags[around] = tag
    left.data, left.construct, left.tags = data, construct, tags
    if not is_merged:
        right = network(THEIRS, seed=5)
    for one, two in ((left, right), (right, left)):
        found = aligned(one, two).partners()
        assert {tag: found.get(tag) for tag in same_tags(one, two)} == same_tags(one, two)


def test_what_holds_the_same_leaves_is_as_sure_as_its_weight_says() -> None:
    found = aligned(network(OURS), network(THEIRS))
    for tag in ("net", "block 0", "block 2"):
        evidence, certainty = found.evidence(tag)
        assert evidence == Evidence.LEAVES, tag
        assert certainty == pytest.approx(1 / (1 + np.exp(1.5 - 5.0))), tag


@pytest.mark.parametrize("missing", [0, 1, 2])
@pytest.mark.parametrize("names", [OURS, THEIRS])
def test_a_layer_that_is_missing_moves_no_other(missing: int, names: Mapping[str, str]) -> None:
    """Under equal names as well, where those behind it have the names of others."""
    left = network(OURS)
    right = network(names, tuple(one for one in (0, 1, 2) if one != missing))
    for one, two in ((left, right), (right, left)):
        found, expected = aligned(one, two).partners(), same_tags(one, two)
        if names is THEIRS and missing == 2:  # they put out other results, and have other names
            found.pop("net", None)
            del expected["net"]
        assert found == expected


def test_weights_tell_whose_calls_work_on_other_data() -> None:
    """All that is computed differs, and a layer is missing: its weights are those of no other."""
    left, right = network(OURS), network(OURS, (1, 2), seed=5)
    for name, tag in right.tags.items():
        if tag.startswith(("up", "down")):
            shape = right.data[name]["parameters"]["weight"]["shape"]
            right.data[name]["parameters"] = {"weight": left.tensor(f"weight {tag}", *shape)}
    found = aligned(left, right).partners()
    for tag in ("block 1", "block 2", "up 1", "down 2", "act 2", "sum 1"):
        assert found.get(tag) == tag, tag
    assert "block 0" not in found


@pytest.mark.parametrize("has_values", [True, False])
def test_one_author_counts_layers_from_one(has_values: bool) -> None:
    left = network(OURS, has_values=has_values)
    right = network(OURS, has_values=has_values, first=1)
    for one, two in ((left, right), (right, left)):
        assert aligned(one, two).partners() == same_tags(one, two)


def test_wrappers_of_both_sides_belong_together_and_of_one_side_to_nothing() -> None:
    left = network(OURS, wrapper="ddp.DistributedDataParallel")
    right = network(THEIRS, wrapper="fsdp.Wrapped")
    found = aligned(left, right)
    assert found.partners() == same_tags(left, right)
    plain = network(THEIRS)
    found = aligned(left, plain)
    assert found.partners() == same_tags(left, plain)
    assert found.partners()["net"] == "net"


def test_calls_between_modules_are_collected_alike() -> None:
    """A collection belongs to the one that holds the partners of most of what it holds."""
    left, right = network(OURS, outer=3), network(THEIRS, outer=3)
    found = aligned(left, right)
    collections = [
        node for node, name in enumerate(found.npu.tree.names) if name.startswith("Apis")
    ]
    assert len(collections) == 2
    for node in collections:
        other = int(found.matching.npu[node])
        assert found.bench.tree.names[other] == found.npu.tree.names[node]
    # Under other names, as other calls and a module stand before them.
    more = [f"Torch.log.{place}.forward" for place in range(2)] + ["Module.alone.Alone.forward.0"]
    records = {name: forward([tensor(7.7)], [tensor(8.8)]) for name in more}
    right.data, right.construct = records | right.data, dict.fromkeys(more) | right.construct
    found = aligned(left, right)
    before = found.npu.tree.names.index("Torch.exp.0.forward")
    collection = int(found.npu.tree.parent[before])
    other = int(found.matching.npu[collection])
    assert other == found.bench.tree.parent[int(found.matching.npu[before])]
    assert found.matching.evidence[collection] == Evidence.COLLECTION
    assert found.matching.certainty[collection] == pytest.approx(0.5)


@pytest.mark.parametrize("has_values", [True, False])
def test_a_group_is_found_where_one_side_computes_in_two_calls(has_values: bool) -> None:
    left, right = (network(names, has_values=has_values) for names in (OURS, THEIRS))
    # ``relu`` of the other side as a product with a mask, in each layer.
    data, construct = {}, {}
    for name, record in right.data.items():
        if not name.startswith("Torch.relu"):
            data[name], construct[name] = record, right.construct[name]
            continue
        layer = name.split(".")[2]
        mask = right.tensor(f"mask {layer}", 2, 3 * WIDTH)
        host = right.construct[name]
        given, calls = record["input_args"], parts(int(layer))
        data[calls[0]] = forward(given, [mask])
        data[calls[1]] = forward([*given, mask], record["output"])
        construct |= dict.fromkeys(calls, host)
    right.data, right.construct = data, construct
    right.tags = {name: tag for name, tag in right.tags.items() if name in data}
    found = aligned(left, right)
    partners = found.partners()
    assert {one: two for one, two in partners.items() if not one.startswith("act")} == {
        tag: tag for tag in same_tags(left, right) if not tag.startswith("act")
    }
    groups = [
        (
            [found.npu.tree.names[node] for node in one.npu],
            [found.bench.tree.names[node] for node in one.bench],
        )
        for one in found.matching.groups
    ]
    expected = [([f"Torch.relu.{layer}.forward"], parts(layer)) for layer in range(3)]
    assert groups == expected


def parts(layer: int) -> list[str]:
    return [f"Torch.gt.{layer}.forward", f"Torch.mul.{layer}.forward"]


@pytest.mark.parametrize(
    ("has_values", "lines", "is_told"),
    [(True, False, True), (False, True, True), (True, True, True), (False, False, False)],
)
def test_equal_names_give_way_to_what_calls_put_out_and_to_lines(
    has_values: bool, lines: bool, is_told: bool
) -> None:
    """All names are there on both sides, in the same order."""
    left, right = (
        with_sines(exchanged, has_values=has_values, lines=lines) for exchanged in (False, True)
    )
    found = aligned(left, right)
    sines = {tag: two for tag, two in found.partners().items() if tag.startswith("sin")}
    turned = {"inner": "active", "active": "inner"}
    if is_told:
        assert found.partners() == same_tags(left, right)
        assert (found.matching.evidence > 0).any()
    else:
        assert all(two.split()[1] == turned[one.split()[1]] for one, two in sines.items())
        assert len(sines) == 6
        assert not found.matching.evidence.any()


@pytest.mark.parametrize("has_values", [True, False])
@pytest.mark.parametrize("seed", [0, 5])
@pytest.mark.parametrize("missing", [0, 1])
def test_what_goes_backward_follows_what_goes_forward(
    has_values: bool, seed: int, missing: int
) -> None:
    """With gradients of weights, whatever tells; what is left over on one side stays alone."""
    left = with_backward(network(OURS, has_values=has_values, seed=seed))
    layers = (1, 2) if missing and seed == 0 and has_values else (0, 1, 2)
    right = with_backward(network(THEIRS, layers, has_values=has_values))
    for one, two in ((left, right), (right, left)):
        found = aligned(one, two)
        assert found.partners() == same_tags(one, two)
        assert found.evidence("back up 1")[0] == Evidence.BACKWARD
        assert found.evidence("gradient down 2")[0] == Evidence.GRADIENT
        assert found.evidence("back up 1")[1] == found.evidence("up 1")[1]


def test_calls_in_another_order_are_found_across_others() -> None:
    left, right = with_sines(exchanged=False), with_sines(exchanged=True, names=THEIRS)
    for one, two in ((left, right), (right, left)):
        assert aligned(one, two).partners() == same_tags(one, two)


def test_what_another_rank_tells_is_a_pair_where_nothing_else_is() -> None:
    left, right = network(OURS), network(THEIRS)
    texts = Texts()
    names = "Module.net.only.Ours.forward.0", "Module.model.other.Theirs.forward.0"
    for side, name, shape in ((left, names[0], (3, 5)), (right, names[1], (7,))):
        [net] = [it for it, tag in side.tags.items() if tag == "net"]
        one = side.tensor(name, *shape)
        side.add(name, name, net, [one, one], [one], side.tensor(f"weight {name}", *shape))
    npu, bench = left.side(texts), right.side(texts)
    outlines = outline_of(npu.tree, npu.table), outline_of(bench.tree, bench.table)
    partner = np.full(len(npu.tree), -1, dtype=np.int64)
    counts = [
        Counter((name.stem, int(name.direction)) for name in side.tree.parsed)
        for side in (npu, bench)
    ]
    told = Told(((*names, 0.8),), (), (counts[0], counts[1]))
    nobody = np.zeros(len(npu.tree), dtype=bool)
    node, other = npu.tree.names.index(names[0]), bench.tree.names.index(names[1])
    alone = align_rest(npu, bench, *outlines, partner.copy(), nobody, texts)
    assert alone.partner[node] == -1
    found = align_rest(npu, bench, *outlines, partner.copy(), nobody, texts, told)
    assert found.partner[node] == other
    assert (found.evidence[node], found.certainty[node]) == (Evidence.ELSEWHERE, 0.8)
    rest = np.arange(len(npu.tree)) != node
    assert (found.partner[rest] == alone.partner[rest]).all()


def test_programs_that_have_nothing_in_common_have_no_pairs() -> None:
    left, right = Network(), Network(seed=1)
    for side, name, shape in ((left, "Torch.exp", (3, 5)), (right, "Torch.sort", (7,))):
        one = side.tensor(name, *shape)
        side.add(name, f"{name}.0.forward", None, [one], [one])
    assert aligned(left, right).partners() == {}
