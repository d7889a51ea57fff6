"""How a fault is put into one rank of a split training."""

# mypy: disable-error-code="no-untyped-call, no-any-return, misc, no-untyped-def"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tests.faults.splits.model import WIDE, Decoder
from tests.faults.splits.plan import Ranks
from tests.faults.splits.talk import Enter, Leave
from tests.faults.splits.training import Knobs, Plant

# rank -> the module of a layer, on the rank that has it
Change = Callable[[Any], None]


def at(path: str, rank: int, change: Change) -> Plant:
    """Change what ``path`` names on one rank, where chunks are searched in order."""

    def plant(chunks: list[Decoder], ranks: Ranks, _: Knobs) -> None:
        if ranks.rank == rank:
            change(found(chunks, path))

    return plant


def found(chunks: list[Decoder], path: str) -> Any:
    chunk, _, rest = path.partition(":")
    value: Any = chunks[int(chunk)]
    for part in rest.split("."):
        value = value[int(part)] if part.isdecimal() else getattr(value, part)
    return value


def of_all(path: str, axis: str, change: Change) -> Plant:
    """Change it on all ranks that are second along an axis."""

    def plant(chunks: list[Decoder], ranks: Ranks, _: Knobs) -> None:
        if ranks.at[axis] == 1:
            change(found(chunks, path))

    return plant


def each(change: Change) -> Change:
    """Change the attention of every block."""

    def changed(blocks: Any) -> None:
        for block in blocks:
            change(block.mix)

    return changed


def knob_of_all(axis: str, **changed: Any) -> Plant:
    def plant(_: list[Decoder], ranks: Ranks, knobs: Knobs) -> None:
        if ranks.at[axis] == 1:
            for name, value in changed.items():
                setattr(knobs, name, value)

    return plant


def knob(rank: int, **changed: Any) -> Plant:
    def plant(_: list[Decoder], ranks: Ranks, knobs: Knobs) -> None:
        if ranks.rank == rank:
            for name, value in changed.items():
                setattr(knobs, name, value)

    return plant


def scaled(factor: float) -> Change:
    def change(value: Any) -> None:
        with torch.no_grad():
            value.mul_(factor)

    return change


def shifted(places: int) -> Change:
    def change(mix: Any) -> None:
        mix.start = places

    return change


def based(base: float) -> Change:
    def change(mix: Any) -> None:
        mix.base = base

    return change


def swap_keys_and_values(mix: Any) -> None:
    with torch.no_grad():
        key = mix.key.weight.clone()
        mix.key.weight.copy_(mix.tell.weight)
        mix.tell.weight.copy_(key)


def swap_fused(mix: Any) -> None:
    """Of a stacked projection."""
    with torch.no_grad():
        q = mix.heads * WIDE
        _, k, v = mix.into.weight.split([q, mix.groups * WIDE, mix.groups * WIDE])
        mix.into.weight[q:] = torch.cat([v, k]).clone()


def swap_rows(weight: Any) -> None:
    with torch.no_grad():
        weight[[1, 5]] = weight[[5, 1]].clone()


def without_sum(layer: Any) -> None:
    """The other ranks still meet in the reduction, this one throws it away."""

    def forward(x: Tensor) -> Tensor:
        own = functional.linear(x, layer.weight)
        return own + 0.0 * Leave.apply(own, layer.group)

    layer.forward = forward


def twice(layer: Any) -> None:
    layer.forward = lambda x: Leave.apply(
        Leave.apply(functional.linear(x, layer.weight), layer.group), layer.group
    )


def on_all(path: str, change: Change) -> Plant:
    def plant(chunks: list[Decoder], _: Ranks, __: Knobs) -> None:
        change(found(chunks, path))

    return plant


def swap_rows_of_heads(mix: Any) -> None:
    """Two heads of the queries are exchanged."""
    with torch.no_grad():
        weight = mix.ask.weight
        weight.copy_(weight.view(mix.heads, WIDE, -1).flip(0).reshape(weight.shape))


def exchange_experts(spread: Any) -> None:
    experts = list(spread.experts)
    one, other = experts[0].state_dict(), experts[1].state_dict()
    one = {name: value.clone() for name, value in one.items()}
    experts[0].load_state_dict(other)
    experts[1].load_state_dict(one)


def lean(router: Any) -> None:
    with torch.no_grad():
        router.bias[0] += 1.0


def steeper(router: Any) -> None:
    """Who is chosen stays the same, or ranks could not talk any more; the shares do not."""
    with torch.no_grad():
        router.bias *= 1.2
        router.weight *= 1.2


def drop(rate: float) -> Change:
    def change(block: Any) -> None:
        block.rate = rate

    return change


def put_nan(weight: Any) -> None:
    with torch.no_grad():
        weight[2, 3] = float("nan")


def rounded(value: Any) -> None:
    with torch.no_grad():
        value.copy_(value.to(torch.bfloat16).to(value.dtype))


def in_halves(layer: Any) -> None:
    """A rank computes one layer in bfloat16."""

    def forward(x: Tensor) -> Tensor:
        x = Enter.apply(x, layer.group).to(torch.bfloat16)
        return functional.linear(x, layer.weight.to(torch.bfloat16)).float()

    layer.forward = forward


def other_factor(mix: Any) -> None:
    mix.factor *= 1.1


def other_epsilon(scale: Any) -> None:
    scale.epsilon = 0.05


def drifted(value: Any) -> None:
    with torch.no_grad():
        value.add_(0.02 * torch.randn(value.shape, generator=torch.Generator().manual_seed(9)))


def dropped_mask(mix: Any) -> None:
    """The sharing of keys among heads is another on this rank."""
    three = mix.three

    def turned(x: Tensor) -> list[Tensor]:
        q, k, v = three(x)
        return [q, k, v.flip(2)]

    mix.three = turned
