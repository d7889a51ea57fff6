"""Errors that nobody foresaw: a sentence, a report, status 70; a written file is written."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder import BuildConfig, build
from msprobe_builder.command.build import _is_told
from msprobe_builder.command.main import main

STRANGE = """
import json

class Strange(Exception):
    def __str__(self):
        raise ValueError("it cannot even be told")

def add_arguments(parser):
    parser.add_argument("kind")

def run(options):
    if options.kind == "missing":
        {}["nothing"]
    elif options.kind == "division":
        1 / 0
    elif options.kind == "deep":
        json.loads("[" * 100000)
    elif options.kind == "text":
        raise RuntimeError("\\ud800\\x1b[31m\\n\\n")
    elif options.kind == "import":
        import a_module_that_nobody_has
    elif options.kind == "untellable":
        raise Strange
    raise AssertionError
"""


@pytest.fixture
def strange(tmp_path: Path) -> dict[str, str]:
    """An environment in which another package has the command ``strange``."""
    place = tmp_path / "site"
    (place / "strange-1.dist-info").mkdir(parents=True)
    (place / "strange_command.py").write_text(STRANGE)
    (place / "strange-1.dist-info" / "METADATA").write_text("Name: strange\nVersion: 1\n")
    points = "[msprobe_build.commands]\nstrange = strange_command\nbroken = no_such_module\n"
    (place / "strange-1.dist-info" / "entry_points.txt").write_text(points)
    return {**os.environ, "PYTHONPATH": str(place), "TMPDIR": str(tmp_path)}


@pytest.mark.parametrize(
    "kind", ["missing", "division", "deep", "text", "import", "untellable", "else", None]
)
def test_a_fault_of_ours_is_told_as_one(
    kind: str | None, strange: dict[str, str], tmp_path: Path
) -> None:
    words = ["broken"] if kind is None else ["strange", kind]
    done = subprocess.run(
        [sys.executable, "-m", "msprobe_builder.command.main", *words],
        capture_output=True,
        text=True,
        env=strange,
    )
    assert done.returncode == 70
    [line] = done.stderr.splitlines()
    assert "this is a fault of ours, not of what you gave" in line
    found = re.search(r"please report it with (\S+)\.$", line)
    assert found is not None
    report = Path(found[1])
    assert report.parent == tmp_path
    assert "Traceback" in report.read_text("utf-8")
    assert str(words) in report.read_text("utf-8") or words[-1] in report.read_text("utf-8")


def test_where_no_file_can_be_written_the_report_is_printed(strange: dict[str, str]) -> None:
    program = "\n".join(
        [
            "import platform, tempfile, traceback",
            "from msprobe_builder.command.fault import fault_sentence",
            "platform.platform()",
            "import resource",
            "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
            "print(fault_sentence(KeyError('x')))",
        ]
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=strange
    )
    assert "please report this:" in done.stdout
    assert "KeyError: 'x'" in done.stdout


DAMAGE = [
    "DELETE FROM node WHERE node_id % 7 = 3",
    "UPDATE comparison SET npu_node = npu_node + 100000",
    "UPDATE node SET parent_id = 99999 WHERE node_id > 5",
    "UPDATE text SET value = 5",
    "UPDATE node SET subtree_end = 'x'",
    "DELETE FROM rollup",
]


@pytest.mark.parametrize("statement", DAMAGE)
@pytest.mark.parametrize("command", ["page", "table", "export", "report", "verdict"])
def test_a_damaged_database_is_told_as_one_by_every_command(
    statement: str,
    command: str,
    demo_database: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = Path(shutil.copy(demo_database, tmp_path / "x.vis.db"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(statement.replace("UPDATE ", "UPDATE OR IGNORE "))
        connection.commit()
    outputs = {"page": "x.html", "report": "r.html", "export": "x.csv", "table": "out"}
    output = ["-o", str(tmp_path / outputs[command])] if command in outputs else []
    status = main([command, str(path), *output])
    assert status in (0, 1, 2), capsys.readouterr().err
    if status == 1:
        assert "x.vis.db is damaged" in capsys.readouterr().err


def test_what_cannot_be_told_of_a_written_file_is_no_failed_build(
    dumps: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = BuildConfig(dumps / "llama_statistics" / "step0")
    result = build(config, tmp_path)
    options = argparse.Namespace(json=False, quiet=False, write_mapping=None, open=False)
    assert _is_told(result, config, options)
    result.path.write_bytes(result.path.read_bytes()[:5000])
    assert not _is_told(result, config, options)
    assert "is written; then: " in capsys.readouterr().err
