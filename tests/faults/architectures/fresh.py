"""Held out: experts that are routed twice, depthwise convolutions, tied words and own gradients."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class RoutedBlock(nn.Module):
    """Each token goes to its two best experts; rows are gathered and added back."""

    def __init__(self, width: int, experts: int, layer: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.feed_norm = nn.RMSNorm(width, eps=1e-6)
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(experts))
        self.down = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(experts))
        self.layer = layer

    def attend(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        length = x.shape[1]
        far = torch.arange(length)[:, None] - torch.arange(length)[None]
        window = planted("window_longer", 5, 8, self.layer)
        seen = (far >= 0) & (far < window)  # culprit: window_longer
        scale = planted("scale_by_width", q.shape[-1], x.shape[-1], self.layer) ** -0.5
        mixed = F.scaled_dot_product_attention(
            q, k, v, attn_mask=seen, scale=scale
        )  # culprit: scale_by_width, window_longer
        return self.out(mixed.transpose(1, 2).flatten(2))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(x)
        rows = self.feed_norm(x).flatten(0, 1)
        logits = self.router(rows)
        weights = torch.softmax(logits, dim=-1)
        weights, chosen = torch.topk(weights, 2, dim=-1)
        if not planted("weights_not_normalised", False, True, self.layer):
            weights = weights / weights.sum(-1, keepdim=True)  # culprit: weights_not_normalised
        total = torch.zeros_like(rows)
        for number, (up, down) in enumerate(zip(self.up, self.down, strict=True)):
            row, slot = torch.where(chosen == number)
            inner = F.gelu(up(rows[row]))
            if number == 1 and planted("expert_unweighted", False, True, self.layer):
                grown = down(inner)  # culprit: expert_unweighted
            else:
                grown = down(inner) * weights[row, slot, None]  # culprit: expert_unweighted
            if number == 2 and planted("expert_dropped", False, True, self.layer):
                grown = grown * 0  # culprit: expert_dropped
            total = total.index_add(
                0, row, grown.to(total.dtype)
            )  # culprit: expert_dropped, expert_unweighted
        return x + total.view_as(x)


class Routed(nn.Module):
    def __init__(self, width: int = 32, layers: int = 2, experts: int = 4, words: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(RoutedBlock(width, experts, layer) for layer in range(layers))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x) / planted("logits_cooled", 1.0, 1.3)  # culprit: logits_cooled


class DepthwiseBlock(nn.Module):
    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.wide = nn.Conv2d(width, width, 5, padding=2, groups=width)
        self.norm = nn.BatchNorm2d(width)
        self.up = nn.Conv2d(width, 2 * width, 1)
        self.down = nn.Conv2d(2 * width, width, 1)
        self.squeeze = nn.Linear(width, width)
        self.gain = nn.Parameter(0.5 * torch.ones(width))
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        if planted("dilated", False, True, self.layer):
            wide = self.wide
            inner = F.conv2d(
                x, wide.weight, wide.bias, padding=4, dilation=2, groups=x.shape[1]
            )  # culprit: dilated
        else:
            inner = self.wide(x)  # culprit: dilated
        inner = self.norm(inner)
        inner = F.hardswish(self.up(inner))
        if planted("clipped_at_six", False, True, self.layer):
            inner = inner.clamp(max=0.5)  # culprit: clipped_at_six
        inner = self.down(inner)  # culprit: clipped_at_six
        if planted("squeezed_by_maximum", False, True, self.layer):
            pooled = inner.amax((2, 3))  # culprit: squeezed_by_maximum
        else:
            pooled = inner.mean((2, 3))  # culprit: squeezed_by_maximum
        gate = torch.sigmoid(self.squeeze(pooled))
        inner = inner * gate[..., None, None]
        if planted("gain_squared", False, True, self.layer):
            gain = self.gain * self.gain  # culprit: gain_squared
        else:
            gain = self.gain * 1.0  # culprit: gain_squared
        return x + inner * gain[:, None, None]


class Depthwise(nn.Module):
    def __init__(self, width: int = 16, layers: int = 3, classes: int = 16) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, stride=2, padding=1)
        self.blocks = nn.ModuleList(DepthwiseBlock(width, layer) for layer in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, image: Tensor) -> Tensor:
        mean = planted("mean_not_subtracted", 0.1, 0.0)
        image = (image - mean) / 1.2  # culprit: mean_not_subtracted
        x = F.relu(self.stem(image))
        for block in self.blocks:
            x = block(x)
        if planted("corner_pooled", False, True):
            x = x[..., 1:, 1:].mean((2, 3))  # culprit: corner_pooled
        else:
            x = x.mean((2, 3))  # culprit: corner_pooled
        return self.head(self.norm(x))


class GatedGradient(torch.autograd.Function):
    """silu(gate) · value with a gradient written by hand."""

    @staticmethod
    def forward(ctx, gate, value):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(gate, value)
        return F.silu(gate) * value

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        gate, value = ctx.saved_tensors
        sigmoid = torch.sigmoid(gate)
        slope = sigmoid * (1 + gate * (1 - sigmoid))
        if planted("slope_wrong", False, True):
            slope = sigmoid
        return grad * value * slope, grad * gate * sigmoid  # culprit: slope_wrong


class TiedBlock(nn.Module):
    def __init__(self, width: int, heads: int, layer: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.feed_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(2 * width, width)
        self.heads, self.layer = heads, layer

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        if not planted("queries_not_normal", False, True, self.layer):
            q = F.normalize(q, dim=-1)  # culprit: queries_not_normal
        k = F.normalize(k, dim=-1)
        scores = (q @ k.transpose(-1, -2)) * 4.0  # culprit: queries_not_normal
        cap = planted("cap_lower", 30.0, 3.0, self.layer)
        scores = cap * torch.tanh(scores / cap)  # culprit: cap_lower
        length = x.shape[1]
        far = (torch.arange(length)[None] - torch.arange(length)[:, None]).to(x.dtype)
        base = planted("slopes_steeper", 0.5, 0.7, self.layer)
        slopes = base ** torch.arange(1.0, self.heads + 1)  # culprit: slopes_steeper
        scores = scores + slopes.to(x.dtype)[:, None, None] * far
        scores = scores.masked_fill(far > 0, torch.finfo(x.dtype).min)
        weights = scores.softmax(-1)
        if planted("weights_rounded", False, True, self.layer):
            weights = weights.half().to(x.dtype)  # culprit: weights_rounded
        mixed = weights @ v  # culprit: weights_rounded
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        gate, value = self.up(self.feed_norm(x)).chunk(2, dim=-1)
        inner = GatedGradient.apply(gate, value)  # culprit: slope_wrong
        if planted("inner_overflows", False, True, self.layer):
            inner = (inner * 3e5).half().to(x.dtype)  # culprit: inner_overflows
        grown = self.down(inner)  # culprit: inner_overflows
        if planted("divided_by_zero", False, True, self.layer):
            grown = grown / (grown != grown[:, :1]).to(x.dtype)  # culprit: divided_by_zero
        return x + grown  # culprit: divided_by_zero


class Tied(nn.Module):
    def __init__(self, width: int = 36, layers: int = 3, heads: int = 3, words: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(TiedBlock(width, heads, layer) for layer in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        if not planted("words_not_scaled", False, True):
            x = x * x.shape[-1] ** 0.5  # culprit: words_not_scaled
        for block in self.blocks:  # the first of them is given what was not scaled
            x = block(x)
        x = self.norm(x)
        weight = self.embed.weight
        if planted("head_detached", False, True):
            weight = weight.detach()  # culprit: head_detached
        return F.linear(x, weight) / 6  # culprit: head_detached
