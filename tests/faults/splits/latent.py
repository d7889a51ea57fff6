"""A decoder of today: latent attention or state layers, experts beside a shared one, and words
behind words, where norms and routers of tensor-parallel ranks hold slices of the sequence.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return, misc, no-untyped-def"
# torch is typed in part only.

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.faults.splits.model import Scale, Spread, turn_by_position, weight
from tests.faults.splits.plan import HEADS, HIDDEN, INNER, WORDS, Plan, Ranks
from tests.faults.splits.talk import Enter, Leave, Lent, Share, Whole

WIDE, ROTARY, LOW = 4, 2, 8  # of a head, of its rotary part, of what is latent
STATES, STEP_RANK, TAPS = 4, 3, 4


class Map(nn.Module):
    """A linear map that every rank holds whole."""

    def __init__(self, own: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(own)

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight)


class Wider(nn.Module):
    """Some of the columns that are put out on each rank, from the whole sequence."""

    def __init__(self, ranks: Ranks, whole: Tensor, is_sequence: bool) -> None:
        super().__init__()
        self.group, self.is_sequence = ranks.groups["tp"], is_sequence
        self.weight = nn.Parameter(ranks.cut(whole, 0))

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(entered(x, self.group, self.is_sequence), self.weight)


class Narrower(nn.Module):
    """Some of the columns that are taken in on each rank; their sum, or a slice of it."""

    def __init__(self, ranks: Ranks, whole: Tensor, is_sequence: bool) -> None:
        super().__init__()
        self.group, self.is_sequence = ranks.groups["tp"], is_sequence
        self.weight = nn.Parameter(ranks.cut(whole, 1))

    def forward(self, x: Tensor) -> Tensor:
        return left(functional.linear(x, self.weight), self.group, self.is_sequence)


def entered(x: Tensor, group: Any, is_sequence: bool) -> Tensor:
    """The whole sequence, for some columns or heads of this rank."""
    if group is None:
        return x
    return Lent.apply(x, group, 1) if is_sequence else Enter.apply(x, group)


def left(x: Tensor, group: Any, is_sequence: bool) -> Tensor:
    if group is None:
        return x
    return Share.apply(x, group, 1) if is_sequence else Leave.apply(x, group)


class Latent(nn.Module):
    """Attention whose queries, keys and values come from a few numbers of each position."""

    def __init__(self, ranks: Ranks, name: str, plan: Plan) -> None:
        super().__init__()
        self.group, self.is_sequence = ranks.groups["tp"], plan.is_sequence
        self.factor, self.base = (WIDE + ROTARY) ** -0.5, 100.0
        self.ask_down = Map(weight(f"{name} ask down", LOW, HIDDEN))
        self.ask_norm = Scale(f"{name} ask norm", LOW)
        up = weight(f"{name} ask up", HEADS * (WIDE + ROTARY), LOW)
        self.ask_up = Wider(ranks, up, plan.is_sequence)
        self.pair_down = Map(weight(f"{name} pair down", LOW + ROTARY, HIDDEN))
        self.pair_norm = Scale(f"{name} pair norm", LOW)
        up = weight(f"{name} pair up", HEADS * 2 * WIDE, LOW)
        self.pair_up = Wider(ranks, up, plan.is_sequence)
        out = weight(f"{name} out", HIDDEN, HEADS * WIDE)
        self.out = Narrower(ranks, out, plan.is_sequence)

    def forward(self, x: Tensor) -> Tensor:
        q = self.ask_up(self.ask_norm(self.ask_down(x))).unflatten(-1, (-1, WIDE + ROTARY))
        low, turning = self.pair_down(x).split([LOW, ROTARY], -1)
        turning = entered(turning, self.group, self.is_sequence).unsqueeze(2)
        k, v = self.pair_up(self.pair_norm(low)).unflatten(-1, (-1, 2 * WIDE)).chunk(2, -1)
        angles = torch.outer(
            torch.arange(q.shape[1], dtype=torch.float32),
            self.base ** (-torch.arange(0, ROTARY, 2) / ROTARY),
        )
        q, asked = q.split([WIDE, ROTARY], -1)
        q = torch.cat([q, turn_by_position(asked, angles)], -1)
        turning = turn_by_position(turning, angles).expand(-1, -1, k.shape[2], -1)
        q, k, v = (one.transpose(1, 2) for one in (q, torch.cat([k, turning], -1), v))
        scores = torch.matmul(q, k.transpose(-1, -2)) * self.factor
        is_later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        shares = torch.softmax(scores.masked_fill(is_later, float("-inf")), -1)
        return self.out(torch.matmul(shares, v).transpose(1, 2).flatten(2))


class State(nn.Module):
    """A selective scan over the sequence, by channels of each rank."""

    def __init__(self, ranks: Ranks, name: str, plan: Plan) -> None:
        super().__init__()
        self.group, is_cut = ranks.groups["tp"], plan.is_sequence
        self.into = Wider(ranks, weight(f"{name} into", INNER, HIDDEN), is_cut)
        self.gate = Wider(ranks, weight(f"{name} gate", INNER, HIDDEN), is_cut)
        self.taps = nn.Parameter(ranks.cut(weight(f"{name} taps", INNER, 1, TAPS), 0))
        self.rates = Narrower(ranks, weight(f"{name} rates", STEP_RANK + 2 * STATES, INNER), False)
        self.step = nn.Parameter(ranks.cut(weight(f"{name} step", INNER, STEP_RANK), 0))
        self.decay = nn.Parameter(ranks.cut(weight(f"{name} decay", INNER, STATES), 0))
        self.skip = nn.Parameter(ranks.cut(1.0 + weight(f"{name} skip", INNER), 0))
        self.out = Narrower(ranks, weight(f"{name} out", HIDDEN, INNER), is_cut)

    def forward(self, x: Tensor) -> Tensor:
        z, x = self.gate(x), self.into(x)
        channels = x.shape[-1]
        x = functional.conv1d(
            functional.pad(x.transpose(1, 2), (TAPS - 1, 0)), self.taps, groups=channels
        )
        x = functional.silu(x.transpose(1, 2))
        rates = entered(self.rates(x), self.group, False)
        step, write, read = rates.split([STEP_RANK, STATES, STATES], -1)
        step = functional.softplus(functional.linear(step, self.step))
        keep = torch.exp(step.unsqueeze(-1) * -torch.exp(self.decay))
        added = (step * x).unsqueeze(-1) * write.unsqueeze(2)
        state, told = torch.zeros_like(added[:, 0]), []
        for place in range(x.shape[1]):
            state = keep[:, place] * state + added[:, place]
            told.append((state * read[:, place, None]).sum(-1))
        return self.out((torch.stack(told, 1) + x * self.skip) * functional.silu(z))


class Pair(nn.Module):
    """A gated pair of layers."""

    def __init__(self, ranks: Ranks, name: str, plan: Plan) -> None:
        super().__init__()
        self.gate, self.up = (
            Wider(ranks, weight(f"{name} {one}", INNER, HIDDEN), plan.is_sequence)
            for one in ("gate", "up")
        )
        self.down = Narrower(ranks, weight(f"{name} down", HIDDEN, INNER), plan.is_sequence)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    """The first layer has no experts."""

    def __init__(self, ranks: Ranks, number: int, plan: Plan) -> None:
        super().__init__()
        name = f"layer {number}"
        self.before, self.after = Scale(f"{name} before"), Scale(f"{name} after")
        self.mix = (State if plan.attention == "state" else Latent)(ranks, name, plan)
        self.feed = Pair(ranks, name, plan)  # the expert that all tokens share
        self.spread = Spread(ranks, name, plan) if plan.experts and number else None

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mix(self.before(x))
        y = self.after(x)
        mixed = self.feed(y)
        if self.spread is not None:
            mixed = mixed + self.spread(y)
        return x + mixed


class Table(nn.Module):
    """Rows of words on each rank."""

    def __init__(self, ranks: Ranks, is_sequence: bool) -> None:
        super().__init__()
        self.group, self.is_sequence = ranks.groups["tp"], is_sequence
        self.weight = nn.Parameter(ranks.cut(weight("words", WORDS, HIDDEN), 0))
        self.first = ranks.at["tp"] * len(self.weight)

    def forward(self, words: Tensor) -> Tensor:
        if self.group is None:
            return functional.embedding(words, self.weight)
        own = words - self.first
        is_other = (own < 0) | (own >= len(self.weight))
        x = functional.embedding(own.masked_fill(is_other, 0), self.weight)
        return left(x.masked_fill(is_other.unsqueeze(-1), 0.0), self.group, self.is_sequence)


class Ahead(nn.Module):
    """What comes behind the next word, from the word that is next."""

    def __init__(self, ranks: Ranks, plan: Plan) -> None:
        super().__init__()
        self.of_words, self.of_rest = Scale("ahead words"), Scale("ahead rest")
        self.join = Map(weight("ahead join", HIDDEN, 2 * HIDDEN))
        self.layer = Layer(ranks, 0, plan)

    def forward(self, x: Tensor, words: Tensor) -> Tensor:
        return self.layer(self.join(torch.cat([self.of_words(words), self.of_rest(x)], -1)))


class Modern(nn.Module):
    """The layers of a stage with what stands before the first and behind the last."""

    def __init__(self, ranks: Ranks, plan: Plan) -> None:
        super().__init__()
        stage = ranks.at["pp"]
        self.is_first, self.is_last = stage == 0, stage == plan.pp - 1
        self.group = ranks.groups["tp"]
        has_words = self.is_first or (self.is_last and plan.is_ahead)
        self.words = Table(ranks, plan.is_sequence) if has_words else None
        self.layers = nn.ModuleList(Layer(ranks, one, plan) for one in plan.layers(stage))
        self.last = Scale("last") if self.is_last else None
        self.ahead = Ahead(ranks, plan) if self.is_last and plan.is_ahead else None
        head = weight("head", WORDS, HIDDEN)
        self.scores = Wider(ranks, head, plan.is_sequence) if self.is_last else None

    def forward(self, x: Tensor, following: Tensor) -> Any:
        """Hidden states, or scores of the next words and of those behind them."""
        if self.is_first and self.words is not None:
            x = self.words(x)
        for layer in self.layers:
            x = layer(x)
        if self.last is None:
            return x
        told = [self._scores(self.last(x))]
        if self.ahead is not None and self.words is not None:
            told.append(self._scores(self.last(self.ahead(x, self.words(following)))))
        return told

    def _scores(self, x: Tensor) -> Tensor:
        y = self.scores(x)
        return y if self.group is None else Whole.apply(y, self.group, -1)
