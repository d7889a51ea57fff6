"""Files of the reference tool become ours by one request, and stay as they are."""

from __future__ import annotations

import lzma
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tb_graph_ascend.edit import convert as converting
from tb_graph_ascend.generated import graph_pb2 as pb
from tb_graph_ascend.http.hosts import listens_for_others
from tests.conftest import REPOSITORY
from tests.plugin.changing import post
from tests.plugin.conftest import EXAMPLE, Ask, catalog, client_of, problem_of, skeleton

REFERENCE = REPOSITORY / "tests" / "data" / "reference"
NAMES = sorted(path.name.removesuffix(".xz") for path in REFERENCE.glob("*.vis.db.xz"))


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A damaged file of the reference tool's layout, in a folder of its own."""
    (tmp_path / "runs").mkdir()
    path = tmp_path / "runs" / "old.vis.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE tb_nodes (id); CREATE TABLE tb_config (id)")
    return path


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_the_reference_tool_becomes_ours(tmp_path: Path, name: str) -> None:
    (tmp_path / "a").mkdir()
    old = tmp_path / "a" / name
    old.write_bytes(lzma.decompress((REFERENCE / f"{name}.xz").read_bytes()))
    before = old.read_bytes()
    ask = client_of(tmp_path)
    assert [file.problem.code for file in catalog(ask).files] == ["reference_format"]
    response = post(ask, "convert", {"file": f"a/{name}"})
    assert response.status_code == 200, response.data
    made = pb.Converted.FromString(response.data).file
    assert made == f"a/{name.removesuffix('.vis.db')}.imported.vis.db"
    assert old.read_bytes() == before
    assert sorted(path.name for path in old.parent.iterdir()) == sorted([name, Path(made).name])
    assert skeleton(ask, file=made).node_count > 100
    again = post(ask, "convert", {"file": f"a/{name}"})
    assert (again.status_code, problem_of(again).code) == (409, "already_converted")


def test_what_cannot_be_imported_says_why_and_leaves_nothing(old: Path, tmp_path: Path) -> None:
    before = old.read_bytes()
    response = post(client_of(tmp_path), "convert", {"file": "runs/old.vis.db"})
    assert (response.status_code, problem_of(response).code) == (422, "cannot_import")
    assert old.read_bytes() == before
    assert list(old.parent.iterdir()) == [old]


def test_one_of_ours_needs_no_import(ask: Ask, logdir: Path) -> None:
    response = post(ask, "convert", {"file": EXAMPLE})
    assert (response.status_code, problem_of(response).code) == (409, "needs_no_import")
    assert [path.name for path in (logdir / "runs").iterdir()] == ["example.vis.db"]


def test_nothing_is_imported_with_the_option_readonly(old: Path, tmp_path: Path) -> None:
    ask = client_of(tmp_path, readonly=True)
    response = post(ask, "convert", {"file": "runs/old.vis.db"})
    assert (response.status_code, problem_of(response).code) == (403, "forbidden")
    assert list(old.parent.iterdir()) == [old]


def test_only_one_is_imported_at_a_time(old: Path, tmp_path: Path) -> None:
    with converting._one_at_a_time:
        response = post(client_of(tmp_path), "convert", {"file": "runs/old.vis.db"})
    assert (response.status_code, problem_of(response).code) == (503, "busy")
    assert list(old.parent.iterdir()) == [old]


@pytest.mark.parametrize(
    ("host", "bind_all", "is_open"),
    [
        (None, True, True),
        (None, False, False),
        ("", False, False),
        ("localhost", False, False),
        ("127.0.0.2", False, False),
        ("::1", False, False),
        ("0.0.0.0", False, True),  # noqa: S104
        ("::", False, True),
        ("10.1.2.3", False, True),
        ("node7", False, True),
    ],
)
def test_who_can_reach_the_port(host: str | None, bind_all: bool, is_open: bool) -> None:
    assert listens_for_others(host, bind_all=bind_all) is is_open
