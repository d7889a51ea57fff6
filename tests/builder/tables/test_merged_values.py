"""Tables of merged models say in words which ranks a value came from, and how it was made."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import msprobe_builder
from msprobe_builder import BuildConfig, build
from msprobe_builder.export.report import write_report
from msprobe_builder.export.table import export_table
from msprobe_builder.merge.ranks.layout import parse_layout
from tests.builder.merge.faults import Record, change_rank, scale_weight

EMBEDDING = "Module.0.embedding.word_embeddings.VocabParallelEmbedding.forward.0"


def compared(split: Path, dumps: Path, folder: Path) -> Path:
    config = BuildConfig(
        split / "step0",
        dumps / "megatron_tp1pp1" / "step0",
        npu_layout=parse_layout({"rank_size": 4, "tp": 2, "pp": 2}, "npu"),
        bench_layout=parse_layout({"rank_size": 1, "tp": 1, "pp": 1}, "bench"),
    )
    return build(config, folder, workers=1).path


@pytest.fixture(scope="module")
def database(dumps: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compared(dumps / "megatron_tp2pp2", dumps, tmp_path_factory.mktemp("merged_table"))


@pytest.fixture(scope="module")
def table(database: Path) -> pd.DataFrame:
    return msprobe_builder.read_table(database, own_columns=True)


def merged(table: pd.DataFrame, name: str) -> str:
    [words] = table[table["NPU Name"] == name]["NPU Merged"]
    return str(words)


def test_a_shard_names_its_ranks_their_numbers_and_the_rule(
    table: pd.DataFrame, dumps: Path
) -> None:
    def largest(rank: int) -> Any:
        path = dumps / "megatron_tp2pp2" / "step0" / f"rank{rank}" / "dump.json"
        calls = json.loads(path.read_text(encoding="utf-8"))["data"]
        [recorded] = [calls[name] for name in calls if name == EMBEDDING]
        return recorded["parameters"]["weight"]["Max"]

    words = merged(table, f"{EMBEDDING}.parameters.weight")
    parts = f"{largest(0):.9g}, {largest(1):.9g}"
    assert words.startswith(f"shards of ranks 0, 1 along dimension 0: max({parts}) = ")
    assert words.endswith("because VocabParallelEmbedding holds it so")


def test_a_replica_of_the_last_stage_names_the_ranks_of_that_stage(table: pd.DataFrame) -> None:
    norm = "Module.0.decoder.final_layernorm.RMSNorm.forward.0.parameters.weight"
    assert merged(table, norm) == (
        "alike on ranks 2, 3; because the other side has it in this shape, whole"
    )


def test_a_value_of_a_single_rank_names_it(table: pd.DataFrame) -> None:
    there = table[table["Bench Name"] != "N/A"]
    assert len(there) > 0
    assert set(there["Bench Merged"]) == {"as recorded on rank 0"}
    assert set(table[table["Bench Name"] == "N/A"]["Bench Merged"]) == {"N/A"}
    # Values that no side has a recipe for are told by the ranks of their call.
    assert "N/A" not in set(table[table["NPU Name"] != "N/A"]["NPU Merged"])


def test_nothing_is_said_where_nothing_was_merged(demo_database: Path) -> None:
    table = msprobe_builder.read_table(demo_database, own_columns=True)
    assert set(table["NPU Merged"]) == set(table["Bench Merged"]) == {"N/A"}


def test_an_export_has_the_words_of_the_table(
    database: Path, table: pd.DataFrame, tmp_path: Path
) -> None:
    export_table(database, tmp_path / "tensors.csv", "tensors")
    exported = pd.read_csv(tmp_path / "tensors.csv", dtype=str, keep_default_na=False)
    for side, prefix in (("NPU", "npu"), ("Bench", "bench")):
        names = exported[f"{prefix}_node"] + "." + exported[f"{prefix}_name"]
        words = dict(zip(names, exported[f"{prefix}_merged"], strict=True))
        there = table[table[f"{side} Name"].isin(names)]
        assert len(there) > 1000
        expected = dict(zip(there[f"{side} Name"], there[f"{side} Merged"], strict=True))
        assert {name: words[name] for name in expected} == expected


def test_an_export_is_silent_where_nothing_was_merged(demo_database: Path, tmp_path: Path) -> None:
    export_table(demo_database, tmp_path / "tensors.csv", "tensors")
    exported = pd.read_csv(tmp_path / "tensors.csv", dtype=str, keep_default_na=False)
    assert set(exported["npu_merged"]) == set(exported["bench_merged"]) == {""}


def test_a_report_names_ranks_and_rules(dumps: Path, demo_database: Path, tmp_path: Path) -> None:
    def change(records: Record) -> None:
        scale_weight(records, "Module.0.decoder.layers.1.mlp.linear_fc1.ColumnParallelLinear", 1.05)

    split = change_rank(dumps / "megatron_tp2pp2", tmp_path / "split", 1, change)
    write_report(compared(split, dumps, tmp_path / "out"), tmp_path / "merged.html")
    text = (tmp_path / "merged.html").read_text(encoding="utf-8")
    assert "how it was made of the ranks" in text
    assert re.search(r"<td>alike on ranks \d, \d; because [^<]+</td>", text)
    assert "merged of ranks " in text
    write_report(demo_database, tmp_path / "plain.html")
    text = (tmp_path / "plain.html").read_text(encoding="utf-8")
    assert "how it was made of the ranks" not in text
    assert "merged of rank" not in text
