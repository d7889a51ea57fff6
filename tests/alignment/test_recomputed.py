"""Modules that are called several times in a layer, and again where it is recomputed."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from msprobe_builder import BuildConfig, build
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import read_verdict
from tests.collector.recording import record

SIDE = 8


class Layer(nn.Module):
    """One dropout behind each of two parts, of which recomputation leaves out the last."""

    def __init__(self, *, recomputing: bool) -> None:
        super().__init__()
        self.recomputing = recomputing
        self.before, self.after = nn.LayerNorm(SIDE), nn.LayerNorm(SIDE)
        self.mixes, self.feeds = nn.Linear(SIDE, SIDE), nn.Linear(SIDE, SIDE)
        self.dropout = nn.Dropout(0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self._run, x, use_reentrant=False) if self.recomputing else self._run(x)

    def _run(self, x: torch.Tensor) -> torch.Tensor:
        y = x + self.dropout(self.mixes(self.before(x)))
        return y + self.dropout(self.feeds(self.after(y)))


class Stack(nn.Module):
    def __init__(self, *, recomputing: bool) -> None:
        super().__init__()
        torch.manual_seed(35)
        self.layers = nn.ModuleList(Layer(recomputing=recomputing) for _ in range(3))
        self.out = nn.Linear(SIDE, SIDE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.out(x).square().mean()


def _train(model: nn.Module) -> None:
    for seed in (1, 2):  # two micro-steps on other data
        torch.manual_seed(seed)
        model(torch.randn(4, SIDE, requires_grad=True)).backward()


@pytest.mark.parametrize("recomputing", [True, False])
def test_calls_are_matched_by_their_turn_in_the_layer_not_by_number(
    recomputing: bool, tmp_path: Path
) -> None:
    for side, is_other in (("npu", recomputing), ("bench", not recomputing)):
        model = Stack(recomputing=is_other)
        record(tmp_path / side, lambda model=model: _train(model), model)  # type: ignore[misc]
    config = BuildConfig(tmp_path / "npu" / "dump", tmp_path / "bench" / "dump")
    result = build(config, tmp_path / "out", workers=1)
    with opened(result.path) as connection:
        verdict = read_verdict(connection)
        pairs = connection.execute(
            "SELECT npu.name, bench.name FROM match"
            " JOIN node_name AS npu ON npu.node_id = match.npu_node"
            " JOIN node_name AS bench ON bench.node_id = match.bench_node"
            " WHERE npu.name GLOB '*.Dropout.*'"
        ).fetchall()
    given, other_given = (_given(tmp_path / side) for side in ("npu", "bench"))
    assert {given[npu] for npu, _ in pairs} == set(given.values()) == set(other_given.values())
    assert all(given[npu] == other_given[bench] for npu, bench in pairs)
    assert verdict is not None
    assert verdict.conclusion == "clean"


def _given(folder: Path) -> dict[str, Any]:
    """What each call of a dropout is given, which is another one at each place."""
    (path,) = folder.rglob("dump.json")
    data = json.loads(path.read_text())["data"]
    calls = {name: call for name, call in data.items() if "Dropout" in name}
    return {
        name: (name.split(".")[-2], (call.get("input_args") or call["input"])[0]["Norm"])
        for name, call in calls.items()
    }
