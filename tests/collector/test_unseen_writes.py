"""A tensor that changed is measured again, whoever wrote to it and however."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from msprobe_collector.record.items import Items
from msprobe_collector.write.tensor_files import TensorFiles
from tests.collector.recording import record


def inputs_of_sum(data: dict[str, Any]) -> list[float]:
    names = [name for name in data if name.startswith("Torch.sum.")]
    return [data[name]["input_args"][0]["Max"] for name in names]


def by_data(x: torch.Tensor) -> None:
    x.data.fill_(7)


def by_older_data(_x: torch.Tensor) -> None:
    ALIASES["data"].fill_(7)


def by_numpy(x: torch.Tensor) -> None:
    x.detach().numpy()[:] = 7


def by_older_array(_x: torch.Tensor) -> None:
    ALIASES["array"][:] = 7


def by_undeclared_operator(x: torch.Tensor) -> None:
    torch.ops.collector_tests.write_quietly(x)


library = torch.library.Library("collector_tests", "FRAGMENT")
library.define("write_quietly(Tensor x) -> ()")
library.impl("write_quietly", lambda x: x.numpy().fill(7), "CPU")
library.define("shift_quietly(Tensor x) -> ()")
library.impl("shift_quietly", lambda x: shift(x), "CPU")
ALIASES: dict[str, Any] = {}
WRITERS: list[Callable[[torch.Tensor], None]] = [
    by_data,
    by_older_data,
    by_numpy,
    by_older_array,
    by_undeclared_operator,
]


@pytest.mark.parametrize("summary_mode", ["statistics", "md5"])
@pytest.mark.parametrize("write", WRITERS)
def test_writes_behind_the_version_counter_are_seen(
    write: Callable[[torch.Tensor], None], summary_mode: str, tmp_path: Path
) -> None:
    array = np.full(6, 2, np.float32)
    x = torch.from_numpy(array)
    ALIASES.update(array=array, data=x.data)

    def step() -> None:
        torch.sum(x)
        write(x)
        torch.sum(x)

    dump = record(tmp_path, step, level="L1", statistics={"summary_mode": summary_mode})
    assert inputs_of_sum(dump.data) == [2, 7]
    before, after = (dump.data[f"Torch.sum.{n}.forward"]["input_args"][0] for n in range(2))
    assert summary_mode == "statistics" or before["md5"] != after["md5"]


def borrowed(array: Any) -> torch.Tensor:
    return torch.as_tensor(array)


def lent(array: Any) -> torch.Tensor:
    return torch.from_numpy(array).view(3, 2)


@pytest.mark.parametrize("make", [borrowed, lent])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int64, np.complex64])
def test_writes_that_keep_the_sum_are_seen(make: Any, dtype: Any, tmp_path: Path) -> None:
    """One number grows by as much as the other shrinks."""
    ALIASES.update(array=np.ones(6, dtype))

    def step() -> None:
        x = make(ALIASES["array"])
        torch.sum(x)
        ALIASES["array"][:2] += (5, -5)
        torch.sum(x)

    data = record(tmp_path, step, level="L1").data
    sums = [name for name in data if name.startswith("Torch.sum")]
    first, last = (data[name]["input_args"][0] for name in (sums[0], sums[-1]))
    assert (first["Max"], last["Max"]) == (1, 6)


def shift(x: torch.Tensor) -> None:
    with torch._C.DisableTorchFunction():  # as C++ does
        x.numpy()[:2] += (5, -5)


def test_an_operator_that_keeps_the_sum_of_few_numbers_is_seen(tmp_path: Path) -> None:
    """No alias was handed out, and the operator says that it writes to nothing."""

    def step() -> None:
        x = torch.relu(torch.ones(6))
        torch.sum(x)
        torch.ops.collector_tests.shift_quietly(x)
        torch.sum(x)

    assert inputs_of_sum(record(tmp_path, step, level="L1").data) == [1, 6]


def test_a_view_of_memory_that_is_given_away_later_is_measured_again(tmp_path: Path) -> None:
    def step() -> None:
        x = torch.ones(6)
        y = x.view(3, 2)
        torch.sum(y)
        x.numpy()[:2] += (5, -5)
        torch.sum(y)

    data = record(tmp_path, step, level="L1").data
    assert inputs_of_sum(data) == [1, 6]


def test_memory_that_is_there_to_be_filled_is_measured_again(tmp_path: Path) -> None:
    """As by a kernel of somebody's own, which no torch function announces."""

    def kernel(out: torch.Tensor) -> None:
        out.numpy()[:2] += (5, -5)

    def step() -> None:
        out = torch.empty(6).fill_(1)
        torch.sum(out)
        thread = threading.Thread(target=kernel, args=(out,))
        thread.start()
        thread.join()
        torch.sum(out)

    assert inputs_of_sum(record(tmp_path, step, level="L1").data) == [1, 6]


def test_unscaled_gradients_are_not_those_from_before(tmp_path: Path) -> None:
    model = nn.Linear(3, 2, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    def step() -> None:
        scaler.scale(model(torch.ones(1, 3)).sum()).backward()
        torch.sum(model.weight.grad)  # type: ignore[arg-type]
        scaler.unscale_(optimizer)
        torch.sum(model.weight.grad)  # type: ignore[arg-type]

    dump = record(tmp_path, step, level="L1")
    assert inputs_of_sum(dump.data) == [1024, 1]


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_running_statistics_are_those_of_their_own_call(level: str, tmp_path: Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(2, momentum=0.5)
            self.watch = Watch()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.watch(self.norm.running_mean)
            return self.norm(x)

    class Watch(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    net = Net()
    x = torch.tensor([[8.0, 0.0], [8.0, 0.0]])
    dump = record(tmp_path, lambda: [net(x) for _ in range(3)], net, level=level)
    seen = [dump.data[f"Module.watch.Watch.forward.{n}"]["input_args"][0]["Max"] for n in range(3)]
    assert seen == [0, 4, 6]


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_weights_are_measured_after_a_fused_optimizer(level: str, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 1, bias=False))
    nn.init.constant_(model[0].weight, 3.0)  # type: ignore[arg-type]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, fused=True)

    def step() -> None:
        for _ in range(2):
            optimizer.zero_grad()
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()

    dump = record(tmp_path, step, model, level=level)
    if level == "L1":
        seen = [dump.data[f"Functional.linear.{n}.forward"]["input_args"][1] for n in range(2)]
    else:
        calls = [dump.data[f"Module.0.Linear.forward.{n}"] for n in range(2)]
        seen = [call["parameters"]["weight"] for call in calls]
    assert [item["Max"] for item in seen] == [3, 2.5]


def test_the_same_numbers_are_measured_once(tmp_path: Path) -> None:
    items = Items("statistics", TensorFiles())
    for x, born in ((torch.randn(3000), False), (torch.randn(5), True)):
        first = items.tensor(x, born=born)
        assert items.tensor(x, born=born) is first
        x.numpy()[0] += 1
        assert items.tensor(x, born=born) is not first
    assert not list(tmp_path.iterdir())


def untouched(_: torch.Tensor) -> None:
    """It is what the pass brought."""


def with_new_strides(x: torch.Tensor) -> None:
    x.data = x.data.t().contiguous().t()


@pytest.mark.parametrize("write", [untouched, by_data, by_numpy, with_new_strides])
@pytest.mark.parametrize("summary_mode", ["statistics", "sketch", "md5"])
def test_a_gradient_beside_its_parameter_is_measured_again_if_it_changed(
    write: Callable[[torch.Tensor], None], summary_mode: str, tmp_path: Path
) -> None:
    net = nn.Linear(40, 30, bias=False)
    update = torch.optim.SGD(net.parameters(), lr=1.0)
    seen = []

    def step() -> None:
        net(torch.randn(8, 40)).square().sum().backward()
        gradient = net.weight.grad
        assert gradient is not None
        write(gradient)
        seen.append(float(gradient.max()))
        update.step()

    mode = {"summary_mode": summary_mode}
    dump = record(tmp_path, step, net, level="mix", statistics=mode)
    given = next(one for name, one in dump.data.items() if name.startswith("Tensor.add_."))
    told = given["input_args"][1]
    assert told["Max"] == pytest.approx(seen[0])
    brought = dump.data["Module.Linear.parameters_grad"]["weight"][0]
    if write is not with_new_strides:  # in which torch adds up in another order
        assert (told == brought) is (write is untouched)
