"""A single replica that is compared with many is merged once, and gives the same each time."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder import kept
from msprobe_builder.config import DEFAULT_OPTIONS
from msprobe_builder.dump.discover import discover
from msprobe_builder.jobs import pair_up_replicas
from msprobe_builder.merge.layout import parse_layout
from msprobe_builder.pipeline import store_pair

_VIEWS = (
    "SELECT * FROM node_view ORDER BY seq, side",
    "SELECT * FROM tensor_view ORDER BY side, node, name",
    "SELECT node_id, ordinal, recipe FROM recipe_view ORDER BY 1, 2",
    "SELECT node_id, rank FROM origin ORDER BY 1, 2",
    "SELECT severity, code, message, subject, count, side, step, rank FROM diagnostic ORDER BY 2",
)


def content(shard: Path) -> list[list[Any]]:
    with closing(sqlite3.connect(shard)) as connection:
        return [connection.execute(one).fetchall() for one in _VIEWS]


@pytest.mark.parametrize("many_first", [True, False])
def test_a_kept_side_is_as_one_read_again(many_first: bool, dumps: Path, tmp_path: Path) -> None:
    sides = [("megatron_tp2pp1dp2", 4), ("megatron_tp2pp1", 2)]
    sides = sides if many_first else sides[::-1]
    left, right = (discover(dumps / name / "step0", name) for name, _ in sides)
    npu, bench = (parse_layout({"rank_size": size, "tp": 2, "pp": 1}, "") for _, size in sides)
    jobs, _ = pair_up_replicas(left, right, (npu, bench), DEFAULT_OPTIONS)
    reports: list[str] = []
    try:
        for job in jobs:
            store_pair(job, tmp_path / f"kept{job.rank}", reports.append)
    finally:
        kept.forget()
    single, many = ("bench", "npu") if many_first else ("npu", "bench")
    assert [one for one in reports if single in one] == [f"read {single}", f"keep {single}"]
    assert reports.count(f"read {many}") == 2
    assert len(reports) == sum(job.stages for job in jobs)
    for job in jobs:
        store_pair(replace(job, keep=None), tmp_path / f"again{job.rank}", reports.append)
        found = content(tmp_path / f"kept{job.rank}")
        assert all(found[:4])
        assert found == content(tmp_path / f"again{job.rank}")
