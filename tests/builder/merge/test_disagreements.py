"""Ranks and stages that differ in what they should have alike; parts of weights that are off."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from msprobe_builder import BuildConfig, BuildResult, build
from msprobe_builder.merge.ranks.layout import parse_layout
from tests.builder.merge.faults import Record, change_rank, scale, scale_weight
from tests.cases import REPEATED, tried_first
from tests.worded import worded

Array = NDArray[np.float64]
TRUTH = parse_layout({"rank_size": 1, "tp": 1, "pp": 1}, "truth")
SPLIT = parse_layout({"rank_size": 4, "tp": 2, "pp": 2}, "split")
FOUND = (
    "SELECT name, parameter.value, rank, kind, shown_rank, suspect, is_origin, difference,"
    " note.value FROM disagreement JOIN node_name USING (node_id)"
    " JOIN tensor USING (node_id, ordinal) JOIN text AS parameter ON parameter.text_id = name_id"
    " LEFT JOIN text AS note ON note.text_id = note_id ORDER BY node_id, ordinal, rank"
)
COLOURED = (
    "SELECT name FROM node_view WHERE side = 'npu' AND kind != 'collection'"
    " AND grade NOT IN ('ok', 'ungraded', 'unmatched') ORDER BY seq"
)


def compare(dumps: Path, split: Path, output: Path) -> BuildResult:
    config = BuildConfig(
        split / "step0",
        dumps / "megatron_tp1pp1" / "step0",
        npu_layout=SPLIT,
        bench_layout=TRUTH,
    )
    return build(config, output, workers=1)


def query(result: BuildResult, sql: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(result.path)) as connection:
        return worded(connection.execute(sql))


@pytest.mark.parametrize("rank", tried_first([2, 1, 3], 1, REPEATED))
def test_a_drifted_norm_is_the_first_coloured_node(rank: int, dumps: Path, tmp_path: Path) -> None:
    stem = "Module.0.decoder.layers.1.pre_mlp_layernorm.RMSNorm"

    def change(records: Record) -> None:
        for name, record in records.items():
            if name.startswith(f"{stem}.forward."):
                scale(record["parameters"]["weight"], 1.05)

    split = change_rank(dumps / "megatron_tp2pp2", tmp_path / "split", rank, change)
    result = compare(dumps, split, tmp_path / "out")
    shown = rank - rank % 2
    merged = stem.replace("layers.1", f"layers.{1 + rank // 2 * 2}")
    found = query(result, FOUND)
    assert found
    for name, parameter, own, kind, first, suspect, is_origin, difference, _ in found:
        assert name.startswith(merged)
        assert (parameter, kind, first, is_origin) == ("parameters.weight", 0, shown, 1)
        # The reference tells which of the two is off, whichever is shown.
        assert (own, suspect) == (shown + 1, rank)
        assert difference == pytest.approx(0.05, rel=0.06)
    coloured = [name for (name,) in query(result, COLOURED)]
    reductions = {"Torch.stack", "Tensor.sum", "Distributed.all_reduce"}
    model = [name for name in coloured if name.rsplit(".", 2)[0] not in reductions]
    assert model == sorted({name for name, *_ in found})


ROTARY = "Module.0.rotary_pos_emb.RotaryEmbedding.forward"


def rotary(base: float, length: int = 8, size: int = 8) -> list[Array]:
    """What a rotary embedding computes: frequencies, their product with positions, that twice."""
    frequencies = base ** -(np.arange(0, size, 2) / size)
    product = np.outer(np.arange(length), frequencies)
    return [frequencies, product, np.concatenate([product, product], axis=-1)]


def statistics(tensor: Array) -> dict[str, float]:
    norm = float(np.sqrt(np.square(tensor).sum()))
    values = float(tensor.max()), float(tensor.min()), float(tensor.mean()), norm
    return dict(zip(("Max", "Min", "Mean", "Norm"), values, strict=True))


def change_base(records: Record) -> None:
    """A rank that computed its rotary embedding with another base."""
    for right, wrong in zip(
        map(statistics, rotary(1e4)), map(statistics, rotary(5e5)), strict=True
    ):
        for tensor in tensors(records):
            if all(tensor[key] == pytest.approx(right[key], rel=1e-6) for key in right):
                tensor.update(wrong)


def tensors(value: Any) -> Iterator[Record]:
    if isinstance(value, dict):
        if isinstance(value.get("Norm"), float) and isinstance(value.get("Max"), float):
            yield value
        value = [*value.values()]
    for one in value if isinstance(value, list) else ():
        yield from tensors(one)


@pytest.mark.parametrize("stage", tried_first([1, 0], 1, REPEATED))
def test_a_stage_with_another_rotary_base_is_named(stage: int, dumps: Path, tmp_path: Path) -> None:
    split = dumps / "megatron_tp2pp2"
    for part, rank in enumerate((2 * stage, 2 * stage + 1)):
        split = change_rank(split, tmp_path / f"split{part}", rank, change_base)
    result = compare(dumps, split, tmp_path / "out")
    found = [one for one in query(result, FOUND) if one[0].startswith(ROTARY)]
    assert {name for name, *_ in found} == {f"{ROTARY}.{call}" for call in range(2)}
    for _, parameter, rank, kind, shown, suspect, is_origin, *_ in found:
        assert (parameter, kind, rank, shown, is_origin) == ("output.0", 1, 2, 0, 1)
        assert suspect == 2 * stage  # the reference has the right one
    first = query(result, COLOURED)[0][0]
    assert first == f"{ROTARY}.0" or first.startswith("Tensor.to.")  # which takes the buffer in


def test_a_shard_that_is_too_large_names_its_rank(dumps: Path, tmp_path: Path) -> None:
    module = "Module.0.decoder.layers.0.mlp.linear_fc1.ColumnParallelLinear"

    def change(records: Record) -> None:
        scale_weight(records, module, 1.05)

    split = change_rank(dumps / "megatron_tp2pp2", tmp_path / "split", 3, change)
    result = compare(dumps, split, tmp_path / "out")
    merged = module.replace("layers.0", "layers.2")
    weights = [one for one in query(result, FOUND) if one[1] == "parameters.weight"]
    assert [one[0] for one in weights] == [f"{merged}.forward.{call}" for call in range(2)]
    for _, _, rank, kind, shown, suspect, is_origin, difference, note in weights:
        assert (rank, kind, shown, suspect, is_origin) == (3, 2, None, 3, 1)
        assert difference == pytest.approx(0.05 / 1.05, rel=1e-3)
        assert note == "1.05 times"
    assert query(result, COLOURED)[0][0] == f"{merged}.forward.0"


@pytest.mark.parametrize("rank", tried_first([1, 0], 1, REPEATED))
def test_what_one_rank_alone_has_is_named(rank: int, dumps: Path, tmp_path: Path) -> None:
    name = "Module.0.decoder.layers.0.mlp.linear_fc1.ColumnParallelLinear.forward.0"

    def change(records: Record) -> None:
        del records[name]["parameters"]["weight"]

    split = change_rank(dumps / "megatron_tp2pp2", tmp_path / "split", rank, change)
    result = compare(dumps, split, tmp_path / "out")
    said = "SELECT severity, subject, count FROM diagnostic WHERE code = 'rank_without_twin'"
    held = {0: "rank 1 of 0, 1", 1: "rank 0 of 0, 1"}[rank]
    assert query(result, said) == [("warning", f"{name}: on {held}", 1)]
    merged = f"SELECT name FROM tensor_view WHERE side = 'npu' AND node = '{name}'"
    assert ("parameters.weight",) not in query(result, merged)
    assert query(result, merged)
