"""What layers are to a split by the sizes of their weights alone, and how experts hold theirs."""

from __future__ import annotations

import pytest

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.dump.source import InMemoryDump
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.flow.dimensions import Cut
from msprobe_builder.merge.flow.expert_rows import classify_experts
from msprobe_builder.merge.flow.share import Share
from msprobe_builder.merge.flow.wholes import Layers
from msprobe_builder.merge.ranks.rank_tables import RankTables
from msprobe_builder.pipeline.compare import read_rank
from tests.builder.small_dumps import forward, tensor

Shape = tuple[int, ...]


def read(name: str, weights: dict[str, Shape], given: str, texts: Texts) -> Side:
    """A module that is given a tensor of a type, with weights of these shapes."""
    data = {name: forward([tensor(shape=(4, 2), dtype=given)], [tensor(shape=(4, 8))])}
    data[name]["parameters"] = {key: tensor(shape=shape) for key, shape in weights.items()}
    header = {"task": "statistics", "level": "mix", "data": data}
    return read_rank(InMemoryDump(header, {name: None}, {}), texts)[0]


@pytest.mark.parametrize("given", ["torch.float32", "torch.int64"])
@pytest.mark.parametrize(
    ("own", "whole", "cut"),
    [
        ((6, 8), (24, 8), 0),
        ((6, 8), (20, 8), 0),  # filled up
        ((6, 8), (6, 32), 1),
        ((6, 8), (6, 8), None),
        ((6, 8), (25, 8), None),  # more than all parts
        ((6, 8), (24, 32), None),
        ((6, 8), (24, 8, 1), None),
        ((6,), (24,), None),  # no matrix
    ],
)
def test_a_module_is_the_layer_whose_weight_is_cut_like_its_own(
    own: Shape, whole: Shape, cut: int | None, given: str
) -> None:
    texts = Texts()
    sides = [read("Module.wide.Wide.forward.0", {"weight": own}, given, texts) for _ in range(4)]
    ranks = RankTables(sides[0].tree, [side.table for side in sides], texts)
    layers = Layers(sides[0].tree, ranks, {"wide.weight": whole})
    [name] = [one for one in sides[0].tree.parsed if one.stem.startswith("Module")]
    is_words = given == "torch.int64"
    expected = {
        None: "Wide",
        0: "VocabParallelEmbedding" if is_words else "ColumnParallelLinear",
        1: "Wide" if is_words else "RowParallelLinear",
    }
    assert layers.class_of(name) == expected[cut]


@pytest.mark.parametrize(
    ("class_name", "key", "shape", "cut"),
    [
        ("GroupedMLP", "weight1", (8, 6), Cut(1)),
        ("GroupedMLP", "weight2", (6, 8), Cut(0)),
        ("GroupedMLP", "weight3", (6, 8), None),
        ("GroupedMLP", "weight1", (6,), None),
        ("GroupedMLP", "weight1", (2, 6, 8), Cut(0)),
        ("Experts", "weight1", (2, 6, 8), Cut(0)),
        ("Experts", "weight1", (8, 6), None),
        ("Linear", "weight2", (8, 6), None),
        ("Linear", "bias", (8,), None),
    ],
)
def test_experts_lie_side_by_side_in_weights_of_groups_and_behind_one_another_elsewhere(
    class_name: str, key: str, shape: Shape, cut: Cut | None
) -> None:
    texts = Texts()
    name = f"Module.experts.{class_name}.forward.0"
    sides = [read(name, {key: shape}, "torch.float32", texts) for _ in range(2)]
    states = classify_experts(sides[0].tree, [side.table for side in sides], texts)
    [row] = [row for row, one in enumerate(sides[0].table.section) if one == Section.PARAMETERS]
    assert states[row].share is Share.SHARD
    assert states[row].cut == cut
