"""A file of an older version is shown as it is, and brought up to date by the first edit."""

from __future__ import annotations

import lzma
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder.database.migrations import SCHEMA_VERSION
from tests.conftest import REPOSITORY
from tests.plugin.changing import change, operation, report
from tests.plugin.conftest import catalog, client_of, skeleton

OLDER = sorted((REPOSITORY / "tests" / "data").glob("version_*.vis.db.xz"))


@pytest.fixture(params=OLDER, ids=lambda path: path.name.split(".")[0])
def older(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "older.vis.db"
    path.write_bytes(lzma.decompress(request.param.read_bytes()))
    return path


def test_an_older_file_is_shown_and_stays_as_it_is(older: Path) -> None:
    before = older.read_bytes()
    ask = client_of(older.parent)
    [file] = catalog(ask).files
    assert not file.HasField("problem")
    place = {"file": older.name, "step": 0, "rank": 0}
    shown = skeleton(ask, **place, side="npu")
    assert shown.node_count == file.graphs[0].npu_nodes > 50
    for name, query in (
        ("node", {**place, "side": "npu", "index": 5}),
        ("candidates", {**place, "side": "npu", "index": 5}),
        ("search", {"file": older.name, "name": "linear"}),
        ("across", {"file": older.name, "name": "DefaultModel", "side": "npu"}),
        ("matches", {"file": older.name}),
    ):
        assert ask(name, **query).status_code == 200, name
    assert older.read_bytes() == before
    assert [path.name for path in older.parent.iterdir()] == [older.name]


def test_the_first_edit_brings_an_older_file_up_to_date(older: Path) -> None:
    ask = client_of(older.parent)
    with closing(sqlite3.connect(older)) as database:
        [[npu, bench]] = database.execute(
            "SELECT npu_node - npu.first_node, bench_node - bench.first_node FROM match"
            " JOIN graph AS npu ON npu.side = 0 JOIN graph AS bench ON bench.side = 1"
            " WHERE source = 0 ORDER BY npu_node DESC LIMIT 1"
        )
    dry = change(ask, older.name, operation(npu, bench, "UNMATCH"), dry_run=True)
    assert len(report(dry).changes) == 1
    assert version(older) < SCHEMA_VERSION
    assert len(report(change(ask, older.name, operation(npu, bench, "UNMATCH"))).changes) == 1
    assert version(older) == SCHEMA_VERSION
    [file] = catalog(ask).files
    assert file.edits.undo.pairs == 1
    with closing(sqlite3.connect(older)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        [[found]] = database.execute("PRAGMA user_version")
    return int(found)
