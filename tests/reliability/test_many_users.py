"""Many users at once: each sees only what he asked for, none sees a torn state, nothing is lost."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tb_graph_ascend.generated import graph_pb2 as pb
from tests.builder.rematch.rebuild import check_sound, matched
from tests.conftest import BuildDatabase
from tests.plugin.conftest import client_of, skeleton

FILE = "demo.vis.db"
OPEN = Path("/proc/self/fd")  # of Linux

# Unmatches what it still finds matched, as one of several writers; reads again when refused.
WRITER = """
import sys
from pathlib import Path
from tests.plugin.changing import change, operation, report
from tests.plugin.conftest import GOOD, client_of
from tb_graph_ascend.generated import graph_pb2 as pb
path, index, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
ask = client_of(path.parent)
while count:
    answer = ask("node", **{**GOOD["node"], "file": path.name, "index": index})
    if answer.status_code == 503:
        continue
    detail = pb.NodeDetail.FromString(answer.data)
    if detail.HasField("bench"):
        response = change(ask, path.name, operation(index, detail.bench.index, "UNMATCH"))
        if response.status_code in (409, 503):
            continue
        report(response)
        print(detail.npu.name, flush=True)
        count -= 1
    index += 2
"""
# A whole answer, or a word for why there is none now; a torn one is neither.
READER = """
import sys
from pathlib import Path
from tests.plugin.conftest import GOOD, client_of
from tb_graph_ascend.generated import graph_pb2 as pb
path, count = Path(sys.argv[1]), int(sys.argv[2])
ask = client_of(path.parent)
seen = 0
for number in range(count):
    good = {**GOOD["skeleton"], "file": path.name}
    answer = ask("skeleton", **good)
    assert answer.status_code in (200, 503), answer.data
    if answer.status_code == 200:
        skeleton = pb.Skeleton.FromString(answer.data)
        partners = sum(one != 0 for one in skeleton.partner_offset)
        unmatched = sum(grade == pb.GRADE_UNMATCHED for grade in skeleton.grade)
        assert len(skeleton.grade) == skeleton.node_count
        assert unmatched >= seen  # writers only end matches: what was seen once stays
        seen = unmatched
print(seen)
"""


def run_all(database: Path, writes: int, reads: int) -> list[str]:
    """Two writers and eight readers; the names whose match was ended."""
    start = [sys.executable, "-c"]
    writers = [
        subprocess.Popen(
            [*start, WRITER, str(database), str(first), str(writes)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for first in (5, 6)
    ]
    readers = [subprocess.Popen([*start, READER, str(database), str(reads)]) for _ in range(8)]
    ended = [name for writer in writers for name in writer.communicate()[0].split()]
    assert [writer.wait() for writer in writers] == [0] * 2
    assert [reader.wait() for reader in readers] == [0] * 8
    return ended


@pytest.mark.parametrize(
    ("writes", "reads"), [(3, 5), pytest.param(150, 600, marks=pytest.mark.slow)]
)
def test_two_writers_and_eight_readers(
    demo_database: Path, tmp_path: Path, writes: int, reads: int
) -> None:
    database = Path(shutil.copy(demo_database, tmp_path / FILE))
    ended = run_all(database, writes, reads)
    assert len(ended) == 2 * writes
    assert not set(ended) & matched(database).keys()
    check_sound(database)


def test_twenty_users_see_only_their_own(
    demo_database: Path, dumps: Path, build_database: BuildDatabase, tmp_path: Path
) -> None:
    """Of one server: other files, steps, ranks and sides, all at once, in any order."""
    folder = tmp_path / "logs"
    folder.mkdir()
    shutil.copy(demo_database, folder / "a.vis.db")
    ranks = dumps / "ddp2_statistics"
    shutil.copy(build_database(ranks / "step0", ranks / "step1", "-f"), folder / "b.vis.db")
    ask = client_of(folder)
    places = [{"file": "a.vis.db", "rank": 0, "side": side} for side in ("npu", "bench")]
    places += [
        {"file": "b.vis.db", "rank": rank, "side": side}
        for rank in (0, 1)
        for side in ("npu", "bench")
    ]
    expected = {number: skeleton(ask, **place) for number, place in enumerate(places)}
    wrong: list[object] = []

    def use(user: int) -> None:
        for turn in range(10):
            number = (user + turn) % len(places)
            found = skeleton(ask, **places[number])
            if found != expected[number]:
                wrong.append((user, turn))

    users = [threading.Thread(target=use, args=(user,)) for user in range(20)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert not wrong


@pytest.mark.skipif("not OPEN.exists()", reason="only Linux tells which files are open")
def test_a_thousand_requests_leave_no_file_open(demo_database: Path, tmp_path: Path) -> None:
    shutil.copy(demo_database, tmp_path / FILE)
    ask = client_of(tmp_path)
    question = {"file": FILE, "step": 0, "rank": 0, "side": "npu", "index": 1}
    for number in range(1000):
        assert ask("node", **question).status_code == 200
        if number == 10:
            before = len(list(OPEN.iterdir()))
    assert len(list(OPEN.iterdir())) <= before
    assert pb.NodeDetail.FromString(ask("node", **question).data).npu.index == 1
