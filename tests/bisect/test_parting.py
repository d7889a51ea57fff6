"""Where two traces part: each cause is planted in one of two small trainings, in processes."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest

from msprobe_bisect.traces import Part, parting, read_trace
from msprobe_builder.base.errors import BuildError
from msprobe_builder.facts.wording import tell
from tests.processes import run_program

FOLLOW = """
import sys
from pathlib import Path
from msprobe_collector.run.follow import Follower
from msprobe_collector.run.trace import Trace
from msprobe_collector import PrecisionDebugger
make = lambda: PrecisionDebugger(dump_path="unused", level="L1", step=[99])
Follower(make, make_trace=lambda: Trace(Path("trace"))).install()
"""

TRAIN = """
import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(7)
model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 4))
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
#weights model[3].weight.data[0, 0] += 1e-6
#seed torch.manual_seed(8)
for step in range(4):
    data = torch.Generator().manual_seed(step)
    #data if step == 1: data.manual_seed(9)
    for micro in range(2):
        x = torch.randn(3, 6, generator=data)
        #values if step == 1: model[3].weight.data *= 1 + 1e-2
        loss = model(x).square().mean()
        #gradient if step == 2: loss = loss * 1.01
        #rounding loss = loss * (1 + 1e-6)
        loss.backward()
    #settings if step == 2: optimizer.param_groups[0]["weight_decay"] = 0.1
    #update if step == 2: optimizer.state[model[0].weight]["exp_avg"] *= 1.1
    optimizer.step()
    optimizer.zero_grad()
"""

# What is planted, and in what the traces part: step, part, whether by more than rounding.
PLANTED = {
    "nothing": (Part.NOTHING, 0, True),
    "weights": (Part.WEIGHTS, 0, True),
    "seed": (Part.VALUES, 0, True),
    "data": (Part.DATA, 1, True),
    "values": (Part.VALUES, 1, True),
    "gradient": (Part.VALUES, 2, True),
    "rounding": (Part.VALUES, 0, False),
    "settings": (Part.SETTINGS, 2, True),
    "update": (Part.UPDATE, 2, True),
}


def trace(folder: Path, cause: str) -> Path:
    folder.mkdir()
    answer = run_program(folder, FOLLOW + TRAIN.replace(f"#{cause} ", ""))
    assert not answer.returncode, answer.stderr
    return folder / "trace"


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trace(tmp_path_factory.mktemp("traces") / "reference", "nothing at all")


@pytest.mark.parametrize("cause", PLANTED)
def test_traces_part_where_the_cause_is(cause: str, reference: Path, tmp_path: Path) -> None:
    part, step, is_sure = PLANTED[cause]
    found = parting(trace(tmp_path / "run", cause), reference)
    assert (found.part, found.step, found.is_sure) == (part, step, is_sure), found.what
    assert bool(found.remark) == (cause == "seed")


def test_the_last_step_of_a_training_is_traced(reference: Path) -> None:
    lines = read_trace(reference / "trace.jsonl")
    assert [line["step"] for line in lines] == [0, 1, 2, 3]
    for line in lines:
        assert [len(line[key]) for key in ("data", "outputs", "settings")] == [2, 2, 1]
        names = ["0.weight", "0.bias", "3.weight", "3.bias"]
        assert list(line["gradients"]) == list(line["weights"]) == names


def test_a_line_that_was_not_finished_is_left_out(reference: Path, tmp_path: Path) -> None:
    text = (reference / "trace.jsonl").read_text()
    path = tmp_path / "trace.jsonl"
    path.write_text(text[:-20])
    assert [line["step"] for line in read_trace(path)] == [0, 1, 2]
    path.write_text(text[:20])
    with pytest.raises(BuildError, match="holds no step"):
        read_trace(path)
    (tmp_path / "other").mkdir()
    with pytest.raises(BuildError, match="no rank in common"):
        parting(tmp_path, tmp_path / "other")


def test_a_rank_that_parts_is_named(reference: Path, tmp_path: Path) -> None:
    lines = read_trace(reference / "trace.jsonl")
    sides = [tmp_path / name for name in ("npu", "bench")]
    for side in sides:
        side.mkdir()
        for rank in (0, 1):
            changed = json.loads(json.dumps(lines))
            if side.name == "npu" and rank == 1:
                changed[2]["settings"][0]["lr"] = 0.5
            text = "".join(json.dumps(line) + "\n" for line in changed)
            (side / f"trace{rank}.jsonl").write_text(text)
    found = parting(*sides)
    assert (found.part, found.step, found.rank) == (Part.SETTINGS, 2, 1)
    assert found.what is not None
    assert tell(found.what) == "lr of group 0 is 0.5, 0.001 in the reference"


@pytest.mark.parametrize(
    ("size", "weight", "is_sure"),
    [
        (1e-9, "0.bias", False),  # of what cancels, as the gradient of the bias of keys does
        (1e-7, "0.bias", False),
        (1e-3, "0.bias", True),
        (1.0, "0.bias", True),
        (1e-9, "both", True),  # the whole module's gradients are as small
    ],
)
def test_a_gradient_that_is_rounding_alone_is_no_parting(
    reference: Path, tmp_path: Path, size: float, weight: str, is_sure: bool
) -> None:
    """A gradient of this size beside the module's others has the opposite sign in one run."""
    lines = read_trace(reference / "trace.jsonl")
    sides = [tmp_path / name for name in ("npu", "bench")]
    for side in sides:
        side.mkdir()
        changed = json.loads(json.dumps(lines))
        for line in changed:
            names = ("0.bias", "0.weight") if weight == "both" else (weight,)
            for name in names:
                told = line["gradients"][name]
                numbers = np.frombuffer(base64.b64decode(told["sketch"]), "<f4") * size
                turned = -numbers if side.name == "npu" and name == "0.bias" else numbers
                told["sketch"] = base64.b64encode(turned.astype("<f4").tobytes()).decode()
                told["crc"] = side.name if name == "0.bias" else told["crc"]
        if side.name == "npu":  # Adam makes as much of it as of any other
            for line in changed:
                told = line["weights"]["0.bias"]
                numbers = np.frombuffer(base64.b64decode(told["sketch"]), "<f4") + np.float32(1e-3)
                told["sketch"], told["crc"] = base64.b64encode(numbers.tobytes()).decode(), "npu"
        text = "".join(json.dumps(line) + "\n" for line in changed)
        (side / "trace.jsonl").write_text(text)
    found = parting(*sides)
    assert (found.part, found.step, found.is_sure) == (Part.VALUES, 0, is_sure), found.what
