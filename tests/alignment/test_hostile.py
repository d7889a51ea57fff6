"""Numbers that no tensor has, in dumps whose modules have other names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from msprobe_builder import BuildConfig, build
from msprobe_builder.database.open import opened
from tests.collector.recording import ALONE, record

RENAMED = ("Module.entry.Linear.forward.0", "Module.first.Linear.forward.0")


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
        path = _dump(tmp_path / side, lambda net=net: net(torch.ones(3, 4)).sum().backward(), net)  # type: ignore[misc]
        content = json.loads(path.read_text())
        call = content["data"]["Torch.tanh.0.forward"]
        call["input_args"][0]["shape"] = [2**60, 2**60]
        call["output"][0]["shape"] = [10**300, 10**300]
        path.write_text(json.dumps(content))
    assert RENAMED in _pairs(tmp_path)


def test_a_dump_of_very_few_calls_is_aligned(tmp_path: Path) -> None:
    """Fewer calls than stand at the end of an ordinary module."""
    for side in ("npu", "bench"):
        net = Net()
        _dump(tmp_path / side, lambda net=net: net.first(torch.ones(3, 4)), net)  # type: ignore[misc]
    assert RENAMED in _pairs(tmp_path)


def _dump(directory: Path, run: Callable[[], object], net: Net) -> Path:
    """Record a run; its module ``first`` is called ``entry`` on the side under debug."""
    record(directory, run, net, statistics=ALONE)  # flow knows records by name
    (path,) = directory.rglob("dump.json")
    if directory.name == "npu":
        for part in path.parent.glob("*.json"):
            part.write_text(part.read_text().replace("Module.first.", "Module.entry."))
    return path


def _pairs(directory: Path) -> list[tuple[str, str]]:
    config = BuildConfig(directory / "npu" / "dump", directory / "bench" / "dump")
    result = build(config, directory / "out", workers=1)
    with opened(result.path) as connection:
        found: list[tuple[str, str]] = connection.execute(
            "SELECT npu.name, bench.name FROM match"
            " JOIN node_name AS npu ON npu.node_id = npu_node"
            " JOIN node_name AS bench ON bench.node_id = bench_node"
        ).fetchall()
    return found
