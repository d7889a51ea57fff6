"""Writes are whole or not at all, whoever else reads, writes or is killed meanwhile."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder.database.file import read_file
from tests.builder.rematch.rebuild import check_sound, content, matched
from tests.plugin.changing import JSON, change, operation, post, report, revision_of
from tests.plugin.conftest import Ask, catalog, client_of, node, problem_of, skeleton

FILE = "demo.vis.db"


@pytest.fixture
def database(demo_database: Path, tmp_path: Path) -> Path:
    """A copy of the demo's database that may be changed."""
    return Path(shutil.copy(demo_database, tmp_path / FILE))


@pytest.fixture
def ask(database: Path) -> Ask:
    """The plugin over that copy."""
    return client_of(database.parent)


def partner(ask: Ask, index: int) -> int:
    return int(node(ask, file=FILE, index=index).bench.index)


def test_a_change_based_on_something_old_is_refused(ask: Ask, database: Path) -> None:
    old = revision_of(ask, FILE)
    done = report(change(ask, FILE, operation(5, partner(ask, 5), "UNMATCH")))
    before = content(database)
    again = change(ask, FILE, operation(6, partner(ask, 6), "UNMATCH"), revision=old)
    assert again.status_code == 409
    problem = problem_of(again)
    assert (problem.code, problem.revision) == ("changed_meanwhile", done.revision)
    assert done.revision == revision_of(ask, FILE)
    assert content(database) == before
    for name in ("undo", "redo", "matches"):
        response = post(ask, name, {"file": FILE, "revision": old})
        assert problem_of(response).code == "changed_meanwhile"


def test_of_two_clients_at_once_one_is_told_to_look_again(ask: Ask, database: Path) -> None:
    revision = revision_of(ask, FILE)
    ends = [operation(index, partner(ask, index), "UNMATCH") for index in range(5, 9)]
    answers: list[int] = []
    barrier = threading.Barrier(len(ends))

    def send(end: dict[str, object]) -> None:
        barrier.wait()
        answers.append(change(ask, FILE, end, revision=revision).status_code)

    threads = [threading.Thread(target=send, args=(end,)) for end in ends]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [200, 409, 409, 409]
    check_sound(database)


def test_reading_and_writing_at_once_disturb_neither(ask: Ask, database: Path) -> None:
    """Catalogs read the file's header; closing it must not end the writer's locks."""
    stop = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        while not stop.is_set():
            read_file(FILE, database)
            answer = ask("skeleton", file=FILE, step=0, rank=0, side="npu")
            if answer.status_code not in (200, 503):
                wrong.append(answer.data)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for _ in range(5):
            there = partner(ask, 5)
            report(change(ask, FILE, operation(5, there, "UNMATCH")))
            report(change(ask, FILE, operation(5, there)))
    finally:
        stop.set()
        for reader in readers:
            reader.join()
    assert not wrong
    check_sound(database)


def test_the_header_is_read_without_ending_locks(database: Path) -> None:
    from msprobe_builder.files.regular import held_open

    other = (
        "import sqlite3, sys; database = sqlite3.connect(sys.argv[1], timeout=0);"
        "database.execute('BEGIN IMMEDIATE')"
    )
    with held_open(database), closing(sqlite3.connect(database, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert read_file(FILE, database) is not None
        refused = subprocess.run(
            [sys.executable, "-c", other, str(database)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "database is locked" in refused.stderr


CLIENT = """
import sys
from pathlib import Path
from tests.plugin.changing import change, operation, report
from tests.plugin.conftest import client_of, node
path = Path(sys.argv[1])
ask = client_of(path.parent)
index = 0
while True:
    index = index % 600 + 1
    detail = node(ask, file=path.name, index=index)
    action = "UNMATCH" if detail.HasField("bench") else None
    if action:
        report(change(ask, path.name, operation(index, detail.bench.index, action)))
        print(detail.npu.name, flush=True)
"""


@pytest.mark.parametrize("acknowledged", [1, 2, 5, 9])
def test_a_killed_server_loses_nothing_it_acknowledged(database: Path, acknowledged: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(database)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    ended = [process.stdout.readline().strip() for _ in range(acknowledged)]
    process.send_signal(signal.SIGKILL)
    ended += [line.strip() for line in process.stdout.read().split("\\n") if line.strip()]
    process.wait()
    ask = client_of(database.parent)
    [file] = catalog(ask).files
    assert not file.HasField("problem"), file.problem
    assert skeleton(ask, file=FILE).node_count
    assert not set(ended) & matched(database).keys()
    check_sound(database)


DIE_IN_THE_MIDDLE = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA cache_size = 1")
database.execute("BEGIN IMMEDIATE")
database.execute("UPDATE node SET grade = 5, error = 1.0")
database.execute("UPDATE tensor SET max = 7")
print("torn", flush=True)
os.kill(os.getpid(), 9)
"""


def test_a_torn_write_of_a_killed_program_is_taken_back(ask: Ask, database: Path) -> None:
    before, whole = content(database), database.read_bytes()
    subprocess.run(
        [sys.executable, "-c", DIE_IN_THE_MIDDLE, str(database)], check=False, capture_output=True
    )
    assert database.with_name(FILE + "-journal").stat().st_size
    assert database.read_bytes() != whole
    [file] = catalog(ask).files
    assert not file.HasField("problem"), file.problem
    assert not database.with_name(FILE + "-journal").exists()
    assert content(database) == before


def test_a_journal_that_names_another_file_is_left_alone(ask: Ask, database: Path) -> None:
    victim = database.with_name("victim")
    victim.write_bytes(b"")
    journal = database.with_name(FILE + "-journal")
    end = str(victim).encode()
    journal.write_bytes(
        b"\0" * 512
        + end
        + len(end).to_bytes(4, "big")
        + b"\0" * 4
        + bytes.fromhex("d9d505f920a163d7")
    )
    response = ask("skeleton", file=FILE, step=0, rank=0, side="npu")
    assert problem_of(response).code == "unfinished"
    assert victim.exists()


@pytest.mark.parametrize(
    "headers",
    [
        {**JSON, "Sec-Fetch-Site": "cross-site"},
        {**JSON, "Sec-Fetch-Site": "same-site"},
        {**JSON, "Origin": "http://elsewhere.example"},
        {**JSON, "Origin": "null"},
        {**JSON, "Origin": "http://localhost:1"},
        {**JSON, "Origin": "http://elsewhere.example", "X-Forwarded-Host": "a.example"},
        {**JSON, "Origin": "null", "X-Forwarded-Host": ""},
        {**JSON, "Sec-Fetch-Site": "cross-site", "X-Forwarded-Host": "localhost"},
    ],
)
def test_a_page_of_another_origin_changes_nothing(
    ask: Ask, database: Path, headers: dict[str, str]
) -> None:
    before = database.read_bytes()
    body = {
        "file": FILE,
        "revision": revision_of(ask, FILE),
        "operations": [operation(5, 5, "UNMATCH")],
    }
    for name in ("match", "undo", "redo", "matches"):
        response = post(ask, name, body, headers)
        assert response.status_code == 403
        assert problem_of(response).code == "other_origin"
    assert database.read_bytes() == before


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://localhost"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Origin": "https://a.example", "X-Forwarded-Host": "a.example"},
    ],
)
def test_our_own_page_may_change(ask: Ask, headers: dict[str, str]) -> None:
    body = {"file": FILE, "revision": revision_of(ask, FILE)}
    body["operations"] = [operation(5, partner(ask, 5), "UNMATCH")]  # type: ignore[assignment]
    report(post(ask, "match", body, {**JSON, **headers}))


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_what_any_page_may_send_is_refused(ask: Ask, content_type: str) -> None:
    response = post(ask, "match", {}, {"Content-Type": content_type})
    assert response.status_code == 415
    assert problem_of(response).code == "content_type"


@pytest.mark.parametrize(
    "data",
    [b"{", b"[1]", b'{"file": 1}', b'{"surprise": 1}', b"\xff", b'{"operations":' + b"[" * 500],
)
def test_a_body_that_is_no_request_is_refused(ask: Ask, data: bytes) -> None:
    response = ask("match", method="POST", data=data, headers=JSON)
    assert response.status_code == 400
    assert problem_of(response).code == "bad_body"


def test_a_large_body_is_refused(ask: Ask) -> None:
    response = post(ask, "matches", {"content": "x" * (8 * 1024 * 1024)})
    assert response.status_code == 413
    assert problem_of(response).code == "too_large"


@pytest.mark.parametrize(
    ("operations", "status", "code"),
    [
        ([], 400, "bad_body"),
        ([operation(100_000, 1)], 404, "unknown_node"),
        ([operation(1, 100_000)], 404, "unknown_node"),
        ([operation(0, 1)], 400, "only_roots"),
        ([operation(1, 0)], 400, "only_roots"),
    ],
)
def test_an_impossible_change_is_refused(
    ask: Ask, operations: list[dict[str, object]], status: int, code: str
) -> None:
    response = change(ask, FILE, *operations)
    assert (response.status_code, problem_of(response).code) == (status, code)
    response = change(ask, FILE, *operations, step=9)
    assert problem_of(response).code == "unknown_graph"


def test_ending_a_match_that_is_not_there_is_refused(ask: Ask) -> None:
    there = partner(ask, 5)
    report(change(ask, FILE, operation(5, there, "UNMATCH")))
    response = change(ask, FILE, operation(5, there, "UNMATCH"))
    assert (response.status_code, problem_of(response).code) == (409, "not_matched")
    name = node(ask, file=FILE, index=5).npu.name
    assert problem_of(response).message == f"{name} is not matched with this node."
    assert problem_of(response).remedy == "Load the graph again."


def test_a_change_that_takes_too_long_leaves_nothing(
    ask: Ask, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = partner(ask, 5)
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(
            "INSERT INTO edit (batch, edited_at, action, npu_node, bench_node, source)"
            " WITH RECURSIVE n(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n LIMIT 200000)"
            " SELECT value, '', 'match', 1, 1, 3 FROM n"
        )
        connection.commit()
    before = database.read_bytes()
    revision = revision_of(ask, FILE)
    monkeypatch.setattr("tb_graph_ascend.files.writing.CHANGE_SECONDS", -1.0)
    wanted = operation(5, there, "UNMATCH")
    response = change(ask, FILE, wanted, revision=revision)
    assert response.status_code == 503
    problem = problem_of(response)
    assert problem.code == "too_slow"
    assert problem.message.startswith(f"The change of {FILE} took longer than")
    assert problem.message.endswith("nothing was changed.")
    assert database.read_bytes() == before


def test_files_with_triggers_are_not_written(ask: Ask, database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TRIGGER t AFTER DELETE ON match BEGIN DELETE FROM text; END")
        connection.commit()
    response = change(ask, FILE, operation(5, partner(ask, 5), "UNMATCH"))
    assert problem_of(response).code == "damaged"


def test_a_damaged_file_is_not_half_written(ask: Ask, database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("UPDATE meta SET value = 'nonsense' WHERE key = 'task'")
        connection.commit()
    before = database.read_bytes()
    response = change(ask, FILE, operation(5, partner(ask, 5), "UNMATCH"))
    assert response.status_code == 422
    assert problem_of(response).code == "damaged"
    assert database.read_bytes() == before


ASK_AS_NOBODY = """
import os, sys
from pathlib import Path
from tests.plugin.changing import change, operation
from tests.plugin.conftest import catalog, client_of, problem_of
import tb_graph_ascend.http.answers, tb_graph_ascend.http.change_routes, tb_graph_ascend.http.routes
ask = client_of(Path(sys.argv[1]))
assert catalog(ask).files[0].writable
os.setuid(65534)
print(catalog(ask).files[0].writable)
response = change(ask, sys.argv[2], operation(5, 5, "UNMATCH"))
print(response.status_code, problem_of(response).code)
"""


@pytest.mark.skipif("os.geteuid() != 0", reason="only root can become somebody who may not write")
def test_a_file_that_may_not_be_written_says_so(database: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        shutil.copy(database, folder)
        answer = subprocess.run(
            [sys.executable, "-c", ASK_AS_NOBODY, folder, FILE],
            capture_output=True,
            text=True,
            check=True,
        )
    assert answer.stdout.split() == ["False", "403", "read_only"]


def test_nothing_is_written_with_the_option_readonly(database: Path) -> None:
    ask = client_of(database.parent, readonly=True)
    [file] = catalog(ask).files
    assert not file.writable
    response = change(ask, FILE, operation(5, 5, "UNMATCH"))
    assert (response.status_code, problem_of(response).code) == (403, "forbidden")


def test_only_looking_loads_no_builder() -> None:
    script = (
        "import sys; from tests.plugin.conftest import GOOD, client_of; from tb_graph_ascend.plugin"
        " import QUESTIONS; ask = client_of('/nonexistent');"
        " [ask(name, **GOOD[name]) for name in QUESTIONS];"
        " print(*{'.'.join(name.split('.')[:2]) for name in sys.modules"
        " if name.split('.')[0] in ('msprobe_builder', 'torch', 'pandas')})"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    readers = {
        "msprobe_builder",
        *(f"msprobe_builder.{part}" for part in ("base", "database", "dump", "facts", "files")),
        *(f"msprobe_builder.{part}" for part in ("graph", "operators")),
    }
    assert set(answer.stdout.split()) == readers
