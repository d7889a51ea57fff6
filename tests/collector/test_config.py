"""config.json: what is accepted, what is refused, and what is said about it."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from msprobe_collector import CollectorError, PrecisionDebugger
from msprobe_collector.config.selector import expand_selector
from msprobe_collector.config.settings import load_config, parse_config
from tests.collector.recording import record


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (None, ()),
        ([], ()),
        ([0, "4-6"], (0, 4, 5, 6)),
        ([0, "1-3", 2], (0, 1, 2, 3)),
        (["7-7", 1], (1, 7)),
        (["0", " 3 "], (0, 3)),
    ],
)
def test_selectors(value: Any, wanted: tuple[int, ...]) -> None:
    assert expand_selector(value, "step") == wanted


@pytest.mark.parametrize(
    "value", ["0-3", 3, [True], [-1], ["a-b"], ["6-4"], [1.5], [10**6 + 1], [None]]
)
def test_bad_selectors_are_refused_with_the_key(value: Any) -> None:
    with pytest.raises(CollectorError, match=r"^step holds"):
        expand_selector(value, "step")


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 20))))
def test_a_selector_is_the_union_of_its_parts(parts: list[tuple[int, int]]) -> None:
    value = [f"{low}-{low + length}" for low, length in parts]
    wanted = {n for low, length in parts for n in range(low, low + length + 1)}
    assert expand_selector(value, "rank") == tuple(sorted(wanted))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "dump_path is missing"),
        ({"dump_path": ""}, "dump_path is missing"),
        ({"dump_path": "d", "task": "run_ut"}, "Task run_ut is not recorded here"),
        (
            {"dump_path": "d", "task": "exception_dump"},
            "Task exception_dump is not recorded here: Ascend's driver makes it",
        ),
        ({"dump_path": "d", "level": "L2"}, "Level L2 records kernels"),
        ({"dump_path": "d", "statistics": []}, "statistics in the configuration"),
        ({"dump_path": "d", "statistics": {"scope": ["a"]}}, "scope must be empty or hold"),
        ({"dump_path": "d", "statistics": {"scope": ["Module.a", "b"]}}, "At level L1"),
        (
            {"dump_path": "d", "level": "L0", "statistics": {"scope": ["Torch.a", "Module.b"]}},
            "At level L0",
        ),
        ({"dump_path": "d", "statistics": {"list": "linear"}}, "list is 'linear'"),
        ({"dump_path": "d", "statistics": {"data_mode": ["all", "input"]}}, "data_mode is"),
        ({"dump_path": "d", "statistics": {"summary_mode": "sha1"}}, "summary_mode is 'sha1'"),
        ({"dump_path": "d", "async_dump": 1}, "async_dump is 1"),
        (
            {"dump_path": "d", "task": "overflow_check", "overflow_check": {"overflow_nums": 0}},
            "overflow_nums is 0",
        ),
    ],
)
def test_bad_values_are_refused_in_one_sentence(content: dict[str, Any], message: str) -> None:
    with pytest.raises(CollectorError) as caught:
        parse_config(content)
    assert str(caught.value).startswith(message)
    assert str(caught.value).endswith(".")


def test_the_users_own_example_is_accepted(caplog: pytest.LogCaptureFixture) -> None:
    content = {
        "task": "tensor",
        "dump_path": "./npu_dump",
        "rank": [],
        "step": [],
        "level": "L1",
        "seed": 1234,
        "is_deterministic": False,
        "tensor": {
            "scope": [],
            "list": [],
            "data_mode": ["all"],
            "summary_mode": "statistics",
        },
    }
    config = parse_config(content)
    assert (config.task, config.level, config.step) == ("tensor", "L1", ())
    assert [text.split(" ")[0] for text in caplog.messages] == ["is_deterministic", "seed"]


@pytest.mark.parametrize("section", [{}, {"overflow_nums": 3}, {"data_mode": ["output"]}])
def test_nan_check_is_the_check_of_overflow(section: dict[str, Any]) -> None:
    config = parse_config({"dump_path": "d", "task": "nan_check", "nan_check": section})
    assert config.task == "overflow_check"
    assert config.overflow_nums == section.get("overflow_nums", 1)


def test_a_key_of_another_task_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="msprobe_collector")
    section = {"file_format": "npy", "check_mode": "all"}
    parse_config({"dump_path": "d", "check_mode": "all", "statistics": section})
    assert len(caplog.messages) == 2


def test_unknown_keys_are_named(caplog: pytest.LogCaptureFixture) -> None:
    parse_config({"dump_path": "d", "summary_mode": "md5", "statistics": {"scop": []}})
    assert [text.split(" ")[3] for text in caplog.messages] == ["statistics.scop", "summary_mode"]


def test_arguments_override_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"dump_path": "a", "level": "L0", "step": [1]}))
    config = load_config(path, dump_path="b", level="mix", step=[2, "4-5"])
    assert config.dump_path == Path("b").absolute()
    assert (config.level, config.step) == ("mix", (2, 4, 5))


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    for content in ("{", "[]"):
        path.write_text(content)
        with pytest.raises(CollectorError, match=r"config\.json"):
            load_config(path)
    with pytest.raises(CollectorError, match="cannot be read"):
        load_config(tmp_path / "missing.json")


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(b'\xef\xbb\xbf{"dump_path": "d", "level": "L0"}')
    assert load_config(path).level == "L0"


def test_only_selected_steps_are_recorded(tmp_path: Path) -> None:
    debugger = PrecisionDebugger(dump_path=tmp_path, step=[1, "3-4"])
    for _ in range(6):
        debugger.start()
        torch.ones(2).sum()
        debugger.stop()
        debugger.step()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step1", "step3", "step4"]


def test_selected_steps_that_never_came_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    debugger = PrecisionDebugger(dump_path=tmp_path, step=[7])
    for _ in range(2):
        debugger.start()
        torch.ones(2).sum()
        debugger.stop()
        debugger.step()
    debugger.close()
    assert [text for text in caplog.messages if "none of these was reached" in text] != []


def test_rank_in_an_undistributed_run_counts_as_zero(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dump = record(tmp_path / "a", lambda: torch.ones(2).sum(), level="L1", rank=[0])
    assert dump.names("Tensor.sum")
    caplog.clear()
    debugger = PrecisionDebugger(dump_path=tmp_path / "b", level="L1")
    debugger.close()
    (tmp_path / "c.json").write_text(json.dumps({"dump_path": str(tmp_path / "b"), "rank": [3]}))
    debugger = PrecisionDebugger(config_path=tmp_path / "c.json")
    debugger.start()
    torch.ones(2).sum()
    debugger.stop()
    assert any("counts as rank 0: nothing is recorded" in text for text in caplog.messages)
    assert not (tmp_path / "b").exists()


def test_modules_need_a_model(tmp_path: Path) -> None:
    debugger = PrecisionDebugger(dump_path=tmp_path, level="L0")
    with pytest.raises(CollectorError, match="call start\\(model\\)"):
        debugger.start()
    with pytest.raises(CollectorError, match="Module or a list"):
        debugger.start([nn.Linear(1, 1), "model"])  # type: ignore[list-item]
    with pytest.raises(CollectorError, match="call start\\(model\\)"):
        debugger.start([])
    for wrong in (nn.Linear, torch.optim.SGD([torch.ones(1)], lr=1.0), 7):
        with pytest.raises(CollectorError, match="Module or a list"):
            debugger.start(wrong)  # type: ignore[arg-type]


def test_there_is_one_debugger(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = PrecisionDebugger(dump_path=tmp_path, level="L1")
    assert PrecisionDebugger(dump_path=tmp_path, level="L1") is first
    assert not caplog.messages
    assert PrecisionDebugger(dump_path=tmp_path, level="mix") is first
    assert "its settings stay" in caplog.messages[0]
    assert first.config.level == "L1"
    first.close()
    with pytest.raises(CollectorError, match="Create a PrecisionDebugger"):
        PrecisionDebugger.start()


def test_the_debugger_is_a_context_manager(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    x = torch.ones(1, 2)
    debugger = PrecisionDebugger(dump_path=tmp_path, level="mix")
    with debugger.start(model):
        model(x)
    model(x)
    debugger.close()
    data = json.loads((tmp_path / "step0" / "rank" / "dump.json").read_text())["data"]
    assert list(data) == ["Functional.linear.0.forward", "Module.0.Linear.forward.0"]


def test_steps_can_begin_later(tmp_path: Path) -> None:
    debugger = PrecisionDebugger(dump_path=tmp_path, level="L1")
    debugger.set_init_step(5)
    with debugger:
        torch.ones(2).sum()
    assert (tmp_path / "step5").is_dir()
    with pytest.raises(CollectorError, match="give a number from 0"):
        debugger.set_init_step(-1)


def test_task_structure_changes_the_level_aloud(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        config = parse_config({"dump_path": "d", "task": "structure", "level": "L1"})
    assert config.level == "mix"
    assert "was changed to mix" in caplog.messages[0]
