"""The usage that the user's documents show, as it stands: only the import and the device differ.

Live comparison and replay are those of the user's document on comparing operators with the CPU,
the overflow run that of the user's document on dumping; planted faults stand for a wrong device.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from msprobe_collector.compat import PrecisionDebugger
from msprobe_operators import (
    CompareWithCPU,
    ModuleInfo,
    NanInfTracker,
    close_module_tracker,
    compare_for_single_op,
    nan_inf_track_for_single_op,
    open_module_tracker,
)
from msprobe_operators.command import main
from tests.operators.test_live import kernel

RIGHT = "torch.ops.aten.addmm(forward) succeeds to pass CompareWithCPU test"
WRONG = "torch.ops.aten.addmm(forward) fails to pass CompareWithCPU test"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANK", raising=False)
    return tmp_path


@pytest.fixture
def model() -> Iterator[nn.Module]:
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    yield made
    close_module_tracker(made)


def train_step(model: nn.Module) -> None:
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    model(torch.linspace(-1, 1, 16).reshape(2, 8)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def train(model: nn.Module) -> None:
    train_step(model)


def wrong_addmm(bias: Tensor, x: Tensor, weight: Tensor, beta: int = 1, alpha: int = 1) -> Tensor:
    """Wrong in every dtype: only another kernel tells."""
    return (beta * bias + alpha * (x @ weight)) * 1.1


def test_comparing_with_the_cpu(model: nn.Module, capsys: pytest.CaptureFixture[str]) -> None:
    with CompareWithCPU(atol=0.001, rtol=0.001, verbose=True):
        train(model)
    lines = capsys.readouterr().out.splitlines()
    assert RIGHT in lines
    assert "torch.ops.aten.addmm(forward) starts to run ..." in lines
    assert not [line for line in lines if "[ERROR]" in line]
    with CompareWithCPU(enabled=False, atol=0.001, rtol=0.001, verbose=True):
        train(model)
    assert capsys.readouterr().out == ""


def test_following_modules(model: nn.Module, capsys: pytest.CaptureFixture[str]) -> None:
    assert ModuleInfo("Linear", ModuleInfo("Sequential")).classes == "Sequential/Linear"
    open_module_tracker(model)
    with kernel("addmm", wrong_addmm), CompareWithCPU(atol=0.001, rtol=0.001, verbose=True):
        train(model)
    out = capsys.readouterr().out
    assert f"[ERROR] Sequential/Linear/{WRONG}" in out
    assert "Element at index (0, " in out


def test_tracking_nan_and_infinity(model: nn.Module, capsys: pytest.CaptureFixture[str]) -> None:
    with torch.no_grad():
        next(model.parameters()).fill_(3e38)
    with NanInfTracker():
        train(model)
    warnings = [line for line in capsys.readouterr().out.splitlines() if "[WARNING]" in line]
    assert "inf_num=" in warnings[0]


@pytest.mark.parametrize(
    ("factor", "tolerance", "fails"), [(1.1, 0.01, True), (1.005, 0.01, False), (1.005, 1e-3, True)]
)
def test_aiming_at_one_operator_with_a_tolerance(
    model: nn.Module,
    capsys: pytest.CaptureFixture[str],
    factor: float,
    tolerance: float,
    fails: bool,
) -> None:
    def addmm(bias: Tensor, x: Tensor, weight: Tensor, beta: int = 1, alpha: int = 1) -> Tensor:
        return wrong_addmm(bias, x, weight, beta, alpha) / 1.1 * factor

    open_module_tracker(model)
    aimed = CompareWithCPU(atol=tolerance, rtol=tolerance, target_op=["torch.ops.aten.addmm"])
    with kernel("addmm", addmm), aimed:
        train(model)
    out = capsys.readouterr().out
    assert (WRONG in out) is fails
    assert "torch.ops.aten.gelu(forward) is not in target_list, pass" in out


def test_leaving_an_operator_out(model: nn.Module, capsys: pytest.CaptureFixture[str]) -> None:
    open_module_tracker(model)
    left_out = CompareWithCPU(atol=0.001, rtol=0.001, white_list=["torch.ops.aten.addmm"])
    with kernel("addmm", wrong_addmm), left_out:
        train(model)
    out = capsys.readouterr().out
    assert "[ERROR]" not in out
    assert "Sequential/Linear/torch.ops.aten.addmm(forward) is in white_list, pass" in out


def test_saving_a_failure_and_running_it_again(model: nn.Module) -> None:
    open_module_tracker(model)
    with (
        kernel("addmm", wrong_addmm),
        pytest.raises(RuntimeError, match="failed"),
        CompareWithCPU(
            atol=0.01,
            rtol=0.01,
            verbose=True,
            target_op=["torch.ops.aten.addmm"],
            dump_error_data=True,
            output_dir="path_to_save",
        ),
    ):
        train(model)
    assert Path("path_to_save/torch.ops.aten.addmm_outputs.pkl").is_file()

    def again() -> bool:
        correct, args, kwargs, out = compare_for_single_op(
            "path_to_save/torch.ops.aten.addmm_inputs.pkl",
            torch.ops.aten.addmm,
            atol=0.01,
            rtol=0.01,
        )
        assert [tuple(one.shape) for one in args] == [(16,), (2, 8), (8, 16)]
        assert (kwargs, tuple(out.shape)) == ({}, (2, 16))
        return correct

    assert again()
    with kernel("addmm", wrong_addmm):
        assert not again()
    correct, *_ = nan_inf_track_for_single_op(
        "path_to_save/torch.ops.aten.addmm_inputs.pkl", torch.ops.aten.addmm
    )
    assert correct


def test_steps(model: nn.Module, capsys: pytest.CaptureFixture[str]) -> None:
    epoch_num, step_num = 2, 4
    open_module_tracker(model)
    with CompareWithCPU(atol=0.001, rtol=0.001, verbose=True, start_step=5) as compare_with_cpu:
        for _epoch in range(epoch_num):
            for _step in range(step_num):
                train_step(model)
                compare_with_cpu.step()
    out = capsys.readouterr().out
    shown = [line.strip("- ") for line in out.splitlines() if "step = " in line]
    assert shown == [f"step = {number}" for number in (5, 6, 7, 8)]
    assert out.count(f"Sequential/Linear/{RIGHT}") == 2 * 3  # two layers, steps 5, 6 and 7


@pytest.mark.parametrize(("ranks", "is_on"), [(None, True), ([0], True), ([1], False)])
def test_files_and_ranks(
    model: nn.Module, folder: Path, ranks: list[int] | None, is_on: bool
) -> None:
    open_module_tracker(model)
    with CompareWithCPU(
        atol=0.001,
        rtol=0.001,
        verbose=True,
        should_log_to_file=True,
        output_dir="path_to_save",
        enable_ranks=ranks,
    ):
        train(model)
    file = folder / "path_to_save" / "compare_result.txt"
    assert file.is_file() is is_on
    assert not is_on or f"Sequential/Linear/{RIGHT}" in file.read_text("utf-8")


@pytest.mark.parametrize(
    "command",
    [
        lambda dump: ["-f", "pytorch", "run_overflow_check", "-api_info", dump],
        lambda dump: ["overflow", dump],
    ],
)
def test_telling_overflows_of_the_operands_from_those_of_the_device(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    command: Callable[[str], list[str]],
) -> None:
    configuration = {
        "task": "overflow_check",
        "dump_path": "./npu_dump",
        "rank": [],
        "step": [],
        "level": "L1",
        "seed": 1234,
        "is_deterministic": False,
        "overflow_check": {"overflow_nums": 3},
    }
    Path("config.json").write_text(json.dumps(configuration), "utf-8")
    debugger = PrecisionDebugger(config_path="./config.json", dump_path="./npu_dump")
    debugger.start()
    first = torch.exp(torch.tensor([100.0, 1.0]))
    debugger.stop()
    debugger.start()
    torch.log(first)
    debugger.stop()
    debugger.step()
    debugger.close()
    [dump] = folder.rglob("dump.json")
    capsys.readouterr()
    assert main(command(str(dump))) == 0
    out = capsys.readouterr().out
    assert "Torch.exp.0.forward overflows for these operands anywhere" in out
    assert "Torch.log" not in out
