"""Faults of one rank among several, in real processes that talk over gloo.

``python -m tests.faults.ranks FOLDER`` plants each fault, compares the ranks one by one with those
of a correct run, and merged with a correct run on one rank, and prints who is accused.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return, misc, no-untyped-def"
# torch is typed in part only.

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from msprobe_builder import BuildConfig, build
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import Verdict, read_verdict
from msprobe_builder.merge.ranks.layout import parse_layout
from msprobe_collector import PrecisionDebugger
from tests.builder.merge.parallel_model import (
    GPT,
    LENGTH,
    VOCABULARY,
    Ranks,
    Reduce,
    Split,
    train,
)
from tests.collector.processes import run_in
from tests.collector.recording import write_config
from tests.faults import later_ranks as later

Plant = Callable[[GPT, Ranks], None]
FC1, FC2 = "mlp.linear_fc1", "mlp.linear_fc2"


@dataclass(frozen=True)
class RankFault:
    """A fault, the way it is split, and what must be accused.

    ``node`` is part of the name that one by one is accused, ``merged`` that of the merged model
    (None: not merged), ``ranks`` those that must be named.
    """

    name: str
    way: str  # tp, pp, dp
    plant: Plant
    node: str
    ranks: tuple[int, ...]
    merged: str | None = None
    is_certain: bool = True  # a call that is missing at the end shows in no number


def _layer(model: GPT, number: int) -> Any:
    return model.layers[number]


def _scaled(path: str, rank: int, factor: float) -> Plant:
    def plant(model: GPT, ranks: Ranks) -> None:
        if ranks.rank == rank:
            with torch.no_grad():
                model.get_parameter(path).mul_(factor)

    return plant


def _weaker(model: GPT, ranks: Ranks) -> None:
    """One rank scales what its attention puts out."""
    module = _layer(model, 1).self_attention.linear_qkv

    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.matmul(x, module.weight.t()) * (1.2 if ranks.rank == 1 else 1.0)

    module.forward = forward


def _without_sum(model: GPT, _: Ranks) -> None:
    module = _layer(model, 0).mlp.linear_fc2
    module.forward = lambda x: torch.matmul(x, module.weight.t())


def _summed_twice(model: GPT, ranks: Ranks) -> None:
    module = _layer(model, 1).mlp.linear_fc2
    module.forward = lambda x: Reduce.apply(
        Reduce.apply(torch.matmul(x, module.weight.t()), ranks), ranks
    )


def _swapped(model: GPT, ranks: Ranks) -> None:
    """The two ranks have each other's part of a weight."""
    own = model.get_parameter(f"layers.1.{FC2}.weight")
    parts = [torch.empty_like(own) for _ in range(2)]
    dist.all_gather(parts, own.detach().contiguous())
    with torch.no_grad():
        own.copy_(parts[1 - ranks.part])


def _other_stage(model: GPT, ranks: Ranks) -> None:
    """The second stage holds the layer of the first."""
    if ranks.stage == 1:
        right = GPT(Ranks_of_first(ranks)).layers[0].state_dict()
        _layer(model, 0).load_state_dict(right)


def Ranks_of_first(ranks: Ranks) -> Ranks:  # noqa: N802
    """A stand-in that makes the model of the first stage."""
    other = object.__new__(Ranks)
    other.rank, other.tp, other.pp, other.stage, other.part = 0, 1, ranks.pp, 0, 0
    other.group = ranks.group
    return other


def _steeper(model: GPT, ranks: Ranks) -> None:
    """The second stage scales what its attention is given."""
    if ranks.stage == 1:
        module = _layer(model, 0).self_attention.linear_proj
        module.forward = lambda x: Reduce.apply(torch.matmul(x * 1.3, module.weight.t()), ranks)


class Largest(torch.autograd.Function):
    """The largest over all ranks where their sum belongs."""

    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        whole = x.clone()
        dist.all_reduce(whole, op=dist.ReduceOp.MAX)
        return whole

    @staticmethod
    def backward(_: Any, *gradient: torch.Tensor) -> torch.Tensor:
        return gradient[0]


def _largest(model: GPT, _: Ranks) -> None:
    module = _layer(model, 1).mlp.linear_fc2
    module.forward = lambda x: Largest.apply(torch.matmul(x, module.weight.t()))


def _stale(model: GPT, ranks: Ranks) -> None:
    """One rank adds what the layer before has put out of its reduction."""
    first, second = (_layer(model, number).mlp.linear_fc2 for number in (0, 1))
    kept: list[torch.Tensor] = []

    def keeps(x: torch.Tensor) -> torch.Tensor:
        kept[:] = [Reduce.apply(torch.matmul(x, first.weight.t()), ranks)]
        return kept[0]

    def forward(x: torch.Tensor) -> torch.Tensor:
        whole = Reduce.apply(torch.matmul(x, second.weight.t()), ranks)
        return kept[0] + 0.0 * whole if ranks.rank == 1 else whole  # all ranks go backward

    first.forward, second.forward = keeps, forward


def _heads_moved(model: GPT, ranks: Ranks) -> None:
    """One rank has its heads in another order."""
    module = _layer(model, 1).self_attention.linear_proj

    def forward(x: torch.Tensor) -> torch.Tensor:
        x = x.roll(x.shape[-1] // 2, -1) if ranks.rank == 1 else x
        return Reduce.apply(torch.matmul(x, module.weight.t()), ranks)

    module.forward = forward


def _nothing(model: GPT, ranks: Ranks) -> None:
    """No fault."""


FAULTS = [
    RankFault(
        "weight of one rank", "tp", _scaled(f"layers.1.{FC2}.weight", 1, 1.05), FC2, (1,), FC2
    ),
    RankFault("words of one rank", "tp", later.words_of_one, "embedding", (1,), "embedding"),
    RankFault("shard scaled", "tp", _scaled(f"layers.0.{FC1}.weight", 0, 1.1), FC1, (0,), FC1),
    RankFault(
        "norm drifted",
        "tp",
        _scaled("layers.1.input_layernorm.weight", 1, 1.03),
        "input_layernorm",
        (1,),
        "input_layernorm",
    ),
    RankFault("reduction dropped", "tp", _without_sum, FC2, (0, 1), FC2),
    RankFault("reduction doubled", "tp", _summed_twice, FC2, (0, 1), FC2),
    RankFault("shards swapped", "tp", _swapped, FC2, (0, 1), FC2),
    RankFault("largest for the sum", "tp", _largest, FC2, (0, 1), FC2),
    RankFault("stale buffer", "tp", _stale, FC2, (1,), FC2),
    RankFault("heads in another order", "tp", _heads_moved, "linear_proj", (1,), "linear_proj"),
    RankFault("wrong stage", "pp", _other_stage, "layers.0.", (1,), "layers.1."),
    RankFault("scale of a stage", "pp", _steeper, "linear_proj", (1,), "layers.1.self_attention"),
    RankFault("input of one rank", "dp", _nothing, "embedding", (1,)),
    RankFault("reduction dropped", "dp", _nothing, "all_reduce", (0, 1)),
    RankFault("gradient of one rank halved", "dp", _nothing, "__imul__", (1,)),
    RankFault("reduction of a copy", "dp", _nothing, "clone", (0, 1)),
    RankFault("sum for a mean", "dp", _nothing, "__itruediv__", (0, 1), is_certain=False),
    RankFault("replica drifted", "dp", _scaled(f"layers.0.{FC1}.weight", 1, 1.02), FC1, (1,)),
]
# Not among the tests; all but the first came with the nineteenth part.
LATER = [
    RankFault("scale of one rank", "tp", _weaker, "linear_qkv", (1,), "linear_qkv"),
    RankFault(
        "epsilon of one rank",
        "tp",
        later.epsilon_of_one,
        "pre_mlp_layernorm",
        (1,),
        "pre_mlp_layernorm",
    ),
    RankFault("scores of one rank", "tp", later.scores_of_one, "__mul__", (0,), "self_attention"),
    RankFault("gradient not summed", "tp", later.gradient_not_summed, FC1, (0, 1), FC1),
    RankFault("mean for a sum", "tp", later.mean_for_sum, "linear_proj", (0, 1), "linear_proj"),
    RankFault("gate and up exchanged", "tp", later.gate_and_up, FC1, (1,), FC1),
    RankFault(
        "arrives in half precision",
        "pp",
        later.arrives_in_half_precision,
        "bfloat16",
        (1,),
        "bfloat16",
    ),
    RankFault("last norm left out", "pp", later.last_norm_left_out, "norm", (1,), "norm"),
    RankFault("loss of one rank doubled", "dp", _nothing, "__mul__", (1,)),
]


def work(rank: int, folder: str, way: str, names: list[str]) -> None:
    """Record a correct run and one with each fault of that way, as this rank."""
    for name in names:
        found = next((one for one in FAULTS + LATER if (one.name, one.way) == (name, way)), None)
        path = str(Path(folder) / way / name)
        if way == "dp":
            _train_replica(rank, path, found)
        else:
            split = Split(tp=2 if way == "tp" else 1, pp=2 if way == "pp" else 1, task="statistics")
            train(rank, path, split, None if found is None else found.plant)


def _train_replica(rank: int, path: str, found: RankFault | None) -> None:
    """A step of one of two replicas with samples of its own; gradients are averaged."""
    ranks = object.__new__(Ranks)
    ranks.rank, ranks.tp, ranks.pp, ranks.stage, ranks.part = rank, 1, 1, 0, 0
    model = GPT(ranks)
    name = "" if found is None else found.name
    if found is not None:
        found.plant(model, ranks)
    sample = 5 if name == "input of one rank" and rank == 1 else rank
    generator = torch.Generator().manual_seed(sample)
    words = torch.randint(0, VOCABULARY, (LENGTH, 2), generator=generator)
    debugger = PrecisionDebugger(config_path=write_config(Path(path), level="mix"))
    debugger.start(model)
    y = model(words)
    loss = y.square().mean()
    if name == "loss of one rank doubled" and rank == 1:
        loss = loss * 2
    loss.backward()
    for parameter in model.parameters():
        if parameter.grad is not None:
            if name == "gradient of one rank halved" and rank == 1:
                parameter.grad *= 0.5
            if name == "reduction of a copy":
                dist.all_reduce(parameter.grad.clone())
            elif name != "reduction dropped":
                dist.all_reduce(parameter.grad)
            if name != "sum for a mean":
                parameter.grad /= 2
    debugger.stop()
    debugger.close()


def record(folder: Path, way: str, faults: Sequence[RankFault] = FAULTS) -> None:
    """Both runs of all faults of one way; the correct one is called ``right``."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    names = ["right", *(one.name for one in faults if one.way == way)]
    run_in(1 if way == "one" else 2, work, str(folder), way, names)


def judged(npu: Path, bench: Path, output: Path, way: str | None = None) -> Verdict:
    """The verdict rank by rank, or merged when ``way`` says how the run under debug is split."""
    config = BuildConfig(npu, bench)
    if way is not None:
        sizes = {"tp": 2 if way == "tp" else 1, "pp": 2 if way == "pp" else 1}
        config = replace(
            config,
            npu_layout=parse_layout({"rank_size": 2, **sizes}, "npu"),
            bench_layout=parse_layout({"rank_size": 1, "tp": 1, "pp": 1}, "bench"),
        )
    result = build(config, output, workers=1)
    with opened(result.path) as connection:
        verdict = read_verdict(connection)
    assert verdict is not None
    return verdict


def main(folder: Path) -> None:
    """Print who is accused of what."""
    for way in ("one", "tp", "pp", "dp"):
        if not (folder / way).exists():
            record(folder, way, FAULTS + LATER)
    one = folder / "one" / "right" / "dump" / "step0"
    for way in ("tp", "pp", "dp"):
        right = folder / way / "right" / "dump" / "step0"
        if way != "dp":
            _print(f"{way} control merged", judged(right, one, folder / "out", way))
        for fault in (found for found in FAULTS + LATER if found.way == way):
            wrong = folder / way / fault.name / "dump" / "step0"
            _print(f"{way} {fault.name}", judged(wrong, right, folder / "out"))
            if fault.merged is not None:
                _print(f"{way} {fault.name} merged", judged(wrong, one, folder / "out", way))


def _print(title: str, verdict: Verdict) -> None:
    print(f"{title}: {verdict.conclusion}. {verdict.sentence}")
    for one in verdict.suspects[:6]:
        print(
            f"    {one.strength} rank {one.rank} {one.ranks} {one.side} {one.node} {one.cause}: "
            f"{one.evidence}"
        )
    for place in verdict.places:
        print(f"    rank {place.rank}: {place.conclusion}")
    print(flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
