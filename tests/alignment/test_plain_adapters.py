"""Adapters, and sizes that data have drawn, against the same told by names and records."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings

from msprobe_builder.align.evidence.adapters import with_adapters
from msprobe_builder.align.evidence.traits import Tensors
from tests.alignment.drawn_fused import fresh
from tests.alignment.test_plain_decisions import operators_of
from tests.alignment.test_plain_scores import is_module, shapes_of, size_of
from tests.alignment.test_traits import Dump, level_of
from tests.alignment.two_programs import Part, read_parts
from tests.builder.small_dumps import Record, forward, tensor
from tests.cases import costly_examples
from tests.small_graphs import RANDOMS

COLUMNS = ("count", "shapes", "ranks", "numel", "values", "checksum")


def some_layers(random: Random) -> Dump:
    """Modules around a layer, with other layers, weights and products beside it or without."""
    dump = Dump({}, {})

    def add(name: str, above: str | None, given: list[Record], made: list[Record]) -> Record:
        dump.data[name] = forward(given, made)
        dump.construct[name] = above
        return dump.data[name]

    add("Module.net.Net.forward.0", None, [tensor()], [tensor()])
    for place in range(random.randint(1, 3)):
        around = f"Module.net.part{place}.Part.forward.0"
        x, y = fresh(random, (2, 4)), fresh(random, (2, 4))
        unknown = tensor(None, high=None, low=None, mean=None, shape=(2, 4))
        x = unknown if random.random() < 0.2 else x
        record = add(around, "Module.net.Net.forward.0", [x], [y])
        if random.random() < 0.5:
            held = [fresh(random, random.choice([(2, 4), (4,), (4, 4)]))]
            record["parameters"] = {"own": held[0]}
        for layer in range(random.choice([0, 1, 1, 1, 2])):
            name = f"Module.net.part{place}.layer{layer}.Linear.forward.0"
            given = random.choice(
                [x, x, x, x, fresh(random, (2, 4)), fresh(random, (8,)), fresh(random, (3,))]
            )
            made = fresh(random, random.choice([(2, 4)] * 5 + [(4, 2)]))
            weight = fresh(random, random.choice([(4, 4), (4, 4), (4, 4), (8,), (2, 4)]))
            add(name, around, [given], [made])["parameters"] = {"weight": weight}
        for number in range(random.choice([0, 0, 1, 2])):
            name = f"Module.net.part{place}.low{number}.Low.forward.0"
            low = fresh(random, random.choice([(2, 3), (3,), (1, 2), (4, 4)]))
            add(name, around, [x], [y])["parameters"] = {"weight": low}
        for _ in range(random.choice([0, 1, 2, 3])):
            stem = random.choice(["Torch.matmul", "Torch.matmul", "Torch.relu"])
            add(f"{stem}.{len(dump.data)}.forward", around, [x], [y])
    return dump


def layer_inside(part: Part, other: Part, name: str) -> str | None:
    """The one layer in a module that holds most of its weights, and that is corrected by others."""
    dump = part.dump

    def held(one: str) -> list[Record]:
        return dump.tensors(one, "parameters")

    modules = {shape_key(other.dump.tensors(one, "parameters")) for one in other.nodes}
    whole = sum(size_of(held(one)) for one in dump.inside(name))
    children = [one for one, above in dump.construct.items() if above == name]
    found = []
    for layer in children:
        size = size_of(held(layer))
        given, given_there = dump.tensors(name, "inputs"), dump.tensors(layer, "inputs")
        same_given = level_of(given_there, given_there) == 2 and level_of(given_there, given) == 2
        unknown = None in (given[0]["Norm"], *(one["Norm"] for one in given_there))
        made, made_there = dump.tensors(name, "outputs"), dump.tensors(layer, "outputs")
        fits = is_module(layer) and 2 * size > whole and size_of(given) == size_of(given_there)
        fits = fits and shapes_of(made) == shapes_of(made_there) and (same_given or unknown)
        # Matrices of shapes that no module of the other side has.
        of_its_own = [
            one
            for one in dump.inside(name)
            if is_module(one)
            and any(len(it["shape"]) != 1 for it in held(one))
            and shape_key(held(one)) not in modules
        ]
        rest = [one for one in dump.inside(name) if one not in dump.inside(layer)]
        products = sum("matmul" in one for one in rest)
        more = [one for one in of_its_own if one != layer]
        if fits and (more or (size == whole and products >= 2)):
            found.append(layer)
    return found[0] if len(found) == 1 else None


def shape_key(tensors: list[Record]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(shapes_of(tensors).items()))


def column(tensors: Tensors, node: int) -> list[Any]:
    return [getattr(tensors, one)[..., node].tolist() for one in COLUMNS]


@settings(max_examples=costly_examples(50))
@given(RANDOMS)
def test_a_module_with_one_corrected_layer_is_seen_as_that_layer(random: Random) -> None:
    """In its weights and what it holds; the layer is seen without weights."""
    part, other = read_parts(random, [some_layers(random) for _ in "ab"])
    products = np.array(
        [number for name, number in operators_of(part).items() if name == "matmul"], dtype=np.int64
    )
    seen = with_adapters(part.traits, other.traits, products)
    layers = {
        name: layer
        for name in part.nodes
        if is_module(name)
        for layer in [layer_inside(part, other, name)]
        if layer
    }
    old = part.traits
    for name, node in part.nodes.items():
        source = part.nodes[layers.get(name, name)]
        is_gone = name in layers.values()
        parameters = column(seen.parameters, node)
        if is_gone:
            assert seen.parameters.count[node] == 0
            assert np.isnan(seen.parameters.values[:, node]).all()
        else:
            np.testing.assert_equal(parameters, column(old.parameters, source))
        assert (seen.parameters_below[:, node] == old.parameters_below[:, source]).all()
        assert (seen.below[node] == old.below[source]).all()
        assert seen.content[node] == old.content[source]
        np.testing.assert_equal(column(seen.outputs, node), column(old.outputs, node))
