"""Every route against everything a request can get wrong: one sentence and a remedy each time."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from tb_graph_ascend.generated import graph_pb2 as pb
from tb_graph_ascend.plugin import CHANGES, QUESTIONS
from tests.plugin.conftest import EXAMPLE, GOOD, MESSAGES, Ask, node, parse, problem_of, skeleton

FILE_ROUTES = [name for name, good in GOOD.items() if good]
GRAPH_ROUTES = [name for name, good in GOOD.items() if "step" in good]
SIDE_ROUTES = [name for name, good in GOOD.items() if "side" in good]
NUMBERS = [(name, key) for name in GOOD for key in GOOD[name] if key in ("step", "rank", "index")]
NUMBERS += [("search", key) for key in ("step", "rank", "cursor", "limit")]


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_good_request_is_answered(ask: Ask, name: str) -> None:
    response = ask(name, **GOOD[name])
    assert response.content_type == "application/x-protobuf"
    assert parse(name, response).ByteSize() > 0


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_a_question_is_only_asked(ask: Ask, name: str, method: str) -> None:
    if name in CHANGES and method == "POST":
        return
    response = ask(name, method=method, **GOOD[name])
    assert response.status_code == 405
    assert response.headers["Allow"] == "GET, HEAD" + ", POST" * (name in CHANGES)
    assert problem_of(response).code == "method_not_allowed"


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_unknown_format_is_refused(ask: Ask, name: str) -> None:
    response = ask(name, **GOOD[name], format="xml")
    assert response.status_code == 400
    assert "'xml'" in problem_of(response).message


@pytest.mark.parametrize(("name", "key"), [(name, key) for name in GOOD for key in GOOD[name]])
@pytest.mark.parametrize("value", [None, "", ["0", "0"]])
def test_a_parameter_is_given_exactly_once(
    ask: Ask, name: str, key: str, value: str | list[str] | None
) -> None:
    query = {**GOOD[name], key: value}
    response = ask(name, **{name: given for name, given in query.items() if given is not None})
    assert response.status_code == 400
    assert key in problem_of(response).message


@pytest.mark.parametrize(("name", "key"), NUMBERS)
@pytest.mark.parametrize("value", ["-1", "1.5", "1e3", " 1", "0x1", "one", "٣", "9" * 11, "9" * 10])
def test_a_number_is_a_number(ask: Ask, name: str, key: str, value: str) -> None:
    response = ask(name, **{**GOOD[name], key: value})
    assert response.status_code == 400
    assert key in problem_of(response).message


@pytest.mark.parametrize("name", SIDE_ROUTES)
@pytest.mark.parametrize("value", ["left", "2", "NPU", "-1"])
def test_a_side_is_npu_or_bench(ask: Ask, name: str, value: str) -> None:
    response = ask(name, **{**GOOD[name], "side": value})
    assert response.status_code == 400
    assert "npu or bench" in problem_of(response).remedy


@pytest.mark.parametrize("name", FILE_ROUTES)
@pytest.mark.parametrize(
    "file",
    [
        "other.vis.db",
        "../secret.vis.db",
        "runs/../../secret.vis.db",
        "runs/../" + EXAMPLE,
        "./" + EXAMPLE,
        "runs//example.vis.db",
        "runs\\example.vis.db",
        "runs",
        "runs/notes.txt",
        "/etc/passwd",
        EXAMPLE + "\0",
        "x" * 10_000,
    ],
)
def test_only_a_listed_name_names_a_file(ask: Ask, logdir: Path, name: str, file: str) -> None:
    (logdir.parent / "secret.vis.db").write_bytes((logdir / EXAMPLE).read_bytes())
    (logdir / "runs" / "notes.txt").write_text("private", encoding="utf-8")
    response = ask(name, **{**GOOD[name], "file": file})
    assert response.status_code == 404
    assert problem_of(response).code == "unknown_file"


def test_a_query_that_is_not_utf8_names_nothing(ask: Ask) -> None:
    response = ask("skeleton", raw_query="file=runs/%FF.vis.db&step=0&rank=0&side=npu")
    assert problem_of(response).code == "unknown_file"


def test_an_absolute_path_names_nothing(ask: Ask, logdir: Path) -> None:
    response = ask("skeleton", **{**GOOD["skeleton"], "file": str(logdir / EXAMPLE)})
    assert response.status_code == 404


@pytest.mark.parametrize("name", GRAPH_ROUTES)
@pytest.mark.parametrize(
    "place", [{"step": "7"}, {"rank": "1"}, {"step": "1", "rank": "2", "side": "bench"}]
)
def test_a_graph_that_is_not_there(ask: Ask, name: str, place: dict[str, str]) -> None:
    if name in ("measures", "groups") and "side" in place:
        pytest.skip("these are of the run under debug, which is there")
    response = ask(name, **{**GOOD[name], **place})
    assert response.status_code == 404
    assert problem_of(response).code == "unknown_graph"


@pytest.mark.parametrize("index", [7, 4294967295])
def test_a_node_that_is_not_there(ask: Ask, index: int) -> None:
    response = ask("node", **{**GOOD["node"], "index": index})
    assert response.status_code == 404
    assert "7 nodes" in problem_of(response).message
    assert node(ask, index=6).npu.index == 6


def test_a_file_that_has_gone_since_the_catalog(ask: Ask, logdir: Path) -> None:
    assert skeleton(ask).node_count == 7
    (logdir / EXAMPLE).unlink()
    assert problem_of(ask("skeleton", **GOOD["skeleton"])).code == "unknown_file"


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_problem_reads_the_same_as_json(ask: Ask, name: str) -> None:
    good = {**GOOD[name], "file": "x"} if GOOD[name] else {"method": "POST"}
    as_protobuf, as_json = ask(name, **good), ask(name, **good, format="json")
    assert as_json.content_type == "application/json"
    assert as_json.status_code == as_protobuf.status_code
    assert json_format.Parse(as_json.data, pb.Problem()) == problem_of(as_protobuf)


def test_a_fault_of_the_server_tells_nothing_about_its_inside(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("a detail for the log")

    monkeypatch.setattr(sqlite3, "connect", fail)
    response = ask("skeleton", **GOOD["skeleton"])
    assert response.status_code == 500
    problem = problem_of(response)
    assert problem.code == "internal"
    assert "detail" not in problem.message + problem.remedy
    assert "a detail for the log" in caplog.text


def test_any_query_gets_a_well_formed_answer(ask: Ask) -> None:
    values = st.one_of(
        st.sampled_from(["0", "1", "npu", "bench", EXAMPLE, "", "json", "protobuf"]),
        st.integers(-2, 2**70).map(str),
        st.text(max_size=20),
    )
    keys = st.sampled_from(
        ["file", "step", "rank", "side", "index", "format", "name", "order", "grade", "lang", ""]
    )
    queries = st.dictionaries(keys, st.one_of(values, st.lists(values, max_size=2)))

    @given(st.sampled_from(QUESTIONS), queries, st.booleans())
    def check(name: str, query: dict[str, str | list[str]], start_good: bool) -> None:
        response = ask(name, **({**GOOD[name], **query} if start_good else query))
        assert 200 <= response.status_code < 300 or 400 <= response.status_code < 500
        message = MESSAGES[name]() if response.status_code == 200 else pb.Problem()
        if response.content_type == "application/json":
            json_format.Parse(response.data, message)
        else:
            message.ParseFromString(response.data)

    check()
