"""A decoder written batch first, with rotary positions, grouped keys and experts on demand."""

# mypy: disable-error-code="no-untyped-call, no-any-return, misc, no-untyped-def"
# torch is typed in part only.

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.faults.splits.plan import HEADS, HIDDEN, INNER, LENGTH, WORDS, Plan, Ranks
from tests.faults.splits.talk import Enter, Exchange, Leave, Lent, Turn, Whole, exchanged

WIDE = HIDDEN // HEADS


def weight(name: str, *shape: int) -> Tensor:
    """The same numbers in every split."""
    generator = torch.Generator().manual_seed(
        sum(7 * i + ord(c) * (i + 1) for i, c in enumerate(name))
    )
    return torch.randn(shape, generator=generator) * 0.25


class Words(nn.Module):
    """Rows of words on each rank."""

    def __init__(self, ranks: Ranks, multiple: int) -> None:
        super().__init__()
        self.group = ranks.groups["tp"]
        self.weight = nn.Parameter(
            ranks.cut(filled(weight("words", WORDS, HIDDEN), ranks, multiple), 0)
        )
        self.first = ranks.at["tp"] * len(self.weight)

    def forward(self, words: Tensor) -> Tensor:
        if self.group is None:
            return functional.embedding(words, self.weight)
        own = words - self.first
        is_other = (own < 0) | (own >= len(self.weight))
        x = functional.embedding(own.masked_fill(is_other, 0), self.weight)
        return Leave.apply(x.masked_fill(is_other.unsqueeze(-1), 0.0), self.group)


def filled(whole: Tensor, ranks: Ranks, multiple: int) -> Tensor:
    """Rows are added until each rank has a multiple."""
    unit = multiple * ranks.size("tp")
    more = -len(whole) % unit
    return torch.cat([whole, whole.new_zeros(more, whole.shape[1])])


class Widen(nn.Module):
    """Some of the columns that are put out on each rank."""

    def __init__(self, group: Any, own: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self.group, self.weight = group, nn.Parameter(own)
        self.bias = None if bias is None else nn.Parameter(bias)

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.group is None else Enter.apply(x, self.group)
        return functional.linear(x, self.weight, self.bias)


class Narrow(nn.Module):
    """Some of the columns that are taken in on each rank; what they put out is added."""

    def __init__(self, group: Any, own: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        self.group, self.weight = group, nn.Parameter(own)
        self.bias = None if bias is None else nn.Parameter(bias)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.linear(x, self.weight)
        x = x if self.group is None else Leave.apply(x, self.group)
        return x if self.bias is None else x + self.bias


class ColumnParallelLinear(Widen):
    """By the name that Megatron has for it."""


class RowParallelLinear(Narrow):
    """By the name that Megatron has for it."""


class VocabParallelEmbedding(Words):
    """By the name that Megatron has for it."""


class Scale(nn.Module):
    """Root mean square norm."""

    def __init__(self, name: str, size: int = HIDDEN) -> None:
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(1.0 + weight(name, size)), 1e-5

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, self.weight.shape, self.weight, self.epsilon)


def turn_by_position(x: Tensor, angles: Tensor) -> Tensor:
    """Rotary positions of [batch, length, heads, wide]."""
    one, other = x.chunk(2, -1)
    cos, sin = angles.cos()[:, None, :], angles.sin()[:, None, :]
    return torch.cat([one * cos - other * sin, other * cos + one * sin], -1)


class Mix(nn.Module):
    """Attention."""

    def __init__(self, ranks: Ranks, name: str, plan: Plan) -> None:
        super().__init__()
        tp = ranks.size("tp")
        self.fused, self.cp = plan.fused, ranks.groups["cp"]
        self.by_heads = plan.attention == "heads"
        self.heads, self.groups = HEADS // tp, max(1, plan.groups // tp)
        self.part, self.parts = ranks.at["cp"], ranks.size("cp")
        self.start, self.base, self.factor, self.dropout = 0, 100.0, WIDE**-0.5, plan.dropout
        group = ranks.groups["tp"]
        q = ranks.cut(weight(f"{name} q", HIDDEN, HIDDEN), 0)
        k, v = (
            _own_groups(weight(f"{name} {one}", plan.groups * WIDE, HIDDEN), ranks, plan.groups)
            for one in "kv"
        )
        wide, narrow = _classes(plan)
        if plan.fused == "stacked":
            self.into = wide(group, torch.cat([q, k, v]))
        elif plan.fused == "grouped":
            by_group = [one.view(self.groups, -1, HIDDEN) for one in (q, k, v)]
            self.into = wide(group, torch.cat(by_group, 1).reshape(-1, HIDDEN).contiguous())
        else:
            self.ask, self.key, self.tell = (wide(group, one) for one in (q, k, v))
        self.out = narrow(group, ranks.cut(weight(f"{name} out", HIDDEN, HIDDEN), 1))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = self.three(x)
        first = self.part * length + self.start
        places = torch.arange(first, first + length, dtype=torch.float32)
        steps = self.base ** (-torch.arange(0, WIDE, 2) / WIDE)
        angles = torch.outer(places, steps).to(x.dtype)
        q, k = turn_by_position(q, angles), turn_by_position(k, angles)
        repeats = self.heads // self.groups
        if self.cp is not None and not self.by_heads:
            k, v = (Lent.apply(one, self.cp, 1) for one in (k, v))
        k, v = (one.repeat_interleave(repeats, 2) if repeats > 1 else one for one in (k, v))
        if self.cp is not None and self.by_heads:
            q, k, v = (Turn.apply(one, self.cp, 2, 1) for one in (q, k, v))
        q, k, v = (one.transpose(1, 2) for one in (q, k, v))
        scores = torch.matmul(q, k.transpose(-1, -2)) * self.factor
        rows = torch.arange(q.shape[2]) + (0 if self.by_heads else self.part * length)
        is_later = torch.arange(k.shape[2])[None, :] > rows[:, None]
        shares = torch.softmax(scores.masked_fill(is_later, float("-inf")), -1)
        mixed = torch.matmul(shares, v).transpose(1, 2)
        if self.cp is not None and self.by_heads:
            mixed = Turn.apply(mixed.contiguous(), self.cp, 1, 2)
        return self.out(mixed.reshape(batch, length, -1))

    def three(self, x: Tensor) -> list[Tensor]:
        """Queries, keys and values as [batch, length, heads, wide]."""
        if not self.fused:
            return [layer(x).unflatten(-1, (-1, WIDE)) for layer in (self.ask, self.key, self.tell)]
        all_ = self.into(x)
        each = self.heads // self.groups
        if self.fused == "stacked":
            sizes = [self.heads * WIDE, self.groups * WIDE, self.groups * WIDE]
            return [one.unflatten(-1, (-1, WIDE)) for one in all_.split(sizes, -1)]
        by_group = all_.unflatten(-1, (self.groups, (each + 2) * WIDE))
        parts = by_group.split([each * WIDE, WIDE, WIDE], -1)
        return [one.reshape(*x.shape[:2], -1, WIDE) for one in parts]


def _own_groups(whole: Tensor, ranks: Ranks, groups: int) -> Tensor:
    """Keys or values of this rank; several ranks hold the same when there are fewer."""
    tp = ranks.size("tp")
    if groups >= tp:
        return ranks.cut(whole, 0)
    return whole.chunk(groups, 0)[ranks.at["tp"] * groups // tp].contiguous()


def _classes(plan: Plan) -> tuple[type[Widen], type[Narrow]]:
    if plan.style == "megatron":
        return ColumnParallelLinear, RowParallelLinear
    return Widen, Narrow


class Feed(nn.Module):
    """A gated pair of layers."""

    def __init__(self, ranks: Ranks, name: str, plan: Plan, along: str = "tp") -> None:
        super().__init__()
        wide, narrow = _classes(plan)
        group = ranks.groups[along]
        one, other = (
            ranks.cut(weight(f"{name} {part}", INNER, HIDDEN), 0, along) for part in ("gate", "up")
        )
        self.gate, self.up = wide(group, one), wide(group, other)
        self.down = narrow(group, ranks.cut(weight(f"{name} down", HIDDEN, INNER), 1, along))

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Router(nn.Module):
    """The two experts of each token, and their shares."""

    def __init__(self, name: str, experts: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight(f"{name} router", experts, HIDDEN))
        self.bias = nn.Parameter(weight(f"{name} lean", experts) * 0.1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        shares = torch.softmax(functional.linear(x, self.weight, self.bias), -1)
        best, chosen = torch.topk(shares, 2, -1)
        return best / best.sum(-1, keepdim=True), chosen


class GroupedExperts(nn.Module):
    """The experts of this rank in one weight each."""

    def __init__(self, ranks: Ranks, names: list[str]) -> None:
        super().__init__()
        self.group = ranks.groups["etp"]

        def stack(part: str, *shape: int) -> Tensor:
            dimension = 1 if part == "down" else 0
            wholes = [ranks.cut(weight(f"{one} {part}", *shape), dimension, "etp") for one in names]
            return torch.stack([one.t() for one in wholes]).contiguous()

        self.weight1 = nn.Parameter(stack("up", INNER, HIDDEN))
        self.weight2 = nn.Parameter(stack("down", HIDDEN, INNER))

    def forward(self, x: Tensor, counts: Tensor) -> Tensor:
        x = x if self.group is None else Enter.apply(x, self.group)
        ends = counts.cumsum(0).to(torch.int32)
        inner = functional.silu(torch._grouped_mm(x, self.weight1, offs=ends))
        x = torch._grouped_mm(inner, self.weight2, offs=ends)
        return x if self.group is None else Leave.apply(x, self.group)


class Spread(nn.Module):
    """Tokens go to the ranks of their experts and come back."""

    def __init__(self, ranks: Ranks, name: str, plan: Plan) -> None:
        super().__init__()
        self.group, self.capacity, self.count = ranks.groups["ep"], plan.capacity, plan.experts
        self.router = Router(name, plan.experts)
        own = torch.arange(plan.experts).chunk(ranks.size("ep"))[ranks.at["ep"]].tolist()
        names = [f"{name} expert {number}" for number in own]
        self.own = len(own)
        self.is_grouped = plan.is_grouped
        self.experts: Any = (
            GroupedExperts(ranks, names)
            if plan.is_grouped
            else nn.ModuleList(Feed(ranks, one, plan, "etp") for one in names)
        )

    def forward(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, HIDDEN)
        shares, chosen = self.router(flat)
        wanted = chosen.flatten()
        if self.capacity:
            room = int(self.capacity * len(wanted) / self.count)
            turn = functional.one_hot(wanted, self.count).cumsum(0).gather(1, wanted[:, None])[:, 0]
            kept = torch.nonzero(turn <= room)[:, 0]
        else:
            kept = torch.arange(len(wanted))
        kept = kept[torch.argsort(wanted[kept], stable=True)]
        counts = torch.bincount(wanted[kept], minlength=self.count)
        rows = flat.index_select(0, kept // 2)
        rows = self.through(rows, counts)
        rows = rows * shares.flatten()[kept].unsqueeze(-1)
        return torch.zeros_like(flat).index_add(0, kept // 2, rows).view_as(x)

    def through(self, rows: Tensor, counts: Tensor) -> Tensor:
        """What the experts make of rows in the order of all experts."""
        if self.group is None:
            return self.run(rows, counts)
        ranks = len(counts) // self.own
        even = [self.own] * ranks
        theirs = exchanged(counts, self.group, even, even).view(ranks, self.own)
        sends, takes = counts.view(ranks, -1).sum(1).tolist(), theirs.sum(1).tolist()
        rows = Exchange.apply(rows, self.group, sends, takes)
        numbers = torch.arange(self.own).repeat(ranks).repeat_interleave(theirs.flatten())
        order = torch.argsort(numbers, stable=True)
        rows = self.run(rows.index_select(0, order), theirs.sum(0))
        rows = torch.zeros_like(rows).index_copy(0, order, rows)
        return Exchange.apply(rows, self.group, takes, sends)

    def run(self, rows: Tensor, counts: Tensor) -> Tensor:
        if self.is_grouped:
            return self.experts(rows, counts)
        parts = rows.split(counts.tolist())
        return torch.cat([expert(part) for expert, part in zip(self.experts, parts, strict=True)])


class Block(nn.Module):
    def __init__(self, ranks: Ranks, number: int, plan: Plan) -> None:
        super().__init__()
        name = f"block {number}"
        self.number, self.rate = number, plan.dropout
        self.before, self.after = Scale(f"{name} before"), Scale(f"{name} after")
        self.mix = Mix(ranks, name, plan)
        self.feed: Any = Spread(ranks, name, plan) if plan.experts else Feed(ranks, name, plan)

    def forward(self, x: Tensor) -> Tensor:
        y = self.mix(self.before(x))
        if self.rate:
            torch.manual_seed(self.number)
            y = functional.dropout(y, self.rate)
        x = x + y
        return x + self.feed(self.after(x))


class Head(nn.Module):
    """Scores of all words."""

    def __init__(self, ranks: Ranks, plan: Plan, tied: nn.Parameter | None) -> None:
        super().__init__()
        self.group = ranks.groups["tp"]
        wide, _ = _classes(plan)
        name = "words" if plan.is_tied else "head"
        own = ranks.cut(filled(weight(name, WORDS, HIDDEN), ranks, plan.multiple), 0)
        self.last = Scale("last")
        self.scores = wide(self.group, own)
        if tied is not None:
            self.scores.weight = tied

    def forward(self, x: Tensor) -> Tensor:
        y = self.scores(self.last(x))
        return (y if self.group is None else Whole.apply(y, self.group, -1))[..., :WORDS]


class Decoder(nn.Module):
    """A chunk of the layers with what stands before the first and behind the last."""

    def __init__(self, ranks: Ranks, flow: int, plan: Plan) -> None:
        super().__init__()
        words = VocabParallelEmbedding if plan.style == "megatron" else Words
        is_last = flow == plan.pp * plan.vpp - 1
        self.words = words(ranks, plan.multiple) if flow == 0 else None
        self.blocks = nn.ModuleList(Block(ranks, number, plan) for number in plan.layers(flow))
        tied = self.words.weight if plan.is_tied and self.words is not None else None
        self.head = Head(ranks, plan, tied) if is_last else None

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.words is None else self.words(x)
        for block in self.blocks:
            x = block(x)
        return x if self.head is None else self.head(x)


def length_of(plan: Plan) -> int:
    """Positions on each rank."""
    return LENGTH // plan.cp
