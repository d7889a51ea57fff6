"""Splits that PyTorch makes itself, recorded over gloo, against the unsplit training."""

# mypy: disable-error-code="no-untyped-call"
# torch is typed in part only.

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch.distributed as dist

from msprobe_builder import BuildConfig, BuildResult, build
from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Parameters
from msprobe_builder.merge.detect import AutoLayout
from msprobe_builder.merge.ranks.layout import parse_layout
from msprobe_builder.merge.ranks.placements import cut_dimension
from tests.builder.merge.distributed_model import FAULTY, dump
from tests.worded import worded

needs_gloo = pytest.mark.skipif(not dist.is_available(), reason="torch was built without it")


@pytest.mark.parametrize(
    ("placement", "dimension"),
    [
        ("S(0)", 0),
        ("R, S(1)", 1),
        ("Shard(dim=2)", 2),
        ("_S(0, 2)", None),  # strided: its parts lie between each other
        ("R", None),
        ("P(sum)", None),
        ("S(0), S(1)", None),
    ],
)
def test_where_a_placement_cuts(placement: str, dimension: int | None) -> None:
    assert cut_dimension(placement) == dimension


def test_a_record_keeps_its_placements() -> None:
    texts = Texts()
    parameters = Parameters(texts)
    tensor = {"type": "torch.distributed.tensor.DTensor", "dtype": "torch.float32", "shape": [4]}
    parameters.add_record(0, {"output": [{**tensor, "placements": ["R", "S(0)"]}, tensor]})
    assert [texts.values[one] if one >= 0 else None for one in parameters.value_id] == [
        "R, S(0)",
        None,
    ]


def compare(npu: Path, bench: Path, output: Path) -> BuildResult:
    config = BuildConfig(npu, bench, npu_layout=AutoLayout(), bench_layout=AutoLayout())
    return build(config, output, workers=1)


def query(result: BuildResult, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(result.path)) as connection:
        return worded(connection.execute(sql))


def agreeing_rows(result: BuildResult) -> list[tuple[Any, ...]]:
    """All rows with values on both sides, none of which is off."""
    rows = query(
        result,
        "SELECT node, name, shape, max, min, norm, max_diff, min_diff, norm_diff FROM tensor_view"
        " WHERE side = 'npu' AND matched IS NOT NULL AND norm IS NOT NULL"
        " AND node NOT LIKE 'Distributed%'",
    )
    for node, name, _, largest, least, norm, *differences in rows:
        size = max(abs(largest), abs(least), norm)
        assert np.abs(differences).max() <= 1e-5 * size, (node, name)
    return rows


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dump(tmp_path_factory.mktemp("whole") / "run", "one")


@needs_gloo
def test_tensor_parallelism_of_dtensor(whole: Path, tmp_path: Path) -> None:
    result = compare(dump(tmp_path / "run", "tp"), whole, tmp_path / "out")
    [told, _] = [one.message for one in result.diagnostics if one.code == "layout_found"]
    assert "tp 2 (every rank of a stage holds other parts" in told
    rows = agreeing_rows(result)
    assert len(rows) > 300
    shapes = {(node, name): shape for node, name, shape, *_ in rows}
    weight = "Module.layers.0.attention.o.Linear.forward.0", "parameters.weight"
    assert shapes[weight] == "[16, 16]"
    assert query(result, "SELECT * FROM disagreement") == []
    [(recipe,)] = query(
        result,
        "SELECT recipe FROM tensor_view JOIN recipe_view USING (node_id, ordinal)"
        f" WHERE side = 'npu' AND node = '{weight[0]}' AND name = '{weight[1]}'",
    )
    assert recipe.startswith("shards of ranks 0, 1 along dimension 1: ")
    assert recipe.endswith("because it is a distributed tensor placed S(1)")


@needs_gloo
def test_sequence_parallelism_of_dtensor(whole: Path, tmp_path: Path) -> None:
    """What is scattered at once is put in another order first: it is known by its numbers."""
    result = compare(dump(tmp_path / "run", "sequence"), whole, tmp_path / "out")
    rows = agreeing_rows(result)
    assert len(rows) > 280
    assert query(result, "SELECT * FROM disagreement") == []
    assert query(result, "SELECT conclusion FROM verdict WHERE conclusion != 'clean'") == []
    known = {(node, name): shape for node, name, shape, *_ in rows}
    for layer in (0, 1):
        for node in ("attention.o.Linear.forward.0", "mlp.down.Linear.forward.0"):
            assert known[f"Module.layers.{layer}.{node}", "output.0"] == "[2, 6, 16]"
        assert (f"Module.layers.{layer}.mlp.MLP.backward.0", "output.0") in known
    [(unknown,)] = query(
        result,
        "SELECT DISTINCT recipe FROM tensor_view JOIN recipe_view USING (node_id, ordinal)"
        " WHERE side = 'npu' AND node = 'Module.layers.0.attention.q.Linear.backward.0'"
        " AND direction = 'output'",
    )
    assert unknown.startswith("partial sums whose total was not recorded: unknown")


@needs_gloo
def test_elements_that_were_scattered_are_put_in_their_places(tmp_path: Path) -> None:
    whole = dump(tmp_path / "whole", "one", task="tensor")
    result = compare(dump(tmp_path / "run", "sequence", task="tensor"), whole, tmp_path / "out")
    found = query(
        result,
        "SELECT node, cosine FROM tensor_view WHERE side = 'npu' AND matched IS NOT NULL"
        " AND name = 'output.0' AND (node LIKE 'Module.%.down.%.forward.0'"
        " OR node LIKE 'Module.%.o.%.forward.0' OR node LIKE 'Module.%.MLP.backward.0')",
    )
    assert len(found) == 6
    assert min(cosine or 0.0 for _, cosine in found) > 1 - 1e-9


@needs_gloo
def test_a_scattered_output_that_is_too_large(whole: Path, tmp_path: Path) -> None:
    result = compare(dump(tmp_path / "run", "sequence_fault"), whole, tmp_path / "out")
    node = "Module.layers.1.mlp.down.Linear.forward.0"
    named = query(
        result,
        "SELECT DISTINCT name, suspect FROM disagreement JOIN node_name USING (node_id)",
    )
    assert named == [(node, 1)]
    [(conclusion, sentence)] = query(
        result, "SELECT conclusion, sentence FROM verdict WHERE rank IS NOT NULL"
    )
    assert conclusion == "fault"
    assert node in sentence
    [(away,)] = query(
        result,
        f"SELECT abs(norm_diff / norm) FROM tensor_view WHERE side = 'npu' AND node = '{node}'"
        " AND name = 'output.0'",
    )
    assert away > 0.005


def test_tp_plan_of_transformers(dumps: Path, tmp_path: Path) -> None:
    """A small Llama of Hugging Face that ``from_pretrained(…, tp_plan="auto")`` splits."""
    result = compare(dumps / "tp_plan_tp2" / "step0", dumps / "tp_plan_tp1" / "step0", tmp_path)
    [told, _] = [one.message for one in result.diagnostics if one.code == "layout_found"]
    assert "tp 2 (" in told
    assert len(agreeing_rows(result)) > 900
    modules = query(
        result,
        "SELECT name FROM node_view WHERE side = 'npu' AND kind = 'module'"
        " AND name LIKE 'Module.%' AND grade != 'ok'",
    )
    assert modules == []
    assert query(result, "SELECT conclusion FROM verdict WHERE conclusion != 'clean'") == []


@needs_gloo
def test_a_part_of_a_distributed_weight_that_is_too_large(whole: Path, tmp_path: Path) -> None:
    result = compare(dump(tmp_path / "run", "tp_fault"), whole, tmp_path / "out")
    found = query(
        result,
        "SELECT name, rank, kind, suspect, value FROM disagreement"
        " JOIN node_name USING (node_id) JOIN text ON text_id = note_id",
    )
    module = FAULTY.removesuffix(".weight")
    assert found[0] == (f"Module.{module}.Linear.forward.0", 1, 2, 1, "1.05 times")
    first = query(
        result,
        "SELECT name FROM node_view WHERE side = 'npu' AND kind = 'module'"
        " AND grade = 'severe' ORDER BY seq LIMIT 1",
    )
    assert first == [(f"Module.{module}.Linear.forward.0",)]


@pytest.mark.slow
@needs_gloo
def test_fully_sharded_data_parallelism(tmp_path: Path) -> None:
    npu, bench = (dump(tmp_path / way, way) for way in ("fsdp", "dp"))
    result = compare(npu, bench, tmp_path / "out")
    graded = query(
        result,
        "SELECT name, grade FROM node_view WHERE side = 'npu' AND kind = 'module'"
        " AND name LIKE 'Module.%' AND matched IS NOT NULL",
    )
    # Of a gradient each rank holds a part: nothing is said of it rather than something wrong.
    gradients = {name for name, grade in graded if grade == "ungraded"}
    assert gradients == {name for name, _ in graded if "parameters_grad" in name} != set()
    assert {grade for name, grade in graded if name not in gradients} == {"ok"}
    notes = query(
        result,
        "SELECT DISTINCT recipe FROM tensor_view JOIN recipe_view USING (node_id, ordinal)"
        " WHERE side = 'npu' AND direction = 'parameters_grad'",
    )
    assert notes == [("each data-parallel rank holds a part of it: unknown",)]


def against_the_whole_batch(npu: Path, bench: Path, ranks: int, output: Path) -> BuildResult:
    """Replicas of a sharded training against one rank that had all of their samples."""
    layouts = [parse_layout({"rank_size": size, "tp": 1, "pp": 1}, "") for size in (ranks, 1)]
    config = BuildConfig(npu, bench, npu_layout=layouts[0], bench_layout=layouts[1])
    return build(config, output, workers=1)


@needs_gloo
@pytest.mark.parametrize("ranks", [pytest.param(3, marks=pytest.mark.slow), 4])
def test_sharded_gradients_are_put_together(ranks: int, tmp_path: Path) -> None:
    """The mean over the replicas is the gradient of one batch with the samples of all."""
    npu, bench = dump(tmp_path / "npu", "fsdp", ranks), dump(tmp_path / "bench", f"all{ranks}")
    result = against_the_whole_batch(npu, bench, ranks, tmp_path / "out")
    rows = query(
        result,
        "SELECT node, name, norm, max_diff, min_diff, norm_diff, recipe FROM tensor_view"
        " JOIN recipe_view USING (node_id, ordinal) WHERE side = 'npu' AND matched IS NOT NULL"
        " AND direction = 'parameters_grad'",
    )
    assert len(rows) == 26
    for node, name, norm, *differences, recipe in rows:
        assert np.abs(differences).max() <= 1e-5 * norm, (node, name)
        several = ", ".join(map(str, range(ranks)))
        assert f"shards of ranks {several} along dimension 0: " in recipe, node
    [(shape,)] = query(
        result,
        "SELECT shape FROM tensor_view WHERE side = 'npu' AND direction = 'parameters_grad'"
        " AND node LIKE '%layers.0.mlp.up%' AND name LIKE '%weight' AND rank = 0",
    )
    assert shape == "[32, 16]"


@pytest.mark.slow
@needs_gloo
def test_a_shard_of_a_rank_that_is_too_large(tmp_path: Path) -> None:
    npu, bench = dump(tmp_path / "npu", "fsdp_fault"), dump(tmp_path / "bench", "all2")
    result = against_the_whole_batch(npu, bench, 2, tmp_path / "out")
    module = FAULTY.removesuffix(".weight")
    for conclusion, sentence in query(result, "SELECT conclusion, sentence FROM verdict"):
        assert conclusion == "fault"
        assert f"Module.{module}.Linear.forward.0" in sentence
        assert "parameters.weight has" in sentence
