"""How a fault is put into one rank of a program."""

# mypy: disable-error-code="no-untyped-call, no-any-return, misc, no-untyped-def"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.faults.programs.job import Run
from tests.faults.programs.neox import HEAD
from tests.faults.programs.seat import sum_out


def on(rank: int, path: str, change: Callable[[Any], None]) -> Callable[[Run], None]:
    def plant(run: Run) -> None:
        if run.seat.number == rank:
            change(run.part(path))

    return plant


def everywhere(path: str, change: Callable[[Any], None]) -> Callable[[Run], None]:
    def plant(run: Run) -> None:
        if run.part(path) is not None:
            change(run.part(path))

    return plant


def of_model(rank: int, path: str, change: Callable[[Any], None]) -> Callable[[Any, int], None]:
    def plant(model: Any, own: int) -> None:
        if own == rank:
            value = model
            for name in path.split("."):
                value = (
                    value[name] if isinstance(value, torch.nn.ModuleDict) else getattr(value, name)
                )
            change(value)

    return plant


def times(factor: float) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        with torch.no_grad():
            (value.to_local() if hasattr(value, "to_local") else value).mul_(factor)

    return change


def flipped(value: Any) -> None:
    with torch.no_grad():
        own = value.to_local() if hasattr(value, "to_local") else value
        own.copy_(own.flip(0))


def having(**values: Any) -> Callable[[Any], None]:
    def change(module: Any) -> None:
        for name, value in values.items():
            setattr(module, name, value)

    return change


def queries_for_keys(module: Any) -> None:
    """Within a head of the fused projection queries and keys stand the other way round."""
    with torch.no_grad():
        q, k, v = module.weight.view(-1, 3 * HEAD, module.weight.shape[1]).chunk(3, 1)
        module.weight.copy_(torch.cat([k, q, v], 1).reshape(module.weight.shape))


def without_sum(module: Any) -> None:
    """Everybody else reduces with it, it keeps its own."""

    def forward(x: Any) -> Any:
        own = torch.nn.functional.linear(x, module.weight)
        return own + 0.0 * sum_out(own, module.group) + module.bias

    module.forward = forward


def own_count(run: Run) -> None:
    """The loss of one rank is divided by the number of its own labels only."""
    if run.seat.number == 1 and run.part("criterion") is not None:
        criterion = run.part("criterion")
        whole = criterion.forward

        def forward(scores: Any, labels: Any) -> Any:
            return whole(scores, labels) * ((labels != -100).sum() * 0 + 1.625)

        criterion.forward = forward


def noise(value: Any) -> None:
    with torch.no_grad():
        own = value.to_local() if hasattr(value, "to_local") else value
        own.add_(0.03 * torch.randn(own.shape, generator=torch.Generator().manual_seed(3)))


def skips(rank: int, name: str) -> Callable[[Run], None]:
    def plant(run: Run) -> None:
        if run.seat.number == rank:
            run.job.skips_sum_of = name

    return plant


def norm(rank: int) -> Callable[[Run], None]:
    def plant(run: Run) -> None:
        if run.seat.number == rank:
            run.norm_factor = 0.8

    return plant


def turned_round(experts: Any) -> None:
    experts[0], experts[1] = experts[1], experts[0]


def moved_in_second_stage(run: Run) -> None:
    if run.seat.my_cp == 1 and run.part("layers.2.attention") is not None:
        run.part("layers.2.attention").moved = 1


def other_base(run: Run) -> None:
    """Of a whole stage."""
    for number in "13":
        if run.part(f"layers.{number}.attention") is not None:
            run.part(f"layers.{number}.attention").base = 90.0


def unit(rank: int, number: int, change: Callable[[Any], None]) -> Callable[[Any], None]:
    def plant(replica: Any) -> None:
        if replica.rank == rank:
            change(replica.units[number])

    return plant


def shard_of(rank: int, path: str, change: Callable[[Any], None]) -> Callable[[Any], None]:
    def plant(replica: Any) -> None:
        of_model(rank, path, change)(replica.model, replica.rank)

    return plant


def scaled_shard(unit: Any) -> None:
    unit.shard[: 3 * 32 * 16].mul_(1.1)
