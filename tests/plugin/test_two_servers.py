"""Two TensorBoards write to one file: what either acknowledged holds."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.builder.rematch.rebuild import check_sound, matched

# Ends the matches of every second node, begun at the first or second; reads again when refused.
CLIENT = """
import sys
from pathlib import Path
from tests.plugin.changing import change, operation, report
from tb_graph_ascend.generated import graph_pb2 as pb
from tests.plugin.conftest import GOOD, client_of
path, index = Path(sys.argv[1]), int(sys.argv[2])
ask = client_of(path.parent)
done = 0
while done < 8:
    answer = ask("node", **{**GOOD["node"], "file": path.name, "index": index})
    if answer.status_code == 503:
        continue
    assert answer.status_code == 200, answer.data
    detail = pb.NodeDetail.FromString(answer.data)
    if detail.HasField("bench"):
        response = change(ask, path.name, operation(index, detail.bench.index, "UNMATCH"))
        if response.status_code in (409, 503):
            continue
        report(response)
        print(detail.npu.name, flush=True)
        done += 1
    index += 2
"""


def test_what_either_acknowledged_holds(demo_database: Path, tmp_path: Path) -> None:
    database = Path(shutil.copy(demo_database, tmp_path / "demo.vis.db"))
    clients = [
        subprocess.Popen(
            [sys.executable, "-c", CLIENT, str(database), str(first)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for first in (5, 6)
    ]
    answers = [client.communicate()[0].split() for client in clients]
    assert [client.returncode for client in clients] == [0, 0]
    assert [len(names) for names in answers] == [8, 8]
    assert not {name for names in answers for name in names} & matched(database).keys()
    check_sound(database)
