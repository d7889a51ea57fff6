"""Tables to download: what is in them is what the other routes say of the same nodes."""

from __future__ import annotations

import csv
import io
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from openpyxl import load_workbook
from werkzeug.test import TestResponse

from tb_graph_ascend.generated import graph_pb2 as pb
from tests.conftest import BuildDatabase
from tests.plugin.conftest import Ask, client_of

FILE = "run.vis.db"


@pytest.fixture(scope="module")
def logdir(
    dumps: Path, build_database: BuildDatabase, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    run = dumps / "ddp2_statistics"
    folder = tmp_path_factory.mktemp("tables")
    built = build_database(run / "step0", run / "step1")
    (folder / FILE).write_bytes(built.read_bytes())
    return folder


@pytest.fixture(scope="module")
def ask(logdir: Path) -> Ask:
    return client_of(logdir)


def rows_of(response: TestResponse) -> list[dict[str, str]]:
    assert response.status_code == 200, response.get_data(as_text=True)
    return list(csv.DictReader(io.StringIO(response.get_data(as_text=True))))


def test_a_graph_comes_as_a_workbook(ask: Ask, logdir: Path) -> None:
    query = {"file": FILE, "step": 0, "rank": 1}
    response = ask("table", **query)
    assert response.headers["Content-Disposition"] == 'attachment; filename="table.xlsx"'
    [sheet] = load_workbook(io.BytesIO(response.get_data())).worksheets
    cells = [list(row) for row in sheet.iter_rows(values_only=True)]
    with closing(sqlite3.connect(logdir / FILE)) as connection:
        [(count,)] = connection.execute(
            "SELECT count(*) FROM tensor_view WHERE rank = 1 AND side = 'npu'"
        )
    names = [row[0] for row in cells[1:] if row[0] != "N/A"]
    assert len(set(names)) == len(names) >= count
    text = rows_of(ask("table", **query, form="csv"))
    assert [row["NPU Name"] for row in text] == [row[0] for row in cells[1:]]
    place = cells[0].index("NPU max")
    for row, line in zip(text, cells[1:], strict=True):
        shown = row["NPU max"]
        number = isinstance(line[place], int | float)
        assert float(shown) == pytest.approx(line[place]) if number else shown == line[place]


def node(ask: Ask, name: str) -> int:
    found = ask("search", file=FILE, name=name, step=0, rank=0, side="npu")
    return int(pb.SearchResult.FromString(found.get_data()).index[0])


def test_a_node_has_its_own_values_and_if_asked_those_inside(ask: Ask) -> None:
    index = node(ask, "Module.model.layers.0.mlp.LlamaMLP.forward.0")
    query = {"file": FILE, "step": 0, "rank": 0, "of": "node", "side": "npu", "index": index}
    own = rows_of(ask("table", **query, form="csv"))
    shown = pb.NodeDetail.FromString(
        ask("node", **{key: query[key] for key in ("file", "step", "rank", "side", "index")}).data
    )
    assert [row["NPU Name"] for row in own] == [
        f"{shown.npu.name}.{row.npu.name}" for row in sorted_rows(shown)
    ]
    inside = rows_of(ask("table", **query, inside=1, form="csv"))
    assert len(inside) > len(own)
    assert {row["NPU Name"] for row in own} <= {row["NPU Name"] for row in inside}
    partner = {**query, "side": "bench", "index": shown.bench.index}
    assert rows_of(ask("table", **partner, form="csv")) == own


def sorted_rows(detail: pb.NodeDetail) -> list[pb.ParameterRow]:
    return list(detail.rows)


def test_a_search_brings_the_values_of_all_it_finds(ask: Ask) -> None:
    query = {"file": FILE, "name": "linear.0.", "side": "npu"}
    hits = pb.SearchResult.FromString(ask("search", **query).get_data())
    rows = rows_of(ask("table", **query, of="search", form="csv", limit=1))
    found = {
        (row["step"], row["rank"], row["NPU Name"].partition("ward.")[0] + "ward") for row in rows
    }
    assert {
        (str(s), str(r), n) for s, r, n in zip(hits.step, hits.rank, hits.name, strict=True)
    } == found
    assert {row["rank"] for row in rows} == {"0", "1"}


def test_a_search_of_one_micro_step_leaves_the_others_out(demo_database: Path) -> None:
    query = {"file": demo_database.name, "of": "search", "name": "softmax", "form": "csv"}
    place = {"step": 0, "rank": 0, "side": "npu"}
    ask = client_of(demo_database.parent)
    with closing(sqlite3.connect(demo_database)) as connection:
        named = dict(connection.execute("SELECT name, micro_step FROM node_view"))
    for micro in (0, 1):
        rows = rows_of(ask("table", **query, **place, micro=micro))
        found = {row["NPU Name"].partition("ward.")[0] + "ward" for row in rows}
        wanted = {name for name, at in named.items() if "softmax" in name and at == micro}
        assert found == wanted != set()


def test_nothing_found_is_an_empty_table(ask: Ask) -> None:
    response = ask("table", file=FILE, of="search", name="no such call", form="csv")
    assert rows_of(response) == []


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ({"step": 7, "rank": 0}, 404, "unknown_graph"),
        ({"step": 0, "rank": 0, "of": "all"}, 400, "bad_parameter"),
        ({"step": 0, "rank": 0, "form": "exe"}, 400, "bad_parameter"),
        ({"of": "node", "step": 0, "rank": 0, "side": "npu", "index": 10**6}, 404, "unknown_node"),
        ({"file": "../run.vis.db", "step": 0, "rank": 0}, 404, None),
    ],
)
def test_what_cannot_be_is_said(
    ask: Ask, query: dict[str, object], status: int, code: str | None
) -> None:
    response = ask("table", **{"file": FILE, **query})
    assert response.status_code == status
    problem = pb.Problem.FromString(response.get_data())
    assert problem.message
    assert problem.remedy
    assert code is None or problem.code == code


def test_only_reading_is_possible(ask: Ask) -> None:
    assert ask("table", file=FILE, step=0, rank=0, method="POST").status_code == 405
    head = ask("table", file=FILE, step=0, rank=0, method="HEAD")
    assert head.status_code == 200
    assert not head.get_data()


def test_structure_has_no_table(dumps: Path, build_database: BuildDatabase, tmp_path: Path) -> None:
    run = dumps / "llama_structure"
    built = build_database(run / "step0" / "rank", run / "step1" / "rank")
    (tmp_path / FILE).write_bytes(built.read_bytes())
    response = client_of(tmp_path)("table", file=FILE, step=0, rank=0)
    assert response.status_code == 422
    assert pb.Problem.FromString(response.get_data()).code == "no_table"
