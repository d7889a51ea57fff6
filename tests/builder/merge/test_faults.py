"""Faults of a single rank show in the merged comparison."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder import BuildConfig, BuildResult, build
from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.command.summary import diagnostic_lines, summary_lines
from msprobe_builder.facts.fact import text_fact
from msprobe_builder.merge.ranks.layout import parse_layout
from tests.builder.merge.faults import Record, change_rank, scale, scale_weight
from tests.cases import REPEATED, tried_first

TRUTH = parse_layout({"rank_size": 1, "tp": 1, "pp": 1}, "truth")
SPLIT = parse_layout({"rank_size": 4, "tp": 2, "pp": 2}, "split")


def compare(dumps: Path, split: Path, output: Path) -> BuildResult:
    config = BuildConfig(
        split / "step0",
        dumps / "megatron_tp1pp1" / "step0",
        npu_layout=SPLIT,
        bench_layout=TRUTH,
    )
    return build(config, output, workers=1)


def wrong(result: BuildResult) -> list[str]:
    """Calls whose error is above one percent, in order."""
    query = (
        "SELECT name FROM node_view WHERE side = 'npu' AND kind != 'collection'"
        " AND error > 0.01 ORDER BY seq"
    )
    with closing(sqlite3.connect(result.path)) as connection:
        return [name for (name,) in connection.execute(query)]


@pytest.fixture(scope="module")
def right(dumps: Path, tmp_path_factory: pytest.TempPathFactory) -> BuildResult:
    return compare(dumps, dumps / "megatron_tp2pp2", tmp_path_factory.mktemp("right"))


def test_without_a_fault_nothing_of_the_model_is_wrong(right: BuildResult) -> None:
    reductions = {"Torch.stack", "Tensor.sum", "Distributed.all_reduce"}
    assert {name.rsplit(".", 2)[0] for name in wrong(right)} <= reductions
    assert right.matched >= 1344
    assert "replicas_disagree" not in {one.code for one in right.diagnostics}
    with closing(sqlite3.connect(right.path)) as connection:
        assert connection.execute("SELECT count(*) FROM disagreement").fetchone() == (0,)


# Ranks 2 and 3 hold layers 2 and 3, which they call 0 and 1.
@pytest.mark.parametrize(
    ("rank", "layer", "merged"),
    tried_first([(3, 0, 2), (0, 1, 1), (1, 0, 0)], 1, REPEATED),
    ids=str,
)
def test_a_wrong_shard_is_the_first_wrong_node(
    rank: int, layer: int, merged: int, dumps: Path, tmp_path: Path
) -> None:
    module = "Module.0.decoder.layers.{}.mlp.linear_fc1.ColumnParallelLinear"

    def change(records: Record) -> None:
        scale_weight(records, module.format(layer), 1.05)

    split = change_rank(dumps / "megatron_tp2pp2", tmp_path / "split", rank, change)
    first, *later = wrong(compare(dumps, split, tmp_path / "out"))
    assert first == f"{module.format(merged)}.forward.0"
    assert len(later) < 8  # the product inside, the second micro-step, the sums of norms


def test_replicas_that_drifted_apart_are_a_finding(dumps: Path, tmp_path: Path) -> None:
    name = "Module.0.decoder.layers.1.pre_mlp_layernorm.RMSNorm.forward.0"

    def change(records: Record) -> None:
        scale(records[name]["parameters"]["weight"], 1.05)

    split = change_rank(dumps / "megatron_tp2pp2", tmp_path / "split", 1, change)
    result = compare(dumps, split, tmp_path / "out")
    [finding] = [one for one in result.diagnostics if one.code == "replicas_disagree"]
    assert finding.subject == f"{name} parameters.weight of ranks 0, 1"
    assert finding.side == 0


def test_drift_on_every_stage_is_one_line(dumps: Path, tmp_path: Path) -> None:
    def change(records: Record) -> None:
        for name, record in records.items():
            if name.endswith("pre_mlp_layernorm.RMSNorm.forward.0"):
                scale(record["parameters"]["weight"], 1.05)

    split = change_rank(dumps / "megatron_tp2pp2", tmp_path / "one", 1, change)
    split = change_rank(split, tmp_path / "split", 3, change)
    result = compare(dumps, split, tmp_path / "out")
    [line] = [line for line in summary_lines(result) if "hold alike" in line]
    assert "4 x" in line  # two layers of each stage


def test_what_all_ranks_report_is_one_line(right: BuildResult) -> None:
    of_side = [one for one in right.diagnostics if one.code == "released_from_backward"]
    assert {one.rank for one in of_side if one.side == 0} == {0, 1, 2, 3}
    lines = [line for line in summary_lines(right) if "hook never fired" in line]
    assert len(lines) == 2
    assert "On 4 ranks." in lines[0]


def test_what_several_steps_report_is_not_said_of_ranks() -> None:
    def lines(*places: tuple[int, int]) -> list[str]:
        found = [
            Diagnostic("info", "a", text_fact("Said."), step=step, rank=rank)
            for step, rank in places
        ]
        return diagnostic_lines(found)

    assert lines((0, 0)) == ["Info      Said."]
    assert lines((0, 0), (1, 0)) == ["Info      2 x Said. In 2 steps."]
    assert lines((0, 0), (0, 3)) == ["Info      2 x Said. On 2 ranks."]
    assert lines((0, 0), (1, 0), (1, 1)) == ["Info      3 x Said. On 2 ranks of 2 steps."]
