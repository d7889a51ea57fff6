"""The same for parameters and activations that are split over two processes."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from tests.cases import tried_first
from tests.collector.models import Decoder, GatedMLP, tokens
from tests.collector.processes import run_in_two
from tests.collector.truth.test_truth import compare_twins
from tests.collector.truth.trainings import TRAININGS
from tests.collector.versions import CAN_SHARD


def sharded() -> tuple[nn.Module, torch.Tensor]:
    """FSDP2: parameters are gathered for a call and given back."""
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(11)
    model = Decoder()
    data = tokens()
    mesh = init_device_mesh("cpu", (2,))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, data


def tensor_parallel() -> tuple[nn.Module, torch.Tensor]:
    """Columns of the first linear layers of the MLP, rows of the last one."""
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    torch.manual_seed(11)
    model = Decoder()
    mesh = init_device_mesh("cpu", (2,))
    plan = {"gate": ColwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()}
    for part in model.modules():
        if isinstance(part, GatedMLP):
            parallelize_module(part, mesh, plan)
    return model, tokens()


BUILDS: dict[str, Callable[[], tuple[nn.Module, torch.Tensor]]] = {
    **({"fsdp2": sharded} if CAN_SHARD else {}),
    "tensor parallel": tensor_parallel,
}


def compare(rank: int, build: str, training: str, task: str, path: str) -> None:
    train = TRAININGS[training]
    compare_twins(BUILDS[build], train, task, "mix", Path(path), f"rank{rank}")


@pytest.mark.parametrize("build", tried_first(BUILDS))
def test_records_of_each_rank_are_true(build: str, tmp_path: Path) -> None:
    run_in_two(compare, build, "accumulation", "statistics", str(tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("task", ["md5", "tensor"])
@pytest.mark.parametrize("training", ["plain", "accumulation"])
@pytest.mark.parametrize("build", BUILDS)
def test_all_records_of_each_rank_are_true(
    build: str, training: str, task: str, tmp_path: Path
) -> None:
    run_in_two(compare, build, training, task, str(tmp_path))
