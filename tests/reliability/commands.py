"""Every command that writes: its words, what it writes, and how that is known to be whole."""

from __future__ import annotations

import html.parser
import json
import lzma
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import openpyxl
import torch
import yaml

from msprobe_builder.command.main import main
from msprobe_operators.call.saved import save_call
from tests.builder.small_dumps import forward, tensor, write_dump
from tests.builder.trend.test_trend import write_monitor
from tests.checks.gradients.test_untold import EQUAL, record
from tests.fuzz.changes import real_dumps
from tests.reliability.recorded import a_table, a_zip, some_json

DATA = Path(__file__).parents[1] / "data"
Check = Callable[[Path], object]


def a_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def a_page(path: Path) -> None:
    text = path.read_text("utf-8").rstrip()
    html.parser.HTMLParser().feed(text)
    assert text.endswith((">", "}"))


def a_script(path: Path) -> None:
    compile(path.read_text("utf-8"), str(path), "exec")


def a_program(path: Path) -> None:
    a_script(path)
    assert os.access(path, os.X_OK)


def a_workbook(path: Path) -> None:
    a_zip(path)
    openpyxl.load_workbook(path, read_only=True).close()


def a_dump(path: Path) -> None:
    some_json(path)
    for name in ("construct.json", "stack.json"):
        some_json(path.with_name(name))


def a_mapping(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.endswith("\n")
    yaml.safe_load(text)


COMMANDS: dict[str, tuple[str, str, Check]] = {
    "build": ("-i compare.json -o out --output-name x --quiet", "*.vis.db", a_database),
    "build of ranks": ("-i ranks.json -o out --output-name x --workers 1", "*.vis.db", a_database),
    "build and map": ("-i compare.json -o out --write-mapping out/x.yaml", "*.yaml", a_mapping),
    "merged dumps": ("-i split.json --export-merged out/x --quiet", "dump.json", a_dump),
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
    "alias": ("alias --folder out", "msprobe", a_program),
    "replay": ("operators replay call.pkl --script out/x.py", "*.py", a_script),
}


def make_inputs(folder: Path) -> None:
    """What the commands read."""
    real_dumps(folder)
    sides = {f"{side}_path": f"ranks/{side}" for side in ("npu", "bench")}
    (folder / "ranks.json").write_text(json.dumps(sides))
    append = f"-i {folder}/ranks.json -o {folder} --output-name one --quiet --workers 1"
    for rank in (0, 1):
        for side in ("npu", "bench"):
            shutil.copytree(folder / side, folder / "ranks" / side / "step0" / f"rank{rank}")
        if not rank:
            assert main(append.split()) == 0
    shutil.unpack_archive(DATA / "megatron_tp2pp1.tar.xz", folder / "split")
    split = next((folder / "split").rglob("rank0")).parent.relative_to(folder)
    layout = {"npu": {"rank_size": 2, "tp": 2, "pp": 1}}
    request = {"npu_path": str(split), "parallel_merge": layout}
    (folder / "split.json").write_text(json.dumps(request))
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
