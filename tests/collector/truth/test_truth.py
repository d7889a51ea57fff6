"""Every recorded statistic of every step, recomputed from what plain hooks cloned.

The same training runs twice from the same seed: once recorded, once with hooks that know nothing
of the collector. Their statistics are taken by numpy in float64.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from msprobe_collector import PrecisionDebugger
from tests.collector.models import MODELS as FIRST_MODELS
from tests.collector.more_models import MORE_MODELS
from tests.collector.recording import read_dump, saved_tensor, tensors, write_config
from tests.collector.truth.oracle import Oracle, Step, copy_of
from tests.collector.truth.trainings import TRAININGS, Training

TASKS: dict[str, dict[str, Any]] = {
    "statistics": {"task": "statistics"},
    "md5": {"task": "statistics", "statistics": {"summary_mode": "md5"}},
    "tensor": {"task": "tensor"},
}
MODELS = {**FIRST_MODELS, **MORE_MODELS}
QUICK = [(model, training, "statistics", "mix") for model in FIRST_MODELS for training in TRAININGS]
QUICK += [(model, "mixed precision", "statistics", "mix") for model in MORE_MODELS]
QUICK += [("resnet", training, task, "L0") for training in TRAININGS for task in ("md5", "tensor")]
# Its accumulation in place mixes types that autocast does not bring together.
QUICK.remove(("mixtral", "mixed precision", "statistics", "mix"))
ALL = [
    (model, training, task, level)
    for model in MODELS
    for training in TRAININGS
    for task in TASKS
    for level in ("L0", "mix")
    if (model, training) != ("mixtral", "mixed precision")
]


def has_lstm_in_bfloat16() -> bool:
    """oneDNN trains one only on processors that have instructions for it."""
    layer = nn.LSTM(4, 4)
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            layer(torch.ones(2, 1, 4))
    except RuntimeError:
        return False
    return True


def built(model: str) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(11)
    build, data = MODELS[model]
    return build(), data()


def check(item: dict[str, Any], truth: Any, directory: Path, where: str) -> None:
    assert item["shape"] == truth.whole_shape, where
    assert item["dtype"] == str(truth.dtype), where
    if item["type"].endswith(".AsyncCollectiveTensor"):  # still on its way when it was recorded
        assert [item[key] for key in ("Max", "Min", "Mean", "Norm")] == [None] * 4, where
        return
    if "md5" in item:
        assert item["md5"] == f"{zlib.crc32(bits(truth).tobytes()):08x}", where
    if "data_name" in item:
        saved = saved_tensor(directory, item["data_name"])
        assert np.array_equal(bits(saved), bits(truth)), where
    if not truth.numel() or truth.dtype is torch.bool:
        return
    values = truth.double().cpu().numpy()
    wanted = (values.max(), values.min(), values.mean(), math.sqrt((values**2).sum()))
    found = [item[key] for key in ("Max", "Min", "Mean", "Norm")]
    # float32 sums of at most a few thousand numbers
    scale = 1e-6 * float(np.abs(values[np.isfinite(values)]).max(initial=0))
    assert found == pytest.approx(wanted, rel=2e-5, abs=scale + 1e-9, nan_ok=True), where


def bits(tensor: torch.Tensor) -> np.ndarray[Any, Any]:
    return tensor.contiguous().reshape(-1).view(torch.uint8).cpu().numpy()


def compare(model: str, training: str, task: str, level: str, path: Path) -> None:
    if (model, training) == ("translator", "mixed precision") and not has_lstm_in_bfloat16():
        pytest.skip("this processor has no LSTM in bfloat16")
    compare_twins(lambda: built(model), TRAININGS[training], task, level, path)


def compare_twins(
    build: Callable[[], tuple[nn.Module, torch.Tensor]],
    train: Training,
    task: str,
    level: str,
    path: Path,
    rank: str = "rank",
) -> None:
    """Train twice from the same seed, recorded and watched, and compare what both hold."""
    net, data = build()
    debugger = PrecisionDebugger(config_path=write_config(path, level=level, **TASKS[task]))

    @contextmanager
    def recorded() -> Iterator[None]:
        debugger.start(net)
        yield
        debugger.stop()
        debugger.step()

    torch.manual_seed(5)
    train(net, data, recorded)
    debugger.close()

    twin, data = build()
    oracle = Oracle(twin)
    steps: list[Step] = []

    @contextmanager
    def watched() -> Iterator[None]:
        yield
        steps.append(oracle.end_step())

    torch.manual_seed(5)
    train(twin, data, watched)
    after = map(copy_of, net.parameters())
    assert all(map(torch.equal, after, map(copy_of, twin.parameters()))), "the training changed"
    for number, step in enumerate(steps):
        compare_step(step, path / "dump" / f"step{number}" / rank, f"step {number}")


def compare_step(step: Step, directory: Path, where: str) -> None:
    dump = read_dump(directory)
    calls = [name for name in dump.names("Module.") if ".forward." in name]
    assert sorted(calls) == sorted(step.calls)
    for name in calls:
        entry, truth = dump.data[name], step.calls[name]
        found = {
            "input": [entry["input_args"], entry["input_kwargs"]],
            "output": entry["output"],
            "parameters": entry["parameters"],
        }
        for side, records in found.items():
            items = [item for _, item in tensors(records)]
            assert len(items) == len(truth[side]), f"{name} {side}"
            for position, (item, tensor) in enumerate(zip(items, truth[side], strict=True)):
                check(item, tensor, directory, f"{where} {name} {side} {position}")
        backward = dump.data.get(name.replace(".forward.", ".backward."))
        for gradient in truth["gradients"]:
            assert backward is not None, name
            check(backward["input"][0], gradient, directory, f"{where} {name} gradient")
    called = {name.partition(".forward.")[0] for name in calls}
    for stem, gradients in step.gradients.items():
        if stem not in called:
            continue  # its parameters are used, it is not
        entry = dump.data[f"{stem}.parameters_grad"]
        assert set(entry) == set(gradients), stem
        for key, gradient in gradients.items():
            check(entry[key][0], gradient, directory, f"{where} {stem} {key}")


@pytest.mark.parametrize(("model", "training", "task", "level"), QUICK)
def test_records_are_true(model: str, training: str, task: str, level: str, tmp_path: Path) -> None:
    compare(model, training, task, level, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "training", "task", "level"), [case for case in ALL if case not in QUICK]
)
def test_all_records_are_true(
    model: str, training: str, task: str, level: str, tmp_path: Path
) -> None:
    compare(model, training, task, level, tmp_path)
