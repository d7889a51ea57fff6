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
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest
import torch
import yaml
from pyarrow.parquet import read_table  # type: ignore[import-untyped]

from msprobe_builder.base.texts import Texts
from msprobe_builder.command.main import main
from msprobe_builder.dump.flow_file import read_flow
from msprobe_builder.dump.read import read_dump
from msprobe_builder.graph.tree import build_tree
from msprobe_builder.metrics.tensor_file import open_tensor
from msprobe_builder.trend.monitor import read_rank
from msprobe_operators.call.saved import save_call
from tests.builder.small_dumps import forward, tensor, write_dump
from tests.builder.trend.test_trend import write_monitor
from tests.checks.gradients.test_untold import EQUAL, record
from tests.fuzz.mutated import real_dumps
from tests.reliability import programs
from tests.reliability.test_killed import kill_after

KILLS = int(os.environ.get("MSPROBE_KILLS", "200"))
DATA = Path(__file__).parents[1] / "data"
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


def a_script(path: Path) -> None:
    compile(path.read_text("utf-8"), str(path), "exec")


def a_workbook(path: Path) -> None:
    a_zip(path)
    openpyxl.load_workbook(path, read_only=True).close()


def a_mapping(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.endswith("\n")
    yaml.safe_load(text)


COMMANDS: dict[str, tuple[str, str, Check]] = {
    "build": ("-i compare.json -o out --output-name x --quiet", "*.vis.db", a_database),
    "build of ranks": ("-i ranks.json -o out --output-name x --workers 1", "*.vis.db", a_database),
    "build and map": ("-i compare.json -o out --write-mapping out/x.yaml", "*.yaml", a_mapping),
    "append": ("-i ranks.json --append out/more.vis.db --workers 1", "more.vis.db", a_database),
    "trend": ("trend run -o out", "*.trend.db", a_database),
    "import": ("import old.vis.db -o out/new.vis.db", "*.vis.db", a_database),
    "upgrade": ("upgrade x.vis.db -o out/y.vis.db", "*.vis.db", a_database),
    "page": ("page x.vis.db -o out/x.html", "*.html", a_page),
    "report": ("report x.vis.db -o out/x.html", "*.html", a_page),
    "export": ("export x.vis.db -o out/x.csv", "*.csv", a_table),
    "table": ("table x.vis.db -o out", "*.xlsx", a_workbook),
    "table of rows": ("table x.vis.db -o out --format csv", "*.csv", a_table),
    "table of ranks": ("table x.vis.db -o out --ranks", "*.xlsx", a_workbook),
    "next dump": ("verdict wrong.vis.db --next-config out/next.json", "*.json", some_json),
    "matches": ("verify x.vis.db --save-matches out/m.json", "*.json", some_json),
    "checkpoint": ("checkpoint a.pt a.pt -o out/x.json", "*.json", some_json),
    "gradients": ("gradients grads grads -o out", "*.json", some_json),
    "monitor": ("monitor run run -o out/x.json", "*.json", some_json),
    "config": ("config collect -o out/x.zip", "*.zip", a_zip),
    "config compare": ("config compare p.zip q.zip -o out/x", "*.xlsx", a_workbook),
    "check": ("operators check calls -o out", "*.json", some_json),
    "perturb": ("operators perturb calls -o out", "*.json", some_json),
    "script": ("operators script calls --call Torch.neg.0 -o out/x.py", "*.py", a_script),
    "replay": ("operators replay call.pkl --script out/x.py", "*.py", a_script),
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands read, made once."""
    folder = tmp_path_factory.mktemp("inputs")
    real_dumps(folder)
    sides = {f"{side}_path": f"ranks/{side}" for side in ("npu", "bench")}
    (folder / "ranks.json").write_text(json.dumps(sides))
    append = f"-i {folder}/ranks.json -o {folder} --output-name one --quiet --workers 1"
    for rank in (0, 1):
        for side in ("npu", "bench"):
            shutil.copytree(folder / side, folder / "ranks" / side / "step0" / f"rank{rank}")
        if not rank:
            assert main(append.split()) == 0
    write_monitor(folder / "run", ranks=2, steps=20)
    packed = DATA / "reference" / "compare_attention_scale_statistics.made_by_26.2.0.vis.db.xz"
    (folder / "old.vis.db").write_bytes(lzma.decompress(packed.read_bytes()))
    torch.save({"w": torch.ones(8)}, folder / "a.pt")
    save_call(folder / "call.pkl", torch.ops.aten.neg.default, (torch.ones(4),), {})
    calls = {f"Torch.neg.{number}.forward": forward([tensor()], [tensor()]) for number in range(3)}
    write_dump(folder / "calls", calls)
    record(folder / "grads", [[EQUAL]] * 5)
    faulty = ("llama_statistics_wrong_attention_scale", "llama_statistics")
    for name in faulty:
        shutil.unpack_archive(DATA / f"{name}.tar.xz", folder / "faulty")
    wrong, right = (next((folder / "faulty").rglob(f"{name}/step0")) for name in faulty)
    for words in (
        f"-i {folder}/compare.json -o {folder} --output-name x --quiet",
        f"{wrong} {right} -o {folder} --output-name wrong --quiet",
        f"config collect -o {folder}/p.zip",
        f"config collect -o {folder}/q.zip",
    ):
        assert main(words.split()) == 0
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_command_leaves_a_whole_file_or_none(
    name: str, inputs: Path, tmp_path: Path
) -> None:
    words, pattern, check = COMMANDS[name]
    folder = Path(shutil.copytree(inputs, tmp_path / "work"))

    def begin() -> None:
        shutil.rmtree(folder / "out", ignore_errors=True)
        (folder / "out").mkdir()
        if name == "append":
            shutil.copy(inputs / "one.vis.db", folder / "out" / "more.vis.db")

    def found() -> list[Path]:
        return [one for one in (folder / "out").rglob(pattern) if not one.name.startswith(".")]

    def run(moment: int, deadly: int = 0) -> bytes:
        return kill_after(programs.run_and_tell, (words.split(), folder, deadly), moment)

    finished = 0
    begin()
    for moment, deadly in moments_of(run(-1)):
        for path in found():
            path.unlink()
        if name == "append":
            begin()
        said = run(moment, deadly)
        assert found() or b"!" not in said
        for path in found():
            check(path)
        finished += b"!" in said
    assert finished < KILLS
    for path in found():
        path.unlink()
    if name == "append":
        begin()
    assert run(-1).endswith(b"!")
    assert not list(folder.rglob(".*.building*"))


def moments_of(whole: bytes) -> Iterator[tuple[int, int]]:
    """When to kill: half of them where files are touched, the others anywhere in between."""
    dots, touched = whole.count(b"."), int(whole.rsplit(b".", 1)[-1].rstrip(b"!") or 0)
    moments = random.Random(3)  # noqa: S311
    few = min(KILLS // 2, touched)
    for deadly in sorted(moments.sample(range(1, touched + 1), few)):
        yield -1, deadly
    for _ in range(KILLS - few):
        yield moments.randrange(1, dots + dots // 10 + 2), 0


TENSORS = ("tensors", "tensor files")


@pytest.mark.slow
@pytest.mark.parametrize("name", programs.TRAININGS)
def test_a_killed_training_leaves_files_that_can_be_read(name: str, tmp_path: Path) -> None:
    """Of all that was written before, to the last call but those of the last moment."""
    finished = 0

    def run(number: int, moment: int, deadly: int) -> tuple[Path, bytes]:
        folder = tmp_path / str(number)
        folder.mkdir()
        return folder, kill_after(programs.train_and_tell, (name, folder, deadly), moment)

    for number, (moment, deadly) in enumerate(moments_of(run(0, -1, 0)[1]), start=1):
        folder, said = run(number, moment, deadly)
        finished += b"!" in said
        assert any(folder.iterdir()) or b"!" not in said
        check_recorded(folder)
        shutil.rmtree(folder)
    assert finished < KILLS


def check_recorded(folder: Path) -> None:
    """Everything that has a name of its own is read by those who read it."""
    texts = Texts()
    for path in folder.rglob("dump.json"):
        data = json.loads(path.read_text())["data"]
        if not data:
            continue  # nothing was written yet
        dump = read_dump(path.parent, texts)
        assert dump.records.keys() == data.keys()
        build_tree(dump)
        read_flow(path.parent / "flow.bin", list(dump.records))
        for name in named_tensors(data):
            open_tensor(path.parent / "dump_tensor_data", name)
    for path in folder.rglob("rank*"):
        if path.parent.name == "monitor":
            read_rank(path)
    for path in folder.rglob("grad_summary_*.csv"):
        a_table(path)
    for pattern, check in (("*.zip", a_zip), ("*.npy", np.load), ("*.parquet", read_table)):
        for path in folder.rglob(pattern):
            if not path.name.startswith("."):
                check(path)
    for path in folder.rglob("saved/**/*.json"):
        some_json(path)


def named_tensors(value: Any) -> Iterator[str]:
    """The files that records name."""
    if isinstance(value, dict):
        if isinstance(value.get("data_name"), str):
            yield value["data_name"]
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from named_tensors(one)
