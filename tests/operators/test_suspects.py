"""A suspect of the verdict is run again by the command that the verdict gives."""

from __future__ import annotations

import contextlib
import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from msprobe_builder import BuildConfig, build
from msprobe_builder.command.main import main as builder
from msprobe_collector import PrecisionDebugger
from msprobe_operators.command import main as operators
from tests.operators.test_live import kernel


class Gate(nn.Module):
    """Two products around a gate."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(16, 32), nn.Linear(32, 16)
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.first(x) * self.scale
        gated: Tensor = self.last(nn.functional.silu(hidden))
        return gated


def recorded(folder: Path, scale: float = 1.0) -> Path:
    torch.manual_seed(1)
    model, data = Gate(scale), torch.randn(8, 16)
    debugger = PrecisionDebugger(dump_path=str(folder), task="tensor", level="mix")
    debugger.start(model)
    model(data).square().sum().backward()
    debugger.stop()
    debugger.step()
    debugger.close()
    return folder


def wrong_silu(x: Tensor) -> Tensor:
    right = x * torch.sigmoid(x)
    return right * 1.05 if x.dtype is torch.float32 else right


def verdict_of(database: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert builder(["verdict", str(database), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(
    ("is_wrong", "accused", "said"),
    [
        (True, "Functional.silu.0.forward", "the operator itself is wrong here"),
        (False, "Tensor.__mul__.0.forward", "the operator itself is not to blame"),
    ],
)
def test_the_verdict_says_whether_the_operator_itself_is_wrong(
    is_wrong: bool,
    accused: str,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bench = recorded(tmp_path / "bench")
    with kernel("silu", wrong_silu) if is_wrong else contextlib.nullcontext():
        npu = recorded(tmp_path / "npu", 1.0 if is_wrong else 1.5)
    database = build(BuildConfig(npu, bench), tmp_path / "out").path
    before = verdict_of(database, capsys)
    best = before["suspects"][0]
    assert (best["node"], best["check"]) == (accused, None)
    assert said not in before["sentence"]
    command = shlex.split(best["command"])
    assert command[:2] == ["msprobe-operators", "check"]
    more = ["-o", str(tmp_path / "checked"), "--database", str(database)]
    assert operators([*command[1:], *more, "--step", "0", "--rank", "0"]) == (4 if is_wrong else 0)
    after = verdict_of(database, capsys)
    assert after["suspects"][0]["check"] == ("failed" if is_wrong else "passed")
    assert said in after["sentence"]
    assert said in after["suspects"][0]["evidence"]
