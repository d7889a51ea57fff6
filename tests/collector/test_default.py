"""What is recorded of each tensor where a configuration does not say, whoever asks."""

# mypy: disable-error-code="no-untyped-call"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from msprobe_builder.dump.flow_file import read_flow
from msprobe_builder.sketch.file import read_sketches
from msprobe_collector import PrecisionDebugger
from msprobe_collector.config.settings import parse_config
from msprobe_collector.run.options import parser, request_of
from tests.collector.recording import ALONE, Dump, read_dump, record


@pytest.mark.parametrize(
    ("content", "summary", "flow"),
    [
        ({}, "sketch", True),
        ({"level": "L0"}, "sketch", True),
        ({"level": "mix", "statistics": {"list": ["relu"]}}, "sketch", True),
        ({"statistics": {"summary_mode": None, "flow": None}}, "sketch", True),
        ({"statistics": {"summary_mode": "sketch"}}, "sketch", True),
        ({"statistics": {"flow": False}}, "sketch", False),
        ({"statistics": ALONE}, "statistics", False),
        ({"statistics": {**ALONE, "flow": True}}, "statistics", True),
        ({"watch_ranks": True}, "sketch", True),
        ({"task": "diff_check", "diff_check": {"bench_path": "x"}}, "sketch", True),
        ({"extra_info": False}, "sketch", False),
        ({"level": "debug"}, "statistics", False),
        ({"task": "md5"}, "md5", False),
        ({"statistics": {"summary_mode": "xor"}}, "xor", False),
        ({"task": "tensor"}, "statistics", False),
        ({"task": "tensor", "tensor": {"summary_mode": "sketch"}}, "sketch", False),
        ({"task": "structure"}, "statistics", True),
        ({"task": "structure", "structure": {"flow": False}}, "statistics", False),
        ({"task": "structure", "extra_info": False}, "statistics", False),
        ({"task": "overflow_check"}, "statistics", False),
    ],
)
def test_what_a_configuration_asks_for(content: dict[str, Any], summary: str, flow: bool) -> None:
    config = parse_config({"dump_path": "d", **content})
    assert (config.summary_mode, config.records_flow) == (summary, flow)


def recorded(path: Path, level: str) -> Dump:
    """By arguments of Python, without a file."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    debugger = PrecisionDebugger(dump_path=path, level=level)
    debugger.start(model)
    model(torch.ones(2, 3)).sum().backward()
    debugger.stop()
    debugger.close()
    return read_dump(path / "step0" / "rank")


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_sketches_and_flow_lie_beside_files_as_they_were(level: str, tmp_path: Path) -> None:
    dump = recorded(tmp_path / "python", level)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    step = lambda: model(torch.ones(2, 3)).sum().backward()  # noqa: E731
    alone = record(tmp_path / "alone", step, model, level=level, statistics=ALONE)
    for name in ("dump.json", "construct.json"):
        assert (dump.directory / name).read_bytes() == (alone.directory / name).read_bytes()
    names = {one.name for one in dump.directory.iterdir()}
    assert names - {one.name for one in alone.directory.iterdir()} == {"sketch.bin", "flow.bin"}
    sketches = read_sketches(dump.directory / "sketch.bin", len(dump.data))
    flow = read_flow(dump.directory / "flow.bin", list(dump.data))
    assert sketches is not None
    assert flow is not None
    assert len(sketches.places) > 0
    assert len(flow.rows) > 0


def asked(*words: str) -> tuple[str, bool, tuple[str, ...]]:
    """What ``msprobe-run`` records by these options, and of which calls."""
    request = request_of(parser().parse_args([*words, "--", "python", "train.py"]))
    config = parse_config(request.config)
    return config.summary_mode, config.records_flow, config.names


@pytest.mark.parametrize(
    ("summary", "words", "expected"),
    [
        ("statistics", (), ("statistics", False)),
        ("statistics", ("--summary", "sketch"), ("sketch", True)),
        ("sketch", (), ("sketch", True)),
        ("md5", (), ("md5", False)),
    ],
)
def test_a_training_that_is_watched_records_what_the_other_has(
    summary: str, words: tuple[str, ...], expected: tuple[str, bool], tmp_path: Path
) -> None:
    record(tmp_path, lambda: torch.ones(3).exp(), level="L1", statistics={"summary_mode": summary})
    watching = ("--watch", str(tmp_path / "dump"), *words)
    assert asked(*watching) == (*expected, ())
    # What else the file says of the task stays.
    config = tmp_path / "more.json"
    config.write_text('{"statistics": {"list": ["exp"]}}')
    assert asked(*watching, "--config", str(config)) == (*expected, ("exp",))


def test_a_command_without_options_records_as_a_file_without_keys() -> None:
    assert asked() == asked("--watch-ranks") == ("sketch", True, ())
    assert asked("--summary", "statistics") == ("statistics", False, ())
    assert asked("--task", "tensor") == ("statistics", False, ())
