"""Declared parallel layouts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.base.errors import UsageError
from msprobe_builder.merge.ranks.layout import expert_peers, groups, parse_layout, replicas, united


# Groups as Megatron's own rank generator gives them.
@pytest.mark.parametrize(
    ("order", "tp_groups", "pp_groups"),
    [
        ("tp-cp-ep-dp-pp", ["01", "23", "45", "67"], ["04", "15", "26", "37"]),
        ("tp-cp-pp-ep-dp", ["01", "23", "45", "67"], ["02", "13", "46", "57"]),
        ("tp-pp-dp", ["01", "23", "45", "67"], ["02", "13", "46", "57"]),
        ("pp-tp-dp", ["02", "13", "46", "57"], ["01", "23", "45", "67"]),
    ],
)
def test_order(order: str, tp_groups: list[str], pp_groups: list[str]) -> None:
    layout = parse_layout({"rank_size": 8, "tp": 2, "pp": 2, "order": order}, "npu")
    assert ["".join(map(str, group)) for group in groups(layout, "tp")] == tp_groups
    assert ["".join(map(str, group)) for group in groups(layout, "pp")] == pp_groups


def test_labels_are_the_first_ranks() -> None:
    layout = parse_layout({"rank_size": 8, "tp": 2, "pp": 2}, "npu")
    assert [replica.label for replica in replicas(layout)] == [0, 2]


@given(
    st.tuples(*[st.integers(1, 3)] * 4),
    st.permutations(["tp", "cp", "pp", "dp"]),
)
def test_every_rank_belongs_to_one_replica(
    sizes: tuple[int, int, int, int], order: list[str]
) -> None:
    tp, cp, pp, dp = sizes
    value: dict[str, Any] = {
        "rank_size": tp * cp * pp * dp,
        "tp": tp,
        "cp": cp,
        "pp": pp,
        "order": "-".join(order),
    }
    found = [
        rank
        for replica in replicas(parse_layout(value, "npu"))
        for stage in replica.ranks
        for slices in stage
        for rank in slices
    ]
    assert sorted(found) == list(range(value["rank_size"]))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"tp": "2"}, "'tp' is '2'; it must be a whole number above 0"),
        ({"tp": True}, "'tp' is True"),
        ({"pp": 0}, "'pp' is 0"),
        ({"pp": None}, "lacks 'pp'"),
        ({"tp": 3}, "rank_size 8 is no multiple of tp · cp · pp = 6"),
        ({"vpp": 2, "pp": 1}, "vpp 2 needs pp of 2 or more"),
        ({"ordr": "tp-dp-pp"}, "unknown key 'ordr'; did you mean 'order'"),
        ({"order": 3}, "'order' must be text"),
        ({"order": "tp-xx"}, "unknown word 'xx'"),
        ({"order": "tp-tp"}, "names 'tp' twice"),
        ({"order": "tp-dp"}, "lacks 'pp', which is 2"),
        ({"order": "ep-tp-dp-pp"}, "must name ep next to dp"),
        ({"cp": 0}, "'cp' is 0; it must be a whole number above 0"),
        ({"cp": 3}, "rank_size 8 is no multiple of tp · cp · pp = 12"),
        ({"ep": 3}, "ep 3 does not divide dp · cp = 2; experts are shared out over these ranks"),
        ({"ep": 3, "etp": 1}, "ep 3 does not divide tp · dp · cp = 4"),
        ({"etp": 4}, "etp is 4; experts are split as the rest of the model (etp 2) or not at all"),
        ({"cp": 2, "order": "tp-pp-dp"}, "lacks 'cp', which is 2"),
        ({"ep": 2, "order": "tp-pp-dp"}, "lacks 'ep', which is 2"),
    ],
)
def test_mistakes_get_one_sentence(change: dict[str, Any], sentence: str) -> None:
    value = {"rank_size": 8, "tp": 2, "pp": 2, **change}
    with pytest.raises(UsageError) as caught:
        parse_layout(value, "compare.json: parallel_merge.npu")
    assert sentence in str(caught.value)
    assert "parallel_merge.npu" in str(caught.value)


# Which experts each rank holds, as Megatron's own generator of expert ranks gives it.
@pytest.mark.parametrize(
    ("sizes", "shares", "peers"),
    [
        ({"tp": 1, "pp": 1, "ep": 2}, "01010101", ["01", "23", "45", "67"]),
        ({"tp": 1, "pp": 1, "ep": 4}, "01230123", ["0123", "4567"]),
        ({"tp": 2, "pp": 1, "ep": 2}, "00110011", ["01", "23"]),
        ({"tp": 2, "pp": 1, "ep": 4, "etp": 1}, "01230123", ["01", "23"]),
        ({"tp": 2, "pp": 2, "ep": 2, "etp": 1}, "01010101", ["0", "1"]),
        ({"tp": 1, "pp": 1, "cp": 2, "ep": 2}, "01010101", ["0", "1", "2", "3"]),
        ({"tp": 1, "pp": 1, "cp": 2, "ep": 4}, "01230123", ["01", "23"]),
        ({"tp": 1, "pp": 2, "ep": 2, "order": "tp-cp-pp-ep-dp"}, "00110011", ["01", "23"]),
        (
            {"tp": 1, "pp": 1, "ep": 2, "order": "tp-cp-dp-ep-pp"},
            "00001111",
            ["04", "15", "26", "37"],
        ),
    ],
)
def test_experts_are_shared_out(sizes: dict[str, Any], shares: str, peers: list[str]) -> None:
    layout = parse_layout({"rank_size": 8, **sizes}, "npu")
    assert "".join(str(layout.expert_place(rank)["ep"]) for rank in range(8)) == shares
    assert ["".join(map(str, sorted(one))) for one in expert_peers(layout)] == peers


def test_sets_with_a_common_member_are_one() -> None:
    sets = [frozenset({0, 1}), frozenset({2, 3}), frozenset({1, 2}), frozenset({4})]
    assert united(sets) == [frozenset({0, 1, 2, 3}), frozenset({4})]


def test_not_an_object() -> None:
    with pytest.raises(UsageError, match="must be an object"):
        parse_layout([], "compare.json: parallel_merge.npu")
