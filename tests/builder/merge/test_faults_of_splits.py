"""A weight of one rank that is too large, in pipelines, parts of sequences and experts."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from merge_truth import OTHER_SPLITS, SPLITS, SPREAD_SPLITS
from msprobe_builder import BuildConfig, build
from msprobe_builder.merge.ranks.layout import parse_layout
from tests.builder.merge.faults import Record, change_rank, scale_weight

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
        ("context_tp2cp2sp", 1, f"{LAYERS}.1.{FC1}", f"{LAYERS}.1.{FC1}"),
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
        [(conclusion, sentence)] = connection.execute(
            "SELECT conclusion, sentence FROM verdict WHERE rank IS NOT NULL"
        ).fetchall()
        graded = connection.execute(
            "SELECT grade FROM node_view WHERE side = 'npu' AND name = ?", (f"{merged}.forward.0",)
        ).fetchall()
    assert {suspect for _, suspect in named} == {rank}
    assert f"{merged}.forward.0" in {one for one, _ in named}
    assert conclusion == "fault"
    assert merged in sentence
    assert [grade for (grade,) in graded if grade in ("ok", "ungraded", "unmatched")] == []
