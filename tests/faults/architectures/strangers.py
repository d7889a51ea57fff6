"""A fourth part: latent attention, modulated patches, graphs, speech and two towers.

``fused`` takes one kernel where the reference takes several calls, ``recompute`` computes blocks
again on the backward pass.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.faults.planting import planted

Tensor = torch.Tensor


class Scaled(nn.Module):
    """Root mean square normalisation, by hand or by one kernel."""

    def __init__(self, width: int, fused: bool, layer: int = -1) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.fused, self.layer = fused, layer

    def forward(self, x: Tensor) -> Tensor:
        epsilon = planted("latent_epsilon", 1e-6, 1e-2, self.layer)
        if self.fused:
            return F.rms_norm(x, x.shape[-1:], self.weight, epsilon)  # culprit: latent_epsilon
        wide = x.float()
        root = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)  # culprit: latent_epsilon
        return (wide * root).type_as(x) * self.weight


class LatentBlock(nn.Module):
    """Keys and values come out of a narrow latent; a part of each head is rotated."""

    def __init__(self, width: int, layer: int, fused: bool) -> None:
        super().__init__()
        self.heads, self.fused, self.layer = 4, fused, layer
        self.norm, self.narrow_norm = Scaled(width, fused, layer), Scaled(width // 4, fused, layer)
        self.queries = nn.Linear(width, 2 * width, bias=False)
        self.narrow = nn.Linear(width, width // 4 + width // 4, bias=False)
        self.keys_values = nn.Linear(width // 4, 2 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.feed_norm = Scaled(width, fused, layer)
        self.router = nn.Linear(width, 4, bias=False)
        self.gates = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(4))
        self.shared = nn.Linear(width, width, bias=False)

    def rotate(self, x: Tensor) -> Tensor:
        half, length = x.shape[-1] // 2, x.shape[-2]
        base = planted("latent_base", 1e4, 1e3, self.layer)
        speed = base ** (-torch.arange(half, dtype=torch.float32) / half)  # culprit: latent_base
        angle = torch.arange(length, dtype=torch.float32)[:, None] * speed  # culprit: latent_base
        left, right = x[..., :half], x[..., half:]
        sine, cosine = angle.sin().to(x.dtype), angle.cos().to(x.dtype)
        return torch.cat([left * cosine - right * sine, right * cosine + left * sine], -1)

    def attend(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        size = width // self.heads
        q = self.queries(x).view(batch, length, self.heads, 2 * size).transpose(1, 2)
        latent, turned = self.narrow(x).split(width // 4, -1)
        if not planted("latent_not_normal", False, True, self.layer):
            latent = self.narrow_norm(latent)  # culprit: latent_not_normal
        k, v = (
            self.keys_values(latent)
            .view(batch, length, self.heads, -1)
            .transpose(1, 2)
            .chunk(2, -1)
        )  # culprit: latent_not_normal
        plain, turning = q.split(size, -1)
        turned = self.rotate(turned[:, None]).expand(-1, self.heads, -1, -1)
        q, k = torch.cat([plain, self.rotate(turning)], -1), torch.cat([k, turned], -1)
        scale = planted("latent_scale", 2 * size, size, self.layer) ** -0.5
        if self.fused:
            mixed = F.scaled_dot_product_attention(
                q, k, v, is_causal=True, scale=scale
            )  # culprit: latent_scale
        else:
            scores = q @ k.transpose(-1, -2) * scale  # culprit: latent_scale
            hidden = torch.full((length, length), float("-inf"), dtype=x.dtype).triu(1)
            mixed = torch.softmax((scores + hidden).float(), -1).to(x.dtype) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))

    def feed(self, x: Tensor) -> Tensor:
        scores = self.router(x)
        if planted("router_softmax", False, True, self.layer):
            weights = torch.softmax(scores, -1)  # culprit: router_softmax
        else:
            weights = torch.sigmoid(scores)  # culprit: router_softmax
        total = sum(
            F.silu(gate(x)) * weights[..., number, None] for number, gate in enumerate(self.gates)
        )
        if planted("shared_dropped", False, True, self.layer):
            return total  # type: ignore[return-value]
        return total + self.shared(x)  # culprit: shared_dropped

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.norm(x))
        return x + self.feed(self.feed_norm(x))  # culprit: shared_dropped


class Latent(nn.Module):
    def __init__(
        self, width: int = 32, layers: int = 2, *, fused: bool = False, recompute: bool = False
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, width)
        self.layers = nn.ModuleList(LatentBlock(width, layer, fused) for layer in range(layers))
        self.norm = Scaled(width, fused)
        self.head = nn.Linear(width, 64, bias=False)
        self.recompute = recompute

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute else layer(x)
        x = self.norm(x)
        if planted("states_detached", False, True):
            x = x.detach()  # culprit: states_detached
        return self.head(x)  # culprit: states_detached


class ModulatedBlock(nn.Module):
    """Attention and feed-forward whose shift, scale and gate follow from the time."""

    def __init__(self, width: int, layer: int, fused: bool) -> None:
        super().__init__()
        self.modulation = nn.Linear(width, 6 * width)
        self.first = nn.LayerNorm(width, elementwise_affine=False)
        self.second = nn.LayerNorm(width, elementwise_affine=False)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.grow, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.layer, self.fused = layer, fused

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        parts = self.modulation(F.silu(condition))[:, None].chunk(6, -1)
        shift, scale, gate, shift_feed, scale_feed, gate_feed = parts
        if planted("shift_and_scale_swapped", False, True, self.layer):
            shift, scale = scale, shift
        one = planted("modulation_not_centred", 1.0, 0.0, self.layer)
        inner = self.first(x) * (
            one + scale
        )  # culprit: shift_and_scale_swapped, modulation_not_centred
        inner = inner + shift  # culprit: shift_and_scale_swapped
        batch, length, _ = x.shape
        q, k, v = (
            part.view(batch, length, 4, -1).transpose(1, 2) for part in self.qkv(inner).chunk(3, -1)
        )
        if self.fused:
            mixed = F.scaled_dot_product_attention(q, k, v)
        else:
            mixed = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v
        grown = self.out(mixed.transpose(1, 2).reshape(x.shape))
        if planted("gate_missing", False, True, self.layer):
            x = x + grown  # culprit: gate_missing
        else:
            x = x + gate * grown  # culprit: gate_missing
        inner = self.second(x) * (1 + scale_feed) + shift_feed
        slope = planted("gelu_quick", False, True, self.layer)
        grown = self.grow(inner)
        if slope:
            grown = grown * torch.sigmoid(1.702 * grown)  # culprit: gelu_quick
        else:
            grown = F.gelu(grown)  # culprit: gelu_quick
        return x + gate_feed * self.shrink(grown)


class Modulated(nn.Module):
    def __init__(self, width: int = 32, layers: int = 2, *, fused: bool = False) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, stride=4)
        self.time = nn.Sequential(nn.Linear(16, width), nn.SiLU(), nn.Linear(width, width))
        self.layers = nn.ModuleList(ModulatedBlock(width, one, fused) for one in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 16)

    def forward(self, pictures: Tensor) -> Tensor:
        x = self.patches(pictures).flatten(2).transpose(1, 2)
        step = torch.arange(len(pictures), dtype=torch.float32) / len(pictures)
        speed = torch.exp(-torch.arange(8, dtype=torch.float32))
        thousand = planted("time_not_scaled", 100.0, 1.0)
        angle = step[:, None] * thousand * speed  # culprit: time_not_scaled
        waves = [angle.sin(), angle.cos()]
        if planted("waves_swapped", False, True):
            waves.reverse()
        encoded = torch.cat(waves, -1).to(x.dtype)  # culprit: waves_swapped
        condition = self.time(encoded)
        for layer in self.layers:
            x = layer(x, condition)
        return self.head(self.norm(x).mean(1))


class GraphLayer(nn.Module):
    """Attention over the edges of a graph."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.lift = nn.Linear(width, width, bias=False)
        self.source, self.target = nn.Linear(width, 1), nn.Linear(width, 1)
        self.norm = nn.LayerNorm(width)
        self.layer = layer

    def forward(self, x: Tensor, start: Tensor, end: Tensor) -> Tensor:
        if planted("edges_reversed", False, True, self.layer):
            start, end = end, start
        lifted = self.lift(x)
        score = self.source(lifted)[start] + self.target(lifted)[end]  # culprit: edges_reversed
        slope = planted("slope_default", 0.2, 0.01, self.layer)
        score = F.leaky_relu(score, slope)  # culprit: slope_default
        weight = torch.exp(score - score.max())
        total = torch.zeros(len(x), 1, dtype=x.dtype).index_add(
            0, end, weight
        )  # culprit: edges_reversed
        if planted("total_shifted", False, True, self.layer):
            total = total.roll(1, 0)  # culprit: total_shifted
        weight = weight / total[end]  # culprit: edges_reversed, total_shifted
        message = lifted[start] * weight  # culprit: edges_reversed
        x = x + torch.zeros_like(x).index_add(0, end, message)
        return self.norm(
            F.elu(x, planted("elu_steeper", 1.0, 0.5, self.layer))
        )  # culprit: elu_steeper


class Graph(nn.Module):
    def __init__(self, width: int = 24, layers: int = 3) -> None:
        super().__init__()
        self.nodes = nn.Embedding(64, width)
        self.layers = nn.ModuleList(GraphLayer(width, layer) for layer in range(layers))
        self.head = nn.Linear(width, 64)

    def forward(self, tokens: Tensor) -> Tensor:
        flat = tokens.reshape(-1)
        count = len(flat)
        number = torch.arange(count)
        start = torch.cat([number, number, number])
        end = torch.cat([(number + 1) % count, (number * 5 + 2) % count, number])
        x = self.nodes(flat)
        for layer in self.layers:
            x = layer(x, start, end)
        return self.head(x)


class SpeechBlock(nn.Module):
    """Half a feed-forward, attention over relative places, a gated convolution."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width)
        )
        self.norm = nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.places = nn.Parameter(0.3 * torch.randn(23, width // 2))
        self.gated = nn.Conv1d(width, 2 * width, 1)
        self.deep = nn.Conv1d(width, width, 5, padding=2, groups=width)
        self.batch_norm = nn.BatchNorm1d(width)
        self.last = nn.Conv1d(width, width, 1)
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        x = x + planted("whole_residual", 0.5, 1.0, self.layer) * self.first(
            x
        )  # culprit: whole_residual
        batch, length, width = x.shape
        q, k, v = (
            one.view(batch, length, 2, -1).transpose(1, 2)
            for one in self.qkv(self.norm(x)).chunk(3, -1)
        )
        far = torch.arange(length)[:, None] - torch.arange(length)[None] + length - 1
        if planted("places_mirrored", False, True, self.layer):
            far = far.t()  # culprit: places_mirrored
        relative = torch.einsum("bhld,lmd->bhlm", q, self.places[far])  # culprit: places_mirrored
        scores = (torch.einsum("bhld,bhmd->bhlm", q, k) + relative) / q.shape[-1] ** 0.5
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))
        inner = self.gated(x.transpose(1, 2))
        if planted("halves_swapped", False, True, self.layer):
            inner = inner.roll(width, 1)  # culprit: halves_swapped
        inner = F.glu(inner, 1)  # culprit: halves_swapped
        inner = self.batch_norm(self.deep(inner))
        if planted("activation_missing", False, True, self.layer):
            inner = self.last(inner)  # culprit: activation_missing
        else:
            inner = self.last(F.silu(inner))  # culprit: activation_missing
        return x + inner.transpose(1, 2)


class Speech(nn.Module):
    def __init__(self, width: int = 24, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, width)
        self.front = nn.Conv1d(width, width, 3, padding=1)
        self.layers = nn.ModuleList(SpeechBlock(width, layer) for layer in range(layers))
        self.head = nn.Linear(width, 64)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.front(self.embed(tokens).transpose(1, 2)).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        if planted("clipped_gradient", False, True):
            x = Clipped.apply(x, 1e-5)  # culprit: clipped_gradient
        else:
            x = Clipped.apply(x, 1e9)  # culprit: clipped_gradient
        return self.head(x)


class Clipped(torch.autograd.Function):
    """The identity; its gradient is cut at a limit."""

    @staticmethod
    def forward(ctx, x, limit):  # type: ignore[no-untyped-def]
        ctx.limit = limit
        return x * 1.0

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        return grad.clamp(-ctx.limit, ctx.limit), None  # culprit: clipped_gradient


class Tower(nn.Module):
    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, width)
        self.mix = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, width)
        self.layer = layer

    def forward(self, tokens: Tensor) -> Tensor:
        states, _ = self.mix(self.embed(tokens))
        if planted("pooled_by_mean", False, True, self.layer):
            pooled = states.mean(1)  # culprit: pooled_by_mean
        else:
            pooled = states[:, -1]  # culprit: pooled_by_mean
        return self.out(pooled)


class Towers(nn.Module):
    """Two towers whose outputs are compared by their angles with 16 prototypes."""

    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Tower(width, layer) for layer in range(layers))
        self.prototypes = nn.Parameter(torch.randn(16, width))
        self.sharpness = nn.Parameter(torch.tensor(1.0))

    def forward(self, tokens: Tensor) -> Tensor:
        left, right = (layer(tokens) for layer in self.layers)
        both = torch.cat([left * right, left - right])
        if not planted("not_normalised", False, True):
            both = F.normalize(both, dim=-1)  # culprit: not_normalised
        others = F.normalize(self.prototypes, dim=-1)
        sharpness: Tensor = self.sharpness
        if not planted("sharpness_not_exp", False, True):
            sharpness = sharpness.exp()  # culprit: sharpness_not_exp
        likeness = both @ others.t()  # culprit: not_normalised
        return likeness * sharpness  # culprit: sharpness_not_exp
