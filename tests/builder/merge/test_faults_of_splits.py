"""A weight of one rank that is too large, in pipelines, parts of sequences and experts."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from merge_truth import OTHER_SPLITS, SPLITS, SPREAD_SPLITS
from msprobe_builder import BuildConfig, BuildResult, build
from msprobe_builder.merge.ranks.layout import parse_layout
from tests.builder.merge.faults import Record, change_rank, same, scale, scale_weight
from tests.cases import REPEATED
from tests.worded import worded

SPLIT = {one.name: one for one in (*SPLITS, *OTHER_SPLITS, *SPREAD_SPLITS)}
LAYERS = "Module.0.decoder.layers"
FC1 = "mlp.linear_fc1.ColumnParallelLinear"
FC2 = "mlp.linear_fc2.RowParallelLinear"
HEAD = "Module.0.output_layer.ColumnParallelLinear"
ROUTER = "Module.0.decoder.layers.0.mlp.router.TopKRouter"


@pytest.mark.parametrize(
    ("name", "rank", "module", "merged"),
    [
        # The second chunk of either stage holds layers 2 and 3.
        (
            "megatron_tp1pp2vpp2",
            1,
            f"Module.1.decoder.layers.0.{FC2}",
            f"{LAYERS}.3.{FC2}",
        ),
        ("uneven_tp1pp4", 3, HEAD, HEAD),
        ("context_cp2", 1, f"{LAYERS}.1.{FC1}", f"{LAYERS}.1.{FC1}"),
        # Ranks 1 and 3 hold the same part of the weight, ranks 0 and 2 the other.
        pytest.param(
            *("context_tp2cp2sp", 1, f"{LAYERS}.1.{FC1}", f"{LAYERS}.1.{FC1}"),
            marks=REPEATED,
        ),
        ("context_tp2cp2sp", 2, f"{LAYERS}.1.{FC1}", f"{LAYERS}.1.{FC1}"),
        ("moe_tp2ep2etp1", 1, ROUTER, ROUTER),
    ],
)
def test_the_rank_of_a_weight_that_is_too_large(
    name: str, rank: int, module: str, merged: str, dumps: Path, tmp_path: Path
) -> None:
    def change(records: Record) -> None:
        scale_weight(records, module, 1.05)

    split = SPLIT[name]
    changed = change_rank(dumps / name, tmp_path / "changed", rank, change)
    result = build(
        BuildConfig(
            changed / "step0",
            dumps / split.truth / "step0",
            npu_layout=parse_layout(split.layout, name),
            bench_layout=parse_layout({"rank_size": 1, "tp": 1, "pp": 1}, split.truth),
        ),
        tmp_path / "out",
        workers=1,
    )
    with closing(sqlite3.connect(result.path)) as connection:
        named = connection.execute(
            "SELECT DISTINCT name, suspect FROM disagreement JOIN node_name USING (node_id)"
            " WHERE is_origin AND suspect IS NOT NULL"
        ).fetchall()
        [(conclusion, sentence)] = worded(
            connection.execute("SELECT conclusion, sentence FROM verdict WHERE rank IS NOT NULL")
        )
        graded = connection.execute(
            "SELECT grade FROM node_view WHERE side = 'npu' AND name = ?", (f"{merged}.forward.0",)
        ).fetchall()
    assert {suspect for _, suspect in named} == {rank}
    assert f"{merged}.forward.0" in {one for one, _ in named}
    assert conclusion == "fault"
    assert merged in sentence
    assert [grade for (grade,) in graded if grade in ("ok", "ungraded", "unmatched")] == []


def scale_output(records: Record, name: str, factor: float) -> None:
    """What a call or a module puts out is off, wherever it is recorded."""
    output = records[name]["output"][0]
    for other in records.values():
        for tensor in [*other.get("input_args", ()), *(other.get("output") or ())]:
            if same(tensor, output):
                scale(tensor, factor)
    scale(output, factor)


def judged(dumps: Path, changed: Path, output: Path) -> BuildResult:
    config = BuildConfig(
        changed / "step0",
        dumps / "heads_tp1" / "step0",
        npu_layout=parse_layout(SPLIT["heads_tp4"].layout, "heads_tp4"),
        bench_layout=parse_layout({"rank_size": 1, "tp": 1, "pp": 1}, "heads_tp1"),
    )
    return build(config, output, workers=1)


def test_a_norm_that_drifted_is_accused_before_the_layer_that_takes_it_in(
    dumps: Path, tmp_path: Path
) -> None:
    """The layer has another flag than the unsplit one, and puts out something else."""
    norm = "Module.decoder.layers.1.pre_mlp_layernorm.RMSNorm"

    def change(records: Record) -> None:
        scale_weight(records, norm, 1.05)
        scale_output(records, f"Module.decoder.layers.1.{FC1}.forward.0", 1.05)

    changed = change_rank(dumps / "heads_tp4", tmp_path / "changed", 1, change)
    result = judged(dumps, changed, tmp_path / "out")
    with closing(sqlite3.connect(result.path)) as connection:
        [(conclusion, sentence)] = worded(
            connection.execute("SELECT conclusion, sentence FROM verdict WHERE rank IS NOT NULL")
        )
    assert conclusion == "fault"
    assert sentence.startswith(f"Module.decoder.layers.1 → {norm}.forward.0 ")
    assert "rank 1 is off" in sentence


def test_another_scale_on_one_rank_is_accused_itself(dumps: Path, tmp_path: Path) -> None:
    """A factor that differs is no place of the rank's own: what the call puts out is compared."""

    def change(records: Record) -> None:
        records["Torch.baddbmm.1.forward"]["input_kwargs"]["alpha"]["value"] *= 1.3
        scale_output(records, "Torch.baddbmm.1.forward", 1.3)

    changed = change_rank(dumps / "heads_tp4", tmp_path / "changed", 1, change)
    result = judged(dumps, changed, tmp_path / "out")
    with closing(sqlite3.connect(result.path)) as connection:
        [(conclusion, sentence)] = worded(
            connection.execute("SELECT conclusion, sentence FROM verdict WHERE rank IS NOT NULL")
        )
    assert conclusion == "fault"
    assert "core_attention → Torch.baddbmm.1.forward" in sentence
