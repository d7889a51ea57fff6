"""DeepSpeed's ZeRO, of which every stage keeps something sharded, against plain data parallelism.

What is recorded of modules is whole in all stages: weights are gathered before a module runs, and
a gradient is read where it arises, before ZeRO reduces it and keeps a part.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe_builder import BuildConfig, BuildResult, build
from msprobe_builder.merge.ranks.layout import parse_layout
from tests.worded import worded

LAYER = "Module.layers.1.mlp.up.Linear"
STAGES = ("zero1_dp2", "zero2_dp2", "zero3_dp2")


def compare(npu: Path, dumps: Path, output: Path) -> BuildResult:
    layout = parse_layout({"rank_size": 2, "tp": 1, "pp": 1}, "")
    bench = dumps / "zero0_dp2" / "step0"
    return build(BuildConfig(npu, bench, npu_layout=layout, bench_layout=layout), output, workers=1)


def query(result: BuildResult, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(result.path)) as connection:
        return worded(connection.execute(sql))


@pytest.mark.parametrize("name", STAGES)
def test_every_module_agrees_with_plain_data_parallelism(
    name: str, dumps: Path, tmp_path: Path
) -> None:
    result = compare(dumps / name / "step0", dumps, tmp_path)
    for rank in (0, 1):
        rows = query(
            result,
            "SELECT node, name, direction, norm, max_diff, min_diff, mean_diff, norm_diff"
            " FROM tensor_view WHERE side = 'npu' AND matched IS NOT NULL AND norm IS NOT NULL"
            f" AND node LIKE 'Module.%' AND rank = {rank}",
        )
        kinds = [direction for _, _, direction, *_ in rows]
        assert kinds.count("parameters") == kinds.count("parameters_grad") == 26
        assert len(rows) == 147
        for node, one, _, norm, *differences in rows:
            assert np.abs(differences).max() <= 1e-5 * max(norm, 1e-3), (node, one)
    assert query(result, "SELECT conclusion FROM verdict WHERE conclusion = 'fault'") == []


def test_a_gradient_of_one_rank_that_is_too_large(dumps: Path, tmp_path: Path) -> None:
    shutil.copytree(dumps / "zero3_dp2", tmp_path / "changed")
    path = tmp_path / "changed/step0/rank1/dump.json"
    content = json.loads(path.read_text("utf-8"))
    for records in content["data"][f"{LAYER}.parameters_grad"].values():
        for record in records:
            for key in ("Max", "Min", "Mean", "Norm"):
                record[key] *= 1.05
    path.write_text(json.dumps(content), encoding="utf-8")
    result = compare(tmp_path / "changed/step0", dumps, tmp_path / "out")
    [(conclusion, sentence)] = query(
        result, "SELECT conclusion, sentence FROM verdict WHERE rank = 1"
    )
    assert conclusion == "fault"
    assert f"{LAYER}.parameters_grad" in sentence
    assert query(result, "SELECT conclusion FROM verdict WHERE rank = 0") != [("fault",)]
