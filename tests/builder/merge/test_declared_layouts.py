"""A layout that is not that of the run: what differs then is no call's fault."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder import BuildConfig, build
from msprobe_builder.merge.ranks.layout import parse_layout
from tests.cases import REPEATED, tried_first
from tests.worded import worded

RUN = "megatron_tp2pp2"
FOREIGN = "Reductions inside layers run over ranks that have no group in the declared layout"
OTHER = "Reductions inside layers run over other ranks than the declared tensor-parallel group"
PRODUCTS = "Layers with a matrix add up what they put out over ranks"
SENT = "Ranks send each other tensors outside of all modules"


@pytest.mark.parametrize(
    ("layout", "warnings"),
    tried_first(
        [
            ({"tp": 2, "pp": 2}, []),
            ({"tp": 4, "pp": 1}, [FOREIGN, SENT]),
            ({"tp": 1, "pp": 4}, [FOREIGN, PRODUCTS]),
            ({"tp": 2, "pp": 2, "order": "pp-dp-ep-cp-tp"}, [OTHER]),
            ({"tp": 2, "pp": 1, "cp": 2}, [SENT]),  # parts of a sequence for stages
            ({"tp": 1, "pp": 2}, [PRODUCTS]),  # replicas for parts of tensors
        ],
        4,
        REPEATED,
    ),
    ids=str,
)
def test_a_layout_that_the_calls_contradict_accuses_nobody(
    layout: dict[str, Any], warnings: list[str], dumps: Path, tmp_path: Path
) -> None:
    declared = parse_layout({"rank_size": 4, **layout}, "npu")
    whole = parse_layout({"rank_size": declared.dp, "tp": 1, "pp": 1}, "bench")
    truth = "megatron_tp1pp1" if declared.dp == 1 else "megatron_tp1pp1dp2"
    config = BuildConfig(
        dumps / RUN / "step0", dumps / truth / "step0", npu_layout=declared, bench_layout=whole
    )
    result = build(config, tmp_path, workers=1)
    with closing(sqlite3.connect(result.path)) as connection:
        said = worded(
            connection.execute(
                "SELECT DISTINCT message FROM diagnostic WHERE code = 'layout_conflict' ORDER BY 1"
            )
        )
        found = worded(connection.execute("SELECT conclusion, sentence FROM verdict"))
        suspects = connection.execute("SELECT count(*) FROM suspect").fetchone()
    assert len(said) == len(warnings)
    assert all(any(one.startswith(start) for (one,) in said) for start in warnings)
    if not warnings:
        assert {conclusion for conclusion, _ in found} == {"clean"}
        return
    assert suspects == (0,)
    for conclusion, sentence in found:
        assert conclusion == "undecided"
        assert "contradict the layout that parallel_merge declares" in sentence
