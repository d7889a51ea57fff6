"""A training under DeepSpeed is recorded as it is, whatever it keeps in buffers of gigabytes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.collector.recording import read_dump
from tests.collector.run.test_command import recorded
from tests.processes import run_program

pytest.importorskip("deepspeed", exc_type=ImportError)

TRAIN = """
import sys
import deepspeed
import torch
from torch import nn
torch.manual_seed(1)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
config = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "zero_optimization": {"stage": int(sys.argv[1])},
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "torch_adam": True}},
}
engine, *_ = deepspeed.initialize(model=model, config=config)
for _ in range(6):
    engine.backward(engine(torch.randn(2, 8)).square().mean())
    engine.step()
with deepspeed.zero.GatheredParameters(list(model.parameters()), enabled=sys.argv[1] == "3"):
    print("sum", sum(one.sum().item() for one in model.parameters()).hex(), flush=True)
"""


@pytest.mark.slow  # DeepSpeed compiles its communication on the CPU for minutes, once
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_each_stage_of_zero_is_recorded_step_by_step(
    stage: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    (tmp_path / "train.py").write_text(TRAIN)
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
    words = (sys.executable, *launcher, "train.py", str(stage))
    run = f"import subprocess\nsubprocess.run({words!r}, check=True)"
    plain = run_program(tmp_path, run)
    answer = recorded("-o", "dump", "--steps", "0-1", "--", *words, folder=tmp_path)
    assert answer.returncode == 0, answer.stderr
    sums = [line for line in answer.stdout.splitlines() if line.startswith("sum")]
    assert sums
    assert sums == [line for line in plain.stdout.splitlines() if line.startswith("sum")]
    assert "The model is DeepSpeedEngine (212 parameters to train)." in answer.stderr
    assert "A step ends where AdamW has stepped." in answer.stderr
    for step in range(2):
        for rank in range(2):
            dump = read_dump(tmp_path / "dump" / f"step{step}" / f"rank{rank}")
            for way in ("forward", "backward"):
                assert len([name for name in dump.data if f".Linear.{way}." in name]) == 4
