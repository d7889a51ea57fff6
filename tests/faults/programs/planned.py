"""Models that a plan of PyTorch or of transformers splits over two ranks."""

# mypy: disable-error-code="union-attr, no-untyped-call, misc, attr-defined, import-not-found"
# torch is typed in part only.

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional

from msprobe_collector import PrecisionDebugger
from tests.collector.recording import write_config

Plant = Callable[[Any, int], None]


class Encoder(nn.Module):
    """A stock layer of torch has one fused projection that no plan can cut; this is by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(24), nn.LayerNorm(24)
        self.to_q, self.to_k, self.to_v = (nn.Linear(24, 24, bias=False) for _ in range(3))
        self.to_out = nn.Linear(24, 24)
        self.wide, self.thin = nn.Linear(24, 56), nn.Linear(56, 24)

    def forward(self, x: Any) -> Any:
        y = self.norm1(x)
        q, k, v = (
            one(y).unflatten(-1, (-1, 6)).movedim(2, 1) for one in (self.to_q, self.to_k, self.to_v)
        )
        scores = (q @ k.mT * 6**-0.5).tril()
        x = x + self.to_out((scores @ v).movedim(1, 2).flatten(2))
        return x + self.thin(functional.gelu(self.wide(self.norm2(x))))


class Tower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(40, 24)
        self.stack = nn.ModuleList(Encoder() for _ in range(3))
        self.norm, self.logits = nn.LayerNorm(24), nn.Linear(24, 40, bias=False)

    def forward(self, ids: Tensor) -> Any:
        x = self.tokens(ids)
        for one in self.stack:
            x = one(x)
        return self.logits(self.norm(x))


def cut(model: Tower) -> None:
    """Scores stay cut, and so does the loss."""
    mesh = init_device_mesh("cpu", (2,))
    top: dict[str, Any] = {
        "tokens": RowwiseParallel(input_layouts=Replicate()),
        "logits": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False),
    }
    parallelize_module(model, mesh, top)
    for one in model.stack:
        plan: dict[str, Any] = {f"to_{name}": ColwiseParallel() for name in "qkv"}
        plan |= {"wide": ColwiseParallel(), "to_out": RowwiseParallel(), "thin": RowwiseParallel()}
        parallelize_module(one, mesh, plan)


def work_plan(rank: int, path: str, is_cut: bool, plant: Plant | None) -> None:
    torch.manual_seed(12)
    model = Tower()
    if is_cut:
        cut(model)
    if plant is not None:
        plant(model, rank)
    torch.manual_seed(13)
    ids = torch.randint(0, 40, (2, 9))
    debugger = PrecisionDebugger(config_path=write_config(Path(path)))
    debugger.start(model)
    scores = model(ids[:, :-1])
    if is_cut:
        with loss_parallel():
            functional.cross_entropy(scores.flatten(0, 1), ids[:, 1:].flatten()).backward()
    else:
        functional.cross_entropy(scores.flatten(0, 1), ids[:, 1:].flatten()).backward()
    debugger.stop()
    debugger.close()


def work_hf(rank: int, path: str, world: int, plant: Plant | None) -> None:
    """Gemma 3 of transformers, written to a folder first because only loading cuts."""
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    folder = str(Path(path).parent / "weights")
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)}
    os.environ |= {"LOCAL_WORLD_SIZE": str(world)}
    config = Gemma3TextConfig(
        vocab_size=48, hidden_size=32, intermediate_size=48, num_hidden_layers=3, head_dim=8,
        num_attention_heads=4, num_key_value_heads=2, sliding_window=4, max_position_embeddings=64,
        attn_implementation="eager", query_pre_attn_scalar=8,
    )  # fmt: skip
    torch.manual_seed(21)
    model: Any = Gemma3ForCausalLM(config)
    with torch.no_grad():
        for one in model.parameters():
            one.add_(torch.randn(one.shape) * 0.1)
    if rank == 0:
        model.save_pretrained(folder)
    dist.barrier()
    if world > 1:
        model = Gemma3ForCausalLM.from_pretrained(
            folder, tp_plan="auto", attn_implementation="eager", dtype=torch.float32
        )
        assert any(hasattr(one, "placements") for one in model.parameters())
    model.train()
    if plant is not None:
        plant(model, rank)
    torch.manual_seed(22)
    ids = torch.randint(0, 48, (2, 10))
    dist.barrier()
    debugger = PrecisionDebugger(config_path=write_config(Path(path)))
    debugger.start(model)
    model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    debugger.stop()
    debugger.close()
