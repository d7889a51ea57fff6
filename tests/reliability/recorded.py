"""What recordings and commands write, read again by those who read it; nothing here needs torch."""

from __future__ import annotations

import csv
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.flow_file import read_flow
from msprobe_builder.dump.read import read_dump
from msprobe_builder.files.text_files import parse_appended
from msprobe_builder.graph.tree import build_tree
from msprobe_builder.metrics.tensor_file import open_tensor
from msprobe_builder.trend.monitor import read_rank


def a_table(path: Path) -> None:
    with path.open(encoding="utf-8-sig", newline="") as file:
        assert len({len(row) for row in csv.reader(file)}) == 1
    assert path.read_bytes().endswith(b"\n")


def a_zip(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None


def some_json(path: Path) -> None:
    json.loads(path.read_text("utf-8"))


def a_columnar_table(path: Path) -> None:
    from pyarrow.parquet import read_table  # type: ignore[import-untyped]

    read_table(path)


def check_recorded(folder: Path) -> None:
    """Everything that has a name of its own is read by those who read it."""
    texts = Texts()
    for path in folder.rglob("dump.json"):
        data = parse_appended(path.read_bytes())[0]["data"]
        if not data:
            continue  # nothing was written yet
        dump = read_dump(path.parent, texts)
        assert dump.records.keys() == data.keys()
        build_tree(dump)
        read_flow(path.parent / "flow.bin", list(dump.records))
        for name in named_tensors(data):  # of files of their own the last may be missing
            folder = path.parent / "dump_tensor_data"
            if (folder / "index.json").exists() or (folder / name).exists():
                open_tensor(folder, name)
    for path in folder.rglob("trace*.jsonl"):
        *lines, _ = path.read_text("utf-8").split("\n")  # the last one may be half
        assert [json.loads(line)["step"] for line in lines] == list(range(len(lines)))
    for path in folder.rglob("rank*"):
        if path.parent.name == "monitor":
            read_rank(path)
    for path in folder.rglob("grad_summary_*.csv"):
        a_table(path)
    for pattern, check in (("*.zip", a_zip), ("*.npy", np.load), ("*.parquet", a_columnar_table)):
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
