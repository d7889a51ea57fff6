"""``--write-mapping``: what was found, as a file that leads to the same modules with -lm."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder.command.main import main
from tests.alignment.test_real_pairs import rank
from tests.conftest import BuildDatabase


def modules(database: Path) -> dict[str, str]:
    query = (
        "SELECT name, matched FROM node_view"
        " WHERE side = 'npu' AND kind = 'module' AND matched IS NOT NULL"
    )
    with closing(sqlite3.connect(database)) as connection:
        return dict(connection.execute(query))


@pytest.mark.parametrize("name", ["ddp", "own_llama", "gpt2"])
def test_the_file_leads_to_the_same_modules(
    pairs: Path,
    build_database: BuildDatabase,
    tmp_path: Path,
    name: str,
) -> None:
    runs = rank(pairs / name / "npu"), rank(pairs / name / "bench")
    mapping = tmp_path / "mapping.yaml"
    found = modules(build_database(*runs, "--write-mapping", str(mapping)))
    again = modules(build_database(*runs, "--exact", "-lm", str(mapping)))
    assert len(found) > 50
    assert again == found


@pytest.mark.parametrize("name", ["own_llama", "bert"])
def test_the_file_leads_to_the_same_calls_and_groups(
    pairs: Path, build_database: BuildDatabase, tmp_path: Path, name: str
) -> None:
    """The file tells of layers alone: which calls inside belong together evidence decides again."""
    runs = rank(pairs / name / "npu"), rank(pairs / name / "bench")
    mapping = tmp_path / "mapping.yaml"
    found = everything(build_database(*runs, "--write-mapping", str(mapping)))
    again = everything(build_database(*runs, "-lm", str(mapping)))
    assert len(found) > 300
    assert again == found


def everything(database: Path) -> dict[str, tuple[str | None, int | None]]:
    """Of each node of the npu side its partner and its group."""
    query = (
        "SELECT name, matched, call_group_id FROM node_view LEFT JOIN group_member USING (node_id)"
        " WHERE side = 'npu'"
    )
    with closing(sqlite3.connect(database)) as connection:
        return {name: (other, group) for name, other, group in connection.execute(query)}


def test_a_file_that_exists_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compare, mapping = tmp_path / "compare.json", tmp_path / "mapping.yaml"
    compare.write_text('{"npu_path": "nowhere"}', encoding="utf-8")
    mapping.write_text("mine", encoding="utf-8")
    arguments = ["-i", str(compare), "-o", str(tmp_path / "out")]
    assert main([*arguments, "--write-mapping", str(mapping)]) == 2
    assert "mapping.yaml exists already" in capsys.readouterr().err
    assert mapping.read_text("utf-8") == "mine"
