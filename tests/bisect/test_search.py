"""From two commands to the culprit: planted causes are found and proven, correct pairs are not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from msprobe_bisect.command import main
from msprobe_collector.run.command import main as record

TRAIN = """
import sys, warnings
import torch
from torch import nn
warnings.simplefilter("ignore")
torch.set_num_threads(1)
torch.manual_seed(0)
plant = sys.argv[1]
torch.backends.mkldnn.enabled = plant != "kernels"

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)
    def forward(self, x, scale):
        h = nn.functional.gelu(self.up(self.norm(x)))
        return (self.norm(x) if plant == "wiring" else x) + self.down(h * scale)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(32, 16)
        self.layers = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(16, 32)
    def forward(self, tokens):
        h = self.table(tokens)
        for number, layer in enumerate(self.layers):
            h = layer(h, 1.5 if plant == "argument" and number else 1.0)
        return self.head(h)

from kernels import LIBRARY, plant_kernel
plant_kernel(plant)
net = Net()
optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
for step in range(5):
    drawn = torch.Generator().manual_seed(step)
    x = torch.randint(0, 32, (4, 8), generator=drawn)
    y = torch.randint(0, 32, (32,), generator=drawn)
    with torch.autocast("cpu", torch.bfloat16, enabled="half" in sys.argv):
        loss = nn.functional.cross_entropy(net(x).view(-1, 32), y)
    loss.backward()
    if plant == "clip":
        nn.utils.clip_grad_norm_(net.parameters(), 0.1)
    if plant == "rate" and step == 2:
        optimizer.param_groups[0]["lr"] = 5e-4
    if plant == "late" and step == 2:
        plant_kernel("gelu_backward")
    optimizer.step()
    optimizer.zero_grad()
"""

KERNELS = """
import torch
LIBRARY = torch.library.Library("aten", "IMPL")
WRONG = {
    "gelu": lambda x, *, approximate="none": x * torch.sigmoid(1.702 * x),
    "gelu_backward": lambda g, x, *, approximate="none": g * torch.sigmoid(1.702 * x),
}
def right(name, *given):
    wide = [one.detach().double().requires_grad_() for one in given]
    gelu = lambda x: x * (1 + torch.erf(x / 2**0.5)) / 2
    if name == "gelu":
        return gelu(wide[0]).detach()
    return torch.autograd.grad(gelu(wide[1]), wide[1], wide[0].detach())[0]
def plant_kernel(name):
    if name not in WRONG:
        return
    def kernel(*given, approximate="none"):
        if given[-1].dtype is torch.float64:
            with torch.enable_grad():
                return right(name, *given)
        return WRONG[name](*given)
    LIBRARY.impl(name, kernel, "CPU")
"""

Result = dict[str, Any]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "kernels.py").write_text(KERNELS)
    return tmp_path


def searched(plant: str, *words: str, of: str = "none") -> tuple[int, Result]:
    """The status of a search and what it has found; ``words`` are options."""
    commands = [f"{sys.executable} train.py {name}" for name in (plant, of)]
    status = main(["--npu", commands[0], "--bench", commands[1], "-o", "search", *words])
    path = Path("search/result.json")
    return status, json.loads(path.read_text()) if path.exists() else {}


def reproduced(plant: str) -> int:
    """The status of the reproduction where the kernel is planted, or is not."""
    text = (
        f"import kernels, runpy; kernels.plant_kernel({plant!r});"
        " runpy.run_path('search/reproduce.py', run_name='__main__')"
    )
    return subprocess.run([sys.executable, "-c", text], check=False).returncode


@pytest.mark.slow  # the tutorial does the same
def test_a_wrong_kernel_is_proven_and_reproduced(here: Path) -> None:
    status, found = searched("gelu_backward")
    assert (status, found["conclusion"], found["proof"]) == (4, "fault", "operator")
    assert found["culprit"] == "Functional.gelu.1"  # backward meets the last layer first
    assert (here / "search" / found["database"]).exists()
    assert (here / "search" / "report.html").exists()
    assert [reproduced(name) for name in ("gelu_backward", "none")] == [1, 0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "step", "proof", "culprit"),
    [
        ("gelu", 0, "operator", "Functional.gelu.0"),
        ("argument", 0, "argument", "Tensor.__mul__.1"),
        ("late", 3, "operator", "Functional.gelu.1"),
    ],
)
def test_causes_in_calls_are_proven(
    plant: str, step: int, proof: str, culprit: str, here: Path
) -> None:
    status, found = searched(plant)
    assert (status, found["step"], found["proof"], found["culprit"]) == (4, step, proof, culprit)
    assert (here / "search" / "reproduce.py").exists() == (proof == "operator")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "step", "culprit", "said"),
    [
        ("clip", 0, "gradients", "such as clipping or scaling"),
        ("rate", 2, "settings", "lr of group 0 is 0.0005, in the reference 0.001"),
        ("wiring", 0, "Module.layers.0.norm.LayerNorm.forward.1", "The reference has no such call"),
    ],
)
@pytest.mark.usefixtures("here")
def test_causes_outside_of_kernels_are_named(
    plant: str, step: int, culprit: str, said: str
) -> None:
    status, found = searched(plant)
    assert (status, found["step"], found["culprit"]) == (4, step, culprit), found["sentence"]
    assert said in found["sentence"]


@pytest.mark.slow
@pytest.mark.parametrize("plant", ["none", "kernels"])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.usefixtures("here")
def test_correct_pairs_are_not_accused(plant: str, half: bool) -> None:
    words = " half" if half else ""
    status, found = searched(plant + words, of=f"none{words}")
    assert (status, found["conclusion"]) == (0, "clean"), found["sentence"]


def test_what_is_spent_is_kept_and_gone_on_with(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also a run that was stopped half-way: its folder is of no journal, and is made anew."""
    assert searched("gelu", "--steps", "1", "--runs", "1") == (5, {})
    assert "--runs 1 are spent; the same command with more goes on" in capsys.readouterr().err
    traced = here / "search" / "trace" / "npu" / "trace.jsonl"
    before = traced.stat().st_mtime_ns
    half_done = here / "search" / "trace" / "bench"
    half_done.mkdir()
    (half_done / "trace.jsonl").write_text('{"step"')
    assert searched("gelu", "--steps", "1", "--runs", "1") == (5, {})
    assert traced.stat().st_mtime_ns == before
    assert json.loads((half_done / "trace.jsonl").read_text())["step"] == 0


@pytest.mark.usefixtures("here")
@pytest.mark.slow  # a minute on a busy machine
def test_two_machines_are_told_what_to_run(capsys: pytest.CaptureFixture[str]) -> None:
    """What is printed is done as it stands there, until a culprit is named."""
    said = planned(["--npu", "train npu", "--bench", "train bench", "-o", "search", "--plan"])
    text = capsys.readouterr().out
    assert said == 6
    for stage in ("trace", "calls", "tensors1"):
        assert f"msprobe-run --plan plan.json -o {stage}_npu -- train npu" in text
        plan = f"search/{stage}/plan.json"
        for side, plant in (("npu", "gelu"), ("bench", "none")):
            command = [sys.executable, "train.py", plant]
            assert record(["--plan", plan, "-o", f"{stage}_{side}", "--", *command]) == 90
        dumps = [f"--npu-dump={stage}_npu", f"--bench-dump={stage}_bench"]
        said = planned(["--continue", "search", *dumps])
        text = capsys.readouterr().out
    assert said == 4
    assert "Proven: Functional.gelu.0.forward is wrong itself." in text


@pytest.mark.usefixtures("here")
def test_a_plan_is_told_in_chinese(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--npu", "train", "--bench", "train", "-o", "search", "--plan", "--language", "zh"]
    assert planned(words) == 6
    text = capsys.readouterr().out
    assert text.startswith("请在两台机器上用 search/trace/plan.json 的副本采集每个 step 一行：")
    assert "msprobe-run --plan plan.json -o trace_npu -- train" in text


def planned(words: list[str]) -> int:
    return main([*words, "--steps", "1"])


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (["--npu", "a", "--bench", "b"], 2, "-o is missing"),
        (["--continue", "new"], 2, "new holds no search"),
        (["--continue", "taken", "-o", "x"], 2, "--continue knows the search"),
        (["--continue", "others"], 2, "--npu-dump is None; give the folder that was recorded"),
        (["--npu-dump", "taken"], 2, "--npu-dump and --bench-dump go with --continue"),
        (
            ["--continue", "others", "--npu-dump", "taken", "--bench-dump", "taken"],
            2,
            "others waits for no run",
        ),
        (["--npu", " ", "--bench", "b", "-o", "new"], 2, "--npu is empty"),
        (["--npu", "a", "--bench", "b", "-o", "taken"], 2, "taken holds something else"),
        (["--npu", "a", "--bench", "b", "-o", "others"], 2, "others holds a search with other"),
        (["--npu", "a", "--bench", "b", "-o", "damaged"], 1, "bisect.json is damaged"),
        (["--npu", "no_such", "--bench", "b", "-o", "new"], 1, "npu: no_such cannot be run"),
        (["--npu", "true", "--bench", "b", "-o", "new"], 1, "ended with status 0, nothing is"),
        (["--npu", "a 'b", "--bench", "b", "-o", "new"], 2, "--npu cannot be read: No closing"),
    ],
)
def test_what_cannot_be_is_said(
    words: list[str], status: int, sentence: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    others = '{"commands": {"npu": "x", "bench": "y"}, "runs": {}}'
    for name, text in (("taken", ""), ("others", others), ("damaged", "{")):
        (here / name).mkdir()
        (here / name / ("file" if name == "taken" else "bisect.json")).write_text(text)
    assert main(words) == status
    assert sentence in capsys.readouterr().err
