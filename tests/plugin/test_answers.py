"""How answers travel: two formats, compression, tags, and no trace left on the server."""

from __future__ import annotations

import gzip
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from google.protobuf import json_format
from werkzeug.test import TestResponse

from tb_graph_ascend.generated import graph_pb2 as pb
from tb_graph_ascend.plugin import CHANGES, QUESTIONS
from tests.plugin.conftest import EXAMPLE, GOOD, MESSAGES, Ask, catalog, node, parse, skeleton


def test_routes_are_those_of_the_contract_and_take_the_parameters_that_it_lists() -> None:
    questions, changes = (pb.DESCRIPTOR.services_by_name[name] for name in ("Questions", "Changes"))
    assert {one.name for one in changes.methods} == set(CHANGES)
    assert {one.name: one.output_type for one in questions.methods} == {
        name: message.DESCRIPTOR for name, message in MESSAGES.items()
    }
    assert {one.name for one in questions.methods} == set(QUESTIONS)
    for one in questions.methods:
        fields = {field.name for field in one.input_type.fields} - {"conditions"}
        assert fields == set(GOOD[one.name])


def assert_same(one: TestResponse, other: TestResponse) -> None:
    assert (one.status_code, one.data) == (other.status_code, other.data)


@pytest.mark.parametrize("name", QUESTIONS)
def test_json_and_protobuf_say_the_same(ask: Ask, name: str) -> None:
    as_json = ask(name, **GOOD[name], format="json")
    assert as_json.content_type == "application/json"
    from_json = json_format.Parse(as_json.data, MESSAGES[name]())
    from_protobuf = parse(name, ask(name, **GOOD[name]))
    # Serialised, because NaN is not equal to itself.
    assert from_json.SerializeToString(deterministic=True) == from_protobuf.SerializeToString(
        deterministic=True
    )
    assert_same(ask(name, **GOOD[name]), ask(name, **GOOD[name], format="protobuf"))


def test_json_spells_out_what_json_has_no_number_for(ask: Ask) -> None:
    rows = ask("node", **GOOD["node"], format="json").get_json()["rows"]
    assert (rows[1]["npu"]["mean"], rows[1]["npu"]["min"]) == ("NaN", "-Infinity")
    assert rows[1]["npu"]["norm"] == "Infinity"


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_answer_says_what_it_is(ask: Ask, name: str) -> None:
    headers = ask(name, **GOOD[name]).headers
    assert headers["Content-Type"] == "application/x-protobuf"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "private, no-cache"
    assert headers["Vary"] == "Accept-Encoding"
    assert headers["ETag"].startswith('W/"')


@pytest.mark.parametrize("name", ["catalog", "skeleton", "node", "search"])
@pytest.mark.parametrize("accepted", ["gzip", "br;q=1.0, gzip;q=0.8", "*"])
def test_large_answers_are_compressed_for_those_who_can_read_it(
    ask: Ask, name: str, accepted: str
) -> None:
    plain = ask(name, **GOOD[name], format="json")
    packed = ask(name, **GOOD[name], format="json", headers={"Accept-Encoding": accepted})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert int(packed.headers["Content-Length"]) == len(packed.data) < len(plain.data)
    assert gzip.decompress(packed.data) == plain.data
    assert packed.headers["ETag"] == plain.headers["ETag"]


@pytest.mark.parametrize("accepted", ["", "identity", "gzip;q=0", "br"])
def test_nothing_is_compressed_for_others(ask: Ask, accepted: str) -> None:
    answer = ask("catalog", format="json", headers={"Accept-Encoding": accepted})
    assert "Content-Encoding" not in answer.headers
    assert answer.get_json()["files"]


@pytest.mark.parametrize("name", QUESTIONS)
def test_what_the_browser_has_is_not_sent_again(ask: Ask, name: str) -> None:
    etag = ask(name, **GOOD[name]).headers["ETag"]
    again = ask(name, **GOOD[name], headers={"If-None-Match": f'"other", {etag}'})
    assert (again.status_code, again.data) == (304, b"")
    assert again.headers["ETag"] == etag
    assert ask(name, **GOOD[name], headers={"If-None-Match": '"other"'}).status_code == 200
    other_format = ask(name, **GOOD[name], format="json", headers={"If-None-Match": etag})
    assert other_format.status_code == 200


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_changed_file_is_sent_again(ask: Ask, logdir: Path, name: str) -> None:
    etag = ask(name, **GOOD[name]).headers["ETag"]
    with closing(sqlite3.connect(logdir / EXAMPLE)) as database:
        database.execute("UPDATE node SET micro_step = micro_step + 1")
        database.commit()
    again = ask(name, **GOOD[name], headers={"If-None-Match": etag})
    assert again.status_code == 200
    assert again.headers["ETag"] != etag


def test_tags_of_different_requests_differ(ask: Ask) -> None:
    queries = [{}, {"step": "1"}, {"side": "bench"}, {"format": "json"}, {"rank": "2", "step": "1"}]
    tags = {ask("skeleton", **{**GOOD["skeleton"], **query}).headers["ETag"] for query in queries}
    tags |= {ask("node", **{**GOOD["node"], "index": i}).headers["ETag"] for i in range(7)}
    assert len(tags) == len(queries) + 7


@pytest.mark.parametrize("name", QUESTIONS)
def test_head_answers_without_a_body(ask: Ask, name: str) -> None:
    head, get = (ask(name, **GOOD[name], method=method) for method in ("HEAD", "GET"))
    assert head.data == b""
    assert head.headers == get.headers


def test_read_only_files_in_read_only_directories_are_shown(ask: Ask, logdir: Path) -> None:
    path = logdir / EXAMPLE
    before = path.read_bytes()
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        assert skeleton(ask).node_count == 7
        assert node(ask).npu.index == 3
        [file] = catalog(ask).files
        assert not file.HasField("problem")
        assert file.writable == (os.geteuid() == 0)
    finally:
        path.parent.chmod(0o755)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_names_that_mean_something_in_an_address_are_just_names(ask: Ask, logdir: Path) -> None:
    name = "50% #1?mode=rwc&x= ü'\".vis.db"
    (logdir / EXAMPLE).rename(logdir / name)
    assert [file.file for file in catalog(ask).files] == [name]
    assert skeleton(ask, file=name).node_count == 7
    assert [entry.name for entry in logdir.iterdir() if entry.is_file()] == [name]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux's /proc")
def test_no_file_stays_open(ask: Ask, logdir: Path) -> None:
    (logdir / "empty.vis.db").write_bytes(b"")
    (logdir / "text.vis.db").write_text("x" * 200, encoding="utf-8")

    def ask_everything() -> None:
        for name in GOOD:
            ask(name, **GOOD[name])
            ask(name, **{**GOOD[name], "file": "empty.vis.db"})
            ask(name, **{**GOOD[name], "file": "text.vis.db"})
            ask(name, **{**GOOD[name], "step": "9"})

    ask_everything()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(30):
        ask_everything()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_requests_at_the_same_time_do_not_influence_each_other(ask: Ask) -> None:
    places = [{"step": "0"}, {"step": "1"}, {"side": "bench"}, {"step": "1", "rank": "2"}]
    alone = [skeleton(ask, **place) for place in places]
    wrong: list[object] = []

    def repeat(number: int) -> None:
        for _ in range(20):
            found = skeleton(ask, **places[number])
            if found != alone[number]:
                wrong.append(found)

    threads = [threading.Thread(target=repeat, args=(number,)) for number in range(len(places))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("known", ["*", '*, "a"', 'W/"*"'])
def test_a_star_is_no_tag_of_an_answer(ask: Ask, known: str) -> None:
    headers = {"If-None-Match": known}
    assert ask("node", **GOOD["node"], headers=headers).status_code == 200
    missing = ask("node", **{**GOOD["node"], "index": "99"}, headers=headers)
    assert missing.status_code == 404


def test_an_unchanged_answer_has_neither_a_body_nor_a_type(ask: Ask) -> None:
    etag = ask("node", **GOOD["node"]).headers["ETag"]
    response = ask("node", **GOOD["node"], headers={"If-None-Match": etag})
    assert (response.status_code, response.data) == (304, b"")
    assert "Content-Type" not in response.headers
