"""Every recorded maker is the true one where several processes, or compiled code, make a model."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

from tests.cases import tried_first
from tests.collector.models import Decoder, tokens
from tests.collector.processes import run_in_two
from tests.collector.truth.test_flow_truth import check_identity
from tests.collector.truth.test_sharded_truth import BUILDS
from tests.collector.versions import needs_torch


def replicated() -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(11)
    init_device_mesh("cpu", (2,))
    return DistributedDataParallel(Decoder()), tokens()


def compiled() -> tuple[nn.Module, torch.Tensor]:
    """Each layer by itself: one call of a compiled function, between calls that are not."""
    torch._dynamo.reset()
    torch.manual_seed(11)
    model = Decoder()
    for layer in model.layers:
        layer.compile(backend="aot_eager")
    return model, tokens()


SEVERAL = {**BUILDS, "replicated": replicated}


def check(rank: int, build: str, training: str, path: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        check_identity(SEVERAL[build], training, Path(path), patch, f"rank{rank}")


@pytest.mark.parametrize("build", tried_first(SEVERAL, 2))
def test_makers_on_each_rank_put_out_that_very_tensor(build: str, tmp_path: Path) -> None:
    run_in_two(check, build, "accumulation", str(tmp_path))


@needs_torch(2, 6, to="name the modules of compiled calls")
def test_makers_around_compiled_parts_put_out_that_very_tensor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_identity(compiled, "accumulation", tmp_path, monkeypatch)
