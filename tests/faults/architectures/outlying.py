"""Written when all rules stood: retention, frequencies, rendered rays, sums over time."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class RetentionBlock(nn.Module):
    """Scores that decay with distance, summed without softmax, normalised by groups."""

    def __init__(self, width: int, layer: int, heads: int = 4) -> None:
        super().__init__()
        self.layer, self.heads, self.d = layer, heads, width // heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.g, self.o = (
            nn.Linear(width, width, bias=False) for _ in range(5)
        )
        self.groups = nn.GroupNorm(heads, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def decay(self, n: int, like: Tensor) -> Tensor:
        base = planted("decay_base", 5, 4, self.layer)
        power = torch.arange(self.heads).float() + base  # culprit: decay_base
        rate = torch.log(1 - 2.0**-power)
        at = torch.arange(n)
        apart = at[:, None] - at[None, :]
        mask = torch.exp(apart.clamp(min=0) * rate[:, None, None])
        ahead = apart < planted("one_ahead", 0, -1, self.layer)  # culprit: one_ahead
        mask = mask.masked_fill(ahead, 0.0)
        dim = planted("summed_over_rows", -1, -2, self.layer)
        total = mask.sum(dim, keepdim=True)  # culprit: summed_over_rows
        return (mask / total.sqrt()).to(like.dtype)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        h = self.before(x)
        q, k, v = (one(h).view(b, n, self.heads, self.d) for one in (self.q, self.k, self.v))
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        k = k * planted(
            "keys_scaled", self.d**-0.5, 1.0 / self.d, self.layer
        )  # culprit: keys_scaled
        scores = q @ k.transpose(-2, -1) * self.decay(n, x)
        total = scores.abs().sum(-1, keepdim=True)
        if not planted("total_kept", False, True, self.layer):
            total = total.detach()  # culprit: total_kept
        total = total.clamp(
            min=planted("floor_lower", 0.5, 0.05, self.layer), max=5e4
        )  # culprit: floor_lower, total_kept
        y = (scores / total) @ v
        if planted("heads_mixed", False, True, self.layer):
            y = y.reshape(b * n, c)  # culprit: heads_mixed
        else:
            y = y.transpose(1, 2).reshape(b * n, c)  # culprit: heads_mixed
        y = self.groups(y).view(b, n, c)
        gate = self.g(h)
        if planted("gate_squashed", False, True, self.layer):
            gate = torch.sigmoid(gate)  # culprit: gate_squashed
        else:
            gate = F.silu(gate)  # culprit: gate_squashed
        x = x + self.o(gate * y)
        return x + self.down(F.gelu(self.up(self.between(x))))


class Retained(nn.Module):
    """A decoder of retention."""

    def __init__(self, width: int = 32, layers: int = 3) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(RetentionBlock(width, n) for n in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 64, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class Frequencies(nn.Module):
    """Mixes tokens by a learnt filter of their frequencies."""

    def __init__(self, width: int, layer: int, n: int = 12) -> None:
        super().__init__()
        self.layer, self.n = layer, n
        self.filter = nn.Parameter(torch.randn(n // 2 + 1, width, 2) * 0.3)

    def forward(self, x: Tensor) -> Tensor:
        wave = torch.fft.rfft(x.float(), dim=1, norm="ortho")
        filters = torch.view_as_complex(self.filter.float().contiguous())
        if planted("filter_conjugated", False, True, self.layer):
            filters = filters.conj().resolve_conj()  # culprit: filter_conjugated
        wave = wave * filters  # culprit: filter_conjugated
        norm = planted("not_ortho", "ortho", "forward", self.layer)
        return torch.fft.irfft(wave, n=self.n, dim=1, norm=norm).to(x.dtype)  # culprit: not_ortho


class FourierBlock(nn.Module):
    """The real part of a transform over tokens and features, then a filter."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.filtered = Frequencies(width, layer)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        wave = torch.fft.fft(x.float(), dim=-1)
        if not planted("tokens_left_out", False, True, self.layer):
            wave = torch.fft.fft(wave, dim=1)  # culprit: tokens_left_out
        y = planted("imaginary", wave.real, wave.imag, self.layer)
        y = (y / math.sqrt(x.shape[1] * x.shape[2])).to(x.dtype)  # culprit: imaginary
        if planted("normed_first", False, True, self.layer):
            x = x + self.norm1(y)  # culprit: normed_first
        else:
            x = self.norm1(x + y)  # culprit: normed_first
        x = x + self.filtered(x)
        return self.norm2(x + self.mlp(x))


class Fourier(nn.Module):
    """An encoder without attention that answers for every token."""

    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.places = nn.Parameter(torch.randn(12, width) * 0.3)
        self.layers = nn.ModuleList(FourierBlock(width, n) for n in range(layers))
        self.head = nn.Linear(width, 64)

    def forward(self, ids: Tensor) -> Tensor:
        places: Tensor = self.places
        if planted("places_rolled", False, True):
            places = places.roll(1, 0)  # culprit: places_rolled
        x = self.words(ids) + places  # culprit: places_rolled
        for layer in self.layers:
            x = layer(x)
        return self.head(x)

    def loss(self, data: Tensor, labels: Tensor) -> Tensor:
        logits = self(data).flatten(0, 1).float()
        return F.cross_entropy(
            logits, labels, label_smoothing=planted("smoothed", 0.0, 0.1)
        )  # culprit: smoothed


class Rendered(nn.Module):
    """Points on rays: waves of their places, density and colour, light that is left."""

    def __init__(self, width: int = 32, layers: int = 4, waves: int = 4) -> None:
        super().__init__()
        self.waves = waves
        told = 3 + 6 * waves
        self.layers = nn.ModuleList(
            nn.Linear((told if n == 0 else width) + (told if n == 2 else 0), width)
            for n in range(layers)
        )
        self.density, self.colour = nn.Linear(width, 1), nn.Linear(width, 16)
        self.background = nn.Parameter(torch.randn(16) * 0.5)
        self.head = nn.Linear(16, 16)

    def waved(self, x: Tensor) -> Tensor:
        factor = planted("pi_forgotten", math.pi, 1.0)
        rate = (2.0 ** torch.arange(self.waves)) * factor  # culprit: pi_forgotten
        angle = (x[..., None] * rate.to(x.dtype)).flatten(-2)
        first, second = torch.sin(angle), torch.cos(angle)
        if planted("waves_exchanged", False, True):
            first, second = second, first
        return torch.cat((x, first, second), -1)  # culprit: waves_exchanged

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(2).transpose(1, 2).reshape(x.shape[0], 16, 16, 3)
        told = self.waved(torch.tanh(x))
        h = told
        for number, layer in enumerate(self.layers):
            if number == 2:
                h = torch.cat((h, told), -1)
            h = torch.relu(layer(h))
        raw = self.density(h).squeeze(-1)
        if planted("density_kinked", False, True):
            sigma = torch.relu(raw - 1.0)  # culprit: density_kinked
        else:
            sigma = F.softplus(raw - 1.0)  # culprit: density_kinked
        gap = planted("gap_doubled", 0.25, 0.5)
        alpha = 1 - torch.exp(-sigma * gap)  # culprit: gap_doubled
        left = torch.cumprod(1 - alpha + 1e-6, -1)
        if not planted("light_not_shifted", False, True):
            left = F.pad(left[..., :-1], (1, 0), value=1.0)  # culprit: light_not_shifted
        weight = alpha * left  # culprit: light_not_shifted
        colour = self.colour(h)
        if not planted("colour_not_squashed", False, True):
            colour = torch.sigmoid(colour)  # culprit: colour_not_squashed
        seen = (weight[..., None] * colour).sum(-2)  # culprit: colour_not_squashed
        if not planted("background_missing", False, True):
            rest = 1 - weight.sum(-1, keepdim=True)  # culprit: background_missing
            seen = seen + rest * self.background  # culprit: background_missing
        return self.head(seen.mean(1))


class Adapted(nn.Module):
    """A frozen linear layer with a small trained one beside it."""

    def __init__(self, width: int, out: int, layer: int, rank: int = 4) -> None:
        super().__init__()
        self.layer, self.rank = layer, rank
        self.base = nn.Linear(width, out, bias=False)
        self.base.weight.requires_grad_(planted("base_trained", False, True, layer))
        self.a, self.b = nn.Linear(width, rank, bias=False), nn.Linear(rank, out, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        if planted("adapter_cut", False, True, self.layer):
            low = self.a(x).detach()  # culprit: adapter_cut
        else:
            low = self.a(x)  # culprit: adapter_cut
        scale = planted("adapter_scale", 8.0 / self.rank, 8.0 / math.sqrt(self.rank), self.layer)
        return self.base(x) + self.b(low) * scale  # culprit: adapter_scale, base_trained


class SumBlock(nn.Module):
    """Attention as running sums of outer products; positions turn neighbouring elements."""

    def __init__(self, width: int, layer: int, heads: int = 2) -> None:
        super().__init__()
        self.layer, self.heads, self.d = layer, heads, width // heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = Adapted(width, 3 * width, layer)
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def turn(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        if planted("halves_turned", False, True, self.layer):
            half = x.shape[-1] // 2
            a, b = x[..., :half], x[..., half:]  # culprit: halves_turned
        else:
            a, b = x[..., 0::2], x[..., 1::2]  # culprit: halves_turned
        return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)

    def feature(self, x: Tensor) -> Tensor:
        one = planted("feature_lower", 1.0, 1.1, self.layer)
        return F.elu(x) + one  # culprit: feature_lower

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, self.d).unbind(2)
        q, k = self.feature(q), self.feature(k)
        total = k.cumsum(1)
        q, k = self.turn(q, cos, sin), self.turn(k, cos, sin)
        outer = torch.einsum("bnhd,bnhe->bnhde", k, v)
        axis = planted("summed_over_heads", 1, 2, self.layer)
        state = torch.cumsum(outer, axis)  # culprit: summed_over_heads
        y = torch.einsum("bnhd,bnhde->bnhe", q, state)
        size = (q.abs() * total).sum(-1, keepdim=True)
        y = y / (size + planted("epsilon_added", 1e-6, 1.0, self.layer))  # culprit: epsilon_added
        x = x + self.out(y.reshape(b, n, c))
        h = F.relu(self.up(self.norm2(x)))
        if not planted("not_squared", False, True, self.layer):
            h = h.square()  # culprit: not_squared
        return x + self.down(h)  # culprit: not_squared


class Summed(nn.Module):
    """A decoder of linear attention with adapters, dropout of nothing, and a tied head."""

    def __init__(self, width: int = 32, layers: int = 3) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(SumBlock(width, n) for n in range(layers))
        self.norm = nn.LayerNorm(width)
        self.d = width // 2

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        rate = 1e4 ** (-torch.arange(0, self.d, 2).float() / self.d)
        at = torch.arange(ids.shape[1]).float()
        if planted("places_restart", False, True):
            at = at.fmod(8)  # culprit: places_restart
        angle = at[:, None] * rate  # culprit: places_restart
        cos, sin = (one.to(x.dtype)[:, None] for one in (angle.cos(), angle.sin()))
        for layer in self.layers:
            x = layer(x, cos, sin)
        return F.linear(self.norm(x), self.words.weight)
