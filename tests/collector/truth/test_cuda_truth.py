"""The same on a CUDA device, where hooks run in the threads of the engine and nobody may wait."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from msprobe_collector import PrecisionDebugger
from tests.collector.models import loss_of
from tests.collector.recording import Dump, read_dump, write_config
from tests.collector.truth.test_truth import MODELS, built, compare_twins
from tests.collector.truth.trainings import TRAININGS

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


@pytest.fixture(autouse=True)
def deterministic(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The same numbers in every run, so that a change by the collector shows."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


def on_device(model: str, device: str) -> tuple[nn.Module, torch.Tensor]:
    net, data = built(model)
    return net.to(device), data.to(device)


@pytest.mark.parametrize(
    ("task", "level"), [("statistics", "mix"), ("md5", "L0"), ("tensor", "mix")]
)
@pytest.mark.parametrize("training", TRAININGS)
@pytest.mark.parametrize("model", MODELS)
def test_records_are_true(model: str, training: str, task: str, level: str, tmp_path: Path) -> None:
    if (model, training) == ("mixtral", "mixed precision"):
        pytest.skip("its accumulation in place mixes types that autocast does not bring together")
    with torch.device("cuda"):
        compare_twins(lambda: on_device(model, "cuda"), TRAININGS[training], task, level, tmp_path)


def one_step(model: str, device: str, path: Path) -> Dump:
    net, data = on_device(model, device)
    debugger = PrecisionDebugger(config_path=write_config(path))
    with torch.device(device):
        debugger.start(net)
        loss_of(net, data).backward()
        debugger.stop()
    debugger.close()
    return read_dump(path / "dump" / "step0" / "rank")


@pytest.mark.parametrize("model", MODELS)
def test_calls_stand_where_they_stand_on_the_host(model: str, tmp_path: Path) -> None:
    here, there = (one_step(model, device, tmp_path / device) for device in ("cpu", "cuda"))
    assert sorted(there.data) == sorted(here.data)
    forward, on_host = (
        [one for one in dump.data if "backward" not in one] for dump in (there, here)
    )
    assert forward == on_host
    assert there.parents == here.parents
    # The engine's threads have stacks of their own, below what they call.
    assert {name: one[0] for name, one in there.stacks.items()} == {
        name: one[0] for name, one in here.stacks.items()
    }
