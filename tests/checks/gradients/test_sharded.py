"""Gradients of sharded and replicated parameters, on two ranks."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn

from msprobe_checks.gradients.similarity import compare_gradients
from msprobe_collector import PrecisionDebugger
from tests.cases import tried_first
from tests.collector.processes import run_in_two


def train(rank: int, directory: Path, kind: str, wrong: bool) -> None:
    """A few steps; on rank 1 the input is another one from step 2 on, when ``wrong``."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    model: nn.Module = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
    if kind == "fsdp2":
        fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    else:
        model = DistributedDataParallel(model)
    debugger = PrecisionDebugger(None, "grad_probe", directory)
    debugger.monitor(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)
    for step in range(4):
        data = torch.randn(5, 6, generator=generator)
        if wrong and rank == 1 and step >= 2:
            data = 3 - data
        model(data).square().mean().backward()
        if kind == "fsdp2" and step == 0:
            for name, parameter in model.named_parameters():
                local = parameter.grad.to_local()  # type: ignore[union-attr]
                torch.save(local, directory.parent / f"{name}.{dist.get_rank()}.pt")
        optimizer.step()
        optimizer.zero_grad()
    PrecisionDebugger.close()


@pytest.mark.parametrize("kind", tried_first(["fsdp2", "ddp"]))
def test_the_step_at_which_the_data_of_a_rank_differ_is_named(tmp_path: Path, kind: str) -> None:
    for name in ("right", "wrong"):
        (tmp_path / name).mkdir()
        run_in_two(train, tmp_path / name / "dump", kind, name == "wrong")
    comparison = compare_gradients(tmp_path / "wrong" / "dump", tmp_path / "right" / "dump")
    assert [rank.rank for rank in comparison.ranks] == [0, 1]
    assert {(one.rank, one.step) for one in comparison.breaks} == {(0, 2), (1, 2)}
    for rank in range(2) if kind == "fsdp2" else ():
        path = tmp_path / "right" / "dump" / f"rank{rank}" / "grad_summary_0.csv"
        with path.open(encoding="utf-8-sig", newline="") as file:
            for row in csv.DictReader(file):
                local = torch.load(tmp_path / "right" / f"{row['param_name']}.{rank}.pt")
                assert row["shape"] == str(list(local.shape))
                assert float(row["max"]) == pytest.approx(float(local.max()), rel=1e-6)
