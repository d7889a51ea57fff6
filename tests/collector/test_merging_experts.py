"""Real runs over two processes, merged, against the same training unsplit."""

# mypy: disable-error-code="no-untyped-call"
# torch is typed in part only.

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from msprobe_builder import BuildConfig, BuildResult, build
from msprobe_builder.merge.ranks.layout import parse_layout
from msprobe_collector import PrecisionDebugger
from tests.collector.expert_model import Model, Spread, fill, train
from tests.collector.processes import run_in_two
from tests.collector.recording import write_config

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="torch was built without it")

FAULTY = "layers.1.mlp.experts.local_experts.3.up.weight"
RUNS: dict[str, tuple[Spread, str | None]] = {
    "one": (Spread(), None),
    "dp2": (Spread(), None),
    "cp2": (Spread(cp=2), None),
    "ep2": (Spread(ep=2), None),
    "cp2ep2": (Spread(cp=2, ep=2), None),
    "ep2_idle": (Spread(ep=2, skips_idle_experts=True), None),
    "ep2_fault": (Spread(ep=2), FAULTY),
    "cp2ep2_fault": (Spread(cp=2, ep=2), FAULTY),
}
LAYOUTS: dict[str, dict[str, Any]] = {
    "one": {"rank_size": 1},
    "dp2": {"rank_size": 2},
    "cp2": {"rank_size": 2, "cp": 2},
    "ep2": {"rank_size": 2, "ep": 2},
    "cp2ep2": {"rank_size": 2, "cp": 2, "ep": 2},
}


def work(rank: int, folder: str) -> None:
    for name, (spread, faulty) in RUNS.items():
        for level in ("mix", "L0"):
            if name == "one" and rank:
                continue
            model = Model(spread)
            fill(model, spread, faulty)
            path = Path(folder) / f"{name}_{level}"
            debugger = PrecisionDebugger(config_path=write_config(path, level=level))
            debugger.start(model)
            train(model, spread)
            debugger.stop()
            PrecisionDebugger.close()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    run_in_two(work, str(folder))
    return folder


def compare(runs: Path, npu: str, bench: str, output: Path, level: str = "mix") -> BuildResult:
    layouts = [
        parse_layout({"tp": 1, "pp": 1, **LAYOUTS[name.partition("_")[0]]}, name)
        for name in (npu, bench)
    ]
    config = BuildConfig(
        runs / f"{npu}_{level}" / "dump" / "step0",
        runs / f"{bench}_{level}" / "dump" / "step0",
        npu_layout=layouts[0],
        bench_layout=layouts[1],
    )
    return build(config, output, workers=1)


def rows(result: BuildResult, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(result.path)) as connection:
        return connection.execute(query).fetchall()


MODULES = "name GLOB 'Module.*'"
PAIRS = [("cp2", "one"), ("ep2", "dp2"), ("cp2ep2", "one"), ("ep2_idle", "dp2")]


@pytest.mark.parametrize("level", ["mix", pytest.param("L0", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("split", "truth"), PAIRS)
def test_modules_are_those_of_the_unsplit_run(
    split: str, truth: str, level: str, runs: Path, tmp_path: Path
) -> None:
    result = compare(runs, split, truth, tmp_path, level)
    alone = rows(result, f"SELECT name FROM node_view WHERE {MODULES} AND matched IS NULL")
    assert alone == []
    sides = rows(result, f"SELECT side, count(*) FROM node_view WHERE {MODULES} GROUP BY side")
    assert len({count for _, count in sides}) == 1
    wrong = rows(result, f"SELECT name, error FROM node_view WHERE {MODULES} AND error > 1e-4")
    assert wrong == []
    known = "SELECT count(*) FROM tensor_view WHERE error IS NOT NULL"
    assert rows(result, known)[0][0] > 100
    assert "replicas_disagree" not in {one.code for one in result.diagnostics}


@pytest.mark.parametrize(("split", "truth"), [("ep2_fault", "dp2"), ("cp2ep2_fault", "one")])
def test_a_wrong_expert_is_the_first_wrong_node(
    split: str, truth: str, runs: Path, tmp_path: Path
) -> None:
    result = compare(runs, split, truth, tmp_path)
    for (rank,) in rows(result, "SELECT DISTINCT rank FROM graph"):
        wrong = rows(
            result,
            "SELECT name, parent FROM node_view WHERE side = 'npu' AND kind = 'module'"
            f" AND error > 0.01 AND rank = {rank} ORDER BY seq",
        )
        around = {parent for _, parent in wrong}
        first = next(name for name, _ in wrong if name not in around)
        assert first == "Module.layers.1.mlp.experts.local_experts.3.up.Linear.forward.0"


def test_calls_between_ranks_stay_where_they_ran(runs: Path, tmp_path: Path) -> None:
    result = compare(runs, "cp2ep2", "one", tmp_path)
    found = rows(
        result,
        "SELECT DISTINCT parent FROM node_view WHERE name GLOB 'Distributed.*' AND side = 'npu'"
        " AND name GLOB '*.forward'",
    )
    attention = {
        f"Module.layers.{layer}.attention.Attention.{direction}.0"
        for layer in (0, 1)
        for direction in ("forward", "backward")
    }
    experts = {
        f"Module.layers.{layer}.mlp.ExpertLayer.{direction}.0"
        for layer in (0, 1)
        for direction in ("forward", "backward")
    }
    assert {parent for (parent,) in found} == attention | experts
    origins = rows(
        result,
        "SELECT DISTINCT group_concat(rank) FROM (SELECT node_id, rank FROM origin ORDER BY rank)"
        " JOIN node_name USING (node_id) WHERE name GLOB 'Distributed.*' GROUP BY node_id",
    )
    assert origins == [("0,1",)]


def test_experts_come_from_the_ranks_that_hold_them(runs: Path, tmp_path: Path) -> None:
    result = compare(runs, "ep2", "dp2", tmp_path)
    found = rows(
        result,
        "SELECT DISTINCT name, origin.rank FROM origin JOIN node_view USING (node_id)"
        " WHERE name GLOB '*local_experts.?.up.Linear.forward.0' AND side = 'npu'"
        " AND node_view.rank = 1 AND name GLOB 'Module.layers.0.*' ORDER BY name",
    )
    assert [rank for _, rank in found] == [0, 0, 1, 1]


def test_experts_of_more_replicas_are_announced(runs: Path, tmp_path: Path) -> None:
    codes = {
        pair: [one.side for one in compare(runs, *pair, tmp_path / "_".join(pair)).diagnostics
               if one.code == "experts_of_other_tokens"]
        for pair in (("ep2", "one"), ("one", "ep2"), ("ep2", "dp2"), ("cp2ep2", "one"))
    }  # fmt: skip
    assert list(codes.values()) == [[0], [1], [], []]
