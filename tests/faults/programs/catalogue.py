"""Programs that spread a training over ranks, the run that each must equal, and faults in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.faults.programs import gshard, job, planned, sharded
from tests.faults.programs.job import Job
from tests.faults.programs.neox import Options
from tests.faults.programs.plants import (
    everywhere,
    flipped,
    having,
    moved_in_second_stage,
    noise,
    norm,
    of_model,
    on,
    other_base,
    own_count,
    queries_for_keys,
    scaled_shard,
    shard_of,
    skips,
    times,
    turned_round,
    unit,
    without_sum,
)

DP2 = {"rank_size": 2, "tp": 1, "pp": 1}
TP2 = {"rank_size": 2, "tp": 2, "pp": 1}
ALONE = {"rank_size": 1, "tp": 1, "pp": 1}


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
        {},
        split.options._replace(is_sequence=False),
        micro=split.micro,
        ignored=split.ignored,
        clip=split.clip,
        rate=split.rate,
    )
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


_BY_TWO = [["embed", "0", "1"], ["2", "3", "head", "loss"]]
_QKV, _FC = "attention.query_key_value", "mlp.dense_h_to_4h"

PROGRAMS: dict[str, Program] = {
    "zero3_tied": Program(
        sharded.work,
        ("zero3",),
        DP2,
        ("plain",),
        DP2,
        (
            Fault(
                "shard of a layer",
                unit(0, 2, scaled_shard),
                ("layers.1.input_layernorm",),
                (0, 1),
            ),
            Fault(
                "gradient not reduced on one rank",
                unit(1, 3, having(reduces=False)),
                ("add_", "div_", "reduce_scatter"),
                (1,),
            ),
        ),
    ),
    "fsdp2_tied": Program(
        sharded.work,
        ("fsdp2",),
        DP2,
        ("plain_adam",),
        DP2,
        (
            Fault(
                "shard of the tied table",
                shard_of(1, "embed_in.weight", times(1.1)),
                ("embed_in",),
                (0, 1),
            ),
            Fault(
                "epsilon of one replica",
                shard_of(1, "layers.2.input_layernorm", having(eps=0.3)),
                ("layers.2.input_layernorm",),
                (1,),
            ),
        ),
    ),
    "gemma_tp2": Program(
        planned.work_hf,
        (2,),
        TP2,
        (1,),
        ALONE,
        (
            Fault(
                "shard scaled",
                of_model(1, "model.layers.1.mlp.up_proj.weight", times(1.05)),
                ("layers.1.mlp.up_proj",),
                (1,),
            ),
            Fault(
                "norm drifted",
                of_model(1, "model.layers.1.self_attn.q_norm.weight", noise),
                ("layers.1.self_attn.q_norm",),
                (1,),
            ),
        ),
        needs="transformers",
    ),
    "loss_parallel_tp2": Program(
        planned.work_plan,
        (True,),
        TP2,
        (False,),
        ALONE,
        (
            Fault(
                "rows of the scores exchanged",
                of_model(1, "logits.weight", flipped),
                ("logits",),
                (1,),
            ),
            Fault(
                "bias of a narrow layer on one rank",
                of_model(1, "stack.1.thin.bias", times(1.5)),
                ("stack.1.thin",),
                (1,),
            ),
        ),
    ),
    "tp2cp2pp2": _spread(
        Job({"tp": 2, "cp": 2, "pp": 2}, Options(division="all"), _BY_TWO, micro=2, ignored=True),
        Fault(
            "rotary offset of a part, second stage",
            moved_in_second_stage,
            ("layers.2.attention",),
            (6, 7),
        ),
        Fault(
            "shard scaled",
            on(5, f"layers.3.{_FC}.weight", times(1.05)),
            (f"layers.3.{_FC}",),
            (5,),
        ),
    ),
    "vocab_loss_tp2": _spread(
        Job({"tp": 2}, Options(is_sequence=True, vocab_loss=True)),
        Fault(
            "bias of one rank",
            on(1, "layers.1.attention.dense.bias", times(2.0)),
            ("layers.1.attention.dense",),
            (1,),
        ),
        Fault(
            "norm gradient not reduced",
            skips(1, "layers.2.input_layernorm"),
            ("input_layernorm", "div_", "all_reduce"),
            (1,),
        ),
    ),
    "gshard_ep2": Program(
        gshard.work,
        (2,),
        {"rank_size": 2, "tp": 1, "pp": 1, "ep": 2},
        (1,),
        DP2,
        (
            Fault(
                "expert index",
                of_model(1, "layers.1.mlp.experts", turned_round),
                ("layers.1.mlp.experts",),
                (1,),
            ),
            Fault(
                "shared expert drifted",
                of_model(0, "layers.3.mlp.shared_expert.htoh4.weight", noise),
                ("layers.3.mlp.shared_expert.htoh4",),
                (0,),
            ),
        ),
    ),
    "loss_stage_pp3": _spread(
        Job({"pp": 3}, Options(), [["embed", "0"], ["1", "2", "3", "head"], ["loss"]], micro=2),
        Fault(
            "epsilon of a stage",
            everywhere("layers.2.input_layernorm", having(eps=0.2)),
            ("layers.2.input_layernorm",),
            (1,),
        ),
        Fault("loss factor", on(2, "criterion", having(factor=1.5)), ("criterion",), (2,)),
    ),
    "ring_cp2": _spread(
        Job({"cp": 2}, Options(ring=True, division="all"), ignored=True),
        Fault(
            "scale of one rank",
            on(1, "layers.1.attention", having(scale=0.3)),
            ("layers.1.attention",),
            (1,),
        ),
        Fault("loss by other count on one rank", own_count, ("criterion",), (1,)),
    ),
    "own_count_cp2": _spread(
        Job({"cp": 2}, Options(division="own")),
        Fault(
            "rotary offset",
            on(1, "layers.1.attention", having(moved=2)),
            ("layers.1.attention",),
            (1,),
        ),
        Fault("loss factor", on(1, "criterion", having(factor=1.3)), ("criterion",), (1,)),
    ),
    "tp4_tp2": _spread(
        Job({"tp": 4}, Options(one_sum=True)),
        Fault(
            "keys for queries",
            on(2, f"layers.1.{_QKV}", queries_for_keys),
            (f"layers.1.{_QKV}",),
            (2,),
        ),
        Fault("vocabulary rows", on(1, "embed_in.weight", flipped), ("embed_in",), (1,)),
        whole=Job({"tp": 2}, Options(one_sum=True)),
    ),
    "interleaved_recompute": _spread(
        Job(
            {"pp": 2},
            Options(recompute=True),
            [["embed", "0"], ["1"], ["2"], ["3", "head", "loss"]],
            micro=2,
        ),
        Fault("rotary base of a stage", other_base, ("layers.1.attention",), (1,)),
        Fault(
            "norm of a chunk",
            everywhere("layers.2.post_attention_layernorm.weight", times(1.1)),
            ("layers.2.post_attention_layernorm",),
            (0,),
        ),
    ),
    "clip_tp2pp2": _spread(
        Job({"tp": 2, "pp": 2}, Options(), _BY_TWO, micro=2, clip=0.5, rate=0.01),
        Fault("norm of one rank", norm(2), ("mul", "clamp", "truediv"), (2,)),
        Fault(
            "reduction kept back",
            on(1, "layers.1.mlp.dense_4h_to_h", without_sum),
            ("layers.1.mlp.dense_4h_to_h",),
            (1,),
        ),
    ),
}
