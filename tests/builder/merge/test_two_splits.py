"""Two splits of one training against each other, without the unsplit run; layouts are found."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder import BuildConfig, build
from msprobe_builder.merge.detect import AutoLayout
from tests.builder.merge.faults import Record, change_rank, scale_weight
from tests.cases import REPEATED, tried_first
from tests.worded import worded

# Of one axis alone, so that both sides make the same calls.
SAME_CALLS = [("narrow_tp4", "narrow_tp2"), ("deep_tp1pp8", "deep_tp1pp2vpp4")]
PAIRS = [
    ("context_tp2cp2sp", "context_cp2heads"),
    *SAME_CALLS,
    ("megatron_tp2pp2", "megatron_tp1pp2vpp2"),
    ("moe_tp2sp", "moe_tp2ep2etp1"),
]


@pytest.mark.parametrize(("npu", "bench"), tried_first(PAIRS, 3, REPEATED))
def test_modules_of_two_splits_agree(npu: str, bench: str, dumps: Path, tmp_path: Path) -> None:
    sides = (dumps / npu / "step0", dumps / bench / "step0")
    config = BuildConfig(*sides, npu_layout=AutoLayout(), bench_layout=AutoLayout())
    result = build(config, tmp_path, workers=1)
    codes = {one.code for one in result.diagnostics}
    assert codes <= {"layout_found", "released_from_backward", "call_without_record"}
    with closing(sqlite3.connect(result.path)) as connection:
        rows = connection.execute(
            "SELECT name, grade, error, matched FROM node_view WHERE side = 'npu'"
            " AND kind = 'module' AND name LIKE 'Module.%'"
        ).fetchall()
        assert connection.execute("SELECT count(*) FROM disagreement").fetchone() == (0,)
        verdict = worded(connection.execute("SELECT DISTINCT conclusion, sentence FROM verdict"))
        sends = connection.execute(
            "SELECT matched FROM node_view WHERE side = 'npu'"
            " AND parent LIKE 'Communication_Between_Stages.%' AND matched IS NOT NULL"
        ).fetchall()
    assert len(rows) > 40
    assert [name for name, *_, matched in rows if matched is None] == []
    assert {grade for _, grade, *_ in rows} <= {"ok", "ungraded"}
    assert max(error for _, _, error, _ in rows if error is not None) < 1e-3
    # Memory that nobody wrote to, and what other stages send to each other, are no faults.
    assert [sentence for conclusion, sentence in verdict if conclusion == "fault"] == []
    if (npu, bench) in SAME_CALLS:
        assert [sentence for conclusion, sentence in verdict if conclusion != "clean"] == []
    assert npu != "deep_tp1pp8" or sends == []


@pytest.mark.parametrize(
    ("npu", "bench", "rank", "layer", "merged"),
    tried_first(
        [
            ("narrow_tp4", "narrow_tp2", 3, 1, 1),
            ("deep_tp1pp8", "deep_tp1pp2vpp4", 5, 0, 5),
            ("narrow_tp2", "narrow_tp4", 1, 1, 1),
        ],
        2,
        REPEATED,
    ),
)
def test_a_weight_that_is_too_large_names_its_rank(
    npu: str, bench: str, rank: int, layer: int, merged: int, dumps: Path, tmp_path: Path
) -> None:
    module = "Module.0.decoder.layers.{}.mlp.linear_fc1.ColumnParallelLinear"

    def change(records: Record) -> None:
        scale_weight(records, module.format(layer), 1.05)

    changed = change_rank(dumps / npu, tmp_path / "changed", rank, change)
    config = BuildConfig(
        changed / "step0",
        dumps / bench / "step0",
        npu_layout=AutoLayout(),
        bench_layout=AutoLayout(),
    )
    result = build(config, tmp_path / "out", workers=1)
    with closing(sqlite3.connect(result.path)) as connection:
        named = connection.execute(
            "SELECT DISTINCT name, side, suspect FROM disagreement"
            " JOIN node_name USING (node_id) JOIN node USING (node_id)"
            " JOIN graph USING (graph_id) WHERE is_origin"
        ).fetchall()
        [(conclusion, sentence)] = worded(
            connection.execute("SELECT conclusion, sentence FROM verdict WHERE rank IS NOT NULL")
        )
    assert (f"{module.format(merged)}.forward.0", 0, rank) in named
    assert {(side, suspect) for _, side, suspect in named} == {(0, rank)}
    assert conclusion == "fault"
    assert module.format(merged) in sentence
