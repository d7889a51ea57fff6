"""What ranks get of communication is what the others get, and a sum is the sum, in one run."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from msprobe_checks.monitor.exchanges import Broken
from msprobe_checks.monitor.replicas import compare_replicas
from msprobe_collector import PrecisionDebugger
from tests.collector.processes import run_in
from tests.collector.versions import NEEDS_SHARDS

RANKS = 4


def begin(directory: Path, rank: int, model: nn.Module) -> None:
    kinds = ("communication", "weight", "local_gradient", "gradient")
    monitor = {"sketches": True, "record": {kind: ["*"] for kind in kinds}}
    path = directory / f"config{rank}.json"
    path.write_text(
        json.dumps({"task": "monitor", "dump_path": str(directory / "run"), "monitor": monitor})
    )
    PrecisionDebugger(config_path=path).monitor(model)


def dropped(tensor: torch.Tensor, _rank: int) -> None:
    """The last rank's part is lost on the way to all."""
    parts = [torch.empty_like(tensor) for _ in range(RANKS)]
    dist.all_gather(parts, tensor)
    tensor.copy_(torch.stack(parts[:-1]).sum(0))


def doubled(tensor: torch.Tensor, _rank: int) -> None:
    dist.all_reduce(tensor)
    tensor *= 2


def unlike(tensor: torch.Tensor, rank: int) -> None:
    dist.all_reduce(tensor)
    if rank == 2:
        tensor[1] += 0.5


def overwritten(tensor: torch.Tensor, rank: int) -> None:
    """A rank writes to what it gives before it is sent."""
    if rank == 1:
        tensor[:2] = 3.0
    dist.all_reduce(tensor)


FAULTS: dict[str, Any] = {
    "dropped": (dropped, list(range(RANKS)), True),
    "doubled": (doubled, list(range(RANKS)), True),
    "unlike": (unlike, [2], True),
    "overwritten": (overwritten, list(range(RANKS)), True),
    "broadcast": (None, [3], False),
    "gathered": (None, [0], False),
    "none": (None, [], False),
}


def train(rank: int, directory: Path, case: str) -> None:
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(8, 8))
    kernel = FAULTS[case][0]
    faulty = {"now": False}
    # Below what is recorded: the library itself goes wrong.
    backend: Any = torch.distributed.distributed_c10d
    real = {name: getattr(dist, name) for name in ("all_reduce", "broadcast", "all_gather")}

    def wrong(name: str) -> Any:
        def call(*args: Any, **keywords: Any) -> Any:
            if not faulty["now"]:
                return real[name](*args, **keywords)
            faulty["now"] = False
            if kernel is not None:
                return kernel(args[0], rank)
            result = real[name](*args, **keywords)
            got = args[0][1] if name == "all_gather" else args[0]
            if rank in FAULTS[case][1]:
                got.view(-1)[0] += 1.0
            return result

        return call

    name = {"broadcast": "broadcast", "gathered": "all_gather"}.get(case, "all_reduce")
    if case != "none":
        setattr(dist, name, wrong(name))
        setattr(backend, name, getattr(dist, name))
    begin(directory, rank, model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)
    for step in range(3):
        model(torch.randn(3, 8, generator=generator)).square().sum().backward()
        faulty["now"] = step == 1
        own = torch.randn(6, 5, generator=generator)
        dist.all_reduce(own)
        dist.broadcast(own, 0)
        dist.all_gather([torch.empty(6, 5) for _ in range(RANKS)], own * (rank + 1))
        dist.all_reduce(own.clone(), op=dist.ReduceOp.MAX)  # no sum
        faulty["now"] = False
        optimizer.step()
        optimizer.zero_grad()
    PrecisionDebugger.close()


@pytest.mark.parametrize("case", FAULTS)
def test_a_result_that_is_not_that_of_the_others_or_no_sum_is_named(
    tmp_path: Path, case: str
) -> None:
    run_in(RANKS, train, tmp_path, case)
    found = compare_replicas(tmp_path / "run").exchange
    _, ranks, is_sum = FAULTS[case]
    if not ranks:
        assert found is None
        return
    assert found is not None
    assert (found.step, list(found.ranks), found.broken is Broken.NO_SUM) == (1, ranks, is_sum)
    called = {"broadcast": "broadcast", "gathered": "all_gather"}.get(case, "all_reduce")
    assert found.name.startswith(f"{called} test_exchanges.py:")


def train_well(rank: int, directory: Path, kind: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    model: nn.Module = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8))
    kinds: dict[str, tuple[int, ...]] = {"FSDP2": (2, 2), "TP": (2, 2)}
    if kind == "FSDP2":
        mesh = init_device_mesh("cpu", kinds[kind], mesh_dim_names=("dp", "shard"))
        fully_shard(model, mesh=mesh)
    elif kind == "TP":
        mesh = init_device_mesh("cpu", kinds[kind], mesh_dim_names=("dp", "tp"))
        plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
        parallelize_module(model, mesh["tp"], plan)
    else:
        model = DistributedDataParallel(model)
    begin(directory, rank, model)
    optimizer: Any = torch.optim.AdamW(model.parameters(), lr=1e-2)
    if kind == "ZeRO-1":
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-2)
    # Ranks of a split are given the same data.
    generator = torch.Generator().manual_seed(rank // 2 if kind == "TP" else rank)
    for _ in range(3):
        model(torch.randn(3, 8, generator=generator)).square().sum().backward()
        if kind == "TP":
            for parameter in model.parameters():
                gradient: Any = parameter.grad
                dist.all_reduce(gradient.to_local(), group=mesh["dp"].get_group())
        optimizer.step()
        optimizer.zero_grad()
    PrecisionDebugger.close()


@pytest.mark.parametrize(
    "kind", ["DDP", "ZeRO-1", *(pytest.param(one, marks=NEEDS_SHARDS) for one in ("FSDP2", "TP"))]
)
def test_nothing_is_said_of_correct_programs(tmp_path: Path, kind: str) -> None:
    run_in(RANKS, train_well, tmp_path, kind)
    found = compare_replicas(tmp_path / "run")
    assert (found.exchange, found.together, found.parted) == (None, None, None)
