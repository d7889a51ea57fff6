"""One call of a dump as a script that needs nothing but torch."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from msprobe_collector import PrecisionDebugger
from msprobe_operators.command import main


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(8, 96), nn.LayerNorm(96), nn.Linear(96, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.down(F.gelu(self.norm(self.up(x)), approximate="tanh"))
        return torch.cat([x, x * 2], dim=-1)


def record(folder: Path, task: str, *, autocast: bool = False) -> Path:
    torch.manual_seed(0)
    model = Model()
    debugger = PrecisionDebugger(dump_path=str(folder), task=task, level="mix")
    debugger.start(model)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        result = model(torch.randn(16, 8))
    result.float().square().mean().backward()
    debugger.stop()
    debugger.step()
    debugger.close()
    [path] = folder.rglob("dump.json")
    return path


def said(dump: Path, call: str, folder: Path) -> list[str]:
    script = folder / f"{call}.py"
    assert main(["script", str(dump), "--call", call, "-o", str(script)]) == 0
    done = subprocess.run(
        [sys.executable, "-I", script.name, "cpu"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.splitlines()


def norms(lines: list[str], which: str) -> list[float]:
    found = (re.search(r"norm (\S+)$", line) for line in lines if line.startswith(which))
    return [float(one[1]) for one in found if one is not None]


HOSTILE = 'Torch.abs.0"""; __import__("os"); """'
CALLS = ["Functional.linear.0", "Functional.layer_norm.0", "Functional.gelu.0", "Torch.cat.0"]


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_a_script_has_the_results_of_the_dump(tmp_path: Path, call: str, autocast: bool) -> None:
    dump = record(tmp_path / "dump", "tensor", autocast=autocast)
    content = json.loads(dump.read_text())["data"]
    output = content[f"{call}.forward"]["output"][0]
    lines = said(dump, call, tmp_path)
    assert norms(lines, "output") == [pytest.approx(output["Norm"], rel=1e-6)]
    assert output["dtype"] in lines[0]
    assert lines[-1].startswith("recorded output 0")
    # The gradient of the first operand is what the record says came out of its backward.
    brought = content[f"{call}.backward"].get("input_gradients")
    if call == "Functional.gelu.0" and brought is not None:
        assert norms(lines, "gradient")[0] == pytest.approx(brought[0]["Norm"], rel=1e-5)


def test_it_stands_alone(tmp_path: Path) -> None:
    dump = record(tmp_path / "dump", "tensor")
    first = said(dump, "Functional.linear.0", tmp_path)
    shutil.rmtree(tmp_path / "dump")
    done = subprocess.run(
        [sys.executable, "-I", "Functional.linear.0.py"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == first


def test_without_tensors_it_has_numbers_of_the_recorded_range(tmp_path: Path) -> None:
    dump = record(tmp_path / "dump", "statistics")
    lines = said(dump, "Functional.linear.0", tmp_path)
    text = (tmp_path / "Functional.linear.0.py").read_text()
    given = json.loads(dump.read_text())["data"]["Functional.linear.0.forward"]["input_args"][0]
    assert f"float('{given['Min']}'), float('{given['Max']}')" in text
    assert len(norms(lines, "gradient")) == 2  # of weight and bias


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--call", "Torch.no.0"], "has no call Torch.no.0"),
        (["--call", "Functional"], "is of 4 calls; choose one of Functional.linear.0"),
        (["--call", "Functional.linear.0", "--device", "a b"], "is no device such as cuda:0"),
        (["--call", "Functional.linear.0", "--device", 'x"+y'], "is no device such as cuda:0"),
    ],
)
def test_wrong_use_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    dump = record(tmp_path / "dump", "statistics")
    assert main(["script", str(dump), *words]) == 2
    assert sentence in capsys.readouterr().err


def test_names_of_a_hostile_dump_run_nothing(tmp_path: Path) -> None:
    """Whatever a dump calls its tensors and types is text in the script, or is refused."""
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32, __import__('os')", "shape": [1]}
    record_of = {"input_args": [leaf], "input_kwargs": {"a')+x": 1}, "output": []}
    data = {"Torch.abs.0.forward": record_of}
    (tmp_path / "dump.json").write_text(json.dumps({"task": "statistics", "data": data}))
    plain = leaf | {"dtype": "torch.float32"}
    data[HOSTILE + ".forward"] = {"input_args": [plain], "input_kwargs": {}, "output": []}
    (tmp_path / "dump.json").write_text(json.dumps({"task": "statistics", "data": data}))
    for call in ("Torch.abs.0", HOSTILE):
        words = ["script", str(tmp_path), "--call", call, "-o", str(tmp_path / "x.py")]
        assert main(words) == 1
        assert not (tmp_path / "x.py").exists()
