"""What people debug is recorded all the same: hangs, kills, other directories, folders in use."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from msprobe_collector import CollectorError, PrecisionDebugger
from msprobe_collector.config.settings import load_config, parse_config
from tests.collector.recording import read_dump, record, tensors
from tests.processes import run_program

LAYERS = 12
HANGING = f"""
import time
import torch
from torch import nn
from msprobe_collector import PrecisionDebugger

class Hang(nn.Module):
    def forward(self, x):
        print("hangs", flush=True)
        while True:
            time.sleep(1)

model = nn.Sequential(*[nn.Linear(4, 4) for _ in range({LAYERS})], Hang())
debugger = PrecisionDebugger(config_path="config.json")
debugger.start(model)
model(torch.ones(2, 4))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("task", ["statistics", "tensor", "sketch"])
def test_a_call_that_hangs_is_on_disk_with_all_before_it(
    number: signal.Signals, task: str, tmp_path: Path
) -> None:
    section = {"statistics": {"summary_mode": "sketch"}} if task == "sketch" else {}
    task = "statistics" if task == "sketch" else task
    config = {"task": task, "level": "mix", "dump_path": "dump", **section}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "hang.py").write_text(HANGING)
    process = subprocess.Popen(
        [sys.executable, "hang.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "hangs\n"
    path = tmp_path / "dump" / "step0" / "rank" / "dump.json"
    while not path.exists() or "Hang" not in path.read_text():
        time.sleep(0.05)
    time.sleep(0.2)  # what else is written at that time
    process.send_signal(number)
    process.wait()
    dump = read_dump(path.parent)
    name = f"Module.{LAYERS}.Hang.forward.0"
    assert len(dump.names("Functional.linear")) == len(dump.names("Module")) - 1 == LAYERS
    assert dump.names()[-1] == name
    assert dump.data[name]["has_returned"] is False
    assert dump.data[name]["input_args"][0]["shape"] == [2, 4]
    assert dump.parents[name] is None
    assert any('hang.py", line' in line or "hang.py, line" in line for line in dump.stacks[name])


def test_what_was_open_for_a_while_leaves_no_trace(tmp_path: Path) -> None:
    """Files are those of a run in which nothing took long."""
    slow = threading.Event()

    class Layer(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.relu(x)
            if slow.is_set():
                time.sleep(1.2)
            return y + 1

    model = nn.Sequential(nn.Linear(3, 3), Layer())
    folders = []
    for name in ("quick", "slow"):
        torch.manual_seed(0)
        folders.append(
            record(tmp_path / name, lambda: model(torch.ones(1, 3)).sum().backward(), model)
        )
        slow.set()
    quick, slowed = folders
    assert slowed.data == quick.data
    assert list(slowed.data) == list(quick.data)
    assert slowed.parents == quick.parents
    assert slowed.stacks.keys() == quick.stacks.keys()


def test_a_relative_path_is_where_the_training_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path)
    model = nn.Sequential(nn.Linear(2, 2))
    debugger = PrecisionDebugger(dump_path="dump", level="L0")
    for _ in range(2):
        with debugger.start(model):
            model(torch.ones(1, 2)).sum().backward()
        debugger.step()
        monkeypatch.chdir(tmp_path / "below")
    debugger.close()
    assert sorted(path.name for path in (tmp_path / "dump").iterdir()) == ["step0", "step1"]
    assert not list((tmp_path / "below").iterdir())


STEPS = """
import sys
import torch
from torch import nn
from msprobe_collector import PrecisionDebugger
model = nn.Sequential(nn.Linear(2, 2))
debugger = PrecisionDebugger(dump_path="dump", level="L0")
debugger.set_init_step(int(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    with debugger.start(model):
        model(torch.ones(1, 2)).sum().backward()
    debugger.step()
"""


def test_runs_are_never_mixed(tmp_path: Path) -> None:
    """One that begins behind the last step goes on; any other has a folder of its own."""
    said = []
    for first, count in ((0, 3), (3, 1), (0, 1), (0, 2)):
        time.sleep(0.1)  # whoever begins later has a later time
        answer = subprocess.run(
            [sys.executable, "-c", STEPS, str(first), str(count)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        said.append("holds steps of an earlier run" in answer.stderr)
    found = {str(path.relative_to(tmp_path)) for path in tmp_path.glob("dump*/step*")}
    assert found == {
        *(f"dump/step{step}" for step in range(4)),
        *("dump_2/step0", "dump_3/step0", "dump_3/step1"),
    }
    assert said == [False, False, True, True]


def test_a_process_goes_on_in_its_own_folder(tmp_path: Path) -> None:
    answer = run_program(tmp_path, STEPS + "debugger.close()" + STEPS, "0", "1")
    assert not answer.returncode
    assert [path.name for path in tmp_path.glob("dump*")] == ["dump"]


def test_a_folder_that_is_deleted_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    debugger = PrecisionDebugger(dump_path=tmp_path / "dump", level="mix")
    debugger.start(model)
    model(torch.ones(1, 2))
    debugger.stop()
    shutil.rmtree(tmp_path / "dump")
    debugger.start(model)
    model(torch.ones(1, 2))
    debugger.stop()
    assert ".json cannot be written: it was deleted while it was written" in caplog.text
    assert model(torch.ones(1, 2)).shape == (1, 2)


@pytest.mark.parametrize("level", ["mix", "debug"])
def test_a_path_that_cannot_be_a_folder_ends_no_training(
    level: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    model = nn.Sequential(nn.Linear(2, 2))
    debugger = PrecisionDebugger(dump_path=tmp_path / "file" / "dump", level=level)
    debugger.start(model)
    debugger.save(model(torch.ones(1, 2)), "y")
    debugger.stop()
    debugger.close()
    assert "cannot be written: Not a directory" in caplog.text


@pytest.mark.parametrize("value", [5, 5.0, True, ["a"], {"a": 1}, "a\0b"])
def test_a_path_that_is_none_is_shown(value: Any) -> None:
    with pytest.raises(CollectorError) as caught:
        parse_config({"dump_path": value})
    assert str(caught.value) == f"dump_path is {value!r}; name the directory to write the dump to."


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"dump_path": "a", "level": "L0", "level": "L1"}', "level"),
        ('{"dump_path": "a", "statistics": {"list": [], "scope": [], "list": []}}', "list"),
    ],
)
def test_a_key_that_stands_there_twice_is_named(text: str, key: str, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(CollectorError, match=f"{path}: the key {key} stands there twice"):
        load_config(path)


@pytest.mark.parametrize("level", ["mix", "L1", "L0"])
def test_an_estimate_is_what_is_written(
    level: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(32, 64), nn.Linear(64, 32)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.b(nn.functional.gelu(self.a(x)))

    model = nn.Sequential(Block(), Block())
    for name, estimate in (("estimate", True), ("dump", False)):
        torch.manual_seed(2)
        debugger = PrecisionDebugger(
            dump_path=tmp_path / name, level=level, task="tensor", estimate=estimate
        )
        with debugger.start(model):
            model(torch.randn(50, 32)).sum().backward()
        debugger.close()
    told, wrote = (text for text in caplog.messages if text.startswith("Step 0"))
    folder = tmp_path / "dump" / "step0" / "rank"
    written = (folder / "dump_tensor_data" / "tensors.bin").stat().st_size
    sizes = re.compile(r"([\d.]+) kB of records.*?([\d.]+) kB of tensors")
    expected, found = (sizes.search(text) for text in (wrote, told))
    assert expected is not None
    assert found is not None
    for one, other in zip(expected.groups(), found.groups(), strict=True):
        assert float(other) == pytest.approx(float(one), rel=0.01)
    assert float(found[2]) == pytest.approx(written / 1000, rel=0.01)
    assert not (tmp_path / "estimate").exists()
    assert any(tensors(read_dump(folder).data))
