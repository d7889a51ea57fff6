"""Programs that spread a training over ranks, the run that each must equal, and faults in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from tests.faults.programs import gshard, job, planned, sharded
from tests.faults.programs.job import Job, Run
from tests.faults.programs.neox import HEAD, Options

DP2 = {"rank_size": 2, "tp": 1, "pp": 1}


class Fault(NamedTuple):
    """``nodes``: parts of names, any of which is right to accuse; ``ranks``: who must be named."""

    name: str
    plant: Any
    nodes: tuple[str, ...]
    ranks: tuple[int, ...]


class Program(NamedTuple):
    """``work(rank, path, *what, plant)`` records one rank."""

    work: Callable[..., None]
    split: tuple[Any, ...]
    layout: dict[str, Any]
    whole: tuple[Any, ...]
    whole_layout: dict[str, Any]
    faults: tuple[Fault, ...]
    needs: str = ""  # a package that not everybody has


def _spread(split: Job, *faults: Fault, whole: Job | None = None) -> Program:
    alone = whole or Job(
        {}, split.options._replace(is_sequence=False), micro=split.micro, ignored=split.ignored,
        clip=split.clip, rate=split.rate,
    )  # fmt: skip
    return Program(job.work, (split,), _layout(split), (alone,), _layout(alone), faults)


def _layout(one: Job) -> dict[str, Any]:
    sizes = {"tp": 1, "pp": 1} | one.sizes
    sizes.pop("dp", None)
    total = 1
    for size in one.sizes.values():
        total *= size
    if len(one.chunks) > sizes["pp"]:
        sizes["vpp"] = len(one.chunks) // sizes["pp"]
    return {"rank_size": total, **sizes}


def _on(rank: int, path: str, change: Callable[[Any], None]) -> Callable[[Run], None]:
    def plant(run: Run) -> None:
        if run.seat.number == rank:
            change(run.part(path))

    return plant


def _everywhere(path: str, change: Callable[[Any], None]) -> Callable[[Run], None]:
    def plant(run: Run) -> None:
        if run.part(path) is not None:
            change(run.part(path))

    return plant


def _of_model(rank: int, path: str, change: Callable[[Any], None]) -> Callable[[Any, int], None]:
    def plant(model: Any, own: int) -> None:
        if own == rank:
            value = model
            for name in path.split("."):
                value = (
                    value[name] if isinstance(value, torch.nn.ModuleDict) else getattr(value, name)
                )
            change(value)

    return plant


def _times(factor: float) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        with torch.no_grad():
            (value.to_local() if hasattr(value, "to_local") else value).mul_(factor)

    return change


def _flipped(value: Any) -> None:
    with torch.no_grad():
        own = value.to_local() if hasattr(value, "to_local") else value
        own.copy_(own.flip(0))


def _set(**values: Any) -> Callable[[Any], None]:
    def change(module: Any) -> None:
        for name, value in values.items():
            setattr(module, name, value)

    return change


def _queries_for_keys(module: Any) -> None:
    """Within a head of the fused projection queries and keys stand the other way round."""
    with torch.no_grad():
        q, k, v = module.weight.view(-1, 3 * HEAD, module.weight.shape[1]).chunk(3, 1)
        module.weight.copy_(torch.cat([k, q, v], 1).reshape(module.weight.shape))


def _without_sum(module: Any) -> None:
    """Everybody else reduces with it, it keeps its own."""

    def forward(x: Any) -> Any:
        own = torch.nn.functional.linear(x, module.weight)
        from tests.faults.programs.seat import sum_out

        return own + 0.0 * sum_out(own, module.group) + module.bias

    module.forward = forward


def _own_count(run: Run) -> None:
    """The loss of one rank is divided by the number of its own labels only."""
    if run.seat.number == 1 and run.part("criterion") is not None:
        criterion = run.part("criterion")
        whole = criterion.forward

        def forward(scores: Any, labels: Any) -> Any:
            return whole(scores, labels) * ((labels != -100).sum() * 0 + 1.625)

        criterion.forward = forward


def _noise(value: Any) -> None:
    with torch.no_grad():
        own = value.to_local() if hasattr(value, "to_local") else value
        own.add_(0.03 * torch.randn(own.shape, generator=torch.Generator().manual_seed(3)))


def _skips(rank: int, name: str) -> Callable[[Run], None]:
    def plant(run: Run) -> None:
        if run.seat.number == rank:
            run.job.skips_sum_of = name

    return plant


def _norm(rank: int) -> Callable[[Run], None]:
    def plant(run: Run) -> None:
        if run.seat.number == rank:
            run.norm_factor = 0.8

    return plant


def _unit(rank: int, number: int, change: Callable[[Any], None]) -> Callable[[Any], None]:
    def plant(replica: Any) -> None:
        if replica.rank == rank:
            change(replica.units[number])

    return plant


def _shard_of(rank: int, path: str, change: Callable[[Any], None]) -> Callable[[Any], None]:
    def plant(replica: Any) -> None:
        _of_model(rank, path, change)(replica.model, replica.rank)

    return plant


def _scaled_shard(unit: Any) -> None:
    unit.shard[: 3 * 32 * 16].mul_(1.1)


_BY_TWO = [["embed", "0", "1"], ["2", "3", "head", "loss"]]
_QKV, _FC = "attention.query_key_value", "mlp.dense_h_to_4h"

PROGRAMS: dict[str, Program] = {
    "zero3_tied": Program(
        sharded.work, ("zero3",), DP2, ("plain",), DP2,
        (
            Fault("shard of a layer", _unit(0, 2, _scaled_shard), ("layers.1.input_layernorm",), (0, 1)),
            Fault("gradient not reduced on one rank", _unit(1, 3, _set(reduces=False)), ("add_", "div_", "reduce_scatter"), (1,)),
        ),
    ),
    "fsdp2_tied": Program(
        sharded.work, ("fsdp2",), DP2, ("plain_adam",), DP2,
        (
            Fault("shard of the tied table", _shard_of(1, "embed_in.weight", _times(1.1)), ("embed_in",), (0, 1)),
            Fault("epsilon of one replica", _shard_of(1, "layers.2.input_layernorm", _set(eps=0.3)), ("layers.2.input_layernorm",), (1,)),
        ),
    ),
    "gemma_tp2": Program(
        planned.work_hf, (2,), {"rank_size": 2, "tp": 2, "pp": 1}, (1,), {"rank_size": 1, "tp": 1, "pp": 1},
        (
            Fault("shard scaled", _of_model(1, "model.layers.1.mlp.up_proj.weight", _times(1.05)), ("layers.1.mlp.up_proj",), (1,)),
            Fault("norm drifted", _of_model(1, "model.layers.1.self_attn.q_norm.weight", _noise), ("layers.1.self_attn.q_norm",), (1,)),
        ),
        needs="transformers",
    ),
    "loss_parallel_tp2": Program(
        planned.work_plan, (True,), {"rank_size": 2, "tp": 2, "pp": 1}, (False,), {"rank_size": 1, "tp": 1, "pp": 1},
        (
            Fault("rows of the scores exchanged", _of_model(1, "logits.weight", _flipped), ("logits",), (1,)),
            Fault("bias of a narrow layer on one rank", _of_model(1, "stack.1.thin.bias", _times(1.5)), ("stack.1.thin",), (1,)),
        ),
    ),
    "tp2cp2pp2": _spread(
        Job({"tp": 2, "cp": 2, "pp": 2}, Options(count="all"), _BY_TWO, micro=2, ignored=True),
        Fault("rotary offset of a part, second stage", lambda run: run.seat.my_cp == 1 and run.seat.my_pp == 1 and _set(moved=1)(run.part("layers.2.attention")), ("layers.2.attention",), (6, 7)),
        Fault("shard scaled", _on(5, f"layers.3.{_FC}.weight", _times(1.05)), (f"layers.3.{_FC}",), (5,)),
    ),
    "vocab_loss_tp2": _spread(
        Job({"tp": 2}, Options(is_sequence=True, vocab_loss=True)),
        Fault("bias of one rank", _on(1, "layers.1.attention.dense.bias", _times(2.0)), ("layers.1.attention.dense",), (1,)),
        Fault("norm gradient not reduced", _skips(1, "layers.2.input_layernorm"), ("input_layernorm", "div_", "all_reduce"), (1,)),
    ),
    "gshard_ep2": Program(
        gshard.work, (2,), {"rank_size": 2, "tp": 1, "pp": 1, "ep": 2}, (1,), DP2,
        (
            Fault("expert index", _of_model(1, "layers.1.mlp.experts", lambda e: e.reverse() if hasattr(e, "reverse") else setattr(e, "_modules", dict(zip("01", [e[1], e[0]], strict=True)))), ("layers.1.mlp.experts",), (1,)),
            Fault("shared expert drifted", _of_model(0, "layers.3.mlp.shared_expert.htoh4.weight", _noise), ("layers.3.mlp.shared_expert.htoh4",), (0,)),
        ),
    ),
    "loss_stage_pp3": _spread(
        Job({"pp": 3}, Options(), [["embed", "0"], ["1", "2", "3", "head"], ["loss"]], micro=2),
        Fault("epsilon of a stage", _everywhere("layers.2.input_layernorm", _set(eps=0.2)), ("layers.2.input_layernorm",), (1,)),
        Fault("loss factor", _on(2, "criterion", _set(factor=1.5)), ("criterion",), (2,)),
    ),
    "ring_cp2": _spread(
        Job({"cp": 2}, Options(ring=True, count="all"), ignored=True),
        Fault("scale of one rank", _on(1, "layers.1.attention", _set(scale=0.3)), ("layers.1.attention",), (1,)),
        Fault("loss by other count on one rank", _own_count, ("criterion",), (1,)),
    ),
    "own_count_cp2": _spread(
        Job({"cp": 2}, Options(count="own")),
        Fault("rotary offset", _on(1, "layers.1.attention", _set(moved=2)), ("layers.1.attention",), (1,)),
        Fault("loss factor", _on(1, "criterion", _set(factor=1.3)), ("criterion",), (1,)),
    ),
    "tp4_tp2": _spread(
        Job({"tp": 4}, Options(one_sum=True)),
        Fault("keys for queries", _on(2, f"layers.1.{_QKV}", _queries_for_keys), (f"layers.1.{_QKV}",), (2,)),
        Fault("vocabulary rows", _on(1, "embed_in.weight", _flipped), ("embed_in",), (1,)),
        whole=Job({"tp": 2}, Options(one_sum=True)),
    ),
    "interleaved_recompute": _spread(
        Job({"pp": 2}, Options(recompute=True), [["embed", "0"], ["1"], ["2"], ["3", "head", "loss"]], micro=2),
        Fault("rotary base of a stage", lambda run: [_set(base=90.0)(run.part(f"layers.{n}.attention")) for n in "13" if run.part(f"layers.{n}")], ("layers.1.attention",), (1,)),
        Fault("norm of a chunk", _everywhere("layers.2.post_attention_layernorm.weight", _times(1.1)), ("layers.2.post_attention_layernorm",), (0,)),
    ),
    "clip_tp2pp2": _spread(
        Job({"tp": 2, "pp": 2}, Options(), _BY_TWO, micro=2, clip=0.5, rate=0.01),
        Fault("norm of one rank", _norm(2), ("mul", "clamp", "truediv"), (2,)),
        Fault("reduction kept back", _on(1, "layers.1.mlp.dense_4h_to_h", _without_sum), ("layers.1.mlp.dense_4h_to_h",), (1,)),
    ),
}  # fmt: skip
