"""Databases of the reference tool hold, once imported, what a build from the dumps holds."""

from __future__ import annotations

import hashlib
import json
import lzma
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder import BuildError
from msprobe_builder.command.main import main
from msprobe_builder.importers.reference import import_reference
from tests.builder.integrity import check

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "reference"
NODES = "SELECT side, name, parent, matched FROM node_view ORDER BY side, seq"
ERRORS = "SELECT side, name, error, grade FROM node_view ORDER BY side, seq"


def unpack(version: str, folder: Path) -> Path:
    """A database that this version of the reference tool built of two runs of the example."""
    name = f"compare_attention_scale_statistics.made_by_{version}.vis.db"
    path = folder / name
    path.write_bytes(lzma.decompress((SAMPLES / f"{name}.xz").read_bytes()))
    return path


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.parametrize("version", ["8.3.3", "26.2.0"])
def test_nodes_and_matches_are_those_of_a_build(
    tmp_path: Path, demo_database: Path, version: str
) -> None:
    old = unpack(version, tmp_path)
    before = hashlib.sha256(old.read_bytes()).hexdigest()
    assert main(["import", str(old)]) == 0
    assert hashlib.sha256(old.read_bytes()).hexdigest() == before
    new = old.with_name(f"{old.name.removesuffix('.vis.db')}.imported.vis.db")
    assert {path.name for path in tmp_path.iterdir()} == {old.name, new.name}
    check(new).close()
    assert rows(new, NODES) == rows(demo_database, NODES)
    # Both name the same pairs as the file itself does.
    links = "SELECT node_name, matched_node_link FROM tb_nodes WHERE data_source = 'NPU'"
    partner = {name: json.loads(str(link))[-1] for name, link in rows(old, links) if link}
    found = {name: matched for side, name, _, matched in rows(new, NODES) if side == "npu"}
    assert {name: found[name] for name in partner} == partner
    [(path,)] = rows(new, "SELECT value FROM meta WHERE key = 'npu_path'")
    assert path == f"imported from {old.name}"


def test_errors_are_those_of_a_build_where_statistics_are_whole(
    tmp_path: Path, demo_database: Path
) -> None:
    """Version 8 rounds them, version 26 does not."""
    result = import_reference(unpack("26.2.0", tmp_path), tmp_path / "new.vis.db")
    assert rows(result.path, ERRORS) == rows(demo_database, ERRORS)
    assert "imported" in {one.code for one in result.diagnostics}


def execute(statement: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(statement)
            connection.commit()

    return change


@pytest.mark.parametrize(
    ("spoil", "status", "sentence"),
    [
        (lambda path: path.unlink(), 2, "does not exist"),
        (lambda path: path.write_bytes(b""), 1, "is empty"),
        (lambda path: path.write_bytes(b"x" * 5000), 1, "is not a SQLite database"),
        (lambda path: path.write_bytes(path.read_bytes()[:9000]), 1, "is cut off"),
        (execute("DROP TABLE tb_stack"), 2, "has no table tb_stack"),
        (execute("DELETE FROM tb_config"), 1, "is not as the tool it comes from writes"),
        (execute("UPDATE tb_config SET task = 'other'"), 1, "its task is 'other'"),
        (execute("UPDATE tb_nodes SET step = -1"), 1, "is no step or rank"),
        (execute("UPDATE tb_nodes SET rank = 'first'"), 1, "is no step or rank"),
        (execute("UPDATE tb_nodes SET data_source = 'third'"), 1, "is not as the tool"),
        (execute("UPDATE tb_nodes SET input_data = '['"), 1, "is not as the tool"),
        (execute("UPDATE tb_nodes SET input_data = '[]'"), 1, "should hold a dict"),
        (execute("UPDATE tb_nodes SET input_data = '{\"a\": 1}'"), 1, "has a parameter a"),
        (execute("UPDATE tb_nodes SET input_data = x'00'"), 1, "should hold JSON does not"),
        (execute("UPDATE tb_nodes SET matched_node_link = '{}'"), 1, "should hold a list"),
        (execute("DELETE FROM tb_nodes"), 1, "holds no node"),
        (execute("ALTER TABLE tb_nodes RENAME COLUMN up_node TO x"), 1, "no such column"),
    ],
)
def test_what_is_no_such_file_ends_in_one_sentence(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    spoil: Callable[[Path], object],
    status: int,
    sentence: str,
) -> None:
    old = unpack("8.3.3", tmp_path)
    spoil(old)
    assert main(["import", str(old), "-o", str(tmp_path / "out" / "new.vis.db")]) == status
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("msprobe-build: ")
    assert sentence in line
    assert not list(tmp_path.rglob("new*"))


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    old = unpack("8.3.3", tmp_path)
    (tmp_path / "new.vis.db").write_bytes(b"mine")
    with pytest.raises(BuildError, match="exists already"):
        import_reference(old, tmp_path / "new.vis.db")
    assert (tmp_path / "new.vis.db").read_bytes() == b"mine"


def test_parents_that_go_round_do_not_hang(tmp_path: Path) -> None:
    old = unpack("8.3.3", tmp_path)
    execute("UPDATE tb_nodes SET up_node = node_name")(old)
    check(import_reference(old, tmp_path / "new.vis.db").path).close()
