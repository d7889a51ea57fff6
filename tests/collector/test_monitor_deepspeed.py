"""A training under DeepSpeed: what is recorded of it is what the same plain training computes."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import csv
import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from msprobe_collector import PrecisionDebugger
from tests.collector.processes import run_in_two
from tests.collector.test_monitor import Rows, read

pytest.importorskip("deepspeed", exc_type=ImportError)

STEPS, MICRO, WORDS, CLIP = 3, 2, 23, 0.05
Steps = list[dict[tuple[str, str], torch.Tensor]]


class Model(nn.Module):
    """Sizes that no number of ranks divides."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(WORDS, 7)
        self.norm = nn.LayerNorm(7)
        self.gate, self.up = nn.Linear(7, 11), nn.Linear(7, 11, bias=False)
        self.head = nn.Linear(11, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        inner = self.norm(self.embed(words))
        logits: torch.Tensor = self.head(nn.functional.silu(self.gate(inner)) * self.up(inner))
        return logits


def groups(model: nn.Module) -> list[dict[str, Any]]:
    """Two, of which DeepSpeed gives the optimizer one at a time."""
    some = [one for one in model.parameters() if one.ndim > 1]
    others = [one for one in model.parameters() if one.ndim == 1]
    return [{"params": some, "weight_decay": 0.1}, {"params": others, "lr": 0.002}]


def data(rank: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rank)
    return torch.randint(0, WORDS, (STEPS, MICRO, 3, 5), generator=generator)


def loss_of(model: nn.Module, words: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(words).flatten(0, 1), words.flatten())


def train(rank: int, directory: Path, stage: int, task: str) -> None:
    os.environ |= {"DS_ACCELERATOR": "cpu", "WORLD_SIZE": "2"}
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    import deepspeed

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


def hooks_of(model: nn.Module) -> list[int]:
    found = [len(one._forward_hooks) + len(one._forward_pre_hooks) for one in model.modules()]
    return found + [len(one._post_accumulate_grad_hooks or {}) for one in model.parameters()]


def train_plainly() -> tuple[Steps, list[Steps]]:
    """Of each step what all ranks have together; and of each rank its own gradients."""
    model = Model()
    optimizer = torch.optim.AdamW(groups(model), lr=0.01)
    whole: Steps = []
    local: list[Steps] = [[], []]
    for step in range(STEPS):
        seen = {("weight", name): one.detach().clone() for name, one in model.named_parameters()}
        sums = {name: torch.zeros_like(one) for name, one in model.named_parameters()}
        for rank in range(2):
            model.zero_grad()
            own: dict[tuple[str, str], torch.Tensor] = {}
            for micro, words in enumerate(data(rank)[step]):
                (loss_of(model, words) / MICRO).backward()
                for name, one in model.named_parameters():
                    assert one.grad is not None
                    kind = "all" if micro == MICRO - 1 else "before"
                    own[kind, name] = one.grad.clone()
            local[rank].append(own)
            for name in sums:
                sums[name] += own["all", name] / 2
        for name, one in model.named_parameters():
            one.grad = sums[name]
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        seen |= {("gradient", name): one.grad.clone() for name, one in model.named_parameters()}  # type: ignore[union-attr]
        optimizer.step()
        for name, one in model.named_parameters():
            seen["optimizer_state", f"{name}:exp_avg"] = optimizer.state[one]["exp_avg"].clone()
        whole.append(seen)
    return whole, local


def together(parts: list[Rows], step: int, kind: str, name: str) -> tuple[float, float, float]:
    """Norm, sum and number of what the ranks hold."""
    found = [part[step, kind, name] for part in parts if (step, kind, name) in part]
    norm = math.hypot(*(one["norm"] for one in found))
    total = sum(one["mean"] * one["count"] for one in found)
    return norm, total, sum(one["count"] for one in found)


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
    whole, local = train_plainly()
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
            for name, _ in Model().named_parameters():
                own = local[rank][step]
                found = own["all", name] - (own["before", name] if stage > 1 else 0)
                norm = part[step, "local_gradient", name]["norm"]
                assert norm == pytest.approx(found.norm().item(), rel=1e-4), name
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


def summary(directory: Path, rank: int, step: int) -> dict[str, dict[str, str]]:
    path = directory / "dump" / f"rank{rank}" / f"grad_summary_{step}.csv"
    with path.open(encoding="utf-8-sig", newline="") as file:
        return {row["param_name"]: row for row in csv.DictReader(file)}
