"""``msprobe-run --as-msprobe``: scripts of msprobe run as they stand, in its processes alone."""

from __future__ import annotations

import csv
import inspect
import json
import sys
from pathlib import Path

import pytest

from msprobe_collector import compat
from tests.collector.recording import read_dump
from tests.collector.run.test_command import recorded

TRAIN = """
import torch
from torch import nn
from msprobe.pytorch import PrecisionDebugger, seed_all
from msprobe.core.config_check import ConfigChecker
from msprobe.pytorch import TrainerMon

seed_all(seed=1234, mode=True)
debugger = PrecisionDebugger(config_path="config.json")
model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
optimizer = torch.optim.Adam(model.parameters(), 0.1)
ConfigChecker(model=model, shell_path=[], output_zip_path="pack.zip", fmk="pytorch")
monitor = TrainerMon(config_file_path="monitor.json", params_have_main_grad=False)
monitor.set_monitor(model, grad_acc_steps=1, optimizer=optimizer, dp_group=None, tp_group=None)
for step in range(6):
    debugger.start(model=model)
    model(torch.ones(2, 4)).sum().backward()
    debugger.stop()
    debugger.step()
    optimizer.step()
    optimizer.zero_grad()
"""
MONITOR = {
    "targets": {"0": {}},
    "start_step": 1,
    "step_interval": 2,
    "collect_times": 2,
    "wg_distribution": True,
    "xy_distribution": True,
    "mv_distribution": False,
    "format": "csv",
    "ops": ["norm", "max", "min", "mean"],
    "module_ranks": [],
}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    config = {"task": "statistics", "dump_path": "dump", "rank": [], "step": ["0"], "level": "mix"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "monitor.json").write_text(json.dumps(MONITOR))
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def test_a_script_of_msprobe_records_itself(here: Path) -> None:
    words = ("--", sys.executable, "train.py")
    answer = recorded("--as-msprobe", *words, folder=here)
    assert answer.returncode == 0, answer.stderr
    dump = read_dump(here / "dump" / "step0" / "rank")
    assert dump.names("Module.0.Linear.forward")
    assert [path.name for path in (here / "dump").iterdir()] == ["step0"]
    assert (here / "pack.zip").exists()
    [values] = (here / "monitor_output" / "monitor" / "rank0").glob("values_step*.csv")
    rows = list(csv.DictReader(values.open(encoding="utf-8")))
    assert {row["step"] for row in rows} == {"1", "3"}
    assert {row["kind"] for row in rows} == {"activation", "local_gradient", "gradient"}
    assert {row["name"].partition(".")[0] for row in rows} == {"0"}
    without = recorded(*words, folder=here)
    assert without.returncode == 1
    assert "No module named 'msprobe'" in without.stderr


def test_a_script_without_torch_is_not_said_to_record_nothing(here: Path) -> None:
    (here / "compare.py").write_text("from msprobe import GradComparator\n")
    answer = recorded("--as-msprobe", "--", sys.executable, "compare.py", folder=here)
    assert answer.returncode == 0
    assert "nothing was recorded" not in answer.stdout + answer.stderr


def test_the_names_are_those_of_the_documents() -> None:
    assert list(inspect.signature(compat.compare).parameters)[:3] == [
        *("input_param", "output_path", "stack_mode")
    ]
    assert list(inspect.signature(compat.ConfigChecker).parameters)[:4] == [
        *("model", "shell_path", "output_zip_path", "fmk")
    ]
    for place in ("msprobe", "msprobe.pytorch"):
        text = f"from {place} import *; print(sorted(n for n in globals() if n[0] != '_'))"
        answer = recorded("--as-msprobe", "--", sys.executable, "-c", text)
        assert answer.returncode == 0, answer.stderr
        assert ("GradComparator" if place == "msprobe" else "TrainerMon") in answer.stdout


def test_a_monitor_is_switched_on_while_it_trains(here: Path) -> None:
    (here / "monitor.json").write_text(
        json.dumps({**MONITOR, "dynamic_on": False, "start_step": 0, "collect_times": 9})
    )
    script = TRAIN.replace("import torch\n", "import json, os, torch\n", 1).replace(
        "    debugger.start",
        "    if step == 3:\n"
        "        settings = json.load(open('monitor.json'))\n"
        "        json.dump({**settings, 'dynamic_on': True}, open('monitor.json', 'w'))\n"
        "    debugger.start",
    )
    script = f"import os\nos.environ['DYNAMIC_MONITOR'] = 'True'\n{script}"
    (here / "train.py").write_text(script)
    answer = recorded("--as-msprobe", "--", sys.executable, "train.py", folder=here)
    assert answer.returncode == 0, answer.stderr
    [values] = (here / "monitor_output" / "monitor" / "rank0").glob("values_step*.csv")
    assert {row["step"] for row in csv.DictReader(values.open(encoding="utf-8"))} == {"4"}
