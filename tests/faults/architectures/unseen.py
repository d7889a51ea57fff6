"""Held out while rules are made: an encoder with a decoder, and a U-Net."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class T5Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        if planted("norm_by_mean", False, True):
            scale = x.abs().mean(-1, keepdim=True)  # culprit: norm_by_mean
        else:
            scale = x.pow(2).mean(-1, keepdim=True).add(1e-6).sqrt()  # culprit: norm_by_mean
        return self.weight * (x / scale)


class T5Attention(nn.Module):
    def __init__(self, width: int, heads: int, layer: int, *, crosses: bool) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.bias = nn.Embedding(8, heads)
        self.heads, self.layer, self.crosses = heads, layer, crosses

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: Tensor, other: Tensor, *, causal: bool) -> Tensor:
        q, k, v = self.split(self.q(x)), self.split(self.k(other)), self.split(self.v(other))
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
        if not self.crosses:
            far = torch.arange(x.shape[1])[None] - torch.arange(x.shape[1])[:, None]
            most = planted("bias_clipped", 7, 3, self.layer)
            far = far.abs().clamp(max=most)  # culprit: bias_clipped
            bias = self.bias(far).permute(2, 0, 1)
            if not planted("bias_not_added", False, True, self.layer):
                scores = scores + bias  # culprit: bias_not_added
        if causal:
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            mask_value = planted("mask_weak", -1e9, -2.0, self.layer)
            scores = scores.masked_fill(hidden, mask_value)  # culprit: mask_weak
        dimension = planted("softmax_dimension", -1, -2, self.layer)
        weights = torch.softmax(scores, dim=dimension)  # culprit: softmax_dimension
        mixed = torch.einsum("bhqk,bhkd->bhqd", weights, v).transpose(1, 2).flatten(2)
        return self.o(mixed)


class T5Block(nn.Module):
    def __init__(self, width: int, heads: int, layer: int, *, decodes: bool) -> None:
        super().__init__()
        self.norm = T5Norm(width)
        self.own = T5Attention(width, heads, layer, crosses=False)
        if decodes:
            self.cross_norm = T5Norm(width)
            self.cross = T5Attention(width, heads, layer, crosses=True)
        self.feed_norm = T5Norm(width)
        self.wi = nn.Linear(width, 3 * width)
        self.wo = nn.Linear(3 * width, width)
        self.layer, self.decodes = layer, decodes

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        normal = self.norm(x)
        x = x + self.own(normal, normal, causal=self.decodes)
        if memory is not None:
            source = memory
            if planted("memory_shifted", False, True, self.layer):
                source = memory.roll(1, 1) * 0.5  # culprit: memory_shifted
            x = x + self.cross(self.cross_norm(x), source, causal=False)
        inner = torch.relu(self.wi(self.feed_norm(x)))
        if planted("half_width", False, True, self.layer):
            inner = inner * (torch.arange(inner.shape[-1]) % 2)  # culprit: half_width
        grown = self.wo(inner)
        factor = planted("residual_scaled", 1.0, 0.9, self.layer)
        return torch.add(x, grown, alpha=factor)  # culprit: residual_scaled


class T5(nn.Module):
    def __init__(self, width: int = 36, layers: int = 2, heads: int = 3, words: int = 64) -> None:
        super().__init__()
        self.shared = nn.Embedding(words, width)
        self.encoder = nn.ModuleList(
            T5Block(width, heads, layer, decodes=False) for layer in range(layers)
        )
        self.decoder = nn.ModuleList(
            T5Block(width, heads, layer, decodes=True) for layer in range(layers)
        )
        self.final = T5Norm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.shared(tokens)
        for block in self.encoder:
            x = block(x)
        y = self.shared(tokens.roll(1, 1))
        for block in self.decoder:
            y = block(y, x)
        y = self.final(y) * planted("head_scale", 0.3, 0.25)  # culprit: head_scale
        return y @ self.shared.weight.t()


class UNetBlock(nn.Module):
    def __init__(self, inner: int, outer: int, layer: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, 3, padding=1)
        groups = planted("group_count", 4, 2, layer)
        self.norm = nn.GroupNorm(groups, outer)
        self.scale = nn.Linear(8, 2 * outer)
        self.layer = layer

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        x = self.norm(self.conv(x))  # culprit: group_count
        gain, shift = self.scale(time)[..., None, None].chunk(2, dim=1)
        if planted("gain_and_shift_swapped", False, True, self.layer):
            gain, shift = shift, gain
        gain = gain + planted(
            "gain_not_centred", 1.0, 0.0, self.layer
        )  # culprit: gain_not_centred, gain_and_shift_swapped
        return F.silu(x * gain + shift)


class UNet(nn.Module):
    def __init__(self, width: int = 16, classes: int = 16) -> None:
        super().__init__()
        self.down = nn.ModuleList([UNetBlock(3, width, 0), UNetBlock(width, 2 * width, 1)])
        self.middle = UNetBlock(2 * width, 2 * width, 2)
        self.up = nn.ModuleList([UNetBlock(4 * width, width, 3), UNetBlock(2 * width, width, 4)])
        self.head = nn.Linear(width, classes)

    def forward(self, image: Tensor) -> Tensor:
        steps = torch.linspace(0.1, 1.0, image.shape[0])[:, None] * torch.arange(1.0, 5.0)
        time = torch.cat((steps.sin(), steps.cos()), dim=1).to(image.dtype)
        x, kept = image, []
        for block in self.down:
            x = block(x, time)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x, time)
        for number, block in enumerate(self.up):
            mode = planted("upsampling", "nearest", "bilinear", number)
            x = F.interpolate(x, scale_factor=2, mode=mode)  # culprit: upsampling
            skip = kept[-1 - number]
            if planted("skip_dropped", False, True, number):
                skip = torch.zeros_like(skip)  # culprit: skip_dropped
            x = block(torch.cat((x, skip), dim=1), time)
        if planted("no_gradient_up", False, True):
            x = x.detach() + 0 * x  # culprit: no_gradient_up
        x = (
            x.amax((2, 3)) if planted("pooled_by_maximum", False, True) else x.mean((2, 3))
        )  # culprit: pooled_by_maximum
        return self.head(x)
