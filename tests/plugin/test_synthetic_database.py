"""The generator of large databases: what it writes must be as consistent as a real build."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.plugin.conftest import catalog, client_of, node, skeleton
from tests.plugin.example import REPOSITORY

GRADES = ["ungraded", "ok", "slight", "moderate", "serious", "severe", "unmatched"]


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks of a small synthetic model."""
    path = tmp_path_factory.mktemp("synthetic") / "small.vis.db"
    generator = REPOSITORY / "benchmarks" / "generate_database.py"
    options = ["--layers", "3", "--micro-steps", "2", "--ranks", "2", "--overflow"]
    command = [sys.executable, str(generator), *options, "-o", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    return path


def test_it_is_a_sound_database(synthetic: Path) -> None:
    with closing(sqlite3.connect(synthetic)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("PRAGMA foreign_key_check").fetchall() == []
        one_sided = "SELECT count(*) FROM match JOIN node ON node_id IN (npu_node, bench_node)"
        [matched] = database.execute("SELECT count(*) FROM match").fetchone()
        assert database.execute(one_sided).fetchone() == (2 * matched,)
        missing = (
            "SELECT count(*) FROM node_view WHERE (grade = 'unmatched') != (matched IS NULL)"
            " OR (unmatched_reason IS NULL) != (matched IS NOT NULL)"
        )
        assert database.execute(missing).fetchone() == (0,)


def test_rollups_count_what_lies_below(synthetic: Path) -> None:
    counts = ", ".join(f"sum(below.grade = {grade})" for grade in range(len(GRADES)))
    query = (
        f"SELECT rollup.*, max(below.overflow), {counts} FROM rollup JOIN node USING (node_id)"
        " LEFT JOIN node AS below ON below.node_id > node.node_id"
        " AND below.node_id <= node.subtree_end GROUP BY rollup.node_id"
    )
    with closing(sqlite3.connect(synthetic)) as database:
        for _, worst, overflow, *rest in database.execute(query):
            stored, counted = rest[: len(GRADES)], rest[len(GRADES) :]
            assert [overflow, *stored] == [counted[0], *(count or 0 for count in counted[1:])]
            assert worst == max((grade for grade in range(1, 6) if stored[grade]), default=0)


def test_the_plugin_shows_it(synthetic: Path) -> None:
    ask = client_of(synthetic.parent)
    [file] = catalog(ask).files
    assert [(pair.step, pair.rank) for pair in file.graphs] == [(0, 0), (0, 1)]
    for pair in file.graphs:
        place = {"file": file.file, "step": pair.step, "rank": pair.rank}
        assert sum(pair.grade_counts) == pair.npu_nodes
        npu, bench = skeleton(ask, **place), skeleton(ask, **place, side="bench")
        assert [npu.node_count, bench.node_count] == [pair.npu_nodes, pair.bench_nodes]
        assert [list(npu.grade).count(grade) for grade in range(7)] == list(pair.grade_counts)
        assert any(npu.overflow)
    worst = list(npu.error).index(max(npu.error))
    detail = node(ask, **place, index=worst)
    assert detail.npu.error == max(row.comparison.error for row in detail.rows)
    assert any(not frame.is_library for frame in detail.npu.stack)
