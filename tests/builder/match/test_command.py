"""The command's matching options, and what of them reaches the database."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder.command.frame import EXIT_USAGE
from msprobe_builder.command.main import main
from tests.builder.match.test_reference_matches import MAPPING, rank
from tests.conftest import BuildDatabase
from tests.worded import worded


def rows(database: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(database)) as connection:
        return worded(connection.execute(query))


SOURCES = "SELECT source, count(*) FROM match GROUP BY source ORDER BY source"


@pytest.mark.parametrize("flag", ["-f", "--fuzzy-match", "--fuzzy_match"])
def test_fuzzy(dumps: Path, build_database: BuildDatabase, flag: str) -> None:
    runs = rank(dumps, "llama_statistics"), rank(dumps, "llama_statistics_bf16")
    assert rows(build_database(*runs, flag, "--exact"), SOURCES) == [(0, 668), (1, 10)]


@pytest.mark.parametrize("flag", ["-lm", "--layer-mapping", "--layer_mapping"])
def test_bare_layer_mapping(dumps: Path, build_database: BuildDatabase, flag: str) -> None:
    runs = rank(dumps, "llama_statistics"), rank(dumps, "llama_statistics_renamed_classes")
    assert rows(build_database(*runs, flag, "--exact"), SOURCES) == [(0, 30), (2, 658)]


def test_layer_mapping_and_match_file(
    dumps: Path, build_database: BuildDatabase, tmp_path: Path
) -> None:
    mapping, pairs = tmp_path / "mapping.yaml", tmp_path / "pairs.json"
    mapping.write_text(MAPPING, encoding="utf-8")
    npu, bench = "Module.model.LlamaModel.forward.0", "Module.model.MyModel.forward.1"
    pairs.write_text(json.dumps({npu: bench}), encoding="utf-8")
    runs = rank(dumps, "llama_statistics"), rank(dumps, "llama_statistics_renamed_all")
    database = build_database(*runs, "-lm", str(mapping), "--match-file", str(pairs))
    query = "SELECT matched FROM node_view WHERE side = 'npu' AND name = "
    assert rows(database, f"{query}'{npu}'") == [(bench,)]
    [(code, message)] = rows(database, "SELECT code, message FROM diagnostic")
    assert code == "mapping_rule_unused"
    assert "line 4:" in str(message)
    taken = (
        "SELECT unmatched_reason, detail FROM node_view JOIN unmatched USING (node_id)"
        " WHERE name = 'Module.model.LlamaModel.forward.1'"
    )
    assert rows(database, taken) == [("partner_taken", f"matched with {npu}")]


@pytest.mark.parametrize("flag", ["-lm", "--match-file"])
def test_a_file_that_cannot_be_used_stops_before_any_dump_is_read(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compare, out, bad = tmp_path / "compare.json", tmp_path / "out", tmp_path / "bad"
    compare.write_text('{"npu_path": "nowhere", "bench_path": "nowhere"}', encoding="utf-8")
    bad.write_text("[", encoding="utf-8")
    status = main(["-i", str(compare), "-o", str(out), flag, str(bad)])
    assert status == EXIT_USAGE
    assert str(bad) in capsys.readouterr().err
    assert not out.exists()
