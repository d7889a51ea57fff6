"""What comes from the ranks of another replica accuses none of the ranks that got it."""

# mypy: disable-error-code="no-untyped-call"
# torch is typed in part only.

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import torch

from tests.worded import worded

pytest.importorskip("torch.distributed")

import torch.distributed as dist

from msprobe_builder import BuildConfig, build
from msprobe_builder.merge.ranks.layout import parse_layout
from msprobe_collector import PrecisionDebugger
from tests.builder.merge.parallel_model import BATCH, HIDDEN, LENGTH, Layer, Ranks, Split, weight
from tests.collector.processes import run_in
from tests.collector.recording import write_config

RANK = 2  # of the second replica; its norm has drifted


class _Shifted(torch.nn.Module):
    """A layer behind a shift, whose gradient went through the layer's norms on its own rank."""

    def __init__(self, ranks: Ranks) -> None:
        super().__init__()
        self.shift = torch.nn.Parameter(weight("shift", HIDDEN))
        self.layer = Layer(ranks, "layer")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(x + self.shift)
        return y


def _train(rank: int, folder: str, factors: list[float]) -> None:
    """Two replicas of two tensor-parallel ranks, whose gradients are added up."""
    for factor in factors:
        ranks = Ranks(rank, Split(tp=2, pp=2))  # its stages serve as replicas
        groups = [dist.new_group([part, part + 2]) for part in (0, 1)]
        layer = _Shifted(ranks)
        if rank == RANK:
            with torch.no_grad():
                layer.get_parameter("layer.pre_mlp_layernorm.weight").mul_(factor)
        debugger = PrecisionDebugger(config_path=write_config(Path(folder) / str(factor)))
        try:
            debugger.start(layer)
            y = layer(weight(f"words {ranks.stage}", LENGTH, BATCH, HIDDEN).requires_grad_())
            y.backward(y.detach() * 0.1)
            for one in layer.parameters():
                dist.all_reduce(one.grad, group=groups[ranks.part])
            with torch.no_grad():
                for one in layer.parameters():
                    if one.grad is not None:
                        one.add_(one.grad, alpha=-0.1)
            debugger.stop()
        finally:
            debugger.close()


def test_a_sum_over_replicas_accuses_nobody_who_only_got_it(tmp_path: Path) -> None:
    run_in(4, _train, str(tmp_path), [1.0, 1.2])
    layout = parse_layout({"rank_size": 4, "tp": 2, "pp": 1}, "")
    npu, bench = (tmp_path / factor / "dump" / "step0" for factor in ("1.2", "1.0"))
    config = BuildConfig(npu, bench, npu_layout=layout, bench_layout=layout)
    result = build(config, tmp_path / "out", workers=1)
    with closing(sqlite3.connect(result.path)) as connection:
        found = connection.execute(
            "SELECT node_name.name, disagreement.rank, suspect, is_origin"
            " FROM disagreement JOIN node_name USING (node_id)"
        ).fetchall()
        query = "SELECT rank, conclusion, sentence FROM verdict WHERE rank IS NOT NULL ORDER BY 1"
        verdicts = worded(connection.execute(query))
    sums = [one for one in found if one[0].startswith("Distributed.") and one[1] < RANK]
    assert sums  # the first replica's ranks got sums with and without the drifted rank
    assert any(one[0].startswith("Tensor.add_.") and one[1] < RANK for one in found)
    others = [one for one in found if one[1] < RANK]
    assert {(suspect, is_origin) for *_, suspect, is_origin in others} == {(None, 0)}
    norm = "Module.layer.pre_mlp_layernorm.RMSNorm.forward.0"
    assert {suspect for name, _, suspect, _ in found if name == norm} == {RANK}
    assert [conclusion for _, conclusion, _ in verdicts] == ["undecided", "fault"]
    assert norm in verdicts[1][2].partition(": ")[0]
