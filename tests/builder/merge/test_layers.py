"""Layers of all stages numbered through, at the one place of the path that is a layer number."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.source import InMemoryDump
from msprobe_builder.graph.tree import Tree
from msprobe_builder.merge.join.layers import LayerNumbering, layer_place, number_layers
from msprobe_builder.pipeline.compare import read_rank


def tree(*stems: str) -> Tree:
    construct = {f"{stem}.forward.0": None for stem in stems} or {"Torch.f.0.forward": None}
    head = {"task": "structure", "level": "mix", "data": {}}
    side, _ = read_rank(InMemoryDump(head, construct), Texts())
    return side.tree


@pytest.mark.parametrize(
    ("stem", "is_chunked", "place"),
    [
        ("Module.0.decoder.layers.3.Layer", True, ("Module.0.decoder.layers", 3, ".Layer")),
        ("Module.0.layers.3.mlp.MLP", True, ("Module.0.layers", 3, ".mlp.MLP")),
        ("Module.layers.3.Layer", False, ("Module.layers", 3, ".Layer")),
        ("Module.3.Linear", False, ("Module", 3, ".Linear")),
        # The outermost number is the layer's, whatever numbers follow.
        (
            "Module.0.layers.1.experts.3.Linear",
            True,
            ("Module.0.layers", 1, ".experts.3.Linear"),
        ),
        ("Module.layers.12.conv.2.0.Conv2d", False, ("Module.layers", 12, ".conv.2.0.Conv2d")),
        # Numbers that are part of a word are no numbers, nor is the class.
        ("Module.0.h2.conv1.Conv2d", True, None),
        ("Module.0.layer4.block.Linear", True, None),
        ("Module.0.embedding.1", True, None),
        ("Module.0.GPT", True, None),
        ("Module.0.layers.²3.Layer", True, None),
    ],
)
def test_where_the_layer_number_stands(
    stem: str, is_chunked: bool, place: tuple[str, int, str] | None
) -> None:
    assert layer_place(stem, is_chunked) == place


INNER = [
    "Layer",
    "mlp.experts.3.Linear",
    "attention.heads.0.1.Linear",
    "conv2.Conv2d",
    "Layer.parameters_grad",
]


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=6),
    st.sampled_from(["Module.0.decoder.layers", "Module.0.layers", "Module.model.blocks"]),
    st.booleans(),
)
def test_every_layer_gets_its_number(sizes: list[int], path: str, is_global: bool) -> None:
    starts = [0, *accumulate(sizes)]
    trees = [
        tree(
            *(
                f"{path}.{number + (start if is_global else 0)}.{inner}"
                for number in range(size)
                for inner in INNER
            )
        )
        for start, size in zip(starts, sizes, strict=False)
    ]
    numbering = number_layers(trees, 1)
    for stage, (start, size) in enumerate(zip(starts, sizes, strict=False)):
        for number in range(size):
            for inner in INNER:
                own = f"{path}.{number + (start if is_global else 0)}.{inner}"
                assert numbering.rename(own, stage) == f"{path}.{start + number}.{inner}"


@given(st.lists(st.lists(st.integers(1, 3), min_size=2, max_size=4), min_size=2, max_size=3))
def test_chunks_come_before_stages(sizes: list[list[int]]) -> None:
    """``sizes[chunk][stage]`` layers; every chunk counts its own from 0."""
    stages = len(sizes[0])
    sizes = [(own * stages)[:stages] for own in sizes]
    trees = [
        tree(
            *(
                f"Module.{chunk}.decoder.layers.{number}.Layer"
                for chunk, own in enumerate(sizes)
                for number in range(own[stage])
            )
        )
        for stage in range(stages)
    ]
    numbering = number_layers(trees, len(sizes))
    found = [
        numbering.rename(f"Module.{chunk}.decoder.layers.{number}.Layer", stage)
        for chunk, own in enumerate(sizes)
        for stage in range(stages)
        for number in range(own[stage])
    ]
    assert found == [f"Module.0.decoder.layers.{number}.Layer" for number in range(len(found))]


def numbering_of(*stages: list[str]) -> LayerNumbering:
    return number_layers([tree(*stems) for stems in stages], 1)


def test_lists_are_numbered_each_on_its_own() -> None:
    """Encoder and decoder lie on different stages; only the decoder is split."""
    numbering = numbering_of(
        ["Module.0.encoder.layers.0.E", "Module.0.encoder.layers.1.E"],
        ["Module.0.decoder.layers.0.D"],
        ["Module.0.decoder.layers.0.D"],
    )
    assert numbering.rename("Module.0.encoder.layers.1.E", 0) == "Module.0.encoder.layers.1.E"
    assert numbering.rename("Module.0.decoder.layers.0.D", 1) == "Module.0.decoder.layers.0.D"
    assert numbering.rename("Module.0.decoder.layers.0.D", 2) == "Module.0.decoder.layers.1.D"
    assert numbering.is_layer("Module.0.decoder.layers.1.D")
    assert not numbering.is_layer("Module.0.encoder.layers.1.E")
    assert not numbering.is_layer("Module.0.decoder.layers.1.mlp.MLP")


def test_numbers_of_experts_stay() -> None:
    stems = ["Module.0.layers.0.L", *(f"Module.0.layers.0.experts.{n}.E" for n in range(4))]
    numbering = numbering_of(stems, stems)
    assert numbering.rename(stems[4], 1) == "Module.0.layers.1.experts.3.E"


def test_what_is_in_no_list_keeps_its_name() -> None:
    numbering = numbering_of(["Module.0.layers.0.L", "Module.0.conv2.C"], ["Module.0.layers.0.L"])
    for stem in ("Module.0.conv2.C", "Module.0.output_layer.C", "optimizer", "Module.0.GPT"):
        assert numbering.rename(stem, 1) == stem
