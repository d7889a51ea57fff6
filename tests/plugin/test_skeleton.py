"""The hierarchy of a graph as columns."""

from __future__ import annotations

import pytest

from tb_graph_ascend.generated import graph_pb2 as pb
from tests.plugin.conftest import Ask, skeleton


def test_the_npu_side_column_by_column(ask: Ask) -> None:
    found = skeleton(ask)
    assert found.node_count == 7
    assert [found.stems[number] for number in found.stem] == [
        "DefaultModel",
        "Module.model.Net",
        "Module.model.fc.Linear",
        "Functional.linear",
        "Torch.fused",
        "Apis_Between_Modules.0",
        "Tensor.add",
    ]
    assert list(found.direction) == [0, 1, 1, 1, 1, 0, 2]
    assert list(found.call) == [0, 0, 0, 3, 0, 0, 2]
    assert list(found.kind) == [0, 0, 0, 1, 1, 2, 1]
    assert list(found.subtree_size) == [7, 4, 2, 1, 1, 2, 1]
    assert list(found.micro_step) == [0, 0, 0, 0, 0, 1, 1]
    assert list(found.grade) == [0, 2, 1, 5, 6, 6, 3]
    assert list(found.error) == pytest.approx([-1, 0.25, 0, 1, -1, -1, 0.5])
    assert list(found.overflow) == [0, 0, 0, 3, 0, 0, 1]


def test_blocks_of_any_size_give_the_same(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [skeleton(ask, side=side) for side in ("npu", "bench")]
    for size in (1, 2, 3, 6, 7):
        monkeypatch.setattr("msprobe_builder.database.read.node_columns._BLOCK", size)
        for side, found in zip(("npu", "bench"), whole, strict=True):
            assert skeleton(ask, side=side) == found


def partners(side: pb.Skeleton) -> dict[int, int]:
    """Partner of each matched node."""
    matched = [index for index, grade in enumerate(side.grade) if grade != pb.GRADE_UNMATCHED]
    pairs = zip(matched, side.partner_offset, strict=True)
    return {index: index + offset for index, offset in pairs}


def test_partners_are_relative_and_meet_in_both_directions(ask: Ask) -> None:
    npu, bench = skeleton(ask), skeleton(ask, side="bench")
    assert list(npu.partner_offset) == [0, 0, 0, 0, -1]
    assert partners(npu) == {0: 0, 1: 1, 2: 2, 3: 3, 6: 5}
    assert {index: partner for partner, index in partners(bench).items()} == partners(npu)


def test_unmatched_nodes_say_why(ask: Ask) -> None:
    found = skeleton(ask)
    reasons = ["", *found.unmatched_reasons]
    assert [reasons[number] for number in found.unmatched_reason] == [
        *("", "", "", "", "no_such_name", "other_parent", ""),
    ]


def test_columns_without_content_are_empty(ask: Ask) -> None:
    matched = skeleton(ask, step=1)
    assert list(matched.overflow) == []
    assert list(matched.unmatched_reason) == []
    alone = skeleton(ask, step=1, rank=2)
    assert list(alone.partner_offset) == []


def test_two_steps_do_not_influence_each_other(ask: Ask) -> None:
    first = [skeleton(ask, step=0), skeleton(ask, step=1)]
    again = [skeleton(ask, step=1), skeleton(ask, step=0)]
    assert first == again[::-1]
    assert list(first[1].error) == [-1, 0.75]


def test_sides_may_be_given_as_numbers(ask: Ask) -> None:
    assert skeleton(ask, side=1) == skeleton(ask, side="bench")
