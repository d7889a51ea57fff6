"""Torch's pipelines: the first step has the passes that the program means, and no others."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from msprobe_collector import PrecisionDebugger
from tests.collector.processes import run_in_two
from tests.collector.recording import Dump, read_dump

MICRO_BATCHES = 4


def _train(rank: int, folder: Path, kind: str) -> None:
    from torch.distributed import pipelining

    torch.manual_seed(3)
    # Interleaved: each rank has two of the four stages.
    count = 2 if kind == "ScheduleInterleaved1F1B" else 1
    layers = [nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(2 * count)]
    mine = [layers[rank + 2 * number] for number in range(count)]
    device = torch.device("cpu")
    stages = [
        pipelining.PipelineStage(one, rank + 2 * number, 2 * count, device)
        for number, one in enumerate(mine)
    ]
    make: Any = getattr(pipelining, kind)
    loss = nn.functional.mse_loss
    schedule = make(stages if count > 1 else stages[0], MICRO_BATCHES, loss_fn=loss)
    debugger = PrecisionDebugger(dump_path=folder / "dump", level="mix")
    x, y = torch.randn(2 * MICRO_BATCHES, 4), torch.randn(2 * MICRO_BATCHES, 4)
    for _ in range(2):
        with debugger.start(mine if count > 1 else mine[0]):
            schedule.step(*([x] if rank == 0 else []), **({"target": y} if rank else {}))
        debugger.step()
    debugger.close()


@pytest.mark.parametrize("kind", ["Schedule1F1B", "ScheduleGPipe", "ScheduleInterleaved1F1B"])
def test_the_first_step_is_like_the_second(kind: str, tmp_path: Path) -> None:
    run_in_two(_train, tmp_path, kind)
    for rank in (0, 1):
        first, second = (
            read_dump(tmp_path / "dump" / f"step{step}" / f"rank{rank}") for step in (0, 1)
        )
        assert sorted(first.names("Module")) == sorted(second.names("Module"))
        assert _communication(first) == _communication(second)
        for name in ("Tanh.forward", "Tanh.backward"):
            stages = 2 if kind == "ScheduleInterleaved1F1B" else 1
            found = [one for one in first.names() if name in one]
            assert len(found) == stages * MICRO_BATCHES, name


def _communication(dump: Dump) -> list[str]:
    return sorted(dump.names("Distributed"))
