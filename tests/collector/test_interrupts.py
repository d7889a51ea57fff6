"""Signals and interrupts of the training reach the training, also while the collector runs."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch import nn

import msprobe_collector
from msprobe_collector import PrecisionDebugger
from tests.collector.recording import ALONE, EVIDENCE, read_dump, write_config

PACKAGE = str(Path(msprobe_collector.__file__).parent)


class TooLongError(TimeoutError):
    """What a limit of time raises; of the kind that a full disk is told by, too."""


class Handlers:
    """Ways to write a handler."""

    def method(self, _number: int, _frame: Any) -> None:
        raise TooLongError

    def raises_deep_inside(self, number: int, frame: Any) -> None:
        self.method(number, frame)


def once(_number: int, _frame: Any) -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    raise TooLongError


def with_any_arguments(*_arguments: Any) -> None:
    raise TooLongError


HANDLERS = [Handlers().method, Handlers().raises_deep_inside, once, with_any_arguments]


class Odd(torch.Tensor):
    """A tensor whose shape, which the collector asks for, takes some work: a signal comes."""

    @property
    def shape(self) -> Any:  # type: ignore[override]
        signal.raise_signal(signal.SIGUSR1)
        return torch.Size([1, 2])


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.named = Named()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return next(iter(self.named(self.inner(x)).values()))


class Named(nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"name": torch.relu(x).as_subclass(Odd)}


def hooks(model: nn.Module) -> int:
    mine = sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())
    return mine + sum(len(p._backward_hooks or ()) for p in model.parameters())


@pytest.fixture(autouse=True)
def default_handling() -> Iterator[None]:
    before = signal.getsignal(signal.SIGUSR1)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("handler", HANDLERS, ids=lambda handler: handler.__name__)
@pytest.mark.parametrize("section", [ALONE, EVIDENCE], ids=["alone", "evidence"])
def test_what_a_signal_raises_reaches_the_training(
    section: dict[str, Any],
    handler: Callable[..., None],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    signal.signal(signal.SIGUSR1, handler)
    model = Net()
    config = write_config(tmp_path, statistics=section)
    debugger = PrecisionDebugger(config_path=config)
    debugger.start(model)
    with pytest.raises(TooLongError):
        model(torch.ones(1, 2))
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    model(torch.ones(1, 2)).sum().backward()
    debugger.stop()
    debugger.step()
    assert not hooks(model)
    assert not torch._C._len_torch_function_stack()
    names = read_dump(tmp_path / "dump" / "step0" / "rank").names()
    assert {"Module.inner.Linear.forward.0", "Module.named.Named.backward.1"} <= set(names)
    assert not [text for text in caplog.messages if "not recorded" in text or "any more" in text]


class Failing(torch.Tensor):
    """A tensor whose shape cannot be had, for a reason of its own."""

    @property
    def shape(self) -> Any:  # type: ignore[override]
        raise ValueError("no shape")


@pytest.mark.failing_records
def test_what_a_value_raises_stays_with_the_collector(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Making(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return {"name": x.as_subclass(Failing)}

    model = nn.Sequential(Making())
    debugger = PrecisionDebugger(dump_path=tmp_path, level="mix")
    debugger.start(model)
    model(torch.ones(1, 2))
    debugger.stop()
    assert [text for text in caplog.messages if "not recorded: ValueError: no shape" in text]


@contextmanager
def interrupt_at(number: int, by: signal.Signals) -> Iterator[None]:
    """A signal when the collector calls a function of its own for the given time."""
    left = number

    def trace(frame: FrameType, event: str, _value: Any) -> None:
        nonlocal left
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            left -= 1
            if not left:
                signal.raise_signal(by)

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(None)


def calls_of(run: Callable[[], object]) -> int:
    """How many functions of the collector ``run`` calls."""
    found = 0

    def trace(frame: FrameType, event: str, _value: Any) -> None:
        nonlocal found
        found += event == "call" and frame.f_code.co_filename.startswith(PACKAGE)

    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(None)
    return found


@pytest.mark.parametrize(
    ("phase", "stride"), [("start", 5), ("train", 41), ("stop", 11), ("step", 3)]
)
def test_an_interrupt_anywhere_leaves_nothing_behind(
    phase: str, stride: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "msprobe_collector")
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.LayerNorm(4))

    def train() -> list[torch.Tensor]:
        model.zero_grad()
        (model(torch.ones(2, 4)) * 2).pow(2).sum().backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    wanted = train()
    debugger = PrecisionDebugger(dump_path=tmp_path, level="mix")
    phases: dict[str, Callable[[], object]] = {
        "start": lambda: debugger.start(model),
        "train": train,
        "stop": debugger.stop,
        "step": debugger.step,
    }
    counts = {name: calls_of(run) for name, run in phases.items()}
    assert counts[phase] > 10 * stride, "too few to be worth it"
    for number in range(1, counts[phase], stride):
        for name, run in phases.items():
            if name != phase:
                run()
                continue
            with suppress(KeyboardInterrupt), interrupt_at(number, signal.SIGINT):
                run()
        debugger.stop()
        debugger.step()
        assert not hooks(model), number
        assert not torch._C._len_torch_function_stack(), number
        assert all(map(torch.equal, train(), wanted)), number
    for run in phases.values():
        run()
    steps = sorted(tmp_path.iterdir(), key=lambda path: int(path.name[4:]))
    first, last = (read_dump(steps[at] / "rank").names() for at in (0, -1))
    assert first == last
    PrecisionDebugger.close()


def test_a_limit_of_time_anywhere_lets_the_training_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    signal.signal(signal.SIGUSR1, with_any_arguments)
    layer = nn.Linear(4, 4)
    model = nn.Sequential(layer, nn.ReLU(), nn.LayerNorm(4))
    x = torch.ones(2, 4)

    def train() -> None:
        (model(x) * 2).pow(2).sum().backward()

    debugger = PrecisionDebugger(dump_path=tmp_path, level="mix")
    debugger.start(model)
    for number in range(1, calls_of(train), 13):
        with pytest.raises(TooLongError), interrupt_at(number, signal.SIGUSR1):
            train()
        assert torch._C._is_torch_function_enabled(), number
        assert (x * layer.weight.sum()).requires_grad, number
    debugger.stop()
    assert not [text for text in caplog.messages if "not recorded" in text]


def test_an_exception_of_the_training_stays_what_it_is_where_nothing_can_be_written(
    tmp_path: Path,
) -> None:
    x = torch.ones(2, 3)
    (tmp_path / "file").touch()
    debugger = PrecisionDebugger(dump_path=tmp_path / "file" / "dump", level="L1")
    debugger.start()
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        torch.mm(x, x)
    debugger.stop()
    assert not torch._C._len_torch_function_stack()
