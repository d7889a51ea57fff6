"""On a CUDA device: true numbers, nobody waits for the device, graphs are left alone."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from msprobe_collector import PrecisionDebugger
from tests.collector.recording import read_dump, record, tensors, write_config

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


def network() -> nn.Module:
    torch.manual_seed(3)
    layers = (nn.Linear(64, 128), nn.LayerNorm(128), nn.GELU(), nn.Linear(128, 8))
    return nn.Sequential(*layers).cuda()


def truths(net: nn.Module, x: torch.Tensor) -> dict[str, list[torch.Tensor]]:
    """What plain hooks see of the same step."""
    seen: dict[str, list[torch.Tensor]] = {}
    handles = []
    for path, module in net.named_children():

        def after(module: nn.Module, args: Any, output: torch.Tensor, path: str = path) -> None:
            name = f"Module.{path}.{type(module).__name__}.forward.0"
            seen[name] = [args[0].detach().cpu(), output.detach().cpu()]

        handles.append(module.register_forward_hook(after))
    net(x).square().mean().backward()
    for handle in handles:
        handle.remove()
    return seen


def test_numbers_are_true_and_read_back_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    net = network()
    x = torch.randn(32, 64, device="cuda")
    wanted = truths(net, x)
    net.zero_grad()
    debugger = PrecisionDebugger(config_path=write_config(tmp_path))
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        torch.cuda.set_sync_debug_mode("error")  # whoever waits for the device raises
        try:
            debugger.start(net)
            net(x).square().mean().backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        debugger.stop()
    debugger.close()
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    copies = [event.name for event in profile.events() if "DtoH" in event.name]
    assert len(copies) == 1, copies
    dump = read_dump(tmp_path / "dump" / "step0" / "rank")
    for name, (given, result) in wanted.items():
        entry = dump.data[name]
        for found_there, truth in ((entry["input_args"][0], given), (entry["output"][0], result)):
            values = truth.double()
            numbers = (values.max(), values.min(), values.mean(), math.sqrt(values.square().sum()))
            found = [found_there[key] for key in ("Max", "Min", "Mean", "Norm")]
            assert found == pytest.approx([float(n) for n in numbers], rel=1e-5, abs=1e-6), name
    assert all(item["Norm"] is not None for _, item in tensors(dump.data) if item["shape"])


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_a_graph_is_captured_as_without_us(task: str, tmp_path: Path) -> None:
    net = network()
    x = torch.randn(32, 64, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side), torch.no_grad():  # capturing wants a warm start
        for _ in range(3):
            net(x)
    torch.cuda.synchronize()
    with torch.no_grad():
        wanted = net(x).clone()
    debugger = PrecisionDebugger(config_path=write_config(tmp_path, task=task))
    graph = torch.cuda.CUDAGraph()
    debugger.start(net)
    with torch.no_grad(), torch.cuda.graph(graph):
        result = net(x)
    eager = net(x)
    debugger.stop()
    debugger.close()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(result, wanted)
    assert torch.equal(eager.detach(), wanted)
    dump = read_dump(tmp_path / "dump" / "step0" / "rank")
    assert [name for name in dump.data if name.startswith("Module.0.")] == [
        "Module.0.Linear.forward.0"
    ]
    assert dump.data["Module.0.Linear.forward.0"]["output"][0]["Norm"] > 0


def doubled_by_triton(tensor: torch.Tensor) -> None:
    pytest.importorskip("triton")
    from tests.collector.triton_kernel import double

    double(tensor)


def doubled_by_cupy(tensor: torch.Tensor) -> None:
    cupy = pytest.importorskip("cupy")
    array = cupy.asarray(tensor.detach())
    array *= 2


def doubled_by_alias(tensor: torch.Tensor) -> None:
    torch.utils.dlpack.from_dlpack(tensor.detach()).mul_(2)


@pytest.mark.parametrize("write", [doubled_by_triton, doubled_by_cupy, doubled_by_alias])
def test_what_others_write_to_a_tensor_shows(write: Callable[[Any], None], tmp_path: Path) -> None:
    x = torch.randn(1000, device="cuda")
    net = nn.Identity()
    seen = []

    def step() -> None:
        y = torch.relu(x)
        seen.append(y.double().norm().item())
        net(y)
        write(y)
        torch.exp(y)
        seen.append(y.double().norm().item())

    step()  # which compiles
    dump = record(tmp_path, step, net)
    assert seen[3] == pytest.approx(2 * seen[2])
    made = dump.data["Torch.relu.0.forward"]["output"][0]["Norm"]
    [module] = dump.names("Module.")
    given = dump.data[module]["input_args"][0]["Norm"]
    after = dump.data["Torch.exp.0.forward"]["input_args"][0]["Norm"]
    assert (made, given) == (pytest.approx(seen[2]), pytest.approx(seen[2]))
    assert after == pytest.approx(seen[3])
