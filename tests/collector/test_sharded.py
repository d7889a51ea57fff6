"""Parameters and gradients of which each of two processes holds a part."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from msprobe_collector import PrecisionDebugger
from msprobe_collector.record.pytorch import PyTorch
from tests.collector.processes import run_in_two
from tests.collector.recording import dumps_of_two, read_dump, write_config
from tests.collector.versions import NEEDS_SHARDS, needs_torch

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="torch was built without it")


def sharded(_rank: int, path: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    mesh = init_device_mesh("cpu", (2,))
    for layer in (net[0], net[2]):
        fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
    debugger = PrecisionDebugger(config_path=write_config(Path(path)))
    x = torch.ones(2, 4)
    with debugger.start(net):
        net(x).sum().backward()
    recorded = [p.grad.to_local().clone() for p in net.parameters()]  # type: ignore[union-attr]
    net.zero_grad()
    net(x).sum().backward()
    for before, parameter in zip(recorded, net.parameters(), strict=True):
        assert torch.equal(before, parameter.grad.to_local())  # type: ignore[union-attr]
    debugger.close()


@NEEDS_SHARDS
def test_fsdp2(tmp_path: Path) -> None:
    run_in_two(sharded, str(tmp_path))
    for dump in dumps_of_two(tmp_path):
        for layer in (0, 2):
            assert f"Functional.linear.{layer // 2}.forward" in dump.data
            assert dump.data[f"Module.{layer}.Linear.forward.0"]["output"][0]["Norm"] > 0
            assert f"Module.{layer}.Linear.backward.0" in dump.data
            gradient = dump.data[f"Module.{layer}.Linear.parameters_grad"]["weight"][0]
            assert gradient["placements"] == ["S(0)"]
            assert gradient["shape"] == [4, 4]
        # one for each layer on the way there and back; the second one in backward is not needed
        gathers = dump.names("Distributed.all_gather_")
        assert len(gathers) >= 2
        for name in gathers:
            whole, part = dump.data[name]["output"][:2]
            assert whole["shape"] == [2 * part["shape"][0]]
            assert whole["Norm"] >= part["Norm"] > 0
        assert dump.names("Distributed.reduce_scatter_")
        assert not dump.names("Torch.all_gather") + dump.names("Torch.reduce_scatter")


def clipped(rank: int, path: str) -> None:
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    fully_shard(net, mesh=init_device_mesh("cpu", (2,)))
    debugger = PrecisionDebugger(config_path=write_config(Path(path)))
    largest = []
    with debugger.start(net):
        for scale in (1.0, 3.0):
            (net(torch.ones(2, 4)).sum() * scale).backward()
            shards: list[Any] = [parameter.grad for parameter in net.parameters()]
            largest.append([shard.to_local().max().item() for shard in shards])
        nn.utils.clip_grad_norm_(net.parameters(), 0.01)
        net.zero_grad()
    debugger.close()
    data = read_dump(Path(path) / "dump" / "step0" / f"rank{rank}").data
    for suffix, expected in ((".0", largest[0]), ("", largest[1])):
        records = [data[f"Module.{layer}.Linear.parameters_grad{suffix}"] for layer in (0, 2)]
        assert [record[key][0]["Max"] for record in records for key in ("weight", "bias")] == (
            pytest.approx(expected)
        )


@NEEDS_SHARDS
def test_sharded_gradients_are_what_a_pass_left_not_what_clipping_made_of_them(
    tmp_path: Path,
) -> None:
    run_in_two(clipped, str(tmp_path))


def shares_of_distributed_tensors(rank: int) -> None:
    from torch.distributed.tensor import DTensor, Partial, Shard

    mesh = init_device_mesh("cpu", (2,))
    part = torch.full((2, 3), float(rank + 1))
    cut = [DTensor.from_local(part * size, mesh, [Shard(0)]) for size in (1.0, 10.0)]
    framework = PyTorch()
    with framework.unseen():
        both = framework.sum_of(cut[0], cut[1])
        assert framework.sum_of(part, cut[0]) is None
        assert framework.sum_of(DTensor.from_local(part, mesh, [Partial()]), cut[0]) is None
        twice = framework.sum_of(part, part)
    assert isinstance(twice, torch.Tensor)
    assert torch.equal(twice, 2 * part)
    assert isinstance(both, DTensor)
    assert both.placements == (Shard(0),)
    assert both.shape == (4, 3)
    assert torch.equal(both.to_local(), part * 11.0)


@needs_torch(2, 5, to="offer distributed tensors to everybody")
def test_shares_of_distributed_gradients_are_added_where_they_lie() -> None:
    """Adding the tensors themselves is a crash of the process while hooks are hidden."""
    run_in_two(shares_of_distributed_tensors)
