"""Layers whose kernels talk to the other ranks themselves, against the layers of one rank."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.worded import worded

pytest.importorskip("torch.distributed")

from msprobe_builder import BuildConfig, BuildResult, build
from msprobe_builder.merge.ranks.layout import parse_layout
from tests.builder.merge.fused_layers import RANK, dump

GATHERED = "NPU.npu_all_gather_base_mm.0.forward"
SCATTERED = "NPU.npu_mm_reduce_scatter_base.0.forward"
REDUCED = "NPU.npu_mm_all_reduce_base.0.forward"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fused")
    dump(folder / "whole", 1)
    dump(folder / "split", 2)
    dump(folder / "changed", 2, 1.05)
    return folder


def compared(folder: Path, name: str, output: Path) -> BuildResult:
    layouts = [parse_layout({"rank_size": size, "tp": size, "pp": 1}, "") for size in (2, 1)]
    config = BuildConfig(
        folder / name / "dump" / "step0",
        folder / "whole" / "dump" / "step0",
        npu_layout=layouts[0],
        bench_layout=layouts[1],
    )
    return build(config, output, workers=1)


def query(result: BuildResult, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(result.path)) as connection:
        return worded(connection.execute(sql))


def test_what_goes_in_and_comes_out_is_cut_as_the_function_says(
    folder: Path, tmp_path: Path
) -> None:
    result = compared(folder, "split", tmp_path)
    rows = query(
        result,
        "SELECT node, name, shape, recipe"
        " FROM tensor_view JOIN recipe_view USING (node_id, ordinal)"
        f" WHERE side = 'npu' AND node IN ('{GATHERED}', '{SCATTERED}', '{REDUCED}')",
    )
    found = {(node, name): (shape, recipe) for node, name, shape, recipe in rows}
    for place, shape, how in (
        ((GATHERED, "input.0"), "[12, 8]", "along dimension 0"),
        ((GATHERED, "input.1"), "[8, 20]", "along dimension 1"),
        ((GATHERED, "output.0"), "[12, 20]", "along dimension 1"),
        ((GATHERED, "output.1"), "[12, 8]", "alike on ranks 0, 1"),
        ((SCATTERED, "input.0"), "[12, 20]", "along dimension 1"),
        ((SCATTERED, "input.1"), "[20, 8]", "along dimension 0"),
        ((SCATTERED, "output.0"), "[12, 8]", "along dimension 0"),
        ((REDUCED, "input.0"), "[12, 20]", "along dimension 1"),
        ((REDUCED, "input.1"), "[20, 8]", "along dimension 0"),
        ((REDUCED, "output.0"), "[12, 8]", "alike on ranks 0, 1"),
    ):
        assert found[place][0] == shape, place
        assert how in found[place][1], place
    assert "the function talks to the other ranks itself" in found[GATHERED, "output.1"][1]


def test_every_module_agrees_with_that_of_one_rank(folder: Path, tmp_path: Path) -> None:
    result = compared(folder, "split", tmp_path)
    rows = query(
        result,
        "SELECT node, name, norm, norm_diff, max_diff, min_diff FROM tensor_view"
        " WHERE side = 'npu' AND node LIKE 'Module.%' AND norm IS NOT NULL",
    )
    assert len(rows) > 40
    for node, name, norm, *differences in rows:
        assert all(abs(one) <= 1e-5 * max(norm, 1e-3) for one in differences), (node, name)
    assert query(result, "SELECT conclusion FROM verdict WHERE conclusion = 'fault'") == []


def test_the_rank_of_a_weight_that_is_too_large_is_named(folder: Path, tmp_path: Path) -> None:
    result = compared(folder, "changed", tmp_path)
    [(conclusion, sentence)] = query(
        result, "SELECT conclusion, sentence FROM verdict WHERE rank IS NOT NULL"
    )
    assert conclusion == "fault"
    assert "Module.1.up.ColumnParallelLinear.forward.0" in sentence.partition(": ")[0]
    suspects = query(result, "SELECT DISTINCT suspect FROM disagreement WHERE is_origin")
    assert suspects == [(RANK,)]
