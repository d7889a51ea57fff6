"""Several backward passes, and several windows, in one step."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from msprobe_collector import PrecisionDebugger
from tests.collector.recording import read_dump, saved_tensor, write_config


def records_of_saved(path: Path, data: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Any]]:
    """Each record of the weight's gradient with the tensor in its file."""
    for name in [name for name in data if "parameters_grad" in name]:
        item = data[name]["weight"][0]
        yield item, saved_tensor(path, item["data_name"])


@pytest.mark.parametrize("windows", [1, 3])
def test_every_pass_keeps_its_gradients_and_files(windows: int, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 1, bias=False))
    debugger = PrecisionDebugger(
        config_path=write_config(tmp_path, task="tensor", tensor={"data_mode": ["all"]})
    )
    for step in range(2):
        for number in range(3):
            if windows == 3 or number == 0:
                debugger.start(model)
            model(torch.full((1, 2), 10.0 * step + number + 1)).sum().backward()
            if windows == 3 or number == 2:
                debugger.stop()
        debugger.step()
    debugger.close()
    for step in range(2):
        folder = tmp_path / "dump" / f"step{step}" / "rank"
        pairs = json.loads((folder / "dump.json").read_text(), object_pairs_hook=list)
        names = [name for name, _ in dict(pairs)["data"]]
        assert len(set(names)) == len(names), "a key is there twice"
        data = read_dump(folder).data
        seen = {(item["Max"], saved.max().item()) for item, saved in records_of_saved(folder, data)}
        assert seen == {(10.0 * step + n, 10.0 * step + n) for n in (1, 2, 3)}
        last = data["Module.0.Linear.parameters_grad"]["weight"][0]
        assert last["Max"] == 10.0 * step + 3


def test_the_last_pass_can_be_read_between_two_windows(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 1, bias=False))
    debugger = PrecisionDebugger(dump_path=tmp_path, level="mix")
    for number in range(3):
        with debugger.start(model):
            model(torch.full((1, 2), number + 1.0)).sum().backward()
        data = read_dump(tmp_path / "step0" / "rank").data
        gradients = [name for name in data if "parameters_grad" in name]
        assert len(gradients) == number + 1
        assert data["Module.0.Linear.parameters_grad"]["weight"][0]["Max"] == number + 1
