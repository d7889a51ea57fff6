"""``msprobe-run --watch``: the first call that differs is told and saved while it trains."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from msprobe_builder.facts.wording import ENGLISH, tell
from msprobe_collector import PrecisionDebugger
from msprobe_collector.errors import CollectorError
from msprobe_collector.watch.differing import difference_of
from msprobe_collector.watch.reference import Shown
from tests.collector.recording import read_dump, record, saved_tensor, tensors, write_config
from tests.collector.run.test_command import recorded
from tests.sharing import make_once, shared_folder

TRAIN = """
import sys
import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(1)
planted = sys.argv[1]

def gelu(x, approximate="none"):
    calls.append(1)
    wrong = planted == "kernel" and len(calls) == 5  # of the second layer, in the second step
    made = 0.5 * x * (1 + torch.erf(x / (1.9 if wrong else 2) ** 0.5))
    if planted == "bits" and len(calls) == 5:
        made[1, 2:9] = torch.nextafter(made[1, 2:9], torch.tensor(9.0))
    return made

calls = []
library = torch.library.Library("aten", "IMPL")
library.impl("gelu", gelu, "CPU")

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 32), nn.Linear(32, 16)
    def forward(self, x):
        h = nn.functional.gelu(self.up(x))
        if planted == "order" and self is model[1]:
            h.abs()  # one more call moves the numbers of all others
        return x + self.down(h)

model = nn.Sequential(*(Layer() for _ in range(3)))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(3):
    scale = 1 + 1e-6 if planted == "rounding" else 1.0
    model(torch.randn(4, 16) * scale).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print("sum", sum(one.sum().item() for one in model.parameters()).hex())
"""
STEPS = ("--steps", "0-2")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def record_each(folder: Path) -> None:
        (folder / "train.py").write_text(TRAIN)
        for summary in ("sketch", "statistics", "md5", "xor"):
            words = ("-o", summary, *STEPS, "--summary", summary)
            program = ("--", sys.executable, "train.py", "")
            assert recorded(*words, *program, folder=folder).returncode == 0

    return make_once(shared_folder(tmp_path_factory) / "watched", record_each)


@pytest.mark.parametrize("planted", ["", "order", "rounding"])
@pytest.mark.parametrize("summary", ["sketch", "statistics"])
def test_what_rounding_explains_is_not_told(planted: str, summary: str, reference: Path) -> None:
    words = [sys.executable, "train.py", planted]
    plain = subprocess.run(words, capture_output=True, text=True, check=True, cwd=reference)
    watch = ("-o", f"again_{planted}_{summary}", "--watch", summary)
    answer = recorded(*watch, "--", *words, folder=reference)
    assert (answer.returncode, answer.stdout) == (0, plain.stdout), answer.stderr
    assert " calls differs from " in answer.stderr
    assert not list(reference.glob(f"again_{planted}_{summary}_differs"))


def test_the_first_call_that_differs_is_saved(reference: Path) -> None:
    words = ("-o", "wrong", "--watch", "sketch", "--stop-after")
    answer = recorded(*words, "--", sys.executable, "train.py", "kernel", folder=reference)
    assert answer.returncode == 90, answer.stderr
    assert not answer.stdout  # the training was ended
    assert "step1/rank: Functional.gelu.1.forward is the first call" in answer.stderr
    assert "given the same. File" in answer.stderr
    dump = read_dump(reference / "wrong_differs" / "step1" / "rank")
    assert not list((reference / "wrong_differs").glob("step0"))
    name = "Functional.gelu.1.forward"
    assert name in dump.data
    assert dump.header["task"] == "tensor"
    for _, item in tensors(dump.data[name]):
        tensor = saved_tensor(dump.directory, item["data_name"])
        assert tensor.float().norm().item() == pytest.approx(item["Norm"], rel=1e-6)
    assert any("train.py" in line for line in dump.stacks[name])


@pytest.mark.parametrize("summary", ["sketch", "md5", "xor"])
def test_what_is_not_deterministic_is_told(summary: str, reference: Path) -> None:
    """Against an earlier start of the same: the first call that makes other bits of the same."""
    watch = ("-o", f"bits_{summary}", "--watch", summary)
    answer = recorded(*watch, "--", sys.executable, "train.py", "bits", folder=reference)
    assert answer.returncode == 0, answer.stderr
    said = [line for line in answer.stderr.splitlines() if line.startswith("msprobe-run: step")]
    (line,) = said
    assert "step1/rank: Functional.gelu.1.forward is the first call that is not the same" in line
    assert "to the last bit" in line
    assert "output 0, given the same. File" in line
    assert "differs from " in answer.stderr  # none of them
    assert not (reference / f"bits_{summary}_differs").exists()


@pytest.mark.parametrize(
    ("planted", "place", "call", "given"),
    [
        ("kernel", "step1", "Functional.gelu.1.forward", "given the same"),
        ("rounding", "step0", "Functional.linear.0.forward", "as does what it is given"),
    ],
)
@pytest.mark.parametrize("summary", ["md5", "xor"])
def test_checksums_alone_tell_the_first_call(
    summary: str, planted: str, place: str, call: str, given: str, reference: Path, tmp_path: Path
) -> None:
    """As other recorders write them; what differs in them may differ by rounding."""
    shutil.copytree(reference / summary, tmp_path / "bare")
    for path in tmp_path.glob("bare/step*/rank/dump.json"):
        path.write_text(re.sub(r'"(Max|Min|Mean|Norm)": [^,}]+, ', "", path.read_text()))
    for which, status in (("", 0), (planted, 90)):
        watch = ("-o", str(tmp_path / f"own{which}"), "--watch", str(tmp_path / "bare"))
        command = (sys.executable, "train.py", which)
        answer = recorded(*watch, "--stop-after", "--", *command, folder=reference)
        assert answer.returncode == status or not which, answer.stderr
        told = [one for one in answer.stderr.splitlines() if "is the first call that" in one]
        if which:
            first = told[0]
            assert f"{place}/rank: {call} is the first call that is not the same" in first
            assert f"output 0, {given}. File" in first
            assert (tmp_path / f"own{which}_differs" / place).is_dir()
        else:
            assert not told


def test_the_dump_is_that_of_a_training_that_is_not_watched(reference: Path) -> None:
    words = ("-o", "same", "--watch", "sketch", "--", sys.executable, "train.py", "")
    assert recorded(*words, folder=reference).returncode == 0
    for name in ("dump.json", "construct.json", "sketch.bin"):
        own, other = (reference / one / "step2" / "rank" / name for one in ("same", "sketch"))
        assert own.read_bytes() == other.read_bytes()


def test_task_diff_check_of_msprobe_is_a_watch(tmp_path: Path) -> None:
    torch.manual_seed(3)
    first, x = nn.Linear(4, 4), torch.ones(2, 4)
    model = nn.Sequential(first, nn.Tanh())
    record(tmp_path / "one", lambda: model(x).sum().backward(), model)
    bench = {"bench_path": str(tmp_path / "one" / "dump"), "diff_nums": 1}
    with torch.no_grad():
        first.weight[1, 2] += 1.0
    record(
        tmp_path / "two",
        lambda: model(x).sum().backward(),
        model,
        task="diff_check",
        diff_check=bench,
    )
    saved = read_dump(tmp_path / "two" / "dump_differs" / "step0" / "rank")
    assert list(saved.data) == ["Functional.linear.0.forward"]
    with pytest.raises(CollectorError, match="set bench_path"):
        record(tmp_path / "three", lambda: model(x), model, task="diff_check")


class Scaled(nn.Linear):
    factor = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) * self.factor


class Plain(nn.Module):
    """``again`` wraps the same calls under other names."""

    def __init__(self, again: bool) -> None:
        super().__init__()
        torch.manual_seed(3)
        parts = [nn.Linear(8, 16), Scaled(16, 8), nn.Linear(8, 8)]
        self.again = again
        for name, part in zip(("proj", "out", "end") if again else "abc", parts, strict=True):
            self.add_module(name, part)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, second, third = self.children()
        h = first(x).tanh() if self.again else torch.tanh(first(x))
        result: torch.Tensor = third(nn.functional.relu(second(h)))
        return result


def watched(folder: Path, again: bool, wrong: int | None, **config: object) -> PrecisionDebugger:
    """Three steps; from step ``wrong`` on a factor is another one."""
    write_config(folder, statistics={"summary_mode": "sketch"}, **config)
    debugger, model = PrecisionDebugger(config_path=folder / "config.json"), Plain(again)
    for step in range(3):
        Scaled.factor = 1.25 if step == wrong else 1.0
        model.zero_grad()
        debugger.start(model)
        model(torch.ones(4, 8) * (step + 1)).square().mean().backward()
        debugger.stop()
        debugger.step()
    debugger.close()
    return debugger


@pytest.mark.parametrize("wrong", [None, 1, 2])
def test_other_names_are_aligned_by_the_first_step(
    wrong: int | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What its names do not tell is compared from the second step on."""
    watched(tmp_path / "one", False, None)
    debugger = watched(tmp_path / "two", True, wrong, watch=str(tmp_path / "one" / "dump"))
    assert debugger.watched is not None
    assert "are compared as step0 was aligned" in " ".join(caplog.messages)
    assert debugger.watched.compared > debugger.watched.missing
    if wrong is None:
        assert not debugger.watched.found
    else:
        said = tell(debugger.watched.found, ENGLISH)
        assert f"step{wrong}/rank: Tensor.__mul__.1.forward is the first call that differs" in said


def test_a_call_does_not_begin_it_where_nobody_knows_what_it_is_given() -> None:
    known = {"dtype": "torch.float32", "shape": [2], "Max": 1.0, "Min": 0.0, "Mean": 0.5, "Norm": 1}
    nothing = {**known, "Max": None, "Min": None, "Mean": None, "Norm": None}
    off = Shown("output 0", True, {**known, "Max": 2.0}, -1), Shown("output 0", True, known, -1)
    for given, begins in ((known, True), (nothing, False)):
        one = Shown("input 0", False, given, -1)
        found = difference_of("Tensor.narrow.0.forward", [(one, one), off], [0.0, 0.5])
        assert found is not None
        assert found.begins == begins
