"""Numbers that no tensor has, in dumps whose modules have other names."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import nn

from msprobe_builder import BuildConfig, build
from msprobe_builder.database.open import opened
from tests.collector.recording import record


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.second(torch.tanh(self.first(x)))
        return result


def test_sizes_beyond_any_tensor_do_not_end_an_alignment(tmp_path: Path) -> None:
    """More elements than 64 bits can count, and more than a float can."""
    for side in ("npu", "bench"):
        net = Net()
        dump = tmp_path / side
        record(dump, lambda net=net: net(torch.ones(3, 4)).sum().backward(), net)  # type: ignore[misc]
        (path,) = dump.rglob("dump.json")
        content = json.loads(path.read_text())
        call = content["data"]["Torch.tanh.0.forward"]
        call["input_args"][0]["shape"] = [2**60, 2**60]
        call["output"][0]["shape"] = [10**300, 10**300]
        path.write_text(json.dumps(content))
        if side == "npu":
            for part in path.parent.glob("*.json"):
                part.write_text(part.read_text().replace("Module.first.", "Module.entry."))
    config = BuildConfig(tmp_path / "npu" / "dump", tmp_path / "bench" / "dump")
    result = build(config, tmp_path / "out", workers=1)
    with opened(result.path) as connection:
        pairs = connection.execute(
            "SELECT npu.name, bench.name FROM match"
            " JOIN node_name AS npu ON npu.node_id = npu_node"
            " JOIN node_name AS bench ON bench.node_id = bench_node"
        ).fetchall()
    assert ("Module.entry.Linear.forward.0", "Module.first.Linear.forward.0") in pairs
