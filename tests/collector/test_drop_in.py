"""Scripts and configuration files of the established recorder work as they are."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
import logging
import re
import types
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from msprobe_collector import CollectorError, PrecisionDebugger
from msprobe_collector.compat import module_dump, module_dump_end
from msprobe_collector.config.settings import parse_config
from tests.collector.recording import read_dump, record
from tests.processes import run_program

# With a section for each tool that reads the same file.
CONFIGURATION: dict[str, Any] = {
    "task": "statistics",
    "dump_path": "./dump_path",
    "rank": [],
    "step": [],
    "level": "mix",
    "enable_dataloader": False,
    "async_dump": False,
    "precision": "high",
    "seed": 1234,
    "is_deterministic": False,
    "tensor": {"scope": [], "list": [], "data_mode": ["all"], "file_format": "npy"},
    "statistics": {"scope": None, "list": None, "data_mode": ["all"], "summary_mode": "md5"},
    "overflow_check": {"overflow_nums": 1, "check_mode": "all"},
    "run_ut": {"white_list": [], "black_list": [], "error_data_path": "./"},
    "grad_probe": {"grad_level": "L1", "param_list": [], "bounds": [-1, 0, 1]},
    "free_benchmark": {"scope": [], "list": [], "fuzz_device": "npu"},
}


def test_a_whole_script_changes_nothing_but_its_import(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIGURATION))
    answer = run_program(
        tmp_path,
        """
import torch
from msprobe_collector.compat import PrecisionDebugger, seed_all
seed_all(seed=1234, mode=False)
debugger = PrecisionDebugger(config_path="./config.json")
model = torch.nn.Sequential(torch.nn.Linear(4, 4))
for _ in range(2):
    debugger.start(model)
    loss = model(torch.ones(1, 4)).sum()
    loss.backward()
    debugger.forward_backward_dump_end()
    debugger.step()
""",
    )
    assert answer.returncode == 0, answer.stderr
    lines = answer.stderr.splitlines()
    assert all(line.startswith("msprobe_collector: ") for line in lines), answer.stderr
    for name in ("precision", "seed", "run_ut", "free_benchmark"):
        assert len([line for line in lines if f": {name} in the configuration" in line]) == 1
    for step in range(2):
        dump = read_dump(tmp_path / "dump_path" / f"step{step}" / "rank")
        assert dump.data["Module.0.Linear.forward.0"]["output"][0]["md5"]
        (said,) = [line for line in lines if f"Step {step}: " in line]
        assert f"{len(dump.data):,} calls in {tmp_path}/dump_path/step{step}/rank" in said
        size = sum(path.stat().st_size for path in dump.directory.iterdir())
        assert f"{size / 1000:.1f} kB of records" in said


def test_nulls_are_defaults() -> None:
    empty: dict[str, Any] = dict.fromkeys(("task", "level", "rank", "step", "async_dump"))
    config = parse_config({**empty, "dump_path": "d", "statistics": {"list": None, "scope": None}})
    assert (config.task, config.level, config.names, config.scope) == ("statistics", "L1", (), ())


def test_task_md5_works() -> None:
    for section in ({}, {"md5": {"list": ["relu"]}}):
        config = parse_config({"dump_path": "d", "task": "md5", **section})
        assert (config.task, config.summary_mode) == ("statistics", "md5")
        assert config.names == (("relu",) if section else ())


def test_a_debugger_without_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    debugger = PrecisionDebugger()
    with debugger.start():
        torch.ones(1)
    debugger.close()
    assert read_dump(tmp_path / "dump_path" / "step0" / "rank").names() == ["Torch.ones.0.forward"]


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("Functional.linear.1.forward", ["Functional.linear.1.forward"]),
        ("Functional.linear.1.backward", ["Functional.linear.1.backward"]),
        ("Module.1.Linear.forward.0", ["Module.1.Linear.forward.0"]),
    ],
)
def test_a_full_name_in_the_list_records_that_call_alone(
    name: str, kept: list[str], tmp_path: Path
) -> None:
    model = nn.Sequential(*(nn.Linear(2, 2) for _ in range(12)))
    dump = record(
        tmp_path,
        lambda: model(torch.ones(1, 2)).sum().backward(),
        model,
        statistics={"list": [name]},
    )
    assert [n for n in dump.data if "parameters_grad" not in n] == kept


@pytest.mark.parametrize("side", ["input", "output"])
def test_one_side_keeps_parameters_and_their_gradients(side: str, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    dump = record(
        tmp_path,
        lambda: model(torch.ones(1, 2)).sum().backward(),
        model,
        statistics={"data_mode": [side]},
    )
    assert dump.data["Module.0.Linear.forward.0"]["parameters"]["weight"]["shape"] == [2, 2]
    assert dump.data["Module.0.Linear.parameters_grad"]["weight"][0]["Max"] == 1
    assert ("output" in dump.data["Module.0.Linear.forward.0"]) == (side == "output")


def test_a_second_start_records_the_second_model_too(tmp_path: Path) -> None:
    first, second = nn.Sequential(nn.Linear(2, 2)), nn.ModuleDict({"critic": nn.Linear(2, 1)})
    debugger = PrecisionDebugger(dump_path=tmp_path, level="mix")
    debugger.start(first)
    first(torch.ones(1, 2))
    debugger.start(second)
    debugger.start(second)
    second["critic"](torch.ones(1, 2))
    debugger.stop()
    debugger.close()
    names = read_dump(tmp_path / "step0" / "rank").names("Module.")
    assert names == ["Module.0.Linear.forward.0", "Module.critic.Linear.forward.0"]


def test_a_token_range_counts_calls_of_the_model(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    debugger = PrecisionDebugger(dump_path=tmp_path, level="mix")
    with debugger.start(model, token_range=[1, 2]):
        for token in range(5):
            model(torch.full((1, 2), float(token)))
    debugger.close()
    data = read_dump(tmp_path / "step0" / "rank").data
    inputs = [call["input_args"][0]["Max"] for n, call in data.items() if n.startswith("Module")]
    assert inputs == [1, 2]
    assert not model._forward_pre_hooks


@pytest.mark.parametrize("wrong", [[2, 1], [-1, 2], [1], "12", [True, 2]])
def test_a_wrong_token_range_is_refused(wrong: Any, tmp_path: Path) -> None:
    debugger = PrecisionDebugger(dump_path=tmp_path, level="mix")
    with pytest.raises(CollectorError, match="token_range"):
        debugger.start(nn.Linear(2, 2), token_range=wrong)


def test_a_function_of_ones_own_can_be_registered(tmp_path: Path) -> None:
    kernels = types.ModuleType("company.kernels")

    def fused(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * 2

    kernels.fused = fused  # type: ignore[attr-defined]
    debugger = PrecisionDebugger(dump_path=tmp_path, level="L1")
    debugger.register_custom_api(kernels, "fused")
    debugger.register_custom_api(kernels, "fused")
    x = torch.ones(2, requires_grad=True)
    with debugger.start():
        kernels.fused(x).sum().backward()
    debugger.restore_custom_api(kernels, "fused")
    assert kernels.fused is fused
    debugger.register_custom_api(kernels, "fused", "Ours")
    with debugger.start():
        kernels.fused(x)
    debugger.close()
    assert kernels.fused is fused
    data = read_dump(tmp_path / "step0" / "rank").data
    assert data["kernels.fused.0.backward"]["output"][0]["Max"] == 2
    assert "Ours.fused.0.forward" in data
    assert not [name for name in data if "relu" in name]


def test_one_module_can_be_dumped_under_a_name(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU()))
    PrecisionDebugger(dump_path=tmp_path, level="L0")
    module_dump(model[1], "tail")
    model(torch.ones(1, 2)).sum().backward()
    module_dump_end()
    model(torch.ones(1, 2))
    PrecisionDebugger.close()
    names = read_dump(tmp_path / "step0" / "rank").names()
    assert names == ["Module.tail.Sequential.forward.0", "Module.tail.Sequential.backward.0"]


def test_a_data_loader_can_begin_the_steps(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(1, 1))
    (tmp_path / "config.json").write_text(
        json.dumps({"dump_path": str(tmp_path), "level": "L0", "enable_dataloader": True})
    )
    debugger = PrecisionDebugger(config_path=tmp_path / "config.json", model=model)
    before: Any = DataLoader(torch.arange(3.0)[:, None])  # type: ignore[arg-type]
    for batch in before:
        model(batch)
    debugger.close()
    for step in range(3):
        data = read_dump(tmp_path / f"step{step}" / "rank").data
        assert data["Module.0.Linear.forward.0"]["input_args"][0]["Max"] == step


def test_an_estimate_counts_and_writes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    model = nn.Sequential(nn.Linear(64, 64))

    def run(path: Path, **options: Any) -> None:
        torch.manual_seed(1)
        debugger = PrecisionDebugger(dump_path=path, level="mix", **options)
        with debugger.start(model):
            model(torch.ones(100, 64)).sum().backward()
        debugger.close()

    run(tmp_path / "estimate", estimate=True)
    assert not (tmp_path / "estimate").exists()
    (said,) = [text for text in caplog.messages if "would hold" in text]
    run(tmp_path / "dump", task="tensor")
    folder = tmp_path / "dump" / "step0" / "rank"
    dump = read_dump(folder)
    found = re.search(r"hold ([\d,]+) calls and ([\d.]+) kB .* also ([\d.]+) kB of tensors", said)
    assert found is not None, said
    assert int(found[1]) == len(dump.data)
    written = (folder / "dump_tensor_data" / "tensors.bin").stat().st_size
    assert float(found[3]) == pytest.approx(written / 1000, rel=0.01)  # they begin at round places


def test_a_script_without_dropout_is_recorded(tmp_path: Path) -> None:
    answer = run_program(
        tmp_path,
        """
        import torch
        from msprobe_collector.compat import PrecisionDebugger, seed_all

        seed_all(1, mode=True, rm_dropout=True)
        model = torch.nn.Sequential(torch.nn.Dropout(0.9), torch.nn.Dropout2d())
        debugger = PrecisionDebugger(dump_path="dump", level="mix")
        with debugger.start(model):
            assert model(torch.full((1, 2, 3), 7.0)).min() == 7
        """,
    )
    assert not answer.returncode, answer.stderr
    assert "not recorded" not in answer.stderr
    data = read_dump(tmp_path / "dump" / "step0" / "rank").data
    assert data["Functional.dropout.0.forward"]["output"][0]["Min"] == 7.0
    assert "Module.1.Dropout2d.forward.0" in data


# What its release 26 writes for a new configuration.
NEWEST: dict[str, Any] = {
    "task": "statistics",
    "rank": [],
    "step": [],
    "level": "L1",
    "extra_info": True,
    "async_dump": False,
    "statistics": {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics"},
    "tensor": {"scope": [], "list": [], "data_mode": ["all"]},
    "acc_check": {"white_list": [], "black_list": [], "error_data_path": "./"},
}


def test_the_newest_configuration_says_one_thing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "msprobe_collector")
    parse_config({**NEWEST, "dump_path": str(tmp_path)})
    assert [one.getMessage() for one in caplog.records] == [
        "acc_check in the configuration is for another tool."
    ]
    caplog.clear()
    more = {"custom_op_namespaces": ["npu"], "load": {}}
    parse_config({**NEWEST, **more, "dump_path": str(tmp_path)})
    said = [one.getMessage() for one in caplog.records]
    assert len(said) == 3
    assert all(any(one.startswith(f"{key} in the") for one in said) for key in more)


def test_the_file_switches_recording_on_and_off(tmp_path: Path) -> None:
    file = tmp_path / "config.json"

    def told(switch: object) -> str:
        return json.dumps({**NEWEST, "dump_path": str(tmp_path / "dump"), "dump_enable": switch})

    as_it_was = ("{", told(None), told("yes"))  # half written, without the key, no truth value
    for number, text in enumerate((told(False), told(True), *as_it_was, told(False))):
        file.write_text(text + " " * number * 20)  # no clock may tell two writes
        if number == 0:
            PrecisionDebugger(config_path=file)
        PrecisionDebugger.start(rank_id=3)
        torch.ones(1)
        PrecisionDebugger.stop()
        PrecisionDebugger.step()
    PrecisionDebugger.close()
    recorded = sorted(one.name for one in (tmp_path / "dump").iterdir())
    assert recorded == ["step1", "step2", "step3", "step4"]
    names = read_dump(tmp_path / "dump" / "step2" / "rank3").names()
    assert names == ["Torch.ones.0.forward"]
