"""Matching merged graphs by hand together with everything below."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder import BuildConfig, build
from msprobe_builder.merge.ranks.layout import parse_layout
from msprobe_builder.rematch.edits import MATCH, UNMATCH, Edits
from msprobe_builder.rematch.graphs import read_pairs
from msprobe_builder.rematch.operations import Operation, carry_out
from msprobe_builder.rematch.refresh import refresh
from tests.cases import REPEATED, tried_first

_PAIRS = "SELECT name, matched FROM node_view WHERE side = 'npu' AND matched IS NOT NULL"
_TOP = (
    "SELECT npu_node, bench_node FROM match JOIN node ON node_id = npu_node"
    " WHERE parent_id = ? ORDER BY npu_node"
)


@pytest.mark.parametrize(
    ("split", "truth", "pp"),
    tried_first(
        [
            ("megatron_tp2pp1_L0", "megatron_tp1pp1_L0", 1),
            ("megatron_tp2pp2", "megatron_tp1pp1", 2),
        ],
        1,
        REPEATED,
    ),
)
def test_children_with_unknown_shapes_are_matched_again(
    split: str, truth: str, pp: int, dumps: Path, tmp_path: Path
) -> None:
    config = BuildConfig(
        dumps / split / "step0",
        dumps / truth / "step0",
        npu_layout=parse_layout({"rank_size": 2 * pp, "tp": 2, "pp": pp}, "npu"),
        bench_layout=parse_layout({"rank_size": 1, "tp": 1, "pp": 1}, "bench"),
    )
    result = build(config, tmp_path, workers=1)
    with closing(sqlite3.connect(result.path, isolation_level=None)) as connection:
        [without_shape] = connection.execute(
            "SELECT count(*) FROM tensor_view WHERE matched IS NOT NULL AND shape IS NULL"
        ).fetchone()
        assert without_shape
        before = set(connection.execute(_PAIRS))
        [pair] = read_pairs(connection)
        top = connection.execute(_TOP, (pair.npu.first,)).fetchall()
        for action in (UNMATCH, MATCH):
            connection.execute("BEGIN IMMEDIATE")
            edits = Edits(connection)
            carry_out(edits, pair, [Operation(action, npu, bench, True) for npu, bench in top])
            changed = ({getattr(one, side) for one in edits.changes} for side in ("npu", "bench"))
            refresh(connection, [pair], *changed)
            connection.execute("COMMIT")
            if action == UNMATCH:
                assert len(set(connection.execute(_PAIRS))) < len(top)
        assert set(connection.execute(_PAIRS)) == before
