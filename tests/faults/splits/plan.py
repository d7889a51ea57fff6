"""How a training is spread over ranks: sizes, order, and the place of one process."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import torch.distributed as dist
from torch import Tensor

HIDDEN, HEADS, INNER, LENGTH, BATCH, LAYERS, WORDS = 16, 4, 24, 12, 3, 4, 28


class Plan(NamedTuple):
    """Sizes of every way of splitting, and what the model is made of."""

    tp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int = 0  # 0: as tp
    dp: int = 1
    pp: int = 1
    vpp: int = 1
    order: str = "tp-cp-ep-dp-pp"
    stages: tuple[int, ...] = ()  # layers of each chunk as data flows, () for equal ones
    experts: int = 0
    capacity: float = 0.0  # tokens of an expert by the mean number, 0 for all
    is_grouped: bool = False  # all experts of a rank in one weight
    groups: int = HEADS  # of keys and values
    fused: str = ""  # "stacked": all queries, keys, values; "grouped": by group of heads
    attention: str = "gather"  # how parts of a sequence meet: gather, heads; latent, state
    is_sequence: bool = False  # between parallel layers ranks hold slices of the sequence
    is_ahead: bool = False  # the last stage also tells the words behind the next ones
    is_tied: bool = False
    multiple: int = 1  # rows of the vocabulary on each rank are filled up to it
    style: str = "megatron"  # names of parallel classes: megatron, own
    dropout: float = 0.0
    optimizer: str = ""
    is_half: bool = False
    steps: int = 1
    micro_batches: int = 2
    joined: int = 1  # batches of so many replicas are one

    @property
    def world(self) -> int:
        return self.tp * self.cp * self.dp * self.pp

    @property
    def layout(self) -> dict[str, Any]:
        """As ``parallel_merge`` takes it."""
        sizes: dict[str, Any] = {"rank_size": self.world, "tp": self.tp, "pp": self.pp}
        for name in ("cp", "ep", "vpp"):
            if getattr(self, name) > 1:
                sizes[name] = getattr(self, name)
        if self.ep > 1 and self.etp:
            sizes["etp"] = self.etp
        if self.order != Plan().order:
            sizes["order"] = self.order
        return sizes

    def layers(self, flow: int) -> list[int]:
        """Numbers of the layers of a chunk."""
        counts = self.stages or (LAYERS // (self.pp * self.vpp),) * (self.pp * self.vpp)
        first = sum(counts[:flow])
        return list(range(first, first + counts[flow]))


class Ranks:
    """This process among the others."""

    def __init__(self, rank: int, plan: Plan) -> None:
        self.rank, self.plan = rank, plan
        names = [name for name in plan.order.split("-") if name != "ep"]
        sizes = {"tp": plan.tp, "cp": plan.cp, "dp": plan.dp, "pp": plan.pp}
        self.sizes = {**sizes, "ep": plan.ep, "etp": plan.etp or plan.tp}
        grid = [(name, sizes[name]) for name in names]
        experts = [
            ("etp", self.sizes["etp"]) if name == "tp" else (name, self.sizes.get(name, 1))
            for name in plan.order.split("-")
            if name not in ("cp", "dp")
        ]
        rest = plan.world // prod(size for _, size in experts)
        place = plan.order.split("-").index("dp") - ("cp" in plan.order.split("-")[:3])
        experts.insert(place, ("edp", rest))
        self.at = _at(rank, grid)
        self.at |= {name: _at(rank, experts)[name] for name in ("ep", "etp", "edp")}
        self.groups: dict[str, Any] = {}
        self.members: dict[str, list[int]] = {}
        for name in ("tp", "cp", "dp", "pp"):
            self._enter(name, (name,), grid)
        self._enter("data", ("cp", "dp"), grid)
        for name in ("ep", "etp", "edp"):
            self._enter(name, (name,), experts)

    def _enter(self, key: str, along: tuple[str, ...], grid: list[tuple[str, int]]) -> None:
        others = [name for name, _ in grid if name not in along]
        by_rest: dict[tuple[int, ...], list[int]] = {}
        for rank in range(self.plan.world):
            at = _at(rank, grid)
            by_rest.setdefault(tuple(at[name] for name in others), []).append(rank)
        for members in by_rest.values():
            group = dist.new_group(members) if len(members) > 1 else None
            if self.rank in members:
                self.groups[key], self.members[key] = group, members

    def size(self, name: str) -> int:
        return len(self.members[name])

    def cut(self, whole: Tensor, dimension: int, name: str = "tp") -> Tensor:
        """This rank's part."""
        return whole.chunk(self.size(name), dimension)[self.at[name]].contiguous()


def _at(rank: int, grid: list[tuple[str, int]]) -> dict[str, int]:
    """Coordinates of a rank; the first of the grid varies fastest."""
    result = {}
    for name, size in grid:
        rank, result[name] = divmod(rank, size)
    return result
