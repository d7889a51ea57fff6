"""Gradients of a monitored training on two ranks, before and after they are reduced."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import math
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch import nn

from msprobe_collector import PrecisionDebugger
from tests.collector.models import VOCABULARY
from tests.collector.plain_training import MICRO, STEPS, Model, data, loss_of
from tests.collector.processes import run_in_two
from tests.collector.test_measured_numbers import expected
from tests.collector.test_monitor import decoder, read
from tests.collector.versions import NEEDS_SHARDS, needs_torch


def train_shared(rank: int, directory: Path, kind: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    model: nn.Module = decoder()
    if kind == "fsdp2":
        mesh = init_device_mesh("cpu", (2,))
        for layer in model.layers:  # type: ignore[union-attr]
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    else:
        model = DistributedDataParallel(model)
    debugger = PrecisionDebugger(None, "monitor", directory / "dump")
    debugger.monitor(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(2):
        words = torch.randint(0, VOCABULARY, (2, 6), generator=generator)
        nn.functional.cross_entropy(model(words).flatten(0, 1), words.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    PrecisionDebugger.close()


@needs_torch(2, 10, to="average shards on a CPU of those tried")
def test_gradients_before_and_after_reduction_of_two_ranks(tmp_path: Path) -> None:
    for kind in ("ddp", "fsdp2"):
        run_in_two(train_shared, tmp_path / kind, kind)
    local = []
    for rank in range(2):
        model = decoder()  # which seeds the dropout too
        generator = torch.Generator().manual_seed(rank)
        words = torch.randint(0, VOCABULARY, (2, 6), generator=generator)
        nn.functional.cross_entropy(model(words).flatten(0, 1), words.flatten()).backward()
        local.append({n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None})
    for rank in range(2):
        ddp, sharded = (read(tmp_path / kind, rank) for kind in ("ddp", "fsdp2"))
        for name, own in local[rank].items():
            reduced = expected((local[0][name] + local[1][name]) / 2)
            before = pytest.approx(expected(own), rel=1e-4, abs=1e-6)
            assert ddp[(0, "local_gradient", name)] == before
            assert sharded[(0, "local_gradient", name)] == before
            assert ddp[(0, "gradient", name)] == pytest.approx(reduced, rel=1e-4, abs=1e-6)
        assert {key[1:] for key in ddp} == {key[1:] for key in sharded}
    for name in local[0]:
        parts = [read(tmp_path / "fsdp2", rank)[(0, "gradient", name)] for rank in range(2)]
        whole = read(tmp_path / "ddp")[(0, "gradient", name)]
        assert math.hypot(*(part["norm"] for part in parts)) == pytest.approx(
            whole["norm"], rel=1e-4
        )
        assert sum(part["count"] for part in parts) == whole["count"]


def train_micro_batches(rank: int, directory: Path, kind: str) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.nn.parallel import DistributedDataParallel

    model: nn.Module = Model()
    if kind == "fsdp2":
        from torch.distributed.fsdp import fully_shard

        fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    else:
        model = DistributedDataParallel(model, gradient_as_bucket_view=kind == "view")
    PrecisionDebugger(None, "monitor", directory / "dump").monitor(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    for step in data(rank):
        for micro, words in enumerate(step):
            is_last = micro == MICRO - 1 or kind == "fsdp2"
            with nullcontext() if is_last else model.no_sync():  # type: ignore[operator]
                (loss_of(model, words) / MICRO).backward()
        optimizer.step()
        optimizer.zero_grad()
    PrecisionDebugger.close()


@pytest.mark.parametrize("kind", ["copies", "view", pytest.param("fsdp2", marks=NEEDS_SHARDS)])
def test_micro_batches_that_are_reduced_one_by_one_are_taken_together(
    tmp_path: Path, kind: str
) -> None:
    run_in_two(train_micro_batches, tmp_path, kind)
    for rank in range(2):
        rows, model = read(tmp_path, rank), Model()
        for step in range(STEPS):
            gradients = []
            for words in data(rank)[step]:
                model.zero_grad()
                (loss_of(model, words) / MICRO).backward()
                gradients.append({n: p.grad for n, p in model.named_parameters()})
            for name in gradients[0]:
                both = torch.stack([one[name] for one in gradients])  # type: ignore[misc]
                own = both if kind == "fsdp2" else both.sum(0)
                row = rows[step, "local_gradient", name]
                assert row["norm"] == pytest.approx(own.norm().item(), rel=1e-4)
                assert row["count"] == own.numel()
