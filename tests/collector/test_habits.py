"""Things that training scripts do, seldom and for good reasons, while they are recorded."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from msprobe_collector import PrecisionDebugger
from msprobe_collector.intercept import redirect
from tests.collector.recording import ALONE, EVIDENCE, read_dump, record, saved_tensor, write_config


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(_ctx: Any, *_gradients: torch.Tensor) -> Any:
        raise ValueError("a batch that cannot be used")


def test_a_pass_that_failed_is_not_the_latest(tmp_path: Path) -> None:
    """Its gradients reached the last layer before it failed; the next batch's are those to show."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))

    def step() -> None:
        with pytest.raises(ValueError, match="a batch"):
            (model[1](Failing.apply(model[0](torch.ones(1, 2)))) * 1000).sum().backward()
        model.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        model(torch.ones(1, 2)).sum().backward()

    dump = record(tmp_path, step, model)
    gradient = dump.data["Module.1.Linear.parameters_grad"]["bias"][0]
    assert (gradient["Max"], gradient["Min"]) == (1.0, 1.0)
    earlier = dump.names("Module.1.Linear.parameters_grad.")
    found = [dump.data[name]["bias"][0]["Max"] for name in earlier]
    assert found == [1000.0, 1.0]
    assert dump.parents["Module.1.Linear.backward.2"] is None


@pytest.mark.parametrize("section", [ALONE, EVIDENCE], ids=["alone", "evidence"])
def test_parameters_may_be_swapped(section: dict[str, Any], tmp_path: Path) -> None:
    """Torch refuses tensors to which there are weak references."""
    model = nn.Sequential(nn.Linear(2, 2))
    x = torch.ones(1, 2)

    def step() -> None:
        model(x).sum().backward()
        model.zero_grad()
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            model.double()
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)
        (model(x.double()) * 3).sum().backward()

    dump = record(tmp_path, step, model, statistics=section)
    entry = dump.data["Module.0.Linear.forward.1"]
    assert [item["dtype"] for item in entry["parameters"].values()] == ["torch.float64"] * 2
    gradient = dump.data["Module.0.Linear.parameters_grad"]["bias"][0]
    assert (gradient["dtype"], gradient["Max"]) == ("torch.float64", 3.0)
    assert not any(parameter._backward_hooks for parameter in model.parameters())
    assert not [name for name in dump.names() if "_use_count" in name]


def test_gradients_of_many_directions_at_once_cost_no_record(tmp_path: Path) -> None:
    layer = nn.Linear(2, 3)
    model = nn.Sequential(layer)
    directions = torch.eye(3).view(3, 1, 3)
    found: list[torch.Tensor] = []

    def step() -> None:
        y = model(torch.ones(1, 2))
        found.extend(torch.autograd.grad(y, [layer.bias], directions, is_grads_batched=True))

    dump = record(tmp_path, step, model)
    assert torch.equal(found[0], torch.eye(3))
    backward = dump.data["Module.0.Linear.backward.0"]
    # What stands for three gradients at once is told by the shape of one, without numbers.
    assert [(g["shape"], g["Max"]) for g in backward["input"]] == [([1, 3], None)]


def test_many_windows_leave_no_more_behind_than_one(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    debugger = PrecisionDebugger(dump_path=tmp_path, level="mix")
    sizes = []
    for _ in range(3):
        with debugger.start(model):
            model(torch.ones(1, 2)).sum().backward()
        debugger.step()
        sizes.append(len(redirect.TARGETS))
    assert len(set(sizes)) == 1
    assert len(read_dump(tmp_path / "step2" / "rank").data) > 3


def test_a_function_that_was_patched_between_two_windows_stays_patched(tmp_path: Path) -> None:
    function: Any = torch.utils.swap_tensors
    before = function.__code__
    debugger = PrecisionDebugger(dump_path=tmp_path, level="mix")
    model = nn.Sequential(nn.Linear(2, 2))
    debugger.start(model)
    debugger.stop()

    def patched(*_args: Any, **_kwargs: Any) -> int:
        return 7

    function.__code__ = patched.__code__
    try:
        debugger.start(model)
        assert function(1, 2) == 7
        debugger.stop()
        assert function.__code__ is patched.__code__
    finally:
        function.__code__ = before


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_a_graph_of_an_earlier_step_is_none_of_this_one(task: str, tmp_path: Path) -> None:
    """Both steps have a call of this name: the gradient is that of the call in the same step."""
    model = nn.Sequential(nn.Linear(2, 2))
    debugger = PrecisionDebugger(config_path=write_config(tmp_path, task=task))
    with debugger.start(model):
        before = model(torch.ones(1, 2))
    debugger.step()
    with debugger.start(model):
        after = model(torch.ones(1, 2))
        (after * 5).sum().backward()
        (before * 7).sum().backward()
    debugger.close()
    directory = tmp_path / "dump" / "step1" / "rank"
    text = (directory / "dump.json").read_text()
    for name in ("Module.0.Linear.backward.0", "Functional.linear.0.backward"):
        assert text.count(f'"{name}": ') == 1
        gradient = read_dump(directory).data[name]["input"][0]
        assert gradient["Max"] == 5.0
        if task == "tensor":
            assert saved_tensor(directory, gradient["data_name"]).max() == 5.0
    assert "backward" not in (tmp_path / "dump" / "step0" / "rank" / "dump.json").read_text()


class Counting(nn.Module):
    """Returns nothing, as modules do that only keep something of what passes."""

    def forward(self, x: torch.Tensor) -> None:
        if x.shape[0] > 2:
            raise ValueError("too many at once")


def test_a_call_in_the_handler_of_an_exception_is_none_that_raised(tmp_path: Path) -> None:
    model = nn.ModuleDict({"count": Counting()})

    def step() -> None:
        try:
            model["count"](torch.ones(4, 2))
        except ValueError:
            model["count"](torch.ones(2, 2))

    dump = record(tmp_path, step, model, level="L0")
    outputs = [dump.data[f"Module.count.Counting.forward.{n}"]["output"] for n in (0, 1)]
    assert outputs == [[], [None]]


@pytest.fixture
def garbage() -> Iterator[None]:
    """Whatever a test decides of garbage ends with it."""
    before, is_on = gc.get_threshold(), gc.isenabled()
    yield
    gc.set_threshold(*before)
    (gc.enable if is_on else gc.disable)()


def decided_before() -> tuple[int, int, int]:
    gc.set_threshold(900, 11, 12)
    return 900, 11, 12


def decided_meanwhile() -> tuple[int, int, int]:
    gc.set_threshold(123, 4, 5)
    return 123, 4, 5


def let_be() -> tuple[int, int, int]:
    gc.set_threshold(0)
    return 0, *gc.get_threshold()[1:]


@pytest.mark.usefixtures("garbage")
@pytest.mark.parametrize(("flow", "rarer"), [(False, 50), (True, 80)])
@pytest.mark.parametrize(
    ("before", "meanwhile"),
    [(decided_before, None), (decided_before, decided_meanwhile), (let_be, None)],
)
def test_the_program_decides_when_to_look_for_garbage(
    before: Callable[[], tuple[int, int, int]],
    meanwhile: Callable[[], tuple[int, int, int]] | None,
    flow: bool,
    rarer: int,
    tmp_path: Path,
) -> None:
    wanted = before()
    found = []

    def step() -> None:
        nonlocal wanted
        torch.neg(torch.ones(2))
        found.append(gc.get_threshold())
        if meanwhile is not None:
            wanted = meanwhile()

    rare = (rarer * wanted[0], *wanted[1:])
    record(tmp_path, step, nn.Linear(2, 2), statistics={"flow": flow})
    assert found == [rare]
    assert gc.get_threshold() == wanted


@pytest.mark.usefixtures("garbage")
def test_garbage_is_kept_where_the_program_keeps_it(tmp_path: Path) -> None:
    gc.disable()
    before, found = gc.get_threshold(), []

    def step() -> None:
        torch.neg(torch.ones(2))
        found.append(gc.get_threshold())

    record(tmp_path, step, nn.Linear(2, 2))
    assert found == [before]
