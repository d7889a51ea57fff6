"""Parameters that ``fully_shard`` has cut are recorded as by an edited script."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.collector.run.test_command import recorded

TRAIN = """
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
for part in (model[1], model[3], model):
    fully_shard(part)
optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
for step in range(3):
    for micro in range(2):
        tokens = (torch.arange(8) + step + micro + 4 * dist.get_rank()) % 16
        model(tokens).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
if dist.get_rank() == 0:
    print([one.to_local().double().sum().item().hex() for one in model.parameters()])
dist.destroy_process_group()
"""
EDITED = (
    TRAIN.replace(
        "for step in",
        "from msprobe_collector import PrecisionDebugger\n"
        "debugger = PrecisionDebugger(dump_path='by_hand', level='mix', step=[0, 2])\n"
        "for step in",
    )
    .replace(
        "        model(", "        if not micro:\n            debugger.start(model)\n        model("
    )
    .replace(
        "    optimizer.step()", "    debugger.stop()\n    debugger.step()\n    optimizer.step()"
    )
)
LAUNCH = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def modules(folder: Path) -> tuple[list[str], dict[str, Any]]:
    """The names of all records, and those of modules: their numbers are no unwritten memory."""
    data = json.loads((folder / "dump.json").read_text())["data"]
    return list(data), {name: one for name, one in data.items() if name.startswith("Module.")}


@pytest.mark.repeated
def test_it_is_recorded_as_by_an_edited_script(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "edited.py").write_text(EDITED)
    plain, by_hand = (
        subprocess.run(
            [sys.executable, *LAUNCH, name],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for name in ("train.py", "edited.py")
    )
    words = ("-o", "followed", "--steps", "0,2", "--", sys.executable, *LAUNCH, "train.py")
    answer = recorded(*words, folder=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert plain == by_hand == answer.stdout
    for step in ("step0", "step2"):
        for rank in ("rank0", "rank1"):
            own, other = (tmp_path / one / step / rank for one in ("followed", "by_hand"))
            assert (own / "construct.json").read_text() == (other / "construct.json").read_text()
            assert modules(own) == modules(other)
