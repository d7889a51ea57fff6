"""Faults of one rank, planted into the small language model before it is trained and recorded."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from tests.builder.merge.parallel_model import GPT, HIDDEN, Ranks, Reduce, Split, train
from tests.collector.processes import run_in

Plant = Callable[[GPT, Ranks], None]
RANK = 1


def of_rank(change: Callable[[GPT], None]) -> Plant:
    def plant(model: GPT, ranks: Ranks) -> None:
        if ranks.rank == RANK:
            with torch.no_grad():
                change(model)

    return plant


def scaled(name: str, factor: float) -> Plant:
    def change(model: GPT) -> None:
        model.get_parameter(name).mul_(factor)

    return of_rank(change)


def reordered(name: str, order: Callable[[Tensor], Tensor]) -> Plant:
    """The rows of a rank's weight in another order."""

    def change(model: GPT) -> None:
        weight = model.get_parameter(name)
        weight.copy_(weight[order(torch.arange(len(weight)))])

    return of_rank(change)


def computing(name: str, forward: Callable[[Any, Tensor], Tensor]) -> Plant:
    """A module that computes something else on the rank."""

    def change(model: GPT) -> None:
        module: nn.Module = model.get_submodule(name)
        module.forward = types.MethodType(forward, module)

    return of_rank(change)


def _keys_and_values(rows: Tensor) -> Tensor:
    query, key, value = rows.view(-1, 3, HIDDEN // 4).unbind(1)
    return torch.stack([query, value, key], 1).flatten()


def _unreduced(layer: Any, x: Tensor) -> Tensor:
    own = torch.matmul(x, layer.weight.t())
    whole = Reduce.apply(own, layer.ranks)
    return own + 0.0 * whole.detach()


def _never_reduced(model: GPT, _: Ranks) -> None:
    """A row-parallel layer lacks its reduction on all ranks, as if the line were forgotten."""
    layer: nn.Module = model.get_submodule("layers.1.mlp.linear_fc2")
    layer.forward = types.MethodType(lambda own, x: torch.matmul(x, own.weight.t()), layer)


def _shifted(layer: Any, words: Tensor) -> Tensor:
    return type(layer).forward(layer, (words + 1) % 24)


def _other_epsilon(norm: Any, x: Tensor) -> Tensor:
    return x * torch.rsqrt(torch.mean(x * x, -1, keepdim=True) + 0.1) * norm.weight


def _hotter(attention: Any, x: Tensor) -> Tensor:
    softmax = torch.softmax
    with mock.patch.object(torch, "softmax", lambda scores, dim: softmax(scores * 1.5, dim)):
        return type(attention).forward(attention, x)


def _swapped(model: GPT, _: Ranks) -> None:
    one, other = model.layers[0].state_dict(), model.layers[1].state_dict()
    one, other = ({key: value.clone() for key, value in own.items()} for own in (one, other))
    model.layers[0].load_state_dict(other)
    model.layers[1].load_state_dict(one)


FAULTS: dict[str, Plant] = {
    "none": lambda _model, _ranks: None,
    "drifted norm": scaled("layers.1.pre_mlp_layernorm.weight", 1.05),
    "last norm drifted": scaled("norm.weight", 0.98),
    "larger shard": scaled("layers.1.self_attention.linear_proj.weight", 1.05),
    "larger head": scaled("output_layer.weight", 1.05),
    "keys and values exchanged": reordered(
        "layers.0.self_attention.linear_qkv.weight", _keys_and_values
    ),
    "rows of words exchanged": reordered("embedding.weight", lambda rows: rows.flip(0)),
    "dropped reduction": computing("layers.0.mlp.linear_fc2", _unreduced),
    "no reduction": _never_reduced,
    "words shifted": computing("embedding", _shifted),
    "another epsilon": computing("layers.1.input_layernorm", _other_epsilon),
    "another scale": computing("layers.1.self_attention", _hotter),
    "layers swapped": _swapped,
}


def _train_all(rank: int, folder: str, split: Split, names: list[str]) -> None:
    for name in names:
        train(rank, str(Path(folder) / name.replace(" ", "_")), split, FAULTS[name])


def dump_all(
    folder: Path, task: str = "statistics", names: tuple[str, ...] = (), ranks: int = 2
) -> None:
    """The dump of every fault in a folder named after it, split over tensor-parallel ranks."""
    chosen = [*(names or FAULTS)]
    for name in chosen:
        (folder / name.replace(" ", "_")).mkdir(parents=True)
    run_in(ranks, _train_all, str(folder), Split(ranks, 1, task), chosen)
