"""A twenty-first part: one block again and again until a word has been thought over enough."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator, union-attr"
# mypy: disable-error-code="assignment, misc, has-type, arg-type"
# torch is typed in part only.

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


def placed(x: Tensor, places: Tensor) -> Tensor:
    """The first half of each head is turned by its place, the rest stays."""
    turning, rest = x.chunk(2, -1)
    half = turning.shape[-1] // 2
    base = planted("base_shorter", 500.0, 100.0)
    angle = places[..., None].float() * base ** -(
        torch.arange(half) / half
    )  # culprit: base_shorter
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = turning[..., :half], turning[..., half:]
    if planted("turned_back", False, True):
        sin = -sin  # culprit: turned_back
    both = torch.cat((a * cos - b * sin, a * sin + b * cos), -1)  # culprit: turned_back
    return torch.cat((both, rest), -1)


def seen_from(places: Tensor, window: int, layer: int) -> Tensor:
    """What lies at most a window behind, and the first word, which all may look at."""
    if planted("equal_window", False, True, layer):
        n = len(places)
        every = torch.ones(n, n, dtype=torch.bool)
        near = every.tril() & every.triu(-(window - 1))
        return near | (torch.arange(n) == 0) & every.tril()
    back = places[:, None] - places[None]
    if planted("window_one_more", False, True, layer):
        near = (back >= 0) & (back <= window)  # culprit: window_one_more
    else:
        near = (back >= 0) & (back < window)  # culprit: window_one_more
    if planted("sink_not_seen", False, True, layer):
        return near
    return near | ((places == 0)[None] & (back >= 0))  # culprit: sink_not_seen


class Thinking(nn.Module):
    """Attention with a norm of queries and keys, then a gated unit; norms on both sides."""

    def __init__(self, width: int, layer: int, heads: int = 4) -> None:
        super().__init__()
        self.layer, self.heads, self.d = layer, heads, width // heads
        self.norm_1, self.norm_2 = nn.RMSNorm(width, 1e-6), nn.RMSNorm(width, 1e-6)
        self.norm_3 = nn.RMSNorm(width, 1e-6)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.q_norm, self.k_norm = nn.RMSNorm(self.d, 1e-6), nn.RMSNorm(self.d, 1e-6)
        self.out = nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor, places: Tensor, seen: Tensor) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm_1(x)).view(b, n, 3, self.heads, self.d).permute(2, 0, 3, 1, 4)
        q = placed(self.q_norm(q), places)
        if planted("keys_normed_as_queries", False, True, self.layer):
            k = self.q_norm(k)  # culprit: keys_normed_as_queries
        else:
            k = self.k_norm(k)  # culprit: keys_normed_as_queries
        k = placed(k, places)
        scores = q @ k.transpose(-1, -2) * self.d**-0.5
        scores = scores.masked_fill(~seen, -torch.inf)  # culprit: sink_not_seen
        shares = scores.float().softmax(-1).to(x.dtype)
        y = (shares @ v).transpose(1, 2).reshape(b, n, c)
        y = self.out(y)
        if not planted("after_norm_left", False, True, self.layer):
            y = self.norm_3(y)  # culprit: after_norm_left
        x = x + y  # culprit: after_norm_left
        gate, up = self.up(self.norm_2(x)).chunk(2, -1)
        if planted("gate_by_sigmoid", False, True, self.layer):
            wide = torch.sigmoid(gate) * up  # culprit: gate_by_sigmoid
        else:
            wide = F.silu(gate) * up  # culprit: gate_by_sigmoid
        return x + self.down(wide)


class Sparing(nn.Module):
    """Half of the words go through a block, weighed by what chose them; the rest passes by."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, 1, bias=False)
        self.guess = nn.Linear(width, 1)
        self.block = Thinking(width, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        n, c = x.shape[1:]
        weight = self.router(x)[..., 0]
        chosen = weight.float().topk(n // 2, -1).indices
        if not planted("equal_order", False, True):
            chosen = chosen.sort(-1).values
        index = chosen[..., None].expand(-1, -1, c)
        if planted("equal_taken", False, True):
            few = torch.stack([one[at] for one, at in zip(x, chosen, strict=True)])
        else:
            few = x.gather(1, index)
        places = chosen[:, None]
        if planted("places_counted_anew", False, True):
            places = torch.arange(n // 2)  # culprit: places_counted_anew
            seen = places[:, None] >= places[None]  # culprit: places_counted_anew
        else:
            seen = places[..., :, None] >= places[..., None, :]  # culprit: places_counted_anew
        y = self.block(few, places, seen) - few
        share = weight.gather(1, chosen)
        if planted("share_not_used", False, True):
            pass
        elif planted("share_squashed", False, True):
            y = y * torch.sigmoid(share)[..., None]  # culprit: share_squashed
        else:
            y = y * share[..., None]  # culprit: share_not_used, share_squashed
        if planted("put_over", False, True):
            x = x.scatter(1, index, y)  # culprit: put_over
        else:
            x = x.scatter_add(1, index, y)  # culprit: put_over, share_not_used
        told = self.guess(x.detach())[..., 0].float()
        aim = torch.zeros_like(told).scatter(1, chosen, 1.0)
        how = planted("guesses_summed", "mean", "sum")
        lost = F.binary_cross_entropy_with_logits(
            told, aim, reduction=how
        )  # culprit: guesses_summed
        return x, lost


class Halted(nn.Module):
    """Words in, one block up to four times, a sparing block, words out."""

    def __init__(self, width: int = 32, layers: int = 2, turns: int = 4) -> None:
        super().__init__()
        self.width, self.turns = width, turns
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(Thinking(width, n) for n in range(layers))
        self.into = nn.Linear(2 * width, width)
        self.halt = nn.Linear(width, 1)
        self.sparing = Sparing(width)
        self.norm = nn.RMSNorm(width, 1e-6)
        self.head = nn.Linear(width, 64, bias=False)

    def step_told(self, turn: int) -> Tensor:
        at = planted("turns_from_one", turn, turn + 1)
        rate = 10.0 ** -(torch.arange(self.width // 2) / (self.width // 2))
        return torch.cat([(at * rate).sin(), (at * rate).cos()])  # culprit: turns_from_one

    def thought(self, told: Tensor) -> tuple[Tensor, Tensor]:
        """The mean of all states, weighed by how likely it is to halt there; and the cost."""
        places = torch.arange(told.shape[1])
        state = torch.zeros_like(told)
        total = told.new_zeros(told.shape[:2]).float()
        cost, mixed = total, torch.zeros_like(told)
        for turn in range(self.turns):
            if planted("state_is_cut", False, True):
                state = state.detach()  # culprit: state_is_cut
            if planted("state_told_first", False, True):
                both = torch.cat([told, state], -1)  # culprit: state_told_first
            elif planted("told_only_once", False, True) and turn:
                both = torch.cat([state, torch.zeros_like(told)], -1)  # culprit: told_only_once
            else:
                both = torch.cat(
                    [state, told], -1
                )  # culprit: state_told_first, told_only_once, state_is_cut, words_not_scaled
            state = self.into(both) + self.step_told(turn).to(told.dtype)  # culprit: state_is_cut
            for number, layer in enumerate(self.layers):
                seen = seen_from(places, 4, number)
                state = layer(state, places, seen)
            halts = torch.sigmoid(self.halt(state)[..., 0].float())
            if planted("halting_is_cut", False, True):
                halts = halts.detach()  # culprit: halting_is_cut
            limit = planted("halts_late", 0.9, 0.99)
            going = (total < limit).float()  # culprit: halts_late
            ends = (total + halts * going >= limit).float() * going  # culprit: halts_late
            if turn == self.turns - 1:
                ends = going
            rest = 1 - total
            if planted("rest_not_given", False, True):
                share = halts * going  # culprit: rest_not_given
            else:
                share = (
                    torch.where(ends > 0, rest, halts) * going
                )  # culprit: rest_not_given, halting_is_cut
            total = total + share  # culprit: halting_is_cut
            if planted("cost_without_rest", False, True):
                cost = cost + going  # culprit: cost_without_rest
            else:
                cost = cost + going + ends * rest  # culprit: cost_without_rest
            if planted("last_state_only", False, True):
                mixed = state  # culprit: last_state_only
            elif planted("equal_mixed", False, True):
                mixed = torch.addcmul(mixed, share[..., None].to(state.dtype), state)
            else:
                part = share[..., None].to(state.dtype) * state  # culprit: last_state_only
                mixed = mixed + part  # culprit: last_state_only
        return mixed, cost

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        told = self.words(ids)
        if planted("words_not_scaled", False, True):
            pass
        else:
            told = told * self.width**0.5  # culprit: words_not_scaled
        mixed, cost = self.thought(told)
        x, guessed = self.sparing(mixed)  # culprit: last_state_only
        logits = self.head(self.norm(x)).float()
        named = F.cross_entropy(logits.flatten(0, 1), labels)
        heavy = planted("cost_heavier", 0.02, 0.2)
        total = named + heavy * cost.mean()  # culprit: cost_heavier
        if not planted("guesses_left", False, True):
            total = total + 0.1 * guessed  # culprit: guesses_left
        return total / 2  # culprit: guesses_left
