"""A fifth part: time mixing without attention, listening, variational pictures, object queries."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator"
# torch is typed in part only.

from __future__ import annotations

import math
from itertools import pairwise

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class TimeMix(nn.Module):
    """Keys and values decay with time, each channel at a rate of its own (as RWKV)."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.share = nn.Parameter(torch.full((width,), 0.5))
        self.decay = nn.Parameter(torch.linspace(-2.0, 1.0, width))
        self.bonus = nn.Parameter(torch.full((width,), 0.3))
        self.key, self.value, self.receptance, self.out = (
            nn.Linear(width, width, bias=False) for _ in range(4)
        )

    def forward(self, x: Tensor) -> Tensor:
        places = planted("shifted_twice", 1, 2, self.layer)
        before = F.pad(x, (0, 0, places, -places))  # culprit: shifted_twice
        mixed = x * self.share + before * (1 - self.share)
        k, v = self.key(mixed), self.value(mixed)
        gate = torch.sigmoid(self.receptance(mixed))
        if planted("decay_not_exp", False, True, self.layer):
            rate = -F.softplus(self.decay)  # culprit: decay_not_exp
        else:
            rate = -torch.exp(self.decay)  # culprit: decay_not_exp
        numbers = torch.arange(x.shape[1], dtype=x.dtype)
        age = (numbers[:, None] - numbers[None, :] - 1).clamp(min=0)
        weights = age[..., None] * rate + k[:, None]
        own = torch.eye(x.shape[1], dtype=x.dtype)[..., None]
        if not planted("bonus_missing", False, True, self.layer):
            weights = weights + own * self.bonus  # culprit: bonus_missing
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = weights.masked_fill(hidden[..., None], float("-inf"))  # culprit: bonus_missing
        shares = torch.softmax(weights, dim=2)
        mixed = torch.einsum("btsc,bsc->btc", shares, v)
        return self.out(gate * mixed)


class ChannelMix(nn.Module):
    """A gated two-layer perceptron with a squared rectifier."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.key = nn.Linear(width, 3 * width, bias=False)
        self.value = nn.Linear(3 * width, width, bias=False)
        self.receptance = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        inner = torch.relu(self.key(x))
        inner = inner ** planted("rectifier_cubed", 2, 3, self.layer)  # culprit: rectifier_cubed
        return torch.sigmoid(self.receptance(x)) * self.value(inner)


class TimeMixBlock(nn.Module):
    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.norm, self.feed_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.feed = TimeMix(width, layer), ChannelMix(width, layer)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mix(self.norm(x))
        return x + self.feed(self.feed_norm(x))


class TimeMixer(nn.Module):
    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.embed, self.first_norm = nn.Embedding(64, width), nn.LayerNorm(width)
        self.layers = nn.ModuleList(TimeMixBlock(width, layer) for layer in range(layers))
        self.head = nn.Linear(width, 64, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.first_norm(self.embed(tokens))
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Listening(nn.Module):
    """Attention of a decoder to itself or to what was heard."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = 4
        self.queries, self.values = nn.Linear(width, width), nn.Linear(width, width)
        self.keys = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, memory: Tensor, hidden: Tensor | None, scale: float) -> Tensor:
        q, k, v = (
            one.view(*one.shape[:2], self.heads, -1).transpose(1, 2)
            for one in (self.queries(x), self.keys(memory), self.values(memory))
        )
        scores = (q * scale) @ (k * scale).transpose(-1, -2)
        if hidden is not None:
            scores = scores + hidden
        mixed = torch.softmax(scores, -1) @ v
        return self.out(mixed.transpose(1, 2).flatten(2))


class HearingBlock(nn.Module):
    def __init__(self, width: int, layer: int, hears: bool) -> None:
        super().__init__()
        self.hears, self.layer = hears, layer
        self.attention, self.norm = Listening(width), nn.LayerNorm(width)
        if hears:
            self.cross, self.cross_norm = Listening(width), nn.LayerNorm(width)
        self.feed_norm = nn.LayerNorm(width)
        self.grow, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        scale = (x.shape[-1] // 4) ** -0.25
        y = self.norm(x)
        hidden = None
        if self.hears:
            offset = planted("future_heard", 1, 2, self.layer)
            hidden = torch.full((x.shape[1], x.shape[1]), float("-inf"), dtype=x.dtype)
            hidden = hidden.triu(offset)  # culprit: future_heard
        x = x + self.attention(y, y, hidden, scale)
        if memory is not None:
            y = x
            if not planted("cross_not_normal", False, True, self.layer):
                y = self.cross_norm(x)  # culprit: cross_not_normal
            x = x + self.cross(y, memory, None, scale)  # culprit: cross_not_normal
        return x + self.shrink(F.gelu(self.grow(self.feed_norm(x))))


class Listener(nn.Module):
    """Convolutions and an encoder that hear, a decoder that writes (as Whisper)."""

    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.sound, self.words = nn.Embedding(64, width), nn.Embedding(64, width)
        self.first = nn.Conv1d(width, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.encoder = nn.ModuleList(HearingBlock(width, layer, False) for layer in range(layers))
        self.encoder_norm = nn.LayerNorm(width)
        self.decoder = nn.ModuleList(HearingBlock(width, layer, True) for layer in range(layers))
        self.norm = nn.LayerNorm(width)
        self.places = nn.Parameter(0.1 * torch.randn(12, width))

    def waves(self, length: int, width: int) -> Tensor:
        longest = planted("waves_shorter", 10_000, 100)
        step = math.log(longest) / (width // 2 - 1)
        speed = torch.exp(-step * torch.arange(width // 2))  # culprit: waves_shorter
        angle = torch.arange(length)[:, None] * speed  # culprit: waves_shorter
        return torch.cat([angle.sin(), angle.cos()], 1)

    def forward(self, tokens: Tensor) -> Tensor:
        answered = self.sound(tokens).transpose(1, 2)
        answered = F.gelu(self.first(answered))
        answered = self.second(answered)
        if not planted("second_gelu_missing", False, True):
            answered = F.gelu(answered)  # culprit: second_gelu_missing
        answered = answered.transpose(1, 2)  # culprit: second_gelu_missing
        answered = answered + self.waves(answered.shape[1], answered.shape[2]).to(answered.dtype)
        for block in self.encoder:
            answered = block(answered)
        if not planted("heard_not_normal", False, True):
            answered = self.encoder_norm(answered)  # culprit: heard_not_normal
        x = self.words(tokens.roll(1, 1)) + self.places
        for block in self.decoder:
            x = block(x, answered)  # culprit: heard_not_normal
        return self.norm(x) @ self.words.weight.t()


class Variational(nn.Module):
    """An encoder to mean and spread, a sample of them, and a decoder (as VAE)."""

    def __init__(self, width: int = 16, layers: int = 2) -> None:
        super().__init__()
        sizes = [3, *(width * 2**number for number in range(layers))]
        self.encoder = nn.ModuleList(
            nn.Conv2d(a, b, 3, stride=2, padding=1) for a, b in pairwise(sizes)
        )
        self.latent = nn.Conv2d(sizes[-1], 2 * width, 1)
        self.grow = nn.ConvTranspose2d(width, width, 4, stride=2, padding=1)
        self.norm = nn.GroupNorm(4, width)
        self.head = nn.Linear(width, 16)
        self.register_buffer("drawn", torch.randn(1, width, 16 // 2**layers, 16 // 2**layers))

    def forward(self, x: Tensor) -> Tensor:
        for number, conv in enumerate(self.encoder):
            x = F.silu(conv(x))
            if planted("clamped_feature", False, number == 0):
                x = x.clamp(max=0.3)  # culprit: clamped_feature
        mean, log_variance = self.latent(x).chunk(2, 1)  # culprit: clamped_feature
        log_variance = log_variance.clamp(-30, 20)
        half = planted("variance_for_spread", 0.5, 1.0)
        spread = torch.exp(half * log_variance)  # culprit: variance_for_spread
        if planted("spread_dropped", False, True):
            sample = mean + self.drawn  # culprit: spread_dropped
        else:
            sample = mean + spread * self.drawn  # culprit: spread_dropped
        y = sample * planted("latent_factor", 0.18215, 0.13025)  # culprit: latent_factor
        y = F.silu(self.norm(self.grow(y / 0.18215)))
        if planted("pooled_by_largest", False, True):
            y = F.max_pool2d(y, 2)  # culprit: pooled_by_largest
        else:
            y = F.avg_pool2d(y, 2)  # culprit: pooled_by_largest
        return self.head(y.mean((2, 3)))


class Objects(nn.Module):
    """Learned queries look at a picture's features through the library's attention (as DETR)."""

    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, stride=4)
        self.bias = nn.Parameter(0.1 * torch.randn(width, 4, 4))
        self.queries = nn.Parameter(torch.randn(5, width))
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "own": nn.MultiheadAttention(width, 4, batch_first=True),
                    "cross": nn.MultiheadAttention(width, 4, batch_first=True),
                    "feed": nn.Linear(width, width),
                    "norm": nn.LayerNorm(width),
                    "cross_norm": nn.LayerNorm(width),
                }
            )
            for _ in range(layers)
        )
        self.head = nn.Linear(width, 16)

    def forward(self, x: Tensor) -> Tensor:
        seen = self.stem(x)
        placed = (seen + self.bias).flatten(2).transpose(1, 2)
        seen = seen.flatten(2).transpose(1, 2)
        if planted("places_in_values", False, True):
            seen = seen * 1.0 + placed - seen  # culprit: places_in_values
        queries = self.queries.expand(len(x), -1, -1)
        y = torch.zeros_like(queries)
        for number, layer in enumerate(self.layers):
            asked = y + queries
            if planted("asked_without_place", False, number == 1):
                asked = y  # culprit: asked_without_place
            y = layer["norm"](y + layer["own"](asked, asked, y)[0])  # culprit: asked_without_place
            found = layer["cross"](y + queries, placed, seen)[0]  # culprit: places_in_values
            y = layer["cross_norm"](y + found)
            inner = torch.relu(layer["feed"](y))
            if planted("feed_doubled", False, number == 0):
                y = y + 2 * inner  # culprit: feed_doubled
            else:
                y = y + inner  # culprit: feed_doubled
        if planted("first_query_only", False, True):
            return self.head(y[:, 0])  # culprit: first_query_only
        return self.head(y.mean(1))  # culprit: first_query_only
