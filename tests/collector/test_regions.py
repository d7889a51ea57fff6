"""Recomputation, compiled code, and a run that is killed."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.collector.models import WIDTH, GatedMLP, tokens
from tests.collector.recording import read_dump, record
from tests.collector.versions import needs_torch
from tests.processes import run_program


class Recomputing(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.embed = nn.Embedding(48, WIDTH)
        self.layers = nn.ModuleList(GatedMLP() for _ in range(2))

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        h = self.embed(batch)
        for layer in self.layers:
            h = checkpoint(layer, h, use_reentrant=self.reentrant)
        return h


class Outer(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.model = Recomputing(reentrant)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return self.model(batch).sum()


@pytest.mark.parametrize("reentrant", [False, True])
def test_recomputed_calls_are_marked_and_placed(reentrant: bool, tmp_path: Path) -> None:
    net = Outer(reentrant)
    batch = tokens()
    dump = record(tmp_path, lambda: net(batch).backward(), net)
    for layer in (0, 1):
        for stem in (
            f"Module.model.layers.{layer}.GatedMLP",
            f"Module.model.layers.{layer}.up.Linear",
        ):
            assert dump.data[f"{stem}.forward.0"]["is_recompute"] is False
            assert dump.data[f"{stem}.forward.1"]["is_recompute"] is True
        above = dump.parents[f"Module.model.layers.{layer}.GatedMLP.forward.1"]
        assert above == "Module.model.Recomputing.backward.0"
        inner = dump.parents[f"Module.model.layers.{layer}.up.Linear.forward.1"]
        assert inner == f"Module.model.layers.{layer}.GatedMLP.forward.1"
        number = 1 if reentrant else 0  # of the call whose graph was used
        backward = f"Module.model.layers.{layer}.up.Linear.backward.{number}"
        assert dump.data[backward]["output"][0] is not None
        assert f"Module.model.layers.{layer}.up.Linear.parameters_grad" in dump.data
    original = dump.data["Module.model.layers.0.down.Linear.forward.0"]["input_args"]
    again = dump.data["Module.model.layers.0.down.Linear.forward.1"]["input_args"]
    assert original[0]["Norm"] == again[0]["Norm"]
    for child, parent in dump.parents.items():
        assert parent is None or parent in dump.parents, child


def test_recomputation_of_single_calls_lies_in_the_open_backward(tmp_path: Path) -> None:
    class Layer(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(lambda z: torch.sin(torch.exp(z)), x, use_reentrant=False)

    net = nn.Sequential(Layer())
    x = torch.ones(2, requires_grad=True)
    dump = record(tmp_path, lambda: net(x).sum().backward(), net)
    assert dump.data["Torch.exp.1.forward"]["is_recompute"] is True
    assert dump.parents["Torch.exp.1.forward"] == "Module.0.Layer.backward.0"
    assert dump.parents["Torch.exp.0.backward"] == "Module.0.Layer.backward.0"


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.a(x) * 2)


def whole(net: Net) -> Any:
    return torch.compile(net, backend="aot_eager")


def in_place(net: Net) -> Any:
    net.compile(backend="aot_eager")
    return net


def part(net: Net) -> Any:
    net.b = torch.compile(net.b, backend="aot_eager")  # type: ignore[assignment]
    return net


@pytest.mark.parametrize(
    ("compiled", "module"),
    [(whole, "Module.Net"), (in_place, "Module.Net"), (part, "Module.b.Sequential")],
)
def test_a_compiled_region_is_one_call(compiled: Any, module: str, tmp_path: Path) -> None:
    torch._dynamo.reset()
    plain = Net()
    x = torch.randn(2, 4)
    expected = plain(x)
    expected.sum().backward()
    gradients = [p.grad for p in plain.parameters()]
    net = Net()
    net.load_state_dict(plain.state_dict())
    model = compiled(net)
    results: list[torch.Tensor] = []

    def step() -> None:
        results.append(model(x))
        results[0].sum().backward()

    dump = record(tmp_path, step, model)
    assert torch.equal(results[0], expected)
    found = [p.grad for p in net.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(gradients, found, strict=True))  # type: ignore[arg-type]
    assert dump.parents["Torch.CompiledFunction.0.forward"] == f"{module}.forward.0"
    assert dump.data[f"{module}.forward.0"]["output"][0]["Norm"] == pytest.approx(
        expected.norm().item(), rel=1e-5
    )
    assert f"{module}.backward.0" in dump.data
    hidden = ("Aten", "Functional.relu", "Module.b.0.Linear.forward")
    inside = {name for name in dump.data if name.startswith(hidden)}
    assert not inside
    torch._dynamo.reset()


def function(net: Net) -> Any:
    return torch.compile(lambda x: net(x), backend="aot_eager")


@pytest.mark.parametrize("compiled", [whole, in_place, part, function])
def test_compiled_modules_show_parameters_and_gradients(compiled: Any, tmp_path: Path) -> None:
    """By their modules' names, with the numbers that the training has; nothing is compiled anew."""
    torch._dynamo.reset()
    net = Net()
    called = compiled(net)
    model = called if isinstance(called, nn.Module) else net
    called(torch.ones(2, 4)).sum().backward()
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    gradients: dict[str, list[torch.Tensor]] = {}

    def step() -> None:
        for scale in (1.0, 3.0):
            net.zero_grad()
            called(torch.full((2, 4), scale)).sum().backward()
            for name, parameter in net.named_parameters():
                assert parameter.grad is not None
                found = gradients.setdefault(name.replace("_orig_mod.", ""), [])
                found.append(parameter.grad.clone())

    dump = record(tmp_path, step, model)
    if compiled is not part:  # with hooks on what surrounds it, that is another program
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == graphs
    assert len(gradients) == 4
    for name, expected in gradients.items():
        path, _, key = name.rpartition(".")
        for suffix, gradient in zip((".0", ""), expected, strict=True):
            item = dump.data[f"Module.{path}.Linear.parameters_grad{suffix}"][key][0]
            assert item["Norm"] == pytest.approx(gradient.norm().item(), rel=1e-6)
    if compiled is not function:
        shown = {
            f"{call.partition('.forward')[0].rpartition('.')[0]}.{key}"
            for call, record in dump.data.items()
            for key in record.get("parameters", ())
        }
        assert shown == {f"Module.{name}" for name in gradients}
    torch._dynamo.reset()


def test_a_compiled_function_runs_as_compiled(tmp_path: Path) -> None:
    torch._dynamo.reset()
    traces: list[int] = []

    def backend(graph: torch.fx.GraphModule, _inputs: Any) -> Any:
        traces.append(len([node for node in graph.graph.nodes if node.op == "call_function"]))
        return graph.forward

    @torch.compile(backend=backend, fullgraph=True)
    def region(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * 2 + 1

    x = torch.randn(3)
    expected = region(x)
    dump = record(tmp_path, lambda: torch.testing.assert_close(region(x), expected), level="L1")
    assert traces == [3]  # compiled once, in one piece, without our calls in it
    assert not [name for name in dump.data if name.startswith("Torch.sin")]
    torch._dynamo.reset()


KILLED = """
import os, signal, sys, torch
from msprobe_collector import PrecisionDebugger
debugger = PrecisionDebugger(dump_path=sys.argv[1], level="mix")
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
debugger.start(model)
for number in range(5000):
    model(torch.ones(1, 2))
    if number == 1500:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_keeps_what_was_recorded(tmp_path: Path) -> None:
    assert run_program(tmp_path, KILLED, str(tmp_path)).returncode == -signal.SIGKILL
    dump = read_dump(tmp_path / "step0" / "rank")
    calls = dump.names("Module.0.Linear.forward")
    assert 300 < len(calls) <= 1501
    assert all(name in dump.parents and name in dump.stacks for name in calls)


FORKED = """
import os, sys, torch
from msprobe_collector import PrecisionDebugger
debugger = PrecisionDebugger(dump_path=sys.argv[1], level="L1")
debugger.start()
torch.ones(1)
child = os.fork()
torch.zeros(1)
if child:
    os.waitpid(child, 0)
    debugger.stop()
debugger.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_worker_records_nothing(tmp_path: Path) -> None:
    assert run_program(tmp_path, FORKED, str(tmp_path)).returncode == 0
    text = (tmp_path / "step0" / "rank" / "dump.json").read_text()
    assert list(json.loads(text)["data"]) == ["Torch.ones.0.forward", "Torch.zeros.0.forward"]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(_: Any, *received: torch.Tensor) -> torch.Tensor:
        return received[0] * 2


class Broken(nn.Module):
    """Its compiled graph breaks, and what the collector takes over is called between the pieces."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8)
        self.scale = nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        torch._dynamo.graph_break()
        y = checkpoint(self.last, Doubled.apply(y), use_reentrant=False)
        nn.utils.clip_grad_norm_([self.scale], 1.0)
        return y * self.scale


@needs_torch(2, 8, to="clip gradients in compiled code as it does elsewhere")
def test_compiled_code_may_call_what_is_taken_over(tmp_path: Path) -> None:
    def train(record_in: Path | None) -> list[torch.Tensor]:
        torch._dynamo.reset()
        torch.manual_seed(3)
        model = Broken()
        compiled: Any = torch.compile(model, backend="aot_eager")
        data = torch.linspace(-1, 1, 16).reshape(2, 8)

        def step() -> None:
            compiled(data).square().sum().backward()

        for number in range(2):
            if record_in is None:
                step()
            else:
                dump = record(record_in / str(number), step, compiled)
                assert "Torch.CompiledFunction.0.forward" in dump.data
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    plain, recorded = train(None), train(tmp_path)
    assert len(plain) == 5
    assert all(torch.equal(one, other) for one, other in zip(plain, recorded, strict=True))
