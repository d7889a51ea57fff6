"""Whatever happens between start and stop, the training goes on and every hook is gone."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode

from msprobe_collector import PrecisionDebugger
from tests.collector.recording import ALONE, EVIDENCE, read_dump, record, saved_tensor, write_config
from tests.collector.versions import needs_torch
from tests.processes import run_program


def net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 3), nn.ReLU())


def traces(model: nn.Module) -> list[str]:
    """What of ours is left in torch and in the model."""
    left = [f"mode {n}" for n in range(torch._C._len_torch_function_stack())]
    for name, module in model.named_modules():
        if module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module):
            left.append(name)
    left += [n for n, p in model.named_parameters() if p._backward_hooks]
    special = (getattr(torch.Tensor, name) for name in ("__add__", "__eq__", "__lt__", "__neg__"))
    left += [str(method) for method in special if "special_method" in repr(method)]
    return left


@pytest.fixture(autouse=True)
def nothing_is_left_on_the_stack() -> Iterator[None]:
    yield
    torch.set_default_device(None)
    left = torch._C._len_torch_function_stack()
    while torch._C._len_torch_function_stack():
        torch._C._pop_torch_function_stack()
    assert not left


def jagged() -> torch.Tensor:
    rows = [torch.ones(2, 3), torch.full((4, 3), 5.0)]
    return torch.nested.nested_tensor(rows, layout=torch.jagged, requires_grad=True)


def traced(model: nn.Module) -> float:
    return torch.jit.trace(model, torch.ones(1, 3))(torch.ones(1, 3)).sum().item()


def scripted(model: nn.Module) -> float:
    return torch.jit.script(model)(torch.ones(1, 3)).sum().item()


def symbolic(model: nn.Module) -> float:
    return torch.fx.symbolic_trace(model)(torch.ones(1, 3)).sum().item()


def by_proxies(model: nn.Module) -> float:
    return make_fx(model)(torch.ones(1, 3))(torch.ones(1, 3)).sum().item()


def exported(model: nn.Module) -> float:
    program = torch.export.export(model, (torch.ones(1, 3),))
    return program.module()(torch.ones(1, 3)).sum().item()


@pytest.mark.parametrize("use", [traced, scripted, symbolic, by_proxies, exported])
def test_tracing_in_the_window_gives_the_same_program(
    use: Callable[[nn.Module], float], tmp_path: Path
) -> None:
    model = net()
    plain = use(model)
    seen: list[float] = []

    def step() -> None:
        seen.append(use(model))
        model(torch.ones(1, 3))

    dump = record(tmp_path, step, model)
    assert seen == [plain]
    numbers = [int(name.rpartition(".")[2]) for name in dump.names("Module.0.Linear.forward.")]
    assert numbers == list(range(len(numbers)))
    assert not traces(model)


def test_scripting_meets_the_hooks_of_others_only(tmp_path: Path) -> None:
    """Ours are back where they were afterwards, also in modules that must not carry any."""
    model = nn.Sequential(nn.Linear(4, 4), nn.TransformerEncoderLayer(4, 1, 8).eval())
    order: list[str] = []

    def step() -> None:
        model[0].register_forward_hook(lambda *_: order.append("theirs"))
        with pytest.raises(Exception, match="single top-level function"):  # as without us
            torch.jit.script(model)
        model(torch.ones(2, 1, 4))

    dump = record(tmp_path, step, model)
    assert order == ["theirs"]
    assert "Module.0.Linear.forward.0" in dump.data
    assert "Module.1.TransformerEncoderLayer.forward.0" in dump.data
    del model[0]._forward_hooks[next(iter(model[0]._forward_hooks))]
    assert not traces(model)


@needs_torch(2, 5, to="train with jagged tensors")
def test_jagged_tensors_are_measured_and_trained(tmp_path: Path) -> None:
    model = net()
    plain = torch.autograd.grad(model(jagged()).values().sum(), list(model.parameters()))
    data = jagged()
    dump = record(tmp_path, lambda: model(data).values().sum().backward(), model)
    item = dump.data["Module.0.Linear.forward.0"]["input_args"][0]
    assert (item["shape"], item["Max"], item["Min"]) == ([2, -1, 3], 5, 1)
    assert item["Mean"] == pytest.approx(22 / 6)
    for parameter, gradient in zip(model.parameters(), plain, strict=True):
        assert parameter.grad is not None
        assert torch.equal(parameter.grad, gradient)


@needs_torch(2, 5, to="train with jagged tensors")
def test_what_the_engine_calls_for_a_jagged_tensor_is_no_call(tmp_path: Path) -> None:
    """Their backward is written in Python, and calls torch's functions."""
    model, data = net(), jagged()
    dump = record(tmp_path, lambda: model(data).values().sum().backward(), model)
    inside = {name.split(".")[1] for name in dump.names() if ".parameters_grad" not in name}
    assert {"linear", "relu", "sum"} <= inside
    assert inside.isdisjoint({"matmul", "t", "reshape"})
    assert not traces(model)


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_memory_that_was_given_back_has_no_numbers(task: str, tmp_path: Path) -> None:
    """As sharded parameters between two uses."""

    def step() -> None:
        x = torch.ones(8)
        torch.sum(x)
        x.untyped_storage().resize_(0)
        x.view(2, 4)

    data = record(tmp_path, step, task=task, level="L1").data
    (before,) = data["Torch.sum.0.forward"]["input_args"]
    (after,) = data["Tensor.view.0.forward"]["output"]
    assert (before["shape"], before["Max"]) == ([8], 1)
    assert (after["shape"], after["Max"], after["Norm"]) == ([2, 4], None, None)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("task", ["statistics", "md5", "tensor", "overflow_check"])
def test_what_a_shrunk_storage_no_longer_reaches_is_not_read(
    task: str, stride: int, tmp_path: Path
) -> None:
    """There lies memory of others, or none, which ends the process."""
    memory = torch.ones(1 << 22)
    x = memory if stride == 1 else memory[::stride]
    at_the_end, beyond, empty = x[:7], x[:8], x[9:9]

    def step() -> None:
        x.to(x.dtype)
        x.untyped_storage().resize_(13 * x.itemsize)
        for tensor in (x, at_the_end, beyond, empty):
            tensor.to(x.dtype)
        memory.resize_(4)  # of what is changed in place, overflow_check keeps a copy

    data = record(tmp_path, step, task=task, level="L1").data
    if task != "overflow_check":
        numbers = [data[f"Tensor.to.{n}.forward"]["input_args"][0]["Max"] for n in range(5)]
        assert numbers == [1, None, 1, 1 if stride == 1 else None, None]


@pytest.mark.parametrize("section", [ALONE, EVIDENCE], ids=["alone", "evidence"])
def test_lazy_modules_are_named_and_followed_as_what_they_become(
    section: dict[str, Any], tmp_path: Path
) -> None:
    model = nn.Sequential(nn.LazyLinear(3), nn.ReLU())
    step = lambda: model(torch.ones(1, 2)).sum().backward()  # noqa: E731
    dump = record(tmp_path, step, model, statistics=section)
    assert "weight" in dump.data["Module.0.Linear.parameters_grad"]
    assert dump.data["Module.0.Linear.forward.0"]["parameters"]["weight"]["shape"] == [3, 2]
    assert not traces(model)


def test_stop_in_another_thread_ends_the_window(tmp_path: Path) -> None:
    debugger = PrecisionDebugger(dump_path=tmp_path, level="L1")
    debugger.start()
    torch.ones(1)
    other = threading.Thread(target=debugger.stop)
    other.start()
    other.join()
    torch.ones(2)
    debugger.step()
    with debugger.start():
        torch.ones(3)
    debugger.step()
    for step in range(2):
        assert read_dump(tmp_path / f"step{step}" / "rank").names() == ["Torch.ones.0.forward"]


class Passing(TorchFunctionMode):
    def __torch_function__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("context", [lambda: torch.device("meta"), Passing])
def test_a_context_that_ends_in_the_window_ends(context: Callable[[], Any], tmp_path: Path) -> None:
    debugger = PrecisionDebugger(dump_path=tmp_path, level="L1")
    with context():
        debugger.start()
        torch.ones(1)
    assert torch.ones(2).device.type == "cpu"
    debugger.stop()
    debugger.close()
    assert len(read_dump(tmp_path / "step0" / "rank").data) == 2


def test_the_default_device_can_change_in_the_window(tmp_path: Path) -> None:
    def step() -> None:
        torch.set_default_device("meta")
        assert torch.ones(1).device.type == "meta"
        torch.set_default_device("cpu")
        assert torch.ones(1).device.type == "cpu"

    assert len(record(tmp_path, step, level="L1").data) == 2


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_exceptions_of_the_training_pass_through(
    error: type[BaseException], tmp_path: Path
) -> None:
    class Fails(nn.Module):
        def forward(self, _x: torch.Tensor) -> torch.Tensor:
            raise error("the user's own")

    model = nn.Sequential(nn.Linear(3, 3), Fails())
    debugger = PrecisionDebugger(dump_path=tmp_path, level="mix")
    with pytest.raises(error), debugger.start(model):
        model(torch.ones(1, 3))
    debugger.step()
    assert not traces(model)
    with pytest.raises(error), debugger.start(model):
        model(torch.ones(1, 3))
    debugger.close()
    assert not traces(model)
    dumps = [read_dump(tmp_path / f"step{step}" / "rank") for step in range(2)]
    assert dumps[0].names() == dumps[1].names()
    # torch itself tells a module's hooks of ordinary exceptions only
    assert error is not ValueError or "Module.1.Fails.forward.0" in dumps[0].data


def test_gradients_that_come_after_stop_are_recorded(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    debugger = PrecisionDebugger(dump_path=tmp_path, level="mix")
    for _ in range(2):
        debugger.start(model)
        loss = model(torch.ones(1, 3)).sum()
        debugger.stop()
        loss.backward()
        debugger.step()
        assert not traces(model)
    late = [read_dump(tmp_path / f"step{step}" / "rank").data for step in range(2)]
    debugger.close()
    within = record(tmp_path / "within", lambda: model(torch.ones(1, 3)).sum().backward(), model)
    wanted = {name for name in within.data if "backward" in name or "grad" in name}
    assert wanted
    for data in late:
        assert {name for name in data if "backward" in name or "grad" in name} == wanted


@pytest.mark.parametrize("task", ["statistics", "tensor", "files"])
def test_a_full_disk_ends_the_recording_and_nothing_else(task: str, tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: writing fails half-way."""
    layout = {"layout": "files"} if task == "files" else {}
    task = "tensor" if task == "files" else task
    config = write_config(tmp_path, task=task, tensor=layout)
    answer = run_program(
        tmp_path,
        f"""
        import logging, resource, signal, torch
        from msprobe_collector import PrecisionDebugger
        logging.basicConfig(level=logging.WARNING)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        model = torch.nn.Sequential(*(torch.nn.Linear(32, 32) for _ in range(40)))
        model.append(torch.nn.Linear(32, 400))
        debugger = PrecisionDebugger({str(config)!r})
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
        for _ in range(3):
            debugger.start(model)
            model(torch.ones(4, 32)).sum().backward()
            debugger._session.ledger.flush()
            model(torch.ones(4, 32)).sum().backward()
            debugger.stop()
            debugger.step()
        hooks = [m for m in model.modules() if m._forward_hooks or m._forward_pre_hooks]
        print("trained", len(hooks), torch._C._len_torch_function_stack())
        """,
    )
    assert answer.stdout.split() == ["trained", "0", "0"], answer.stderr
    (told,) = (line for line in answer.stderr.splitlines() if "cannot be written" in line)
    assert told.endswith("; nothing is recorded any more and the training goes on.")
    assert str(tmp_path / "dump" / "step0" / "rank") in told
    assert "Traceback" not in answer.stderr
    for path in (tmp_path / "dump").rglob("*.json"):
        content = json.loads(path.read_text())
        if path.name == "index.json":
            size = (path.parent / "tensors.bin").stat().st_size
            assert content
            for entry in content.values():
                assert entry["offset"] + 4 * math.prod(entry["shape"]) <= size
    for path in (tmp_path / "dump").rglob("*.pt"):
        torch.load(path)


def test_a_forked_child_ends_while_files_are_pending(tmp_path: Path) -> None:
    answer = run_program(
        tmp_path,
        f"""
        import os, sys, torch
        torch.set_num_threads(1)  # a pool of threads does not survive the fork
        from msprobe_collector import PrecisionDebugger
        model = torch.nn.Sequential(torch.nn.Linear(64, 64))
        debugger = PrecisionDebugger(
            dump_path={str(tmp_path / "dump")!r}, level="mix", task="tensor")
        debugger.start(model)
        for _ in range(50):
            model(torch.ones(256, 64))
        child = os.fork()
        model(torch.ones(256, 64))
        if not child:
            debugger.stop()
            debugger.step()
            sys.exit(3)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        debugger.stop()
        debugger.close()
        print("trained")
        """,
    )
    assert answer.stdout.split() == ["trained"], answer.stderr
    dump = read_dump(tmp_path / "dump" / "step0" / "rank")
    assert len(dump.names("Module.")) == 51
    assert saved_tensor(dump.directory, "Module.0.Linear.forward.50.output.0.pt").shape == (256, 64)


@pytest.mark.parametrize(
    ("task", "section"),
    [("structure", {}), ("statistics", ALONE), ("statistics", EVIDENCE), ("tensor", {})],
)
def test_two_threads_train_a_model_each(task: str, section: dict[str, Any], tmp_path: Path) -> None:
    """One may be freeing its gradients while the backward pass of the other begins or ends."""
    config = write_config(tmp_path, task=task, level="L0", **{task: section})
    answer = run_program(
        tmp_path,
        f"""
        import torch
        from concurrent.futures import ThreadPoolExecutor
        from torch import nn
        from msprobe_collector import PrecisionDebugger
        torch.set_num_threads(1)
        models = [nn.Sequential(*(nn.Linear(3, 3) for _ in range(5))) for _ in range(2)]
        debugger = PrecisionDebugger({str(config)!r})
        def train(model):
            for _ in range(3):
                model.zero_grad()
                model(torch.ones(2, 3)).sum().backward()
        for _ in range(40):
            debugger.start(models)
            with ThreadPoolExecutor(2) as threads:
                list(threads.map(train, models))
            debugger.stop()
            debugger.step()
        """,
    )
    assert answer.returncode == 0, answer.stderr
    assert "not recorded" not in answer.stderr
    for step in range(40):
        data = read_dump(tmp_path / "dump" / f"step{step}" / "rank").data
        found = {name: set(record) for name, record in data.items() if "parameters_grad" in name}
        assert len(found) == 2 * 5 * 3
        assert len(data) == 3 * len(found)
        assert all(gradients == {"weight", "bias"} for gradients in found.values())
