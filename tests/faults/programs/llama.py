"""A decoder in the manner of Llama: batch first, norms written out call by call, fused projections.

Spread over ranks as sequence and tensor parallelism along the second dimension, as chunks of stages
that take turns, as experts that get as many words as choose them, or as replicas.
"""

# mypy: disable-error-code="union-attr, no-untyped-call, no-any-return, misc, attr-defined"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional

from msprobe_collector import PrecisionDebugger
from tests.collector.recording import write_config
from tests.faults.programs.seat import Seat

WIDTH, HEADS, HEAD, INNER, WORDS, LENGTH, BATCH, DEPTH, EXPERTS = 32, 4, 8, 40, 48, 16, 2, 4, 4


class Way(NamedTuple):
    """How a run is spread, and what its script does."""

    sizes: dict[str, int]
    flows: int = 1  # chunks of layers, as data flows
    micro: int = 1
    has_experts: bool = False
    shares_parameters: bool = False
    is_half: bool = False  # products in bfloat16
    largest: bool = False  # of gradients, where their mean belongs
    factor: float = 1.0  # of the gradient that a stage gets of the second micro-batch
    sends_half: bool = False  # the first stage rounds what it sends
    rate: float = 0.0  # of an optimizer; none where it is 0


Plant = Callable[[list[nn.Module], Seat], None]


def numbers(layer: int, name: str, *shape: int) -> Tensor:
    """A weight of the whole model."""
    generator = torch.Generator().manual_seed(1000 * layer + sum(map(ord, name)))
    return torch.randn(*shape, generator=generator) * 0.2


class Gather(torch.autograd.Function):
    """Slices of the sequence of all ranks; gradients are added, or are the same on all ranks."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any, adds: bool) -> Tensor:
        ctx.group, ctx.adds = group, adds
        parts = [torch.empty(x.shape) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, x.contiguous(), group=group)
        return torch.cat(parts, 1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        if ctx.adds:
            return scattered(grads[0], ctx.group), None, None
        parts = grads[0].chunk(dist.get_world_size(ctx.group), 1)
        return parts[dist.get_rank(ctx.group)].contiguous(), None, None


class Scatter(torch.autograd.Function):
    """The sum over all ranks, of which each takes its slice of the sequence."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any, share: float) -> Tensor:
        ctx.group = group
        whole = scattered(x, group)
        return whole if share == 1 else whole * share

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        parts = [torch.empty(grads[0].shape) for _ in range(dist.get_world_size(ctx.group))]
        dist.all_gather(parts, grads[0].contiguous(), group=ctx.group)
        return torch.cat(parts, 1), None, None


def scattered(x: Tensor, group: Any) -> Tensor:
    count = dist.get_world_size(group)
    rows = torch.cat(x.chunk(count, 1), 0)  # it is cut along the first dimension only
    out = torch.empty((rows.shape[0] // count, *rows.shape[1:]))
    dist.reduce_scatter_tensor(out, rows.contiguous(), group=group)
    return out


class Send(torch.autograd.Function):
    """Rows for every rank, as many as it gets."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, sent: list[int], taken: list[int]) -> Tensor:
        ctx.sent, ctx.taken = sent, taken
        out = x.new_empty(sum(taken), *x.shape[1:])
        dist.all_to_all_single(out, x.contiguous(), taken, sent)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        out = grads[0].new_empty(sum(ctx.sent), *grads[0].shape[1:])
        dist.all_to_all_single(out, grads[0].contiguous(), ctx.sent, ctx.taken)
        return out, None, None


class Norm(nn.Module):
    def __init__(self, layer: int, name: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 + numbers(layer, name, WIDTH) / 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


class Spread(nn.Module):
    """What takes slices of the sequence in, works on a part of the columns, and sums up."""

    def __init__(self, seat: Seat) -> None:
        super().__init__()
        self.group, self.share = seat.groups["tp"], 1.0

    def entered(self, x: Tensor) -> Tensor:
        return x if self.group is None else Gather.apply(x, self.group, True)

    def left(self, x: Tensor) -> Tensor:
        return x if self.group is None else Scatter.apply(x, self.group, self.share)


def turned(x: Tensor) -> Tensor:
    """Rotary positions of pairs of elements."""
    powers = torch.arange(0, HEAD, 2) / HEAD
    angles = (torch.arange(LENGTH)[:, None] / 100.0**powers)[:, None]
    first, second = x[..., ::2], x[..., 1::2]
    pairs = (
        first * angles.cos() - second * angles.sin(),
        first * angles.sin() + second * angles.cos(),
    )
    return torch.stack(pairs, -1).flatten(-2)


class Attention(Spread):
    def __init__(self, seat: Seat, layer: int) -> None:
        super().__init__(seat)
        qkv = numbers(layer, "qkv", HEADS, 3 * HEAD, WIDTH)  # head by head
        self.qkv = nn.Parameter(seat.slice(qkv, 0).flatten(0, 1))
        self.out = nn.Parameter(seat.slice(numbers(layer, "out", WIDTH, WIDTH), 1))

    def forward(self, x: Tensor) -> Tensor:
        y = functional.linear(self.entered(x), self.qkv).unflatten(-1, (-1, 3 * HEAD))
        q, k, v = y.chunk(3, -1)
        q, k, v = (one.transpose(1, 2) for one in (turned(q), turned(k), v))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.left(functional.linear(y.transpose(1, 2).flatten(2), self.out))


class Gated(Spread):
    def __init__(self, seat: Seat, layer: int) -> None:
        super().__init__(seat)
        gate, up = (numbers(layer, name, INNER, WIDTH) for name in ("gate", "up"))
        self.both = nn.Parameter(torch.cat([seat.slice(gate, 0), seat.slice(up, 0)]))
        self.down = nn.Parameter(seat.slice(numbers(layer, "down", WIDTH, INNER), 1))

    def forward(self, x: Tensor) -> Tensor:
        gate, up = functional.linear(self.entered(x), self.both).chunk(2, -1)
        return self.left(functional.linear(functional.silu(gate) * up, self.down))


class Experts(nn.Module):
    """The two best of four for each word; each of two ranks has two of them."""

    def __init__(self, seat: Seat, layer: int) -> None:
        super().__init__()
        self.router = nn.Parameter(2 * numbers(layer, "router", EXPERTS, WIDTH))
        self.count = EXPERTS // seat.dp
        own = range(seat.my_dp * self.count, (seat.my_dp + 1) * self.count)
        self.experts = nn.ModuleList(Expert(layer, number) for number in own)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(0, 1)
        weights, chosen = functional.linear(flat, self.router).softmax(-1).topk(2, -1)
        order = chosen.flatten().argsort(stable=True)
        counts = torch.bincount(chosen.flatten(), minlength=EXPERTS)
        ranks = EXPERTS // self.count
        of_all = [torch.empty_like(counts) for _ in range(ranks)]
        dist.all_gather(of_all, counts)
        table = torch.stack(of_all).view(ranks, ranks, self.count)
        mine = table[:, dist.get_rank()]
        sent, taken = counts.view(ranks, -1).sum(1).tolist(), mine.sum(1).tolist()
        got = Send.apply(flat.repeat_interleave(2, 0)[order], sent, taken)
        labels = torch.cat([torch.arange(self.count).repeat_interleave(row) for row in mine])
        by_label = labels.argsort(stable=True)
        parts = got[by_label].split(mine.sum(0).tolist())
        made = torch.cat([one(part) for one, part in zip(self.experts, parts, strict=True)])
        back = Send.apply(torch.zeros_like(made).index_copy(0, by_label, made), taken, sent)
        back = torch.zeros_like(back).index_copy(0, order, back)
        return (back.view(-1, 2, WIDTH) * weights[..., None]).sum(1).view_as(x)


class Expert(nn.Module):
    def __init__(self, layer: int, number: int) -> None:
        super().__init__()
        self.wide = nn.Parameter(numbers(layer, f"wide {number}", 24, WIDTH))
        self.thin = nn.Parameter(numbers(layer, f"thin {number}", WIDTH, 24))

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(functional.gelu(functional.linear(x, self.wide)), self.thin)


class Block(nn.Module):
    def __init__(self, seat: Seat, layer: int, has_experts: bool) -> None:
        super().__init__()
        self.first, self.second = Norm(layer, "first"), Norm(layer, "second")
        self.attention = Attention(seat, layer)
        is_spread = has_experts and layer % 2 == 1
        self.feed = Experts(seat, layer) if is_spread else Gated(seat, layer)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.first(x))
        return x + self.feed(self.second(x))


class Llama(nn.Module):
    """One chunk of the model, from the words of the first to the loss of the last."""

    def __init__(self, seat: Seat, way: Way, flow: int) -> None:
        super().__init__()
        own = torch.arange(DEPTH).chunk(way.flows)[flow].tolist()
        self.seat, self.words, self.head = seat, None, None
        if flow == 0:
            self.words = nn.Embedding(WORDS, WIDTH, _weight=3 * numbers(9, "words", WORDS, WIDTH))
        self.layers = nn.ModuleDict({str(n): Block(seat, n, way.has_experts) for n in own})
        if flow == way.flows - 1:
            self.norm, self.head = Norm(9, "norm"), nn.Linear(WIDTH, WORDS, bias=False)
            self.head.weight = nn.Parameter(numbers(9, "head", WORDS, WIDTH))

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        group = self.seat.groups["tp"]
        if self.words is not None:
            x = self.words(x)
            if group is not None:
                x = x.chunk(self.seat.tp, 1)[self.seat.my_tp].contiguous()
        for layer in self.layers.values():
            x = layer(x)
        if self.head is None:
            return x
        x = self.norm(x)
        if group is not None:
            x = Gather.apply(x, group, False)
        return functional.cross_entropy(self.head(x).flatten(0, 1), labels.flatten())


class Training:
    """The chunks of this rank, and a step of them."""

    def __init__(self, way: Way, plant: Plant | None) -> None:
        self.way, self.seat = way, Seat(**way.sizes)
        self.flows = range(self.seat.my_pp, way.flows, self.seat.pp)
        self.models: list[nn.Module] = [Llama(self.seat, way, flow) for flow in self.flows]
        if plant is not None:
            plant(self.models, self.seat)
        if way.shares_parameters:
            layers: Any = self.models[0].layers
            for layer in layers.values():
                fully_shard(layer)
            fully_shard(self.models[0])

    def step(self) -> None:
        self.kept: list[tuple[int, Tensor, Tensor]] = []
        self.sent: list[Any] = []
        with torch.autocast("cpu", torch.bfloat16, enabled=self.way.is_half):
            for number in range(self.way.micro):
                for flow, model in zip(self.flows, self.models, strict=True):
                    self.forward(number, flow, model)
        for place in reversed(range(len(self.kept))):
            self.backward(place // len(self.models), *self.kept[place])
        for one in self.sent:
            one.wait()
        if self.seat.dp > 1 and not (self.way.has_experts or self.way.shares_parameters):
            kind = dist.ReduceOp.MAX if self.way.largest else dist.ReduceOp.SUM
            for parameter in self.models[0].parameters():
                dist.all_reduce(parameter.grad, kind)
                parameter.grad.div_(self.seat.dp)
        if self.way.rate:
            for name, parameter in self.models[0].named_parameters():
                if self.seat.tp > 1 and (parameter.ndim == 1 or name.startswith("words")):
                    dist.all_reduce(parameter.grad)  # each rank had a slice of the sequence
            torch.optim.SGD(self.models[0].parameters(), self.way.rate).step()

    def forward(self, number: int, flow: int, model: nn.Module) -> None:
        x, labels = batch(number, self.seat)
        if flow > 0:
            x = torch.empty(BATCH, LENGTH, WIDTH)
            dist.recv(x, (flow - 1) % self.seat.pp)
            x.requires_grad_()
        y = model(x, labels)
        if flow < self.way.flows - 1:
            sent = y.detach().float()
            if self.way.sends_half and flow == 0:
                sent = sent.bfloat16().float()
            self.sent.append(dist.isend(sent, (flow + 1) % self.seat.pp))
        self.kept.append((flow, x, y))

    def backward(self, number: int, flow: int, x: Tensor, y: Tensor) -> None:
        if flow == self.way.flows - 1:
            (y / self.way.micro).backward()
        else:
            grad = torch.empty(y.shape)
            dist.recv(grad, (flow + 1) % self.seat.pp)
            if number == 1 and self.way.factor != 1:
                grad = grad * self.way.factor
            torch.autograd.backward(y, grad)
        if flow > 0 and x.grad is not None:
            self.sent.append(dist.isend(x.grad, (flow - 1) % self.seat.pp))


def batch(number: int, seat: Seat) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(50 + 10 * number + seat.my_dp)
    both = torch.randint(0, WORDS, (BATCH, LENGTH + 1), generator=generator)
    return both[:, :-1], both[:, 1:]


def work(_: int, path: str, way: Way, plant: Plant | None) -> None:
    """Record a step of one rank."""
    training = Training(way, plant)
    models = training.models
    debugger = PrecisionDebugger(config_path=write_config(Path(path)))
    debugger.start(models if len(models) > 1 else models[0])
    training.step()
    debugger.stop()
    debugger.close()
