"""Joining pipeline stages: which calls of which stages each node of the whole model stands for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msprobe_builder.base.texts import Texts
from msprobe_builder.merge.join.stages import MergedModel, MergedNode, join_stages
from msprobe_builder.merge.ranks.part import StageGraph
from msprobe_builder.merge.values.tensor_parallel import merge_ranks
from msprobe_builder.pipeline.compare import read_rank
from tests.builder.small_dumps import forward, number, tensor, write_dump

BLOCK = "Module.decoder.Block.forward.0"
EMBEDDING = "Module.embedding.Embedding.forward.0"
HEAD = "Module.output_layer.Linear.forward.0"
SEND = "Distributed.send.0.forward"


def layer(number: int) -> str:
    return f"Module.decoder.layers.{number}.Layer.forward.0"


def stages(folder: Path, *constructs: Mapping[str, str | None]) -> list[StageGraph]:
    """Stages that ran these calls, each below the call it is mapped to."""
    texts = Texts()
    result = []
    for rank, construct in enumerate(constructs):
        data = {name: forward([tensor()], [tensor()]) for name in construct}
        if SEND in data:
            data[SEND] = forward([tensor(), number(1)], [tensor(), number(1)])
        directory = write_dump(folder / f"rank{rank}", data, construct)
        side, _ = read_rank(directory, texts)
        result.append(merge_ranks([side], [rank], texts)[0])
    return result


def outline(nodes: list[MergedNode]) -> list[tuple[str, list[int]]]:
    """Every node in order, with the stages that ran it."""
    found = []
    for node in nodes:
        found.append((node.name.stem.removeprefix("Module."), [call.stage for call in node.calls]))
        found += outline(node.children)
    return found


def layers(model: MergedModel) -> list[tuple[str, list[int]]]:
    return [(stem.split(".")[2], own) for stem, own in outline(model.top) if stem.endswith("Layer")]


def test_layers_are_numbered_through_and_the_wrapper_is_of_both(tmp_path: Path) -> None:
    parts = stages(
        tmp_path,
        {EMBEDDING: None, BLOCK: None, layer(0): BLOCK},
        {BLOCK: None, layer(0): BLOCK, layer(1): BLOCK, HEAD: None},
    )
    model = join_stages(parts, 1)
    assert outline(model.top) == [
        ("embedding.Embedding", [0]),
        ("decoder.Block", [0, 1]),
        ("decoder.layers.0.Layer", [0]),
        ("decoder.layers.1.Layer", [1]),
        ("decoder.layers.2.Layer", [1]),
        ("output_layer.Linear", [1]),
    ]
    [block] = [node for node in model.top if node.name.stem == "Module.decoder.Block"]
    assert block.is_split


def test_a_stage_without_layers_adds_none(tmp_path: Path) -> None:
    parts = stages(
        tmp_path,
        {EMBEDDING: None},
        {BLOCK: None, layer(0): BLOCK, layer(1): BLOCK},
        {HEAD: None},
    )
    model = join_stages(parts, 1)
    assert layers(model) == [("0", [1]), ("1", [1])]
    assert outline(model.top)[0] == ("embedding.Embedding", [0])
    assert outline(model.top)[-1] == ("output_layer.Linear", [2])


def test_sends_between_stages_are_set_aside(tmp_path: Path) -> None:
    first = {BLOCK: None, layer(0): BLOCK, SEND: None}
    parts = stages(tmp_path, first, {BLOCK: None, layer(0): BLOCK})
    model = join_stages(parts, 1)
    assert "Distributed.send" not in dict(outline(model.top))
    assert [outline(nodes) for _, nodes in model.peer_calls] == [[("Distributed.send", [0])]]
    stays = join_stages(parts, 1, sends_within=True)
    assert layers(stays) == layers(model) == [("0", [0]), ("1", [1])]
