"""Communication calls in every style, and models that are spread over two processes."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import all_reduce as imported_before

from msprobe_collector import PrecisionDebugger
from tests.collector.processes import run_in_two
from tests.collector.recording import dumps_of_two, write_config
from tests.collector.versions import needs_torch

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="torch was built without it")


def every_call(rank: int, path: str) -> None:
    debugger = PrecisionDebugger(config_path=write_config(Path(path), level="L1"))
    waits = dist.Work.wait
    codes = dist.all_reduce.__code__
    a = torch.full((4,), float(rank + 1))
    parts = [torch.zeros(4) for _ in range(2)]
    both = torch.zeros(8)
    half = torch.zeros(2)
    peer = 1 - rank
    with debugger:
        imported_before(a)  # 3
        dist.all_reduce(tensor=a, op=dist.ReduceOp.MAX, group=dist.group.WORLD)
        work = dist.all_reduce(a, async_op=True)  # 6
        assert work is not None
        assert work.wait() is True
        dist.broadcast(a, src=0)
        dist.reduce(a, 0)
        dist.all_gather(parts, a)
        dist.all_gather_into_tensor(both, a)
        dist._all_gather_base(both, a)  # type: ignore[attr-defined]
        dist.gather(a, parts if rank == 0 else None, dst=0)
        dist.scatter(a, parts if rank == 0 else None, src=0)
        dist.reduce_scatter(half, [torch.ones(2), torch.ones(2)])
        dist.reduce_scatter_tensor(half, torch.ones(4))
        dist._reduce_scatter_base(half, torch.ones(4))  # type: ignore[attr-defined]
        dist.all_to_all_single(torch.zeros(4), a)
        if rank == 0:
            dist.send(torch.full((2,), 5.0), dst=1)
            dist.isend(torch.full((2,), 6.0), 1).wait()  # type: ignore[union-attr]
        else:
            dist.recv(torch.zeros(2), src=0)
            dist.irecv(torch.zeros(2), 0).wait()  # type: ignore[union-attr]
        swap = [
            dist.P2POp(dist.isend, torch.full((2,), float(rank)), peer),
            dist.P2POp(dist.irecv, torch.full((2,), 9.0), peer),
        ]
        for request in dist.batch_isend_irecv(swap):
            request.wait()
    debugger.close()
    assert dist.Work.wait is waits
    assert dist.all_reduce.__code__ is codes


@needs_torch(2, 7, to="scatter what was reduced on a CPU")
def test_every_communication_call_is_recorded(tmp_path: Path) -> None:
    run_in_two(every_call, str(tmp_path))
    first, second = dumps_of_two(tmp_path)
    calls = [name.removeprefix("Distributed.") for name in first.names("Distributed.")]
    assert calls == [
        "all_reduce.0.forward",
        "all_reduce.1.forward",
        "all_reduce.2.forward",
        "broadcast.0.forward",
        "reduce.0.forward",
        "all_gather.0.forward",
        "all_gather_into_tensor.0.forward",
        "_all_gather_base.0.forward",
        "gather.0.forward",
        "scatter.0.forward",
        "reduce_scatter.0.forward",
        "reduce_scatter_tensor.0.forward",
        "_reduce_scatter_base.0.forward",
        "all_to_all_single.0.forward",
        "send.0.forward",
        "isend.0.forward",
        "batch_isend_irecv.0.forward",
    ]
    assert [name for name in second.names("Distributed.") if "recv.0" in name] == [
        "Distributed.recv.0.forward",
        "Distributed.irecv.0.forward",
        "Distributed.batch_isend_irecv.0.forward",
    ]
    for rank, dump in enumerate((first, second)):
        reduced = dump.data["Distributed.all_reduce.0.forward"]
        assert reduced["input_args"][0]["Max"] == rank + 1
        assert reduced["output"][0]["Max"] == 3
        waited = dump.data["Distributed.all_reduce.2.forward"]
        assert (waited["input_args"][0]["Max"], waited["output"][0]["Max"]) == (3, 6)
        assert waited["output"][1] == {"type": "bool", "value": True}
    group = first.data["Distributed.all_reduce.1.forward"]["input_kwargs"]["group"]
    assert group == {
        "type": "torch.ProcessGroup",
        "group_ranks": [0, 1],
        "group_id": f"{zlib.crc32(b'[0, 1]'):08x}",
    }
    assert second.data["Distributed.recv.0.forward"]["output"][0]["Max"] == 5
    assert second.data["Distributed.irecv.0.forward"]["output"][0]["Max"] == 6
    sent, received = second.data["Distributed.batch_isend_irecv.0.forward"]["output"][0]
    assert (sent["op"], sent["peer"], sent["tensor"]["Max"]) == ("isend", 0, 1)
    assert (received["op"], received["tensor"]["Max"]) == ("irecv", 0)
    first_gathered = first.data["Distributed.all_gather.0.forward"]["output"][0]
    assert len(first_gathered) == 2


class ColumnParallel(nn.Module):
    """Half of the columns on each rank; the backward pass sums the input's gradient."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return CopyToGroup.apply(x) @ self.weight.t()


class RowParallel(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return ReduceFromGroup.apply(x @ self.weight.t())


class CopyToGroup(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x

    @staticmethod
    def backward(_ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        total = gradients[0].clone()
        dist.all_reduce(total)
        return total


class ReduceFromGroup(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, x: torch.Tensor) -> torch.Tensor:
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(_ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return gradients[0]


class ParallelMLP(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.up = ColumnParallel(width)
        self.down = RowParallel(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x)))


class ParallelNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.mlp = ParallelMLP(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.mlp(self.first(x))


def tensor_parallel(_rank: int, path: str) -> None:
    torch.manual_seed(1)
    net = ParallelNet()
    debugger = PrecisionDebugger(config_path=write_config(Path(path)))
    with debugger.start(net):
        net(torch.ones(2, 4)).sum().backward()
    debugger.close()


def test_communication_in_custom_functions_lies_in_its_module(tmp_path: Path) -> None:
    run_in_two(tensor_parallel, str(tmp_path))
    for dump in dumps_of_two(tmp_path):
        down = "Module.mlp.down.RowParallel.forward.0"
        assert dump.parents["Distributed.all_reduce.0.forward"] == down
        assert dump.parents["Torch.ReduceFromGroup.0.forward"] == down
        # In backward: the module whose backward is running.
        up = "Module.mlp.up.ColumnParallel.backward.0"
        assert dump.parents["Distributed.all_reduce.1.forward"] == up
        copied = dump.data["Torch.CopyToGroup.0.backward"]
        assert copied["output"][0]["Norm"] == pytest.approx(2 * copied["input"][0]["Norm"])


def data_parallel(rank: int, path: str) -> None:
    torch.manual_seed(2)
    net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    debugger = PrecisionDebugger(config_path=write_config(Path(path)))
    x = torch.full((2, 4), float(rank + 1))
    with debugger.start(net):
        net(x).sum().backward()
    recorded = [p.grad.clone() for p in net.parameters() if p.grad is not None]
    net.zero_grad()
    net(x).sum().backward()
    again = [p.grad for p in net.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(recorded, again, strict=True))  # type: ignore[arg-type]
    debugger.close()


def test_ddp(tmp_path: Path) -> None:
    run_in_two(data_parallel, str(tmp_path))
    first, second = dumps_of_two(tmp_path)
    assert list(first.data) == list(second.data)
    assert "Module.module.0.Linear.forward.0" in first.data
    assert "Module.module.0.Linear.parameters_grad" in first.data


def pipeline(rank: int, path: str) -> None:
    torch.manual_seed(4)
    stage = nn.Sequential(nn.Linear(4, 4))
    debugger = PrecisionDebugger(config_path=write_config(Path(path)))
    with debugger.start(stage):
        for _ in range(2):
            if rank == 0:
                out = stage(torch.ones(2, 4))
                dist.send(out.detach(), 1)
                gradient = torch.zeros(2, 4)
                dist.recv(gradient, 1)
                out.backward(gradient)
            else:
                received = torch.zeros(2, 4)
                dist.recv(received, 0)
                received.requires_grad_()
                stage(received).sum().backward()
                assert received.grad is not None
                dist.send(received.grad, 0)
    debugger.close()


def test_a_pipeline_with_micro_steps(tmp_path: Path) -> None:
    run_in_two(pipeline, str(tmp_path))
    first, second = dumps_of_two(tmp_path)
    for micro in (0, 1):
        sent = first.data[f"Distributed.send.{micro}.forward"]["input_args"][0]
        received = second.data[f"Distributed.recv.{micro}.forward"]["output"][0]
        assert sent["Norm"] == received["Norm"] > 0
        back = second.data[f"Distributed.send.{micro}.forward"]["input_args"][0]
        arrived = first.data[f"Module.0.Linear.backward.{micro}"]["input"][0]
        assert back["Norm"] == arrived["Norm"] > 0
    assert "Module.0.Linear.parameters_grad.0" in first.data


def one_rank(rank: int, path: str) -> None:
    debugger = PrecisionDebugger(config_path=write_config(Path(path), level="L1", rank=[1]))
    with debugger:
        torch.full((1,), float(rank))
    debugger.close()


def test_rank_selects_processes(tmp_path: Path) -> None:
    run_in_two(one_rank, str(tmp_path))
    assert [path.name for path in (tmp_path / "dump" / "step0").iterdir()] == ["rank1"]


def functional(rank: int, path: str) -> None:
    import torch.distributed._functional_collectives as collectives

    debugger = PrecisionDebugger(config_path=write_config(Path(path), level="L1"))
    x = torch.ones(3)
    with debugger:
        for count in range(20):
            result = collectives.all_reduce(x * (rank + 1), "sum", [0, 1])
            if count % 2:
                result = collectives.wait_tensor(result)
            assert (result + 0).tolist() == [3, 3, 3]
        gathered = collectives.all_gather_tensor(x * (rank + 1), 0, [0, 1])
        assert gathered.tolist() == [1, 1, 1, 2, 2, 2]
        open_until_stop = dist.all_reduce(x, async_op=True)
        dist.barrier()
    assert open_until_stop is not None
    open_until_stop.wait()
    debugger.close()


def test_functional_and_unfinished_calls(tmp_path: Path) -> None:
    run_in_two(functional, str(tmp_path))
    for dump in dumps_of_two(tmp_path):
        names = dump.names("Distributed.all_reduce")
        assert names == [f"Distributed.all_reduce.{number}.forward" for number in range(21)]
        outputs = [dump.data[name]["output"] for name in names]
        assert [output[0]["Max"] for output in outputs[:20]] == [3] * 20
        gathered = dump.data["Distributed.all_gather_into_tensor.0.forward"]["output"][0]
        assert (gathered["Min"], gathered["Max"], gathered["Mean"]) == (1, 2, 1.5)
        told = dump.data["Distributed.all_gather_into_tensor.0.forward"]["input_args"][-1]
        assert told["type"] == "torch.ProcessGroup"
        assert told["group_ranks"] == [0, 1]
        assert not dump.names("Distributed.wait_tensor")
