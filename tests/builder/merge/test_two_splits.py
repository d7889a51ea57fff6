"""Two splits of one training against each other, without the unsplit run; layouts are found."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder import BuildConfig, build
from msprobe_builder.merge.detect import AutoLayout

PAIRS = [
    ("megatron_tp2pp2", "megatron_tp1pp2vpp2"),
    ("context_tp2cp2sp", "context_cp2heads"),
    ("moe_tp2sp", "moe_tp2ep2etp1"),
    ("narrow_tp4", "narrow_tp2"),
    ("deep_tp1pp8", "deep_tp1pp2vpp4"),
]


@pytest.mark.parametrize(("npu", "bench"), PAIRS)
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
        verdict = connection.execute("SELECT DISTINCT conclusion, sentence FROM verdict").fetchall()
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
    assert npu != "deep_tp1pp8" or sends == []
