"""What shapes of the other side and names of groups tell."""

from __future__ import annotations

import pytest

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.source import InMemoryDump
from msprobe_builder.graph.side import Side
from msprobe_builder.merge.flow.context import Entering, slicing
from msprobe_builder.merge.flow.landmarks import is_over_group
from msprobe_builder.merge.ranks.layout import parse_layout, replicas
from msprobe_builder.merge.ranks.rank_tables import RankTables
from msprobe_builder.merge.ranks.replica_source import ReplicaSource
from msprobe_builder.pipeline.compare import read_rank
from msprobe_builder.pipeline.two_splits import told_by_each_other


@pytest.mark.parametrize(
    ("own", "whole", "length"),
    [
        ((3, 8), (3, 16), 8),  # a text in each row
        ((8, 3), (16, 3), 8),  # in each column
        ((8, 3), (), 3),  # nobody tells: rows
        ((8, 3), (32, 3), 3),  # another batch: nothing is told
        ((8, 8), (16, 16), 8),
        ((), (16, 3), None),
        ((3, 8, 4, 4), (6, 8, 4, 4), 3),  # pictures
        ((3, 8, 4, 4), (), None),
    ],
)
def test_which_size_of_what_enters_is_of_the_part(
    own: tuple[int, ...], whole: tuple[int, ...], length: int | None
) -> None:
    found = slicing(Entering(own, is_words=0 < len(own) < 3), whole, 2)
    assert (found and found.length) == length


def _source(tp: int, class_name: str, shape: list[int]) -> ReplicaSource:
    tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": shape}
    numbers = {"Max": 1.0, "Min": -1.0, "Mean": 0.0, "Norm": 2.0}
    name = f"Module.layers.0.{class_name}.forward.0"
    data = {name: {"input_args": [], "output": [], "parameters": {"weight": tensor | numbers}}}
    layout = parse_layout({"rank_size": tp, "tp": tp, "pp": 1}, "here")
    dump = InMemoryDump({"task": "statistics", "level": "mix", "data": data}, {name: None}, {})
    return ReplicaSource(layout, replicas(layout)[0], dict.fromkeys(range(tp), dump))


def _read(source: object, texts: Texts) -> Side:
    return read_rank(source, texts)[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("own", "other", "whole"),
    [
        ([6, 8], [12, 8], (24, 8)),  # rows
        ([24, 2], [24, 4], (24, 8)),  # columns
        ([24, 8], [24, 8], (24, 8)),  # held whole
        ([6, 8], [10, 8], None),  # no such parts
        ([6, 8], [12, 4], None),
        ([6, 8], [6], None),
    ],
)
def test_two_splits_tell_how_a_weight_is_cut(
    own: list[int], other: list[int], whole: tuple[int, ...] | None
) -> None:
    sources = told_by_each_other((_source(4, "Wide", own), _source(2, "Wide", other)), _read)
    for source in sources:
        assert isinstance(source, ReplicaSource)
        assert [*source.wholes.values()] == ([] if whole is None else [whole])


def test_classes_that_are_known_tell_themselves() -> None:
    name = "ColumnParallelLinear"
    sources = (_source(4, name, [6, 8]), _source(2, name, [12, 8]))
    assert told_by_each_other(sources, _read) == sources


@pytest.mark.parametrize(("names", "is_over"), [(("13", "14"), False), (("13", "13"), True)])
def test_ranks_that_name_other_groups_talk_to_others(names: tuple[str, str], is_over: bool) -> None:
    texts = Texts()
    sides = []
    for own in names:
        tensor: dict[str, object] = {
            "type": "torch.Tensor",
            "dtype": "torch.float32",
            "shape": [4, 2],
        }
        tensor |= {"Max": 1.0, "Min": -1.0, "Mean": 0.0, "Norm": 2.0}
        group = {"type": "str", "value": own}
        name = "Distributed.all_gather_into_tensor.0.forward"
        data = {name: {"input_args": [tensor, group], "input_kwargs": {}, "output": [tensor]}}
        header = {"task": "statistics", "level": "mix", "data": data}
        sides.append(_read(InMemoryDump(header, {name: None}, {}), texts))
    ranks = RankTables(sides[0].tree, [side.table for side in sides], texts)
    [node] = [n for n, one in enumerate(sides[0].tree.names) if one.startswith("Distributed")]
    assert is_over_group(ranks, node, [0, 1]) is is_over
    assert not ranks.depends_on_rank(node)
