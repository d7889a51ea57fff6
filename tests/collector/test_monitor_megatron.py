"""A training under Megatron-Core: what is recorded is what the same plain training computes.

Megatron-Core expects a GPU in a few places; here they are told that the CPU is one.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

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

pytest.importorskip("megatron.core", exc_type=ImportError)
parallel_state: Any = pytest.importorskip("megatron.core.parallel_state")
distributed: Any = pytest.importorskip("megatron.core.distributed")
optimizers: Any = pytest.importorskip("megatron.core.optimizer")
transformer: Any = pytest.importorskip("megatron.core.transformer")


class WithoutGpu(TorchFunctionMode):
    """Tensors for a GPU are made on the CPU, and say that they are on a GPU."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if str(kwargs.get("device", "")).startswith("cuda"):
            kwargs["device"] = "cpu"
        if function is torch.Tensor.cuda:
            return args[0]
        found = function(*args, **kwargs)
        is_kind = function is torch.Tensor.type and len(args) == 1
        return found.replace("torch.", "torch.cuda.") if is_kind else found


def train(rank: int, directory: Path, dtype: torch.dtype, is_sharded: bool, task: str) -> None:
    torch.cuda.current_device = lambda: "cpu"  # type: ignore[assignment, return-value]
    for kind in ("Float", "BFloat16"):  # of which parameters are said to be
        setattr(torch.cuda, f"{kind}Tensor", getattr(torch, f"{kind}Tensor"))
    parallel_state.initialize_model_parallel(create_gloo_process_groups=True)
    model = Model().to(dtype)
    low = {"bf16": dtype is torch.bfloat16, "params_dtype": dtype}
    wrapped = distributed.DistributedDataParallel(
        transformer.TransformerConfig(num_layers=1, hidden_size=8, num_attention_heads=1, **low),
        distributed.DistributedDataParallelConfig(
            grad_reduce_in_fp32=True,
            use_distributed_optimizer=is_sharded,
            bucket_size=100,
            average_in_collective=False,
        ),
        model,
    )
    settings = optimizers.OptimizerConfig(
        optimizer="adam",
        lr=0.01,
        weight_decay=0.0,
        adam_beta2=0.999,
        clip_grad=CLIP,
        use_distributed_optimizer=is_sharded,
        **low,
    )
    with WithoutGpu():
        optimizer = optimizers.get_megatron_optimizer(settings, [wrapped])
    if task:
        before = hooks_of(model)
        PrecisionDebugger(None, task, directory / "dump").monitor(model)
    for step in data(rank):
        wrapped.zero_grad_buffer()
        optimizer.zero_grad()
        for micro, words in enumerate(step):
            with wrapped.no_sync() if micro < MICRO - 1 else nullcontext():
                (loss_of(wrapped, words) / MICRO).backward()
        wrapped.finish_grad_sync()
        with WithoutGpu():
            optimizer.step()
    if task:
        PrecisionDebugger.close()
        assert hooks_of(model) == before
    torch.save(dict(model.named_parameters()), directory / f"{task}.{rank}.pt")


def one_group(model: nn.Module) -> Any:
    return [{"params": model.parameters(), "weight_decay": 0.0}]


@pytest.mark.parametrize("is_sharded", [False, True], ids=["whole", "sharded"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_a_megatron_training_is_recorded_as_the_plain_one_computes_it(
    tmp_path: Path, dtype: torch.dtype, is_sharded: bool
) -> None:
    for task in ("", "monitor", "grad_probe"):
        run_in_two(train, tmp_path, dtype, is_sharded, task)
    for rank in range(2):
        weights = torch.load(tmp_path / f".{rank}.pt")
        for task in ("monitor", "grad_probe"):
            watched = torch.load(tmp_path / f"{task}.{rank}.pt")
            assert all(torch.equal(watched[name], one) for name, one in weights.items())
    parts = [read(tmp_path, rank) for rank in range(2)]
    whole, local = train_plainly(one_group, dtype)
    near = 1e-4 if dtype is torch.float32 else 0.01
    assert {step for step, _, _ in parts[0]} == set(range(STEPS))
    for step, seen in enumerate(whole):
        for (kind, name), tensor in seen.items():
            is_whole = not is_sharded or kind == "weight"
            for some in [[part] for part in parts] if is_whole else [parts]:
                norm, total, count = together(some, step, kind, name)
                assert count == tensor.numel(), (step, kind, name)
                assert norm == pytest.approx(tensor.norm().item(), rel=near), (step, kind, name)
                assert total == pytest.approx(tensor.sum().item(), abs=near * norm * count**0.5)
        for rank, part in enumerate(parts):
            for name, _ in Model().named_parameters():
                norm = part[step, "local_gradient", name]["norm"]
                own = local[rank][step]["all", name]
                assert norm == pytest.approx(own.norm().item(), rel=near), name
        summaries = [summary(tmp_path, rank, step) for rank in range(2)]
        for name, _ in Model().named_parameters():
            found = [float(one[name]["norm"]) for one in summaries if name in one]
            norm = sum(one * one for one in found) ** 0.5 if is_sharded else found[0]
            assert norm == pytest.approx(seen["gradient", name].norm().item(), rel=near)
