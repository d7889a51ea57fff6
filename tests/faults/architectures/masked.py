"""Masks of the lowest number of a type, as libraries add them, and tensors made in place."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


def turned(x: Tensor) -> Tensor:
    """The halves of each head exchanged, one of them negated."""
    first, second = x.chunk(2, dim=-1)
    if planted("turned_the_other_way", False, True):
        return torch.cat((second, -first), dim=-1)  # culprit: turned_the_other_way
    return torch.cat((-second, first), dim=-1)  # culprit: turned_the_other_way


class CappedLayer(nn.Module):
    """Attention whose keys are put together in place and whose scores are capped."""

    def __init__(self, width: int, layer: int, heads: int = 4) -> None:
        super().__init__()
        self.layer, self.heads, self.size = layer, heads, width // heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.q, self.k = nn.Linear(width, width), nn.Linear(width, width)
        self.v, self.o = nn.Linear(width, width), nn.Linear(width, width)
        self.gate, self.up = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: Tensor, mask: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, width = x.shape
        y = self.norm1(x)
        shape = (batch, length, self.heads, self.size)
        q, k, v = (each(y).view(shape).transpose(1, 2) for each in (self.q, self.k, self.v))
        half = self.size // 2
        turned_q = q[..., half:] * cos + turned(q[..., half:]) * sin
        turned_k = k[..., half:] * cos + turned(k[..., half:]) * sin
        q = torch.cat((q[..., :half], turned_q), dim=-1)
        keys = k.new_empty(k.shape)
        keys[..., :half].copy_(k[..., :half])
        keys[..., half:] = turned_k
        scale = planted("scores_scaled_twice", self.size**-0.5, 1.0 / self.size, self.layer)
        scores = q @ keys.transpose(-1, -2)
        scores = scores * scale  # culprit: scores_scaled_twice
        cap = planted("cap_halved", 1.0, 0.5, self.layer)
        if not planted("cap_missing", False, True, self.layer):
            scores = torch.tanh(scores / cap) * cap  # culprit: cap_halved, cap_missing
        if planted("mask_rolled", False, True, self.layer):
            scores = scores + mask.roll(1, -1)  # culprit: mask_rolled
        else:
            scores = scores + mask  # culprit: mask_rolled, cap_missing
        weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(x.dtype)
        y = (weights @ v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.o(y)
        y = self.norm2(x)
        if planted("gate_and_up_swapped", False, True, self.layer):
            y = F.silu(self.up(y)) * self.gate(y)  # culprit: gate_and_up_swapped
        else:
            y = F.silu(self.gate(y)) * self.up(y)  # culprit: gate_and_up_swapped
        return x + self.down(y)


class Capped(nn.Module):
    """A decoder with an added mask of the lowest number of its type."""

    def __init__(self, width: int = 32, layers: int = 3) -> None:
        super().__init__()
        self.width = width
        self.embed = nn.Embedding(64, width)
        self.layers = nn.ModuleList(CappedLayer(width, n) for n in range(layers))
        self.norm = nn.RMSNorm(width)
        self.head = nn.Linear(width, 64)

    def forward(self, words: Tensor) -> Tensor:
        x = self.embed(words)
        x = x * planted("words_not_scaled", self.width**0.5, 1.0)  # culprit: words_not_scaled
        length, quarter = words.shape[1], self.width // 16
        base = planted("other_base", 10000.0, 500.0)
        turns = base ** (-torch.arange(quarter, device=x.device) / quarter)  # culprit: other_base
        angles = torch.outer(torch.arange(length, device=x.device).float(), turns)
        cos, sin = (f(angles).repeat(1, 2).to(x.dtype) for f in (torch.cos, torch.sin))
        lowest = torch.finfo(x.dtype).min
        mask = torch.full((length, length), lowest, dtype=x.dtype, device=x.device)
        mask = mask.triu(1)[None, None]
        for layer in self.layers:
            x = layer(x, mask, cos, sin)
        return self.head(self.norm(x))


class SlopedLayer(nn.Module):
    """Attention whose scores are added to slopes by one product, normalised after each part."""

    def __init__(self, width: int, layer: int, heads: int = 4) -> None:
        super().__init__()
        self.layer, self.heads, self.size = layer, heads, width // heads
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor, slopes: Tensor, mask: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, self.size).permute(2, 0, 3, 1, 4)
        q, k, v = (part.reshape(batch * self.heads, length, self.size) for part in parts.unbind(0))
        weight = planted("slopes_halved", 1.0, 0.5, self.layer)
        scores = torch.baddbmm(
            slopes, q, k.transpose(-1, -2), beta=weight, alpha=self.size**-0.5
        )  # culprit: slopes_halved
        scores = scores.view(batch, self.heads, length, length)
        if planted("padding_seen", False, True, self.layer):
            scores = scores + torch.zeros_like(mask)  # culprit: padding_seen
        else:
            scores = scores + mask  # culprit: padding_seen
        weights = F.softmax(scores, dim=-1).view(batch * self.heads, length, length)
        y = (weights @ v).view(batch, self.heads, length, self.size)
        y = self.o(y.transpose(1, 2).reshape(batch, length, width))
        if planted("normed_before", False, True, self.layer):
            x = self.norm1(y) + x  # culprit: normed_before
        else:
            x = self.norm1(y + x)  # culprit: normed_before
        slope = planted("gelu_guessed", "none", "tanh", self.layer)
        y = F.gelu(self.up(x), approximate=slope)  # culprit: gelu_guessed
        return self.norm2(x + self.down(y))


class Sloped(nn.Module):
    """An encoder whose mask hides padding, with slopes by distance."""

    def __init__(self, width: int = 32, layers: int = 3) -> None:
        super().__init__()
        self.heads = 4
        self.embed, self.kinds = nn.Embedding(64, width), nn.Embedding(2, width)
        self.layers = nn.ModuleList(SlopedLayer(width, n, self.heads) for n in range(layers))
        self.head = nn.Linear(width, 64)

    def forward(self, words: Tensor) -> Tensor:
        batch, length = words.shape
        x = self.embed(words)
        kinds = self.kinds(torch.zeros_like(words))
        x = x + planted("kinds_subtracted", 1.0, -1.0) * kinds  # culprit: kinds_subtracted
        kept = torch.ones(batch, length, device=x.device, dtype=x.dtype)
        kept[1, length * 3 // 4 :] = 0.0
        mask = (1.0 - kept)[:, None, None, :] * torch.finfo(x.dtype).min
        places = torch.arange(length, device=x.device, dtype=x.dtype)
        steepness = 2.0 ** -torch.arange(1, self.heads + 1, device=x.device, dtype=x.dtype)
        slopes = -(places[:, None] - places[None]).abs() * steepness[:, None, None]
        slopes = slopes.repeat(batch, 1, 1)
        for layer in self.layers:
            x = layer(x, slopes, mask)
        return self.head(x)
