"""Every command that writes, killed at any moment: its file is whole or is not there."""

from __future__ import annotations

import csv
import html.parser
import json
import lzma
import os
import random
import shutil
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import torch

from msprobe_builder.command.main import main
from tests.builder.trend.test_trend import write_monitor
from tests.checks.gradients.test_untold import EQUAL, record
from tests.fuzz.mutated import real_dumps
from tests.reliability import programs
from tests.reliability.test_killed import kill_after

KILLS = int(os.environ.get("MSPROBE_KILLS", "200"))
OLD = Path(__file__).parents[1] / "data" / "reference"
Check = Callable[[Path], object]


def a_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def a_page(path: Path) -> None:
    text = path.read_text("utf-8").rstrip()
    html.parser.HTMLParser().feed(text)
    assert text.endswith((">", "}"))


def a_table(path: Path) -> None:
    with path.open(encoding="utf-8-sig", newline="") as file:
        assert len({len(row) for row in csv.reader(file)}) == 1
    assert path.read_bytes().endswith(b"\n")


def a_zip(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None


def some_json(path: Path) -> None:
    json.loads(path.read_text("utf-8"))


COMMANDS: dict[str, tuple[str, str, Check]] = {
    "build": ("-i compare.json -o out --output-name x --quiet", "*.vis.db", a_database),
    "trend": ("trend run -o out", "*.trend.db", a_database),
    "import": ("import old.vis.db -o out/new.vis.db", "*.vis.db", a_database),
    "upgrade": ("upgrade x.vis.db -o out/y.vis.db", "*.vis.db", a_database),
    "page": ("page x.vis.db -o out/x.html", "*.html", a_page),
    "report": ("report x.vis.db -o out/x.html", "*.html", a_page),
    "export": ("export x.vis.db -o out/x.csv", "*.csv", a_table),
    "checkpoint": ("checkpoint a.pt a.pt -o out/x.json", "*.json", some_json),
    "gradients": ("gradients grads grads -o out", "*.json", some_json),
    "monitor": ("monitor run run -o out/x.json", "*.json", some_json),
    "config": ("config collect -o out/x.zip", "*.zip", a_zip),
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands read, made once."""
    folder = tmp_path_factory.mktemp("inputs")
    real_dumps(folder)
    write_monitor(folder / "run", ranks=2, steps=20)
    packed = OLD / "compare_attention_scale_statistics.made_by_26.2.0.vis.db.xz"
    (folder / "old.vis.db").write_bytes(lzma.decompress(packed.read_bytes()))
    torch.save({"w": torch.ones(8)}, folder / "a.pt")
    record(folder / "grads", [[EQUAL]] * 5)
    command = ["-i", str(folder / "compare.json"), "-o", str(folder), "--output-name", "x"]
    assert main([*command, "--quiet"]) == 0
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_command_leaves_a_whole_file_or_none(
    name: str, inputs: Path, tmp_path: Path
) -> None:
    words, pattern, check = COMMANDS[name]
    folder = Path(shutil.copytree(inputs, tmp_path / "work"))
    whole = len(kill_after(programs.run_and_tell, ([*words.split(), str(folder)],), -1))
    moments = random.Random(3)  # noqa: S311
    finished = 0
    for _ in range(KILLS):
        for path in (folder / "out").glob("*"):
            if not path.name.startswith("."):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        moment = moments.randrange(1, whole + whole // 10 + 2)
        said = kill_after(programs.run_and_tell, ([*words.split(), str(folder)],), moment)
        found = [one for one in (folder / "out").rglob(pattern) if not one.name.startswith(".")]
        assert found or b"!" not in said
        for path in found:
            check(path)
        finished += b"!" in said
    shutil.rmtree(folder / "out", ignore_errors=True)
    assert finished < KILLS
    assert kill_after(programs.run_and_tell, ([*words.split(), str(folder)],), -1).endswith(b"!")
    assert not list(folder.rglob(".*.building*"))
