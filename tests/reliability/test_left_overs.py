"""Commands that were killed: what they left goes with the next command in that folder."""

from __future__ import annotations

import lzma
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from msprobe_builder.base import publish
from msprobe_builder.command.main import main
from tests.builder.trend.test_trend import write_monitor

DATA = Path(__file__).parents[1] / "data" / "reference"
# Ends itself as by kill -9 when something hidden of its own appears in the folder.
KILLED = """
import os, signal, sys, threading, time
folder, words = sys.argv[1], sys.argv[2:]

def watch():
    while True:
        if any(name.startswith(".") for name in os.listdir(folder)):
            time.sleep(0.002)
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.0005)

from msprobe_builder.command.main import main
import msprobe_builder.trend.build, msprobe_builder.importers.reference, msprobe_checks.command
threading.Thread(target=watch, daemon=True).start()
main(words)
time.sleep(1)
"""


def killed(folder: Path, *words: str) -> list[str]:
    """Kill a command while it writes into a folder; the hidden things that it left."""
    folder.mkdir(exist_ok=True)
    for _ in range(20):
        done = subprocess.run([sys.executable, "-c", KILLED, folder, *words], capture_output=True)
        hidden = [path.name for path in folder.iterdir() if path.name.startswith(".")]
        if done.returncode < 0 and hidden:
            return hidden
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    pytest.skip("it was never caught while it wrote")


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


def test_a_killed_trend_leaves_nothing_for_ever(tmp_path: Path) -> None:
    source = write_monitor(tmp_path / "run", ranks=3, steps=2000)
    out = tmp_path / "out"
    assert killed(out, "trend", str(source), "-o", str(out))
    assert main(["trend", str(source), "-o", str(out)]) == 0
    assert not hidden(out)


def test_a_killed_import_leaves_nothing_for_ever(tmp_path: Path) -> None:
    source = tmp_path / "old.vis.db"
    packed = DATA / "compare_attention_scale_statistics.made_by_26.2.0.vis.db.xz"
    source.write_bytes(lzma.decompress(packed.read_bytes()))
    out = tmp_path / "out"
    assert killed(out, "import", str(source), "-o", str(out / "new.vis.db"))
    assert main(["import", str(source), "-o", str(out / "other.vis.db")]) == 0
    assert not hidden(out)


@pytest.mark.parametrize(
    "command",
    [
        "verify {path}",
        "verdict {path}",
        "schema {path}",
        "export {path} -o {folder}/x.csv",
        "trend {folder} -o {folder}/new",
        "checkpoint {folder} {folder}",
        "{folder} -o {folder}",
        "operators check {folder}",
        "operators replay {folder}/call.pkl",
    ],
)
def test_any_command_removes_what_was_left(
    command: str, tmp_path: Path, demo_database: Path
) -> None:
    """Also one that only reads, in the folder of any of its arguments."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    path = Path(shutil.copy(demo_database, tmp_path / "x.vis.db"))
    name = f"{{}}.{publish._host()}.{process.pid}.building"
    for file in (".x.csv", ".x.vis.db", ".values.parquet", ".pack.zip"):
        (tmp_path / name.format(file)).write_text("half")
    for folder in (".files", ".ranks-0123456789abcdef"):
        (tmp_path / name.format(folder)).mkdir()
        (tmp_path / name.format(folder) / "0.part").write_text("half")
    kept = tmp_path / ".ranks-0123456789abcdef.building"  # --resume may go on from it
    kept.mkdir()
    (kept / "0.shard").write_text("whole")
    words = [word.format(path=path, folder=tmp_path) for word in command.split()]
    assert main(words) in (0, 1, 2)
    assert hidden(tmp_path) == [kept.name]


@pytest.mark.parametrize(
    ("name", "stays"),
    [
        (".x.vis.db.{host}.{dead}.building", False),
        (".x.vis.db.{host}.{dead}.building-journal", False),
        (".importing.{host}.{dead}.building", False),  # a folder
        (".x.csv.{host}.{alive}.building", True),
        (".x.csv.elsewhere.{dead}.building", True),
        (".x.csv.{host}.building", True),
        ("x.{host}.{dead}.building", True),
    ],
)
def test_only_what_a_dead_process_of_this_machine_left_is_removed(
    name: str, stays: bool, tmp_path: Path
) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    path = tmp_path / name.format(host=publish._host(), dead=process.pid, alive=os.getpid())
    if "importing" in name:
        path.mkdir()
        (path / "inside").write_text("half")
    else:
        path.write_text("half")
    with publish.published(tmp_path / "result") as temporary:
        temporary.write_text("whole")
    assert path.exists() == stays
    assert (tmp_path / "result").read_text() == "whole"
