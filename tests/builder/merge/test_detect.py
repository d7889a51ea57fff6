"""Layouts found in what ranks recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder import build
from msprobe_builder.base.errors import UsageError
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.discover import discover
from msprobe_builder.dump.source import InMemoryDump
from msprobe_builder.facts.wording import tell
from msprobe_builder.merge.detect import AutoLayout, FoundLayout, find_layout, parse_side
from msprobe_builder.merge.ranks.layout import ParallelLayout
from msprobe_builder.pipeline.compare import read_rank
from msprobe_builder.pipeline.config import read_config
from tests.builder.merge.simulated_training import Model
from tests.builder.merge.simulator import Cluster, simulate

SPLITS: dict[str, dict[str, int]] = {
    "megatron_tp1pp1dp2": {"dp": 2},
    "megatron_tp1pp2vpp2": {"pp": 2, "vpp": 2},
    "megatron_tp2pp1_L0": {"tp": 2},
    "megatron_tp2pp1dp2": {"tp": 2, "dp": 2},
    "megatron_tp2pp2": {"tp": 2, "pp": 2},
    "pipeline_tp2pp2": {"tp": 2, "pp": 2},
    "recompute_tp2pp2sp": {"tp": 2, "pp": 2},
    "uneven_tp1pp4": {"pp": 4},
    "moe_tp2sp": {"tp": 2},
    "moe_tp2ep2etp1": {"tp": 2, "ep": 2},
    "shared_tp2ep2etp1": {"tp": 2, "ep": 2},
    "context_cp2": {"cp": 2},
    "context_cp2heads": {"cp": 2},
    "context_cp2ring": {"cp": 2},
    "deep_tp1pp8": {"pp": 8},
    "deep_tp1pp2vpp4": {"pp": 2, "vpp": 4},
    "narrow_tp4": {"tp": 4},
    "context_tp2cp2sp": {"tp": 2, "cp": 2},
    "interleaved_tp1pp2vpp2": {"pp": 2, "vpp": 2},
    "half_tp2": {"tp": 2},
    "heads_tp4": {"tp": 4},
    "experts_ep2dp2": {"ep": 2, "dp": 2},
    "tied_tp1pp2": {"pp": 2},
    "optimizer_tp1pp2vpp2": {"pp": 2, "vpp": 2},
    "grouped_tp2sp": {"tp": 2},
    "grouped_tp2ep2etp1": {"tp": 2, "ep": 2},
    "ulysses_tp2cp2sp": {"tp": 2, "cp": 2},
    "ring_tp2cp2": {"tp": 2, "cp": 2},
    "halves_tp2pp2sp": {"tp": 2, "pp": 2},
    "sharded_tp2dp2": {"tp": 2, "dp": 2},
    "counted_cp2": {"cp": 2},
}


def found_in(folder: Path, **declared: Any) -> FoundLayout:
    places = discover(folder, "npu_path").directories
    ranks = {place.rank: source for place, source in places.items()}
    auto = AutoLayout(declared)
    return find_layout(auto, len(ranks), lambda rank: read_rank(ranks[rank], Texts())[0])


def sizes(layout: ParallelLayout) -> dict[str, int]:
    own = {name: getattr(layout, name) for name in ("tp", "pp", "vpp", "cp", "ep", "dp")}
    return {name: size for name, size in own.items() if size > 1}


@pytest.mark.parametrize("name", SPLITS)
def test_the_layout_of_a_real_dump_is_found(name: str, dumps: Path) -> None:
    found = found_in(dumps / name / "step0")
    assert sizes(found.layout) == SPLITS[name]
    assert found.is_sure != name.endswith("_L0") or found.layout.dp == 1
    assert ("what is left" in tell(found.said)) == (found.layout.dp > 1)
    for key, size in SPLITS[name].items():
        assert f"{key} {size} (" in tell(found.said)


def test_whole_experts_within_a_tensor_parallel_group(dumps: Path) -> None:
    found = found_in(dumps / "moe_tp2ep2etp1" / "step0")
    assert found.layout.etp == 1
    assert "etp 1 (ranks of one tensor-parallel group exchange tokens)" in tell(found.said)


def test_what_is_declared_wins_and_a_conflict_is_told(dumps: Path) -> None:
    found = found_in(dumps / "megatron_tp2pp2" / "step0", pp=1)
    assert sizes(found.layout) == {"tp": 2, "dp": 2}
    assert "pp 1 (declared, though the dump tells 2: sends between ranks 0 and 2)" in tell(
        found.said
    )


def test_replicas_of_modules_alone_may_be_parts_of_a_sequence(dumps: Path) -> None:
    found = found_in(dumps / "megatron_tp2pp1_L0" / "step0", tp=1)
    assert (found.layout.dp, found.is_sure) == (2, False)
    assert "declare cp" in tell(found.said)


def in_memory(dumps: dict[int, InMemoryDump]) -> FoundLayout:
    return find_layout(AutoLayout(), len(dumps), lambda rank: read_rank(dumps[rank], Texts())[0])


@pytest.mark.parametrize(
    ("cluster", "expected"),
    [
        (Cluster(4, 2, cuts=(3,)), {"tp": 4, "pp": 2}),
        (Cluster(2, 1, dp=2), {"tp": 2, "dp": 2}),
        (Cluster(dp=2, ep=2), {"dp": 2, "ep": 2}),
    ],
)
def test_the_layout_of_a_simulated_training_is_found(
    cluster: Cluster, expected: dict[str, int]
) -> None:
    experts = 4 if cluster.ep > 1 else 0
    found = in_memory(simulate(Model(3, 1, experts=experts), cluster))
    assert sizes(found.layout) == expected


def test_what_nothing_tells_must_be_declared() -> None:
    dumps = simulate(Model(3, 1), Cluster(1, 2, cuts=(0,)))  # the first stage has no part at all
    with pytest.raises(UsageError, match="declare pp"):
        in_memory(dumps)


def test_auto_in_a_request_builds_the_same(dumps: Path, tmp_path: Path) -> None:
    request = {
        "npu_path": str(dumps / "megatron_tp2pp1" / "step0"),
        "bench_path": str(dumps / "megatron_tp1pp1" / "step0"),
        "parallel_merge": "auto",
    }
    path = tmp_path / "compare.json"
    path.write_text(json.dumps(request), encoding="utf-8")
    result = build(read_config(path), tmp_path / "out", workers=1)
    told = {one.side: one.message for one in result.diagnostics if one.code == "layout_found"}
    assert told[0].startswith("2 ranks were found to be tp 2 (collectives of parallel layers")
    assert told[1].startswith("1 rank was found to be tp 1")
    assert result.matched > 1300


@pytest.mark.parametrize(
    ("value", "declared"),
    [("auto", {}), ({"tp": "auto", "pp": 2}, {"pp": 2}), ({"pp": "auto", "cp": 2}, {"cp": 2})],
)
def test_sizes_can_be_left_to_be_found(value: object, declared: dict[str, int]) -> None:
    auto = parse_side(value, "here")
    assert isinstance(auto, AutoLayout)
    assert auto.declared == declared


@pytest.mark.parametrize(
    ("value", "said"),
    [({"tp": "auto", "pq": 2}, "'pq'"), ({"tp": "auto", "pp": 0}, "'pp' is 0"), ("all", "object")],
)
def test_what_is_wrong_is_refused_before_anything_is_read(value: object, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_side(value, "here")
