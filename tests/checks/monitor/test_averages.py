"""Gradients that optimizers use are what backward left on all replicas, together."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from msprobe_checks.monitor.replicas import compare_replicas
from msprobe_collector import PrecisionDebugger
from tests.collector.processes import run_in

RANKS = 4
CONTROLS = {
    *("DDP", "buckets as gradients", "micro-batches", "clipping", "ZeRO-1", "half precision"),
    *("by hand", "a sum"),
}
# What is said of each; the replicas differ where one rank alone goes wrong.
FAULTS = {
    "not reduced": ("2.weight", "off by"),
    "not reduced on a rank": ("2.weight", "part at step 1"),
    "reduced twice": ("2.weight", "is 4 times"),
    "not divided": ("2.weight", "is 4 times"),
    "other memory": ("2.weight", "off by"),
    "reduced too early": ("2.weight", "off by"),
}


def train(rank: int, directory: Path, case: str) -> None:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4)
    )
    by_hand = case in FAULTS or case in ("by hand", "a sum")
    # By hand gradients are reduced under the eyes of nobody, but the replicas are known to be some.
    wrapped = DistributedDataParallel(model, gradient_as_bucket_view=case == "buckets as gradients")
    if case == "half precision":
        wrapped.register_comm_hook(None, default_hooks.fp16_compress_hook)
    config = {
        "task": "monitor",
        "dump_path": str(directory / "run"),
        "monitor": {"sketches": True, "every": 1},
    }
    path = directory / f"config{rank}.json"
    path.write_text(json.dumps(config))
    debugger = PrecisionDebugger(config_path=path)
    debugger.monitor(wrapped)
    optimizer: Any = torch.optim.AdamW(wrapped.parameters(), lr=1e-2)
    if case == "ZeRO-1":
        optimizer = ZeroRedundancyOptimizer(wrapped.parameters(), torch.optim.AdamW, lr=1e-2)
    generator = torch.Generator().manual_seed(rank)
    for step in range(3):
        for _ in range(2 if case == "micro-batches" else 1):
            data = torch.randn(6, 8, generator=generator)
            if by_hand:
                with wrapped.no_sync():
                    wrapped(data).square().sum().backward()
            else:
                wrapped(data).square().sum().backward()
        if by_hand:
            reduce_gradients(model, case if step == 1 or case in CONTROLS else "by hand", rank)
        if case == "clipping":
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        optimizer.zero_grad()
    PrecisionDebugger.close()


def reduce_gradients(model: nn.Module, case: str, rank: int) -> None:
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        assert gradient is not None
        is_wrong = name == "2.weight"
        if is_wrong and case == "not reduced":
            continue
        early = gradient.clone()
        if is_wrong and case == "other memory" and rank == 1:
            gradient.copy_(torch.arange(gradient.numel()).view_as(gradient) / 100)
        dist.all_reduce(gradient)
        if is_wrong and case == "reduced twice":
            dist.all_reduce(gradient)
        if not (is_wrong and case == "not divided") and case != "a sum":
            gradient /= RANKS
        if is_wrong and case == "not reduced on a rank" and rank == 3:
            gradient.copy_(early)
        if is_wrong and case == "reduced too early":
            both = [torch.empty_like(early) for _ in range(RANKS)]
            dist.all_gather(both, early)
            gradient.copy_(sum(both[:3], torch.zeros_like(early)) / RANKS)  # one came too late


@pytest.mark.parametrize("case", sorted(CONTROLS))
def test_gradients_of_correct_programs_add_up(tmp_path: Path, case: str) -> None:
    run_in(RANKS, train, tmp_path, case)
    found = compare_replicas(tmp_path / "run")
    assert found.together is None
    assert found.groups == (tuple(range(RANKS)),)


@pytest.mark.parametrize("case", FAULTS)
def test_a_gradient_that_is_not_that_of_all_ranks_is_named(
    tmp_path: Path, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from msprobe_builder.command.main import main

    run_in(RANKS, train, tmp_path, case)
    assert main(["monitor", str(tmp_path / "run"), "-o", str(tmp_path / "found.json")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    name, sentence = FAULTS[case]
    assert sentence in said
    found = json.loads((tmp_path / "found.json").read_text())["together"]
    assert (found["step"], found["name"], found["company"]) == (1, name, 0)
    assert found["ranks"] == ([3] if case == "not reduced on a rank" else list(range(RANKS)))
