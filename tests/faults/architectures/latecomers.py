"""A sixth part: written-out gates, dilated denoisers, mixed patches, quantised codes."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator"
# torch is typed in part only.

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class Gates(nn.Module):
    """A recurrent layer with its gates written out (as in a long short-term memory)."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer, self.width = layer, width
        self.given = nn.Linear(width, 4 * width)
        self.kept = nn.Linear(width, 4 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        hidden = cell = x.new_zeros(x.shape[0], self.width)
        found = []
        for number in range(x.shape[1]):
            gates = self.given(x[:, number]) + self.kept(hidden)
            if planted("gates_in_another_order", False, True, self.layer):
                forget, enter, new, leave = gates.chunk(4, -1)
            else:
                enter, forget, new, leave = gates.chunk(4, -1)
            opened = torch.sigmoid(enter)  # culprit: gates_in_another_order
            shut = torch.sigmoid(forget)  # culprit: gates_in_another_order
            cell = shut * cell + opened * torch.tanh(new)
            told = torch.tanh(cell)
            if planted("cell_told_raw", False, True, self.layer):
                told = cell
            hidden = torch.sigmoid(leave) * told  # culprit: cell_told_raw
            if planted("past_detached", False, number == 5, self.layer):
                hidden = hidden.detach()  # culprit: past_detached
            found.append(hidden)
        return torch.stack(found, 1)


class Written(nn.Module):
    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(Gates(width, number) for number in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 64)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(self.norm(x))


class Dilated(nn.Module):
    """Convolutions that look ever farther, told how much noise there is."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.norm = nn.GroupNorm(4, width)
        self.wide = nn.Conv2d(width, width, 3, padding=2**layer, dilation=2**layer)
        self.told = nn.Linear(16, width)
        self.out = nn.Conv2d(width, width, 1)

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        groups = planted("groups_halved", 4, 2, self.layer)
        y = F.group_norm(x, groups, self.norm.weight, self.norm.bias)  # culprit: groups_halved
        far = planted("dilation_forgotten", 2**self.layer, 1, self.layer)
        wide = self.wide
        y = F.conv2d(y, wide.weight, wide.bias, 1, far, far)  # culprit: dilation_forgotten
        y = y + self.told(level)[:, :, None, None]
        y = self.out(F.mish(y))
        if planted("shortcut_dropped", False, True, self.layer):
            return y * 1.0  # culprit: shortcut_dropped
        return x + y  # culprit: shortcut_dropped


class Denoiser(nn.Module):
    def __init__(self, width: int = 16, layers: int = 3) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.level = nn.Linear(8, 16)
        self.blocks = nn.ModuleList(Dilated(width, number) for number in range(layers))
        self.head = nn.Linear(width, 16)

    def forward(self, x: Tensor) -> Tensor:
        spread = x.flatten(1).std(1, keepdim=True)
        rates = torch.arange(8, dtype=x.dtype) * 0.5
        level = F.silu(self.level(torch.sin(spread * torch.exp(rates))))
        x = self.stem(x)
        for block in self.blocks:
            x = block(x, level)
        return self.head(x.mean((2, 3)))


class Patches(nn.Module):
    """Mixes tokens by a perceptron, then by attention with a learnt temperature."""

    def __init__(self, width: int, layer: int, tokens: int = 16) -> None:
        super().__init__()
        self.layer, self.heads = layer, 4
        self.norm, self.feed_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.across = nn.Linear(tokens, tokens)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        given = self.norm(x).transpose(1, 2)
        mixed = F.gelu(self.across(given))
        if planted("not_turned_back", False, True, self.layer):
            mixed = mixed.reshape(x.shape)  # culprit: not_turned_back
        else:
            mixed = mixed.transpose(1, 2)  # culprit: not_turned_back
        x = x + mixed  # culprit: not_turned_back
        b, n, c = x.shape
        q, k, v = self.qkv(self.feed_norm(x)).view(b, n, 3, self.heads, -1).unbind(2)
        scores = torch.einsum("bnhc,bmhc->bhnm", q, k) / math.sqrt(c // self.heads)
        heat = planted("too_warm", 1.0, 1.3, self.layer)
        scores = scores / heat  # culprit: too_warm
        if planted("clamped_in_place", False, True, self.layer):
            scores.clamp_(-0.3, 0.3)  # culprit: clamped_in_place
        mixed = torch.einsum("bhnm,bmhc->bnhc", torch.softmax(scores, -1), v)
        return x + self.out(mixed.reshape(b, n, c))


class Mixed(nn.Module):
    def __init__(self, width: int = 32, layers: int = 3) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, width, 4, 4)
        self.blocks = nn.ModuleList(Patches(width, number) for number in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 16)

    def forward(self, x: Tensor) -> Tensor:
        x = self.cut(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


class Softened(torch.autograd.Function):
    """A step of the size of a tenth; gradients are to pass as if it were none."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        return x + 0.1 * torch.tanh(x)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        share = planted("passed_in_part", 1.0, 0.7)
        return grad * share  # culprit: passed_in_part


class Coded(nn.Module):
    """Features are compared with code words, and a second branch corrects them."""

    def __init__(self, width: int = 24, codes: int = 20) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 5, stride=2, padding=2)
        self.codes = nn.Parameter(torch.randn(codes, width))
        self.side = nn.Sequential(nn.Linear(width, width), nn.Softplus(), nn.Linear(width, width))
        self.head = nn.Linear(width, 16)

    def forward(self, x: Tensor) -> Tensor:
        x = F.celu(self.stem(x)).flatten(2).transpose(1, 2)
        x = Softened.apply(x)  # culprit: passed_in_part
        length = x.pow(2).sum(-1, keepdim=True) + self.codes.pow(2).sum(-1)
        apart = length - 2 * x @ self.codes.t()
        if planted("distance_not_squared", False, True):
            apart = apart.clamp(min=1e-6).sqrt()  # culprit: distance_not_squared
        shares = torch.softmax(-apart, -1)
        y = shares @ self.codes
        beside = self.side(x)
        if planted("branch_detached", False, True):
            beside = beside.detach()  # culprit: branch_detached
        y = y + beside  # culprit: branch_detached
        return self.head(y.mean(1))
