"""Large graphs are shown from packed columns, and never from those of another state of the file."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder.database.read.graphs import read_graphs
from msprobe_builder.database.read.node_columns import read_node_columns
from msprobe_builder.database.write.packed import write_packed_columns
from msprobe_builder.pipeline.build import build
from msprobe_builder.pipeline.config import BuildConfig
from tb_graph_ascend.generated import graph_pb2 as pb
from tests.builder.small_dumps import forward, tensor, write_dump
from tests.plugin.changing import change, operation, report
from tests.plugin.conftest import EXAMPLE, Ask, client_of, skeleton

GRADES = [0, 2, 1, 5, 6, 6, 3]


def run(path: Path, *statements: str) -> list[Any]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return [connection.execute(statement).fetchall() for statement in statements][-1]


@pytest.fixture
def path(logdir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("msprobe_builder.database.write.packed.LARGE_GRAPH", 1)
    path = logdir / EXAMPLE
    write_packed_columns(path)
    return path


def spoil(path: Path, statement: str) -> None:
    """Change the file without SQLite's count of changes, so that they are believed."""
    places = (24, 92)
    before = path.read_bytes()
    run(path, statement)
    with path.open("r+b") as file:
        for place in places:
            file.seek(place)
            file.write(before[place : place + 4])


@pytest.mark.usefixtures("path")
def test_they_say_what_the_tables_say(ask: Ask, example: Path) -> None:
    from_tables = client_of(example.parent)
    for step, rank, sides in ((0, 0, ("npu", "bench")), (1, 0, ("npu", "bench")), (1, 2, ("npu",))):
        for side in sides:
            place = {"step": step, "rank": rank, "side": side}
            found, expected = (
                skeleton(ask, **place),
                skeleton(from_tables, file=example.name, **place),
            )
            for one in (found, expected):
                one.revision = ""
            assert found == expected


def test_they_are_what_is_read(ask: Ask, path: Path) -> None:
    spoil(path, "DELETE FROM match")
    spoil(path, "UPDATE node SET grade = 0")
    assert list(skeleton(ask).grade) == GRADES


def test_expressions_are_tried_on_them(ask: Ask, path: Path) -> None:
    def found() -> int:
        response = ask("search", file=EXAMPLE, name=r"\.7[78]\b", regex=1)
        return pb.SearchResult.FromString(response.data).total

    spoil(path, "UPDATE node SET call = 77")
    assert found() == 0
    run(path, "UPDATE node SET call = 78")  # SQLite counts this one
    assert found() > 0


@pytest.mark.parametrize("copied", [False, True])
def test_whoever_changes_the_file_is_believed(ask: Ask, path: Path, copied: bool) -> None:
    run(path, "UPDATE node SET grade = 4 WHERE grade = 5")
    if copied:
        run(path, f"VACUUM INTO '{path}.new'")
        Path(f"{path}.new").replace(path)
    for _ in range(4):  # a copy counts its changes from the start
        assert list(skeleton(ask).grade) == [0, 2, 1, 4, 6, 6, 3]
        run(path, "UPDATE meta SET value = value || '.' WHERE key = 'created_at'")


@pytest.mark.usefixtures("path")  # for its graphs are large
def test_matching_by_hand_is_seen(demo_database: Path, tmp_path: Path) -> None:
    file = Path(shutil.copy(demo_database, tmp_path / "demo.vis.db"))
    write_packed_columns(file)
    ask = client_of(tmp_path)
    before = skeleton(ask, file=file.name)
    matched = [index for index, grade in enumerate(before.grade) if grade != pb.GRADE_UNMATCHED]
    last = matched[-1]
    partner = last + before.partner_offset[-1]
    report(change(ask, file.name, operation(last, partner, "UNMATCH")))
    assert skeleton(ask, file=file.name).grade[last] == pb.GRADE_UNMATCHED


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE packed_column SET packed = 'text'",
        "UPDATE packed_column SET packed = x'00'",
        "UPDATE packed_column SET packed = substr(packed, 1, 6) WHERE name = 'kind'",
        "UPDATE packed_column SET type = '<i2' WHERE name = 'kind'",
        "UPDATE packed_column SET name = 'other' WHERE name = 'kind'",
        "DELETE FROM packed_column WHERE name = 'error'",
        "UPDATE packed_column AS one SET (type, packed) = (SELECT type, packed FROM packed_column"
        " AS two WHERE two.graph_id = one.graph_id AND two.name = 'to_partner')"
        " WHERE name = 'grade'",
    ],
)
def test_damaged_ones_are_told(ask: Ask, path: Path, statement: str) -> None:
    spoil(path, statement)
    answer = ask("skeleton", file=EXAMPLE, step=0, rank=0, side="npu")
    assert answer.status_code == 422


def test_builds_write_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("msprobe_builder.database.write.packed.LARGE_GRAPH", 1)
    output = tmp_path / "out" / "x.vis.db"
    for rank in range(3):
        for side in ("npu", "bench"):
            calls = {
                f"Torch.relu.{call}.forward": forward([tensor()], [tensor(1.0 + call * rank)])
                for call in range(3 + rank)
            }
            write_dump(tmp_path / side / "step0" / f"rank{rank}", calls)
        config = BuildConfig(tmp_path / "npu" / "step0", tmp_path / "bench" / "step0")
        if rank == 1:
            build(config, output.parent, name=output.name)
        elif rank == 2:
            build(config, append_to=output)
        if rank:
            check_packed(output, graphs=2 * (rank + 1))


def check_packed(path: Path, graphs: int) -> None:
    """All graphs of the file are packed, as of now, as the tables have them."""
    changes = int.from_bytes(path.read_bytes()[24:28], "big")
    with closing(sqlite3.connect(path)) as connection:
        found = read_graphs(connection)
        assert len(found) == graphs
        before = [read_node_columns(connection, graph) for graph in found]
        connection.execute("DELETE FROM node")
        for graph, columns in zip(found, before, strict=True):
            unpacked = read_node_columns(connection, graph, changes)
            assert unpacked.keys() == columns.keys()
            assert all((unpacked[name] == columns[name]).all() for name in columns)
        connection.rollback()


def test_a_build_leaves_no_gaps(demo_database: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    run(demo_database, f"VACUUM INTO '{copy}'")
    assert demo_database.stat().st_size == copy.stat().st_size
