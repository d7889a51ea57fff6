"""What ``msprobe-operators overflow`` ends with: how many calls overflow, and of what kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from msprobe_collector import PrecisionDebugger
from msprobe_operators.command import main

BOTH = "1 call overflows on the recorded device alone, 1 call overflows anywhere"
NOTHING = "Overflow cannot be told: no call of the dump tells how large its results are"


def on_a_device(*names: str) -> Callable[[dict[str, Any]], None]:
    """As if the device had made infinity in these calls."""

    def change(data: dict[str, Any]) -> None:
        for name in names:
            for leaf in data[f"{name}.forward"]["output"]:
                leaf["Max"] = float("inf")

    return change


CASES: dict[str, tuple[dict[str, Any], Callable[[Tensor], Tensor], Any, str, int]] = {
    "nothing": (
        {},
        torch.exp,
        None,
        "No call turns finite operands into NaN or infinity; 2 of 2",
        0,
    ),
    "anywhere": ({}, lambda x: torch.log(x * 0), None, "1 call overflows anywhere", 0),
    "twice anywhere": (
        {},
        lambda x: torch.log(x * 0) * 0 + torch.sqrt(-x),
        None,
        "2 calls overflow anywhere, as expected of their operands",
        0,
    ),
    "half precision": (
        {},
        lambda x: torch.matmul(x.half() * 6000, x.half() * 6000),
        None,
        "1 call overflows anywhere, as expected of its operands",
        0,
    ),
    "device": ({}, torch.exp, on_a_device("Torch.exp.0"), "1 call overflows on the recorded", 4),
    "twice on the device": (
        {},
        lambda x: torch.exp(x) + torch.tanh(x),
        on_a_device("Torch.exp.0", "Torch.tanh.0"),
        "2 calls overflow on the recorded device alone",
        4,
    ),
    "both": (
        {},
        lambda x: torch.exp(x) + torch.log(x * 0),
        on_a_device("Torch.exp.0"),
        BOTH,
        4,
    ),
    "range alone": (
        {"task": "statistics"},
        torch.exp,
        on_a_device("Torch.exp.0"),
        "1 call overflows and was not run again",
        0,
    ),
    "checksums": ({"task": "md5"}, torch.exp, None, "No call turns", 0),
    "structure": ({"task": "structure"}, torch.exp, None, NOTHING, 1),
    "modules": ({"level": "L0"}, torch.exp, None, NOTHING, 1),
}


class Model(nn.Module):
    """Calls what it is given."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


@pytest.mark.parametrize("name", CASES)
def test_the_last_line_counts_calls(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys, function, change, words, status = CASES[name]
    keys = {"task": "tensor", "level": "mix"} | keys
    debugger = PrecisionDebugger(dump_path=str(tmp_path), **keys)
    model = Model(function)
    debugger.start(model)
    model(torch.linspace(1, 2, 8))
    debugger.stop()
    debugger.step()
    debugger.close()
    [path] = tmp_path.rglob("dump.json")
    if change is not None:
        dump = json.loads(path.read_text("utf-8"))
        change(dump["data"])
        path.write_text(json.dumps(dump), "utf-8")
    capsys.readouterr()
    assert main(["overflow", str(path)]) == status
    assert capsys.readouterr().out.splitlines()[-1].startswith(words)
