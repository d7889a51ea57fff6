"""The pass by which torch's pipelines find out shapes is read as if nobody had recorded it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder.base.texts import Texts
from msprobe_builder.pipeline.compare import read_rank
from msprobe_builder.trend.build import build_trend
from tests.builder.small_dumps import forward, tensor, write_dump

SCHEDULES = "/usr/lib/torch/distributed/pipelining/schedules.py"


def line(file: str, function: str) -> str:
    return f"File {file}, line 7, in {function}, \n call()"


def write(folder: Path, file: str, function: str) -> Path:
    """Two passes through a module, the first of which a function of a file makes."""
    names: list[str] = []
    data: dict[str, Any] = {}
    construct: dict[str, str | None] = {}
    for call in range(2):
        module, api = f"Module.layer.Linear.forward.{call}", f"Functional.linear.{call}.forward"
        back = f"Module.layer.Linear.backward.{call}"
        for name, parent in ((api, module), (module, None), (back, None)):
            data[name] = forward([tensor(2.0 + call)], [tensor(2.0 + call)])
            if name == back:
                data[name] = {"input": [tensor(4.0 + call)], "output": [tensor(4.0 + call)]}
            construct[name] = parent
        names += [api, module]
    data["Module.layer.Linear.parameters_grad.1"] = {"weight": [tensor(9.0)]}
    frames = line("/home/model.py", "forward"), line(file, function), line("/home/a.py", "main")
    stack = {"0": [names[:2], list(frames)], "1": [names[2:], [frames[0], frames[2]]]}
    return write_dump(folder, data, construct, stack)


def names_of(folder: Path) -> tuple[list[str], list[str]]:
    side, found = read_rank(folder, Texts())
    return list(side.tree.names), [one.code for one in found]


@pytest.mark.parametrize("function", ["_initialize_stage", "_initialize_stages"])
def test_its_calls_are_left_out_and_later_ones_counted_anew(tmp_path: Path, function: str) -> None:
    names, codes = names_of(write(tmp_path / "rank0", SCHEDULES, function))
    assert {*names} == {
        "DefaultModel",
        "Module.layer.Linear.forward.0",
        "Functional.linear.0.forward",
        "Module.layer.Linear.backward.0",
        "Module.layer.Linear.parameters_grad.0",
    }
    assert "shape_pass" in codes


def test_later_calls_keep_their_values_and_stacks(tmp_path: Path) -> None:
    side, _ = read_rank(write(tmp_path / "rank0", SCHEDULES, "_initialize_stage"), Texts())
    norms = side.table.statistics[3].tolist()
    assert {*norms} == {3.0, 5.0, 9.0}
    stacks = side.dump.stacks
    frames = stacks.stacks[stacks.of_name["Module.layer.Linear.forward.0"]]
    assert [one.function for one in frames] == ["forward", "main"]


def test_trends_show_the_values_of_later_calls(tmp_path: Path) -> None:
    write(tmp_path / "dumps" / "step0" / "rank0", SCHEDULES, "_initialize_stage")
    report = build_trend(tmp_path / "dumps", tmp_path, "run")
    with closing(sqlite3.connect(report.path)) as connection:
        rows = connection.execute("SELECT kind, name, norm FROM trend_view").fetchall()
    assert {(kind, name.partition(":")[0], norm) for kind, name, norm in rows} == {
        ("forward", "Module.layer.Linear.0", 3.0),
        ("forward", "Functional.linear.0", 3.0),
        ("backward", "Module.layer.Linear.0", 5.0),
        ("parameters_grad", "Module.layer.Linear.parameters_grad.0", 9.0),
    }


@pytest.mark.parametrize(
    ("file", "function"),
    [("/home/schedules.py", "_initialize_stage"), (SCHEDULES, "step")],
    ids=["of the user", "of a step"],
)
def test_other_calls_stay(tmp_path: Path, file: str, function: str) -> None:
    names, codes = names_of(write(tmp_path / "rank0", file, function))
    assert "Module.layer.Linear.forward.1" in names
    assert "Module.layer.Linear.parameters_grad.1" in names
    assert "shape_pass" not in codes


def test_gradients_of_one_number_are_those_of_passes_in_order(tmp_path: Path) -> None:
    """Schedules that put off gradients of weights bring several under the latest number."""
    name = "Module.layer.Linear.parameters_grad"
    records = [(f"{name}.1", 5.0), (f"{name}.1", 6.0), (f"{name}.2", 7.0), (name, 8.0)]
    folder = write(tmp_path / "rank0", "/home/a.py", "main")
    path = folder / "dump.json"
    dump = json.loads(path.read_text(encoding="utf-8"))
    dump["data"].pop(f"{name}.1")
    text = json.dumps(dump)
    more = ", ".join(f'"{key}": {json.dumps({"weight": [tensor(norm)]})}' for key, norm in records)
    path.write_text(text.replace('"data": {', '"data": {' + more + ", ", 1), encoding="utf-8")
    side, found = read_rank(folder, Texts())
    gradients = {
        side.tree.names[int(node)]: norm
        for node, norm in zip(side.table.node, side.table.statistics[3].tolist(), strict=True)
        if "parameters_grad" in side.tree.names[int(node)]
    }
    assert gradients == {f"{name}.1": 5.0, f"{name}.2": 6.0, f"{name}.3": 7.0, name: 8.0}
    assert "malformed_record" not in [one.code for one in found]
