"""Several ranks under other names: one of another model takes nothing from the others."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder import BuildConfig, build
from tests.alignment.test_real_pairs import rank

MODELS = ("gpt2", "gpt2", "ddp")  # by rank: the last one holds another model than the others


@pytest.fixture
def ranks(pairs: Path, tmp_path: Path) -> BuildConfig:
    for side in ("npu", "bench"):
        for number, name in enumerate(MODELS):
            shutil.copytree(rank(pairs / name / side), tmp_path / side / f"rank{number}")
    return BuildConfig(tmp_path / "npu", tmp_path / "bench")


def matches(database: Path, number: int) -> list[tuple[object, ...]]:
    """Names of both nodes of each match of a rank, and what made it; groups behind them."""
    with closing(sqlite3.connect(database)) as connection:
        return (
            connection.execute(
                "SELECT own.name, own.matched, source, evidence, certainty FROM node_view AS own"
                " JOIN match ON npu_node = own.node_id WHERE own.rank = ? ORDER BY own.seq",
                (number,),
            ).fetchall()
            + connection.execute(
                "SELECT name, side, operation, certainty FROM group_member JOIN call_group"
                " USING (call_group_id) JOIN node_view USING (node_id) WHERE rank = ?"
                " ORDER BY side, seq",
                (number,),
            ).fetchall()
        )


def test_any_number_of_workers_finds_what_a_rank_alone_finds(
    ranks: BuildConfig, pairs: Path, tmp_path: Path
) -> None:
    databases = [
        build(ranks, tmp_path / f"out{workers}", workers=workers).path for workers in (1, 2)
    ]
    for number, name in enumerate(MODELS):
        npu, bench = (rank(pairs / name / side) for side in ("npu", "bench"))
        alone = matches(build(BuildConfig(npu, bench), tmp_path / f"alone{number}").path, 0)
        assert sum(row[2] == 5 for row in alone) > 100
        assert [matches(database, number) for database in databases] == [alone, alone]
