"""Search, candidates and one node across ranks, against the database's own readable views."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from math import isnan, nan
from pathlib import Path

import pytest

from msprobe_builder.database.read.fitting import SEPARATOR
from msprobe_builder.database.read.search import Search, search
from tb_graph_ascend import limits
from tb_graph_ascend.generated import graph_pb2 as pb
from tb_graph_ascend.problems import ProblemError
from tb_graph_ascend.query import expressions
from tests.conftest import BuildDatabase
from tests.plugin.conftest import Ask, catalog, client_of, node, problem_of

GRADES = ("ungraded", "ok", "slight", "moderate", "serious", "severe", "unmatched")
Row = tuple[object, ...]


@pytest.fixture(scope="module")
def database(dumps: Path, build_database: BuildDatabase) -> Path:
    """Two ranks, one training step against the next."""
    return build_database(
        dumps / "ddp2_statistics" / "step0", dumps / "ddp2_statistics" / "step1", "-f"
    )


@pytest.fixture(scope="module")
def other(dumps: Path, build_database: BuildDatabase) -> Path:
    """Modules and calls against modules alone: much is unmatched."""
    return build_database(
        dumps / "llama_statistics_wrong_attention_scale" / "step0" / "rank",
        dumps / "llama_statistics_L0" / "step0" / "rank",
    )


@pytest.fixture(scope="module")
def connection(other: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(other)) as connection:
        yield connection


@pytest.fixture(scope="module")
def ask_other(other: Path) -> Ask:
    return client_of(other.parent)


def found(ask: Ask, file: Path, **query: object) -> list[Row]:
    """Side, index and name of all hits, page by page."""
    rows: list[Row] = []
    cursor, total = "0", 0
    while cursor:
        response = ask("search", file=file.name, limit=97, cursor=cursor, **query)
        assert response.status_code == 200, response.data
        hits = pb.SearchResult.FromString(response.data)
        rows += zip(hits.side, hits.index, hits.name, strict=True)
        cursor, total = hits.next, hits.total
    assert len(rows) == total
    return rows


@pytest.mark.parametrize(
    ("query", "condition"),
    [
        ({}, "1"),
        ({"name": "MLP"}, "name LIKE '%mlp%'"),
        ({"name": "linear.3.forward"}, "name LIKE '%linear.3.forward%'"),
        ({"name": "100%_"}, "0"),
        ({"side": "bench"}, "side = 'bench'"),
        ({"grade": "5,4"}, "grade IN ('severe', 'serious')"),
        ({"grade": "6", "side": "npu"}, "grade = 'unmatched' AND side = 'npu'"),
        (
            {"reason": "no_such_name,other_parent"},
            "unmatched_reason IN ('no_such_name', 'other_parent')",
        ),
        (
            {"operator": "LINEAR"},
            "name LIKE '%.linear.%ward%' AND name NOT LIKE '%.linear.%.%.%ward%'",
        ),
        (
            {"dtype": "int64"},
            "node_id IN (SELECT node_id FROM tensor_view WHERE dtype = 'torch.int64')",
        ),
        (
            {"input_dtype": "int64"},
            "node_id IN (SELECT node_id FROM tensor_view WHERE dtype = 'torch.int64'"
            " AND direction IN ('input', 'parameters'))",
        ),
        (
            {"output_dtype": "torch.int64"},
            "node_id IN (SELECT node_id FROM tensor_view WHERE dtype = 'torch.int64'"
            " AND direction IN ('output', 'parameters_grad'))",
        ),
        ({"name": "softmax layers.1"}, "name LIKE '%softmax%' AND parent LIKE '%.layers.1.%'"),
        (
            {"code": "modeling_llama.py:193"},
            "node_id IN (SELECT node_id FROM node JOIN stack USING (stack_id)"
            " JOIN frame USING (frame_id) JOIN text ON text_id = file_id"
            " WHERE line = 193 AND value LIKE '%/modeling_llama.py')",
        ),
        ({"code": "deling_llama.py:193"}, "0"),
        ({"direction": "backward"}, "name LIKE '%.backward%'"),
        (
            {"below": "model.layers.1"},
            "EXISTS (SELECT 1 FROM node_view AS module JOIN node ON node.node_id = module.node_id"
            " WHERE node_view.node_id BETWEEN module.node_id AND node.subtree_end"
            " AND module.name LIKE 'Module.model.layers.1.%DecoderLayer.%')",
        ),
        (
            {"below": "Module.Model.Layers.1.self_attn"},
            "EXISTS (SELECT 1 FROM node_view AS module JOIN node ON node.node_id = module.node_id"
            " WHERE node_view.node_id BETWEEN module.node_id AND node.subtree_end"
            " AND module.name LIKE 'Module.model.layers.1.self_attn.%Attention.%')",
        ),
        ({"below": "layers.1"}, "0"),
        ({"step": "0", "rank": "0"}, "1"),
        ({"step": "7"}, "0"),
    ],
    ids=str,
)
def test_search_finds_what_sql_finds(
    ask_other: Ask,
    other: Path,
    connection: sqlite3.Connection,
    query: dict[str, str],
    condition: str,
) -> None:
    expected = connection.execute(
        f"SELECT iif(side = 'npu', 0, 1), seq, name FROM node_view WHERE {condition} ORDER BY 1, 2"
    ).fetchall()
    if query.get("operator"):
        expected = [
            row
            for row in expected
            if re.search(r"\.linear\.(\d+\.\w+|\w+\.\d+)$", str(row[2]), re.IGNORECASE)
        ]
    assert found(ask_other, other, **query) == expected


def test_search_by_shape(ask_other: Ask, other: Path, connection: sqlite3.Connection) -> None:
    [shape] = connection.execute(
        "SELECT shape FROM tensor_view WHERE shape != '[]' LIMIT 1"
    ).fetchone()
    expected = connection.execute(
        "SELECT iif(side = 'npu', 0, 1), seq, name FROM node_view WHERE node_id IN"
        " (SELECT node_id FROM tensor_view WHERE shape = ?) ORDER BY 1, 2",
        (shape,),
    ).fetchall()
    assert found(ask_other, other, shape=shape) == expected
    assert found(ask_other, other, shape=shape.strip("[]").replace(" ", "")) == expected


def test_what_lies_below_is_found_in_one_pass(connection: sqlite3.Connection) -> None:
    """Steps of SQLite's machine, by hundreds: as many times more as there are more nodes."""
    hundreds = 0

    def count() -> None:
        nonlocal hundreds
        hundreds += 1

    [[nodes]] = connection.execute("SELECT count(*) FROM node")
    connection.set_progress_handler(count, 100)
    try:
        assert search(
            connection, Search(texts={"below": "no.such.module"}), expressions.matching
        ) == ([], 0)
    finally:
        connection.set_progress_handler(None, 0)
    assert hundreds < nodes


def test_search_by_severity(ask_other: Ask, other: Path, connection: sqlite3.Connection) -> None:
    code = "CASE grade " + " ".join(f"WHEN '{w}' THEN {n}" for n, w in enumerate(GRADES)) + " END"
    expected = connection.execute(
        f"SELECT {code} AS code, ifnull(error, -1.0) FROM node_view"
        " ORDER BY code = 6, code DESC, 2 DESC LIMIT 50"
    ).fetchall()
    response = ask_other("search", file=other.name, order="severity", limit=50)
    hits = pb.SearchResult.FromString(response.data)
    assert list(zip(hits.grade, hits.error, strict=True)) == expected


def test_search_by_regular_expression(
    ask_other: Ask, other: Path, connection: sqlite3.Connection
) -> None:
    pattern = r"layers\.[01]\.(mlp|self_attn)\..*forward\.0$"
    names = [
        name for (name,) in connection.execute("SELECT name FROM node_view ORDER BY side DESC, seq")
    ]
    expected = [name for name in names if re.search(pattern, name, re.IGNORECASE)]
    assert expected
    assert [row[2] for row in found(ask_other, other, name=pattern, regex=1)] == expected
    worst_first = [
        row[0]
        for row in connection.execute(
            "SELECT name FROM node_view JOIN node USING (node_id)"
            " ORDER BY node.grade = 6, node.grade DESC, ifnull(node.error, -1) DESC, side DESC, seq"
        )
    ]
    by_severity = found(ask_other, other, name=pattern, regex=1, order="severity")
    assert [row[2] for row in by_severity] == [name for name in worst_first if name in expected]
    assert found(ask_other, other, name=pattern, regex=1, step=7) == []


def test_a_regular_expression_may_hold_any_character(ask: Ask) -> None:
    for pattern in ("\x1f", "\n", '"', "é", "["):
        response = ask("search", file="runs/example.vis.db", name=pattern, regex=1)
        assert response.status_code == (400 if pattern == "[" else 200)
        assert not pb.SearchResult.FromString(response.data).index


def test_a_name_of_two_names_is_damage(ask: Ask, logdir: Path) -> None:
    with closing(sqlite3.connect(logdir / "runs" / "example.vis.db")) as database:
        database.execute("UPDATE text SET value = 'a' || char(31) || 'b' WHERE text_id = 4")
        database.commit()
    response = ask("search", file="runs/example.vis.db", name="b", regex=1)
    assert problem_of(response).code == "damaged"


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        ("(", "bad_parameter"),
        ("x" * 2000, "bad_parameter"),
        ("(.*.*.*.*.*.*.*)*!", "slow_expression"),
        ("(" * 500, "bad_parameter"),
    ],
)
def test_a_regular_expression_that_cannot_be_used(
    ask_other: Ask, other: Path, pattern: str, code: str
) -> None:
    response = ask_other("search", file=other.name, name=pattern, regex=1)
    assert response.status_code == 400
    assert problem_of(response).code == code


def test_an_expression_may_be_so_long_and_finds_letters_in_any_case() -> None:
    names = SEPARATOR.join(("Torch.add", "Torch.mul", "tensor.ADD"))
    assert expressions.matching("aDD$", names) == [0, 2]
    longest = "add" + "|" * (limits.EXPRESSION_LENGTH - 3)
    assert expressions.matching(longest, names) == [0, 1, 2]
    with pytest.raises(ProblemError, match="longer than 1000 characters"):
        expressions.matching(longest + "|", names)


def test_compiling_an_expression_counts_as_well(
    ask_other: Ask, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expressions, "EXPRESSION_SECONDS", 0.2)
    costly = "[\u0100-\U000fffff]" * 190  # takes 0.7 s and more to compile
    response = ask_other("search", file=other.name, name=costly, regex=1)
    assert (response.status_code, problem_of(response).code) == (400, "slow_expression")


def test_an_expression_may_take_only_so_much_memory(
    ask_other: Ask, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expressions, "EXPRESSION_MEMORY", 2**20)  # less than Python itself needs
    wide = "[\u0100-\U000fffff]"
    response = ask_other("search", file=other.name, name=wide, regex=1)
    assert (response.status_code, problem_of(response).code) == (400, "slow_expression")
    assert "memory" in problem_of(response).message


def test_a_search_whose_process_is_killed_needs_too_much(
    ask_other: Ask, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a system does that runs out of memory."""
    monkeypatch.setattr(expressions, "_SCRIPT", "import os; os.kill(os.getpid(), 9)")
    response = ask_other("search", file=other.name, name="linear", regex=1)
    assert (response.status_code, problem_of(response).code) == (400, "slow_expression")
    assert "memory" in problem_of(response).message


def test_expressions_wait_for_each_other(
    ask_other: Ask, other: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expressions, "_free", threading.BoundedSemaphore(1))
    monkeypatch.setattr(expressions, "EXPRESSION_WAIT_SECONDS", 0.0)
    with expressions._free:
        response = ask_other("search", file=other.name, name="linear", regex=1)
    assert (response.status_code, problem_of(response).code) == (503, "busy")
    assert ask_other("search", file=other.name, name="linear", regex=1).status_code == 200


@pytest.mark.parametrize(
    "query",
    [
        {"grade": "7"},
        {"grade": "1,"},
        {"overflow": "9"},
        {"order": "name"},
        {"regex": "yes"},
        {"limit": 0},
        {"limit": 10_001},
        {"limit": -1},
    ],
    ids=str,
)
def test_a_search_that_means_nothing_is_refused(ask: Ask, query: dict[str, object]) -> None:
    response = ask("search", file="runs/example.vis.db", **query)
    problem = problem_of(response)
    assert problem.code == "bad_parameter"
    assert "limit" not in query or problem.remedy == "Give limit as a whole number from 1 to 10000."


def test_overflow_is_searched_and_counted(ask: Ask) -> None:
    def indices(levels: str) -> list[int]:
        response = ask("search", file="runs/example.vis.db", overflow=levels)
        return list(pb.SearchResult.FromString(response.data).index)

    assert [indices("3"), indices("1,3"), indices("2")] == [[3], [3, 6], []]
    pair = catalog(ask).files[0].graphs[0]
    assert list(pair.overflow_counts) == [0, 1, 0, 1]
    assert list(pair.bench_overflow_counts) == []
    assert (pair.npu_unmatched, pair.bench_unmatched) == (2, 1)


def test_ranks_that_failed_are_listed(ask: Ask, logdir: Path) -> None:
    with closing(sqlite3.connect(logdir / "runs" / "example.vis.db")) as database:
        database.execute(
            "INSERT INTO diagnostic (severity, code, step, rank, message)"
            " VALUES ('error', 'rank_failed', 1, 7, 'It is broken.')"
        )
        database.commit()
    [failed] = catalog(ask).files[0].failed_ranks
    assert (failed.step, failed.rank, failed.reason) == (1, 7, "It is broken.")


def test_across_follows_one_node_through_the_ranks(database: Path) -> None:
    ask = client_of(database.parent)
    with closing(sqlite3.connect(database)) as connection:
        [[name]] = connection.execute(
            "SELECT name FROM node_view WHERE side = 'npu' AND error > 0 GROUP BY name"
            " ORDER BY count(*) DESC LIMIT 1"
        )
        places = connection.execute(
            "SELECT step, rank, seq, error FROM node_view WHERE side = 'npu' AND name = ?"
            " ORDER BY step, rank",
            (name,),
        ).fetchall()
        worst = []
        for step, rank, *_ in places:
            values = [
                nan if value == "NaN" else value
                for (value,) in connection.execute(
                    "SELECT norm_relative_err FROM tensor_view WHERE side = 'npu' AND node = ?"
                    " AND step = ? AND rank = ? AND direction IN ('output', 'parameters_grad')"
                    " AND norm_relative_err IS NOT NULL",
                    (name, step, rank),
                )
            ]
            worst.append(nan if any(map(isnan, values)) else max(values, default=-1.0))
    answer = pb.NodeAcross.FromString(ask("across", file=database.name, name=name, side="npu").data)
    assert len(places) == 2
    assert list(zip(answer.step, answer.rank, answer.index, answer.error, strict=True)) == [
        (step, rank, index, -1.0 if error is None else error) for step, rank, index, error in places
    ]
    assert list(answer.norm_relative_err) == worst
    response = ask("across", file=database.name, name="Nobody.0.forward", side="npu")
    assert problem_of(response).code == "unknown_name"


def test_communication_partners_are_named(database: Path) -> None:
    ask = client_of(database.parent)
    with closing(sqlite3.connect(database)) as connection:
        connection.row_factory = sqlite3.Row
        expected = connection.execute(
            "SELECT own.rank, own.seq, partner.rank AS other_rank, partner.seq AS other_seq,"
            " partner.name, partner.grade, role, data_equal FROM communication"
            " JOIN node_view AS own USING (node_id)"
            " JOIN node_view AS partner ON partner.node_id = partner_id WHERE own.side = 'npu'"
        ).fetchall()
    assert expected
    for row in expected[:20]:
        detail = node(ask, file=database.name, rank=row["rank"], index=row["seq"])
        [partner] = [
            one
            for one in detail.npu.communication
            if (one.rank, one.index) == (row["other_rank"], row["other_seq"])
        ]
        assert partner.name == row["name"]
        assert partner.role == ("send", "receive", "send_receive")[row["role"]]
        assert GRADES[partner.grade] == row["grade"]
        assert (partner.data_equal if partner.HasField("data_equal") else None) == (
            None if row["data_equal"] is None else bool(row["data_equal"])
        )
