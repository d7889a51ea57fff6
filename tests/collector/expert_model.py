"""A small model whose sequences and experts can be spread over processes that talk over gloo."""

# mypy: disable-error-code="no-untyped-call, no-untyped-def, no-any-return, misc"
# torch is typed in part only.

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY, HIDDEN, INNER, EXPERTS, CHOSEN = 32, 10, 14, 4, 2
BATCH, LENGTH = 3, 12


@dataclass(frozen=True)
class Spread:
    """What all ranks of the world share out; the rest of them is data parallel."""

    cp: int = 1
    ep: int = 1
    skips_idle_experts: bool = False


class _Ring(torch.autograd.Function):
    """The parts of all ranks, passed round and joined; backward sums and takes the own part."""

    @staticmethod
    def forward(_context: Any, own: Tensor) -> Tensor:
        rank, world = dist.get_rank(), dist.get_world_size()
        parts = [own] * world
        for step in range(1, world):
            received = torch.empty_like(own)
            sent = parts[(rank - step + 1) % world].contiguous()
            works = [dist.isend(sent, (rank + 1) % world), dist.irecv(received, (rank - 1) % world)]
            for work in works:
                assert work is not None
                work.wait()
            parts[(rank - step) % world] = received
        return torch.cat(parts)

    @staticmethod
    def backward(_context: Any, gradient: Tensor) -> Tensor:
        whole = gradient.contiguous()
        dist.all_reduce(whole)
        return whole.chunk(dist.get_world_size())[dist.get_rank()]


class _Exchange(torch.autograd.Function):
    """Rows sent to other ranks, rows received from them."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, sent: list[int], received: list[int]) -> Tensor:
        ctx.splits = received, sent
        result = rows.new_empty((sum(received), *rows.shape[1:]))
        dist.all_to_all_single(result, rows.contiguous(), received, sent)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        sent, received = ctx.splits
        result = gradient.new_empty((sum(received), *gradient.shape[1:]))
        dist.all_to_all_single(result, gradient.contiguous(), received, sent)
        return result, None, None


def positions(cp: int, rank: int) -> Tensor:
    """Of 2 · cp parts of a sequence each rank has one from the front and one from the end."""
    parts = torch.arange(LENGTH).chunk(2 * cp)
    return torch.cat([parts[rank], parts[2 * cp - 1 - rank]])


class Attention(nn.Module):
    """One head over the whole sequence, of which a rank has a part."""

    def __init__(self, spread: Spread) -> None:
        super().__init__()
        self.cp = spread.cp
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN, bias=False)
        self.out = nn.Linear(HIDDEN, HIDDEN, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.qkv(x).chunk(3, dim=-1)
        rank = dist.get_rank() if self.cp > 1 else 0
        order = torch.cat([positions(self.cp, one) for one in range(self.cp)])
        if self.cp > 1:
            key, value = _Ring.apply(key), _Ring.apply(value)
        back = order.argsort()
        key, value = key.index_select(0, back), value.index_select(0, back)
        scores = torch.einsum("sbh,tbh->bst", query, key) * HIDDEN**-0.5
        later = torch.arange(LENGTH)[None, :] > positions(self.cp, rank)[:, None]
        scores = scores.masked_fill(later, -1e4).softmax(dim=-1)
        return self.out(torch.einsum("bst,tbh->sbh", scores, value))


class Expert(nn.Module):
    """What one expert does with its tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(HIDDEN, INNER, bias=False)
        self.down = nn.Linear(INNER, HIDDEN, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.silu(self.up(x)))


class Router(nn.Module):
    """Which experts get a token, and how much each counts."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(EXPERTS, HIDDEN))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        best, chosen = functional.linear(x, self.weight).topk(CHOSEN)
        return best.softmax(dim=-1), chosen


class LocalExperts(nn.Module):
    """The experts of this rank, one after the other."""

    def __init__(self, spread: Spread) -> None:
        super().__init__()
        self.skips_idle = spread.skips_idle_experts
        self.local_experts = nn.ModuleList(Expert() for _ in range(EXPERTS // spread.ep))

    def forward(self, tokens: Tensor, counts: list[int]) -> Tensor:
        parts = torch.split(tokens, counts)
        return torch.cat(
            [
                part if self.skips_idle and not len(part) else expert(part)
                for expert, part in zip(self.local_experts, parts, strict=True)
            ]
        )


class ExpertLayer(nn.Module):
    """Tokens are sent to the ranks of their experts and back; some work is for all of them."""

    def __init__(self, spread: Spread) -> None:
        super().__init__()
        self.ep = spread.ep
        self.router = Router()
        self.experts = LocalExperts(spread)
        self.shared_experts = Expert()

    def forward(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, HIDDEN)
        weight, chosen = self.router(flat)
        order = chosen.flatten().argsort(stable=True)
        rows = flat[order // CHOSEN]
        counts = chosen.flatten().bincount(minlength=EXPERTS)
        if self.ep == 1:
            done = self.experts(rows, counts.tolist())
        else:
            local = EXPERTS // self.ep
            theirs = torch.empty_like(counts)
            dist.all_to_all_single(theirs, counts)
            table = theirs.view(self.ep, local)
            sent, received = counts.view(self.ep, local).sum(1).tolist(), table.sum(1).tolist()
            came = _Exchange.apply(rows, sent, received)
            expert = torch.arange(local).repeat(self.ep).repeat_interleave(theirs)
            by_expert = expert.argsort(stable=True)
            done = self.experts(came[by_expert], table.sum(0).tolist())
            done = _Exchange.apply(done[by_expert.argsort()], received, sent)
        share = weight.flatten()[order, None]
        routed = torch.zeros_like(flat).index_add(0, order // CHOSEN, done * share)
        return routed.view_as(x) + self.shared_experts(x)


class Layer(nn.Module):
    """Attention and experts, each added to what came in."""

    def __init__(self, spread: Spread) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(HIDDEN)
        self.attention = Attention(spread)
        self.mlp = ExpertLayer(spread)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm(x))
        return x + self.mlp(x)


class Model(nn.Module):
    """Words to logits, sequence first within."""

    def __init__(self, spread: Spread, layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.layers = nn.ModuleList(Layer(spread) for _ in range(layers))
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)

    def forward(self, words: Tensor) -> Tensor:
        x = self.embedding(words).transpose(0, 1)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def fill(model: nn.Module, spread: Spread, faulty: str | None = None) -> None:
    """Weights by their name in the whole model; that of ``faulty`` is five percent too large."""
    share = dist.get_rank() % spread.ep
    with torch.no_grad():
        for name, weight in model.named_parameters():
            parts = name.split(".")
            if "local_experts" in parts:
                place = parts.index("local_experts") + 1
                parts[place] = str(int(parts[place]) + share * EXPERTS // spread.ep)
            whole = ".".join(parts)
            generator = torch.Generator().manual_seed(zlib.crc32(whole.encode()))
            weight.copy_(torch.randn(weight.shape, generator=generator) * 0.3)
            if whole == faulty:
                weight.mul_(1.05)


def train(model: nn.Module, spread: Spread) -> None:
    """One step forward and backward, on the tokens of this rank."""
    rank = dist.get_rank()
    generator = torch.Generator().manual_seed(0 if spread.cp > 1 else rank)
    words = torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1), generator=generator)
    own = positions(spread.cp, rank if spread.cp > 1 else 0)
    logits = model(words[:, :-1][:, own])
    goal = words[:, 1:][:, own].transpose(0, 1)
    loss = functional.cross_entropy(logits.flatten(0, 1), goal.flatten(), reduction="sum")
    (loss / (BATCH * LENGTH)).backward()
