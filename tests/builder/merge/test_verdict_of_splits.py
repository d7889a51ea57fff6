"""No training is accused for how it was split: same weights, same data, other ranks."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from merge_truth import OTHER_SPLITS, SPLITS, SPREAD_SPLITS, Split
from msprobe_builder import BuildConfig, build
from msprobe_builder.merge.ranks.layout import parse_layout

# Buffers kept from one call to the next, gathered tensors without history, functions with a
# backward of their own, and gradient norms of the parameters that a stage has.
TELLING = ("moe_tp2sp", "context_tp2cp2sp", "context_cp2ring", "optimizer_tp1pp2vpp2")


@pytest.mark.parametrize(
    "split",
    [
        pytest.param(one, id=one.name, marks=() if one.name in TELLING else pytest.mark.slow)
        for one in (*SPLITS, *OTHER_SPLITS, *SPREAD_SPLITS)
    ],
)
def test_no_fault_is_found_against_the_unsplit_run(
    split: Split, dumps: Path, tmp_path: Path
) -> None:
    layout = parse_layout(split.layout, split.name)
    config = BuildConfig(
        dumps / split.name / "step0",
        dumps / split.truth / "step0",
        npu_layout=layout,
        bench_layout=parse_layout({"rank_size": layout.dp, "tp": 1, "pp": 1}, split.truth),
    )
    result = build(config, tmp_path, workers=1)
    with closing(sqlite3.connect(result.path)) as connection:
        found = connection.execute("SELECT conclusion, sentence FROM verdict").fetchall()
    assert found
    assert [sentence for conclusion, sentence in found if conclusion == "fault"] == []
