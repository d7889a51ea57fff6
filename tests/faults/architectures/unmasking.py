"""A twenty-second part: words taken back from noise, a block at a time, beside their clean copy."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator, union-attr"
# mypy: disable-error-code="assignment, misc, has-type, arg-type"
# torch is typed in part only.

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor
HIDDEN = 64  # the word that stands for one that is not known
LEAST = 0.05  # share of words that are hidden at least


def turned(x: Tensor, places: Tensor) -> Tensor:
    """Rotary positions, halves of a head together."""
    half = x.shape[-1] // 2
    angle = places[:, None].float() * 1000.0 ** -(torch.arange(half) / half)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)  # culprit: keys_not_turned


class Noised(nn.Module):
    """Grouped attention and a gated unit, both told how many words of a block are hidden."""

    def __init__(self, width: int, layer: int, heads: int = 4, shared: int = 2) -> None:
        super().__init__()
        self.layer, self.heads, self.shared, self.d = layer, heads, shared, width // heads
        self.told = nn.Linear(width, 6 * width)
        self.q, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * shared * self.d, bias=False)
        self.q_norm, self.k_norm = nn.RMSNorm(self.d, 1e-6), nn.RMSNorm(self.d, 1e-6)
        self.gate, self.up = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def attend(self, x: Tensor, places: Tensor, seen: Tensor) -> Tensor:
        b, n, c = x.shape
        q = self.q(x).view(b, n, self.heads, self.d).transpose(1, 2)
        k, v = self.kv(x).view(b, n, 2, self.shared, self.d).permute(2, 0, 3, 1, 4)
        if planted("queries_normed_together", False, True, self.layer):
            size = q.float().square().mean((1, 3), keepdim=True)  # culprit: queries_normed_together
            q = (q.float() * torch.rsqrt(size + 1e-6)).to(x.dtype)
            q = q * self.q_norm.weight
        else:
            q = self.q_norm(q)  # culprit: queries_normed_together
        q, k = turned(q, places), self.k_norm(k)
        if not planted("keys_not_turned", False, True, self.layer):
            k = turned(k, places)
        many = self.heads // self.shared
        if planted("shared_in_turns", False, True, self.layer):
            k, v = k.repeat(1, many, 1, 1), v.repeat(1, many, 1, 1)  # culprit: shared_in_turns
        elif planted("equal_shared", False, True, self.layer):
            k, v = (one[:, :, None].expand(-1, -1, many, -1, -1).flatten(1, 2) for one in (k, v))
        else:
            k = k.repeat_interleave(many, 1)  # culprit: shared_in_turns
            v = v.repeat_interleave(many, 1)  # culprit: shared_in_turns
        by = planted("scaled_by_width", self.d, c, self.layer)
        scores = q @ k.transpose(-1, -2) * by**-0.5  # culprit: scaled_by_width, keys_not_turned
        scores = scores.float().masked_fill(~seen, -torch.inf)
        y = scores.softmax(-1).to(x.dtype) @ v
        return self.out(y.transpose(1, 2).reshape(b, n, c))

    def forward(self, x: Tensor, told: Tensor, places: Tensor, seen: Tensor) -> Tensor:
        parts = self.told(F.silu(told)).chunk(6, -1)
        shift, scale, gate, shift_2, scale_2, gate_2 = parts
        if planted("gates_exchanged", False, True, self.layer):
            gate, gate_2 = gate_2, gate
        h = F.layer_norm(x, x.shape[-1:])
        if planted("shifted_before_scaled", False, True, self.layer):
            h = (h + shift) * (1 + scale)  # culprit: shifted_before_scaled
        else:
            h = h * (1 + scale) + shift  # culprit: shifted_before_scaled
        y = self.attend(h, places, seen)
        if planted("equal_gated", False, True, self.layer):
            x = torch.addcmul(x, gate, y)
        elif planted("added_to_normed", False, True, self.layer):
            x = h + gate * y  # culprit: added_to_normed
        else:
            x = x + gate * y  # culprit: gates_exchanged, added_to_normed
        h = F.layer_norm(x, x.shape[-1:]) * (1 + scale_2) + shift_2
        if planted("bends_the_other", False, True, self.layer):
            wide = self.gate(h) * F.silu(self.up(h))  # culprit: bends_the_other
        else:
            wide = F.silu(self.gate(h)) * self.up(h)  # culprit: bends_the_other
        y = gate_2 * self.down(wide)  # culprit: gates_exchanged
        return x + y


class Unmasked(nn.Module):
    """Noised and clean words in one row; what is hidden sees its block and clean ones before."""

    def __init__(self, width: int = 32, layers: int = 2, block: int = 4) -> None:
        super().__init__()
        self.width, self.block = width, block
        self.words = nn.Embedding(65, width)
        self.times = nn.Sequential(nn.Linear(16, width), nn.SiLU(), nn.Linear(width, width))
        self.layers = nn.ModuleList(Noised(width, n) for n in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 65, bias=False)

    def seen(self, n: int) -> Tensor:
        """Who may look at whom: first the noised words, then the clean ones."""
        at = torch.arange(2 * n)
        clean, part = at >= n, (at % n) // self.block
        to, of = part[:, None], part[None]
        same = to == of  # culprit: clean_seen_too_soon
        if not planted("clean_seen_too_soon", False, True):
            same = same & (clean[:, None] == clean[None])  # culprit: clean_seen_too_soon
        if planted("own_block_is_before", False, True):
            before = to >= of  # culprit: own_block_is_before
        else:
            before = to > of  # culprit: own_block_is_before
        earlier = before & clean[None] & ~clean[:, None]
        if planted("equal_blocks", False, True):
            among = (to > of) & clean[None] & clean[:, None]  # the own block is told already
        elif planted("clean_sees_all", False, True):
            among = clean[None] & clean[:, None]  # culprit: clean_sees_all
        else:
            among = (to >= of) & clean[None] & clean[:, None]  # culprit: clean_sees_all
        return same | earlier | among  # culprit: clean_seen_too_soon

    def told(self, times: Tensor) -> Tensor:
        """How much is hidden, for each word; clean ones have none hidden."""
        rate = 10.0 ** (-torch.arange(8) / 2)
        by = planted("times_not_raised", 100.0, 1.0)
        angle = (times * by)[..., None] * rate  # culprit: times_not_raised
        wave = torch.cat([angle.sin(), angle.cos()], -1)
        every = self.times(wave.to(self.words.weight.dtype))
        every = every.repeat_interleave(self.block, 1)
        if planted("told_of_next_block", False, True):
            every = every.roll(-self.block, 1)  # culprit: told_of_next_block
        calm = self.times(torch.cat([torch.zeros(8), torch.ones(8)]).to(every.dtype))
        both = [every, calm.expand_as(every)]
        return torch.cat(both, 1)  # culprit: told_of_next_block

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        b, n = ids.shape
        blocks = n // self.block
        many = b * blocks
        if planted("times_all_alike", False, True):
            times = (0.37 + torch.zeros(many)) % 1  # culprit: times_all_alike
        else:
            times = (0.37 + torch.arange(many) / many) % 1  # culprit: times_all_alike
        times = times.view(b, blocks)
        if planted("least_not_hidden", False, True):
            share = times
        else:
            share = (1 - LEAST) * times + LEAST  # culprit: least_not_hidden
        share = share.repeat_interleave(self.block, 1)  # culprit: least_not_hidden
        drawn = ((labels * 37 + 11) % 64 + 0.5).view(b, n) / 64
        if planted("drawn_for_blocks", False, True):
            drawn = drawn[:, :: self.block].repeat_interleave(
                self.block, 1
            )  # culprit: drawn_for_blocks
        if planted("hidden_other_way", False, True):
            hidden = drawn > share  # culprit: hidden_other_way
        else:
            hidden = drawn < share  # culprit: hidden_other_way, drawn_for_blocks
        word = planted("hidden_as_first_word", HIDDEN, 0)
        noisy = ids.masked_fill(hidden, word)  # culprit: hidden_as_first_word
        x = self.words(torch.cat([noisy, ids], 1))
        places = torch.arange(n)
        if planted("places_go_on", False, True):
            places = torch.arange(2 * n)  # culprit: places_go_on
        else:
            places = torch.cat([places, places])  # culprit: places_go_on
        told, seen = self.told(times), self.seen(n)
        for layer in self.layers:
            x = layer(x, told, places, seen)
        if planted("clean_half_judged", False, True):
            x = x[:, n:]  # culprit: clean_half_judged
        else:
            x = x[:, :n]  # culprit: clean_half_judged
        logits = self.head(self.norm(x)).float()
        if not planted("hidden_may_be_said", False, True):
            never = torch.arange(65) == HIDDEN
            logits = logits.masked_fill(never, -torch.inf)  # culprit: hidden_may_be_said
        aims = ids
        if planted("aims_at_next", False, True):
            aims = ids.roll(-1, 1)  # culprit: aims_at_next
        if planted("equal_named", False, True):
            named = logits.logsumexp(-1) - logits.gather(-1, aims[..., None])[..., 0]
        else:
            named = F.cross_entropy(
                logits.transpose(1, 2), aims, reduction="none"
            )  # culprit: aims_at_next, hidden_may_be_said
        if planted("weighed_by_time", False, True):
            each = 1 / times.repeat_interleave(self.block, 1)  # culprit: weighed_by_time
        else:
            each = 1 / share  # culprit: weighed_by_time
        if not planted("not_weighed", False, True):
            named = named * each  # culprit: not_weighed, weighed_by_time
        if not planted("known_judged_too", False, True):
            named = named * hidden  # culprit: known_judged_too, not_weighed
        if planted("by_hidden_ones", False, True):
            total = named.sum() / hidden.sum()  # culprit: by_hidden_ones
        else:
            total = named.sum() / hidden.numel()  # culprit: by_hidden_ones, known_judged_too
        return total / math.sqrt(4)
