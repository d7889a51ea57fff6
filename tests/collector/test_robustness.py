"""What goes wrong, runs aside or ends early in user code loses nothing and breaks nothing."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from msprobe_collector import PrecisionDebugger
from msprobe_collector.record.calls import Call, OpenModule
from msprobe_collector.record.module_calls import close_module
from tests.collector.recording import Dump, read_dump, record

x = torch.rand(3, 3)


def test_an_exception_in_user_code_loses_nothing(tmp_path: Path) -> None:
    class Fragile(nn.Module):
        def forward(self, x: torch.Tensor, broken: bool) -> torch.Tensor:
            z = torch.relu(x)
            if broken:
                torch.matmul(z, torch.ones(7, 7))
            return torch.sigmoid(z)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fragile = Fragile()

        def forward(self, x: torch.Tensor, broken: bool) -> torch.Tensor:
            return self.fragile(x, broken)

    net = Net()

    def step() -> None:
        with pytest.raises(RuntimeError):
            net(torch.ones(2, 2), True)
        net(torch.ones(2, 2), False)

    dump = record(tmp_path, step, net)
    assert dump.data["Torch.matmul.0.forward"]["output"] == []
    assert dump.data["Module.fragile.Fragile.forward.0"]["output"] == []
    assert dump.parents["Torch.relu.1.forward"] == "Module.fragile.Fragile.forward.1"
    assert dump.parents["Torch.sigmoid.0.forward"] == "Module.fragile.Fragile.forward.1"
    assert dump.parents["Module.fragile.Fragile.forward.1"] is None


def test_a_module_that_returns_nothing_while_an_exception_is_handled_has_returned(
    tmp_path: Path,
) -> None:
    class Silent(nn.Module):
        def forward(self, x: torch.Tensor) -> None:
            torch.mul(x, 2)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.silent = Silent()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            try:
                raise KeyError
            except KeyError:
                self.silent(x)
            return x + 1

    net = Net()
    dump = record(tmp_path, lambda: net(torch.ones(2)), net)
    assert dump.data["Module.silent.Silent.forward.0"]["output"] == [None]
    assert dump.parents["Torch.mul.0.forward"] == "Module.silent.Silent.forward.0"


def test_a_module_takes_along_what_an_exception_left_open_inside_of_it() -> None:
    owners = [object(), object(), object()]
    calls = [Call(f"forward.{n}", f"backward.{n}") for n in range(3)]
    session: Any = SimpleNamespace(threads=SimpleNamespace(modules=[]))
    pairs = list(zip(owners, calls, strict=True))
    session.threads.modules += [OpenModule(call, None, -1, owner, None) for owner, call in pairs]
    outermost, middle, _ = session.threads.modules
    assert close_module(session, middle.owner) is middle
    assert session.threads.modules == [outermost]
    assert close_module(session, owners[1]) is None
    assert session.threads.modules == [outermost]


@pytest.mark.failing_records
def test_one_failing_record_is_reported_and_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(torch.Tensor):
        @property
        def shape(self) -> Any:  # type: ignore[override]
            raise RuntimeError("no shape today")

    class Inner(nn.Module):
        def forward(self, table: list[torch.Tensor]) -> torch.Tensor:
            return torch.neg(table[0])

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner([x, torch.ones(1).as_subclass(Broken)])

    net = Net()
    dump = record(tmp_path, lambda: torch.exp(net(torch.ones(2))), net)
    assert "Module.inner.Inner.forward.0" not in dump.data
    assert "Torch.neg.0.forward" in dump.data
    assert "Torch.exp.0.forward" in dump.data
    assert [text for text in caplog.messages if "no shape today" in text]


def test_threads_of_the_users_own_are_seen_inside_modules(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def step() -> None:
        # One after the other: calls made at the same time have no order to be numbered in.
        for _ in range(4):
            worker = threading.Thread(target=lambda: model(torch.ones(1, 2)))
            worker.start()
            worker.join()

    dump = record(tmp_path, step, model)
    for number in range(4):
        assert dump.parents[f"Functional.linear.{number}.forward"].startswith("Module.0.Linear")  # type: ignore[union-attr]
        assert dump.parents[f"Functional.relu.{number}.forward"].startswith("Module.1.ReLU")  # type: ignore[union-attr]


def test_numbers_go_on_until_the_step_ends(tmp_path: Path) -> None:
    debugger = PrecisionDebugger(dump_path=tmp_path, level="L1")
    for _ in range(2):
        for _ in range(2):
            debugger.start()
            torch.ones(2)
            debugger.stop()
        debugger.step()
    for step in range(2):
        dump: Dump = read_dump(tmp_path / f"step{step}" / "rank")
        assert dump.names() == ["Torch.ones.0.forward", "Torch.ones.1.forward"]


def test_a_gradient_penalty_is_recorded(tmp_path: Path) -> None:
    """Double backward: the first backward is itself differentiated."""
    z = torch.ones(2, requires_grad=True)

    def step() -> None:
        (gradient,) = torch.autograd.grad((z**3).sum(), z, create_graph=True)
        gradient.pow(2).sum().backward()

    dump = record(tmp_path, step, level="L1")
    assert z.grad is not None
    assert z.grad.tolist() == [36, 36]
    assert dump.data["Tensor.__pow__.0.backward"]["output"][0]["Max"] == 3
    assert "Tensor.pow.0.backward" in dump.data


def test_vmap_and_inference_mode_run_unharmed(tmp_path: Path) -> None:
    def step() -> None:
        assert torch.vmap(lambda row: row * 2)(x).equal(x * 2)
        with torch.inference_mode():
            torch.tanh(x).mul_(2)

    dump = record(tmp_path, step, level="L1")
    assert dump.data["Torch.tanh.0.forward"]["output"][0]["Max"] is not None


def test_files_are_complete_after_every_flush(tmp_path: Path) -> None:
    debugger = PrecisionDebugger(dump_path=tmp_path, level="L1")
    debugger.start()
    for count in range(1, 4):
        torch.ones(1)
        debugger._session.ledger.flush()
        dump = read_dump(tmp_path / "step0" / "rank")
        assert len(dump.data) == count
        assert set(dump.stacks) == set(dump.data)
    groups = json.loads((tmp_path / "step0" / "rank" / "stack.json").read_text())
    assert list(groups) == ["0", "1", "2"]


class ByKey(dict[str, Any]):
    """Values by attribute, as many configurations and results of models have them."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


class ByKeyOrNone(dict[str, Any]):
    __getattr__ = dict.get


class WithoutAny:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class WithAll:
    def __getattr__(self, _name: str) -> Any:
        return self


@pytest.mark.parametrize("make", [ByKey, ByKeyOrNone])
def test_values_that_make_up_their_attributes_are_what_they_are(
    make: type[dict[str, Any]], tmp_path: Path
) -> None:
    class Inner(nn.Module):
        def forward(self, x: torch.Tensor, more: Any) -> Any:
            return make(hidden=x * 2, more=more)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: torch.Tensor) -> Any:
            return self.inner(x, (WithoutAny(), WithAll(), 3))

    net = Net()
    dump = record(tmp_path, lambda: net(torch.ones(2)), net)
    entry = dump.data["Module.inner.Inner.forward.0"]
    assert entry["input_args"][1] == [None, None, {"type": "int", "value": 3}]
    assert entry["output"][0]["hidden"]["Max"] == 2.0
    assert entry["output"][0]["more"] == entry["input_args"][1]


class Unhashable:
    """A function that cannot be told from others."""

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if torch.overrides.has_torch_function_unary(x):
            return torch.overrides.handle_torch_function(self, (x,), x)
        return x * 2


@pytest.mark.failing_records
def test_a_function_that_cannot_be_described_is_called(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    results = []
    dump = record(tmp_path, lambda: results.append(Unhashable()(x) + 1), level="L1")
    assert torch.equal(results[0], x * 2 + 1)
    assert dump.names() == ["Tensor.__add__.0.forward"]
    assert [text for text in caplog.messages if text.startswith("A function was not recorded")]
