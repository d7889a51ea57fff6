"""Killed at any moment: no torn file, and nothing lost that was acknowledged."""

from __future__ import annotations

import json
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.builder.integrity import check
from tests.builder.rematch.rebuild import check_sound, matched
from tests.plugin.conftest import catalog, client_of

KILLS = 200
FILE = "demo.vis.db"

# Writes one line before each file operation of SQLite's and of ours; whoever reads may kill then.
BUILD = """
import os, sys
from pathlib import Path
from msprobe_builder import BuildConfig, build
count = 0
def trace(frame, event, argument):
    global count
    count += 1
    if count % 5000 == 0:
        os.write(1, b".")
    return None
sys.setprofile(trace)
build(BuildConfig(Path(sys.argv[1]), Path(sys.argv[2])), Path(sys.argv[3]), name="x", workers=1)
os.write(1, b"!")
"""

WRITE = """
import os, sys
from pathlib import Path
from tests.plugin.changing import change, operation, report
from tests.plugin.conftest import client_of, node
path, first = Path(sys.argv[1]), int(sys.argv[2])
ask = client_of(path.parent)
for index in range(first, 600):
    detail = node(ask, file=path.name, index=index)
    if detail.HasField("bench"):
        os.write(1, b".")
        report(change(ask, path.name, operation(index, detail.bench.index, "UNMATCH")))
        os.write(1, detail.npu.name.encode() + b"\\n")
"""


def kill_after(command: list[str], output: int) -> bytes:
    """Kill a program once it has written so many bytes; all that it wrote."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        said = process.stdout.read(output)
        process.send_signal(signal.SIGKILL)
        return said + process.stdout.read()


@pytest.mark.slow
def test_a_build_killed_at_any_moment_leaves_no_torn_file(dumps: Path, tmp_path: Path) -> None:
    runs = [dumps / f"llama_statistics_L0/step{step}/rank" for step in (0, 1)]
    moments = random.Random(1)  # noqa: S311
    finished = 0
    for number in range(KILLS):
        out = tmp_path / f"{number % 7}"
        said = kill_after(
            [sys.executable, "-c", BUILD, *map(str, runs), str(out)], moments.randrange(1, 60)
        )
        result = out / "x.vis.db"
        assert result.exists() or b"!" not in said
        if result.exists():
            finished += 1
            check(result).close()
            result.unlink()
    assert 0 < finished < KILLS  # moments before and after the end
    again = [sys.executable, "-c", BUILD, *map(str, runs), str(tmp_path / "0")]
    subprocess.run(again, check=True, stdout=subprocess.DEVNULL)
    assert [path.name for path in (tmp_path / "0").iterdir()] == ["x.vis.db"]


@pytest.mark.slow
def test_a_server_killed_at_any_moment_keeps_what_it_acknowledged(
    demo_database: Path, tmp_path: Path
) -> None:
    database = Path(shutil.copy(demo_database, tmp_path / FILE))
    moments = random.Random(2)  # noqa: S311
    ended: set[str] = set()
    for number in range(KILLS):
        command = [sys.executable, "-c", WRITE, str(database), str(1 + 2 * number)]
        said = kill_after(command, moments.randrange(1, 200))
        *whole, _ = said.replace(b".\n", b"\n").split(b"\n")
        ended |= {line.lstrip(b".").decode() for line in whole if line.lstrip(b".")}
        [file] = catalog(client_of(tmp_path)).files
        assert not file.HasField("problem"), file.problem
        assert not ended & matched(database).keys()
        check_sound(database)
    with closing(sqlite3.connect(database)) as connection:
        [[edits]] = connection.execute("SELECT count(*) FROM edit")
    assert edits >= len(ended) > 0
    assert json.dumps(sorted(ended))
