"""A training under DeepSpeed: what is recorded of it is what the same plain training computes."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from msprobe_collector import PrecisionDebugger
from tests.collector.plain_training import (
    CLIP,
    MICRO,
    STEPS,
    Model,
    data,
    hooks_of,
    loss_of,
    summary,
    together,
    train_plainly,
)
from tests.collector.processes import run_in_two
from tests.collector.test_monitor import read

os.environ.setdefault("DS_ACCELERATOR", "cpu")
deepspeed: Any = pytest.importorskip("deepspeed", exc_type=ImportError)


def groups(model: nn.Module) -> list[dict[str, Any]]:
    """Two, of which DeepSpeed gives the optimizer one at a time."""
    some = [one for one in model.parameters() if one.ndim > 1]
    others = [one for one in model.parameters() if one.ndim == 1]
    return [{"params": some, "weight_decay": 0.1}, {"params": others, "lr": 0.002}]


def train(rank: int, directory: Path, stage: int, task: str) -> None:
    os.environ |= {"WORLD_SIZE": "2", "RANK": str(rank), "LOCAL_RANK": str(rank)}
    model = Model()
    configuration = {
        "train_micro_batch_size_per_gpu": 3,
        "gradient_accumulation_steps": MICRO,
        "gradient_clipping": CLIP,
        "zero_optimization": {
            "stage": stage,
            "reduce_bucket_size": 100,
            "stage3_param_persistence_threshold": 0,
        },
        "zero_allow_untested_optimizer": True,
    }
    engine, *_ = deepspeed.initialize(
        model=model,
        optimizer=torch.optim.AdamW(groups(model), lr=0.01),
        config=configuration,
        dist_init_required=False,
    )
    if task:
        debugger = PrecisionDebugger(None, task, directory / "dump")
        before = hooks_of(model)
        debugger.monitor(model)
    for step in data(rank):
        for words in step:
            engine.backward(loss_of(engine, words))
            engine.step()
    if task:
        PrecisionDebugger.close()
        assert hooks_of(model) == before
    with deepspeed.zero.GatheredParameters(list(model.parameters()), enabled=stage == 3):
        weights = {name: one.detach().clone() for name, one in model.named_parameters()}
    torch.save(weights, directory / f"{task}.{rank}.pt")


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_a_zero_training_is_recorded_as_the_plain_one_computes_it(
    tmp_path: Path, stage: int
) -> None:
    for task in ("", "monitor", "grad_probe"):
        run_in_two(train, tmp_path, stage, task)
    for rank in range(2):
        weights = torch.load(tmp_path / f".{rank}.pt")
        for task in ("monitor", "grad_probe"):
            watched = torch.load(tmp_path / f"{task}.{rank}.pt")
            assert all(torch.equal(watched[name], one) for name, one in weights.items())
    parts = [read(tmp_path, rank) for rank in range(2)]
    whole, local = train_plainly(groups)
    assert {step for step, _, _ in parts[0]} == set(range(STEPS))
    for step, seen in enumerate(whole):
        for (kind, name), tensor in seen.items():
            is_whole = stage == 0 or (kind == "weight" and stage < 3)
            for some in [[part] for part in parts] if is_whole else [parts]:
                norm, total, count = together(some, step, kind, name)
                assert count == tensor.numel(), (step, kind, name)
                assert norm == pytest.approx(tensor.norm().item(), rel=1e-4)
                assert total == pytest.approx(tensor.sum().item(), abs=1e-4 * norm * count**0.5)
        for rank, part in enumerate(parts):
            # From ZeRO 2 on each micro-batch is reduced by itself: two make twice the values.
            for name, one in Model().named_parameters():
                own = local[rank][step]
                last, before = own["last", name], own["all", name] - own["last", name]
                found = own["all", name] if stage < 2 else torch.stack([last, before])
                row = part[step, "local_gradient", name]
                assert row["norm"] == pytest.approx(found.norm().item(), rel=1e-4), name
                assert row["count"] == found.numel() == one.numel() * (1 + (stage > 1))
            rates = {
                name: one["norm"]
                for (number, kind, name), one in part.items()
                if (number, kind) == (step, "learning_rate")
            }
            assert rates == {"group0": pytest.approx(0.01), "group1": pytest.approx(0.002)}
    for step, seen in enumerate(whole):
        summaries = [summary(tmp_path, rank, step) for rank in range(2)]
        for name, _ in Model().named_parameters():
            norms = [float(one[name]["norm"]) for one in summaries if name in one]
            norm = norms[0] if stage == 0 else math.hypot(*norms)
            assert norm == pytest.approx(seen["gradient", name].norm().item(), rel=1e-4)
