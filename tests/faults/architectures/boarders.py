"""A fourteenth part: attention by running sums, levels in order, a memory that is written to."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class Running(nn.Module):
    """Attention without softmax: sums of what was seen so far, divided by how much it was."""

    def __init__(self, width: int, layer: int, heads: int = 4) -> None:
        super().__init__()
        self.layer, self.heads, self.d = layer, heads, width // heads
        self.norm, self.other = nn.RMSNorm(width, 1e-6), nn.RMSNorm(width, 1e-6)
        self.q, self.k, self.v, self.gate = (nn.Linear(width, width) for _ in range(4))
        self.o = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        h = self.norm(x)
        q, k, v = (
            one(h).view(b, n, self.heads, self.d).transpose(1, 2)
            for one in (self.q, self.k, self.v)
        )
        q = F.elu(q) + 1
        k = F.elu(k) + planted("map_above_half", 1.0, 0.5, self.layer)  # culprit: map_above_half
        kept = torch.einsum("bhnd,bhne->bhnde", k, v).cumsum(2)
        seen = k.cumsum(2)
        y = torch.einsum("bhnd,bhnde->bhne", q, kept)
        if planted("divided_by_all", False, True, self.layer):
            much = torch.einsum("bhnd,bhd->bhn", q, seen[:, :, -1])  # culprit: divided_by_all
        else:
            much = torch.einsum("bhnd,bhnd->bhn", q, seen)  # culprit: divided_by_all
        y = y / (much[..., None] + 1e-4)
        gate = self.gate(h)
        if planted("gate_by_tanh", False, True, self.layer):
            gate = torch.tanh(gate)  # culprit: gate_by_tanh
        else:
            gate = torch.sigmoid(gate)  # culprit: gate_by_tanh
        x = x + self.o(y.transpose(1, 2).reshape(b, n, c) * gate)
        wide = self.up(self.other(x)).square()
        back = self.down(wide)
        if planted("added_twice", False, True, self.layer):
            return x + back + back  # culprit: added_twice
        return x + back


class Sums(nn.Module):
    """Words told apart by what came before."""

    def __init__(self, width: int = 32, layers: int = 3) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(Running(width, number) for number in range(layers))
        self.norm = nn.RMSNorm(width, 1e-6)
        self.head = nn.Linear(width, 64, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) * math.sqrt(32)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        if planted("words_by_size", False, True):
            x = F.normalize(x, dim=-1)  # culprit: words_by_size
        return self.head(x)


class Squeezed(nn.Module):
    """Channels are weighted by what the whole picture says of them."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.first = nn.Conv2d(width, 2 * width, 1)
        self.deep = nn.Conv2d(2 * width, 2 * width, 3, padding=1, groups=2 * width)
        self.norm = nn.GroupNorm(4, 2 * width)
        self.less, self.more = nn.Linear(2 * width, width), nn.Linear(width, 2 * width)
        self.last = nn.Conv2d(2 * width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.deep(self.first(x)))
        if planted("swish_is_relu", False, True, self.layer):
            h = F.relu(h)  # culprit: swish_is_relu
        else:
            h = F.hardswish(h)  # culprit: swish_is_relu
        if planted("squeezed_by_maximum", False, True, self.layer):
            told = h.amax((2, 3))  # culprit: squeezed_by_maximum
        else:
            told = h.mean((2, 3))  # culprit: squeezed_by_maximum
        share = torch.sigmoid(self.more(F.silu(self.less(told))))
        h = self.last(h * share[:, :, None, None])
        return x + planted("branch_smaller", 1.0, 0.8, self.layer) * h  # culprit: branch_smaller


class Levels(nn.Module):
    """How far along a scale a picture is: one threshold for each of its levels."""

    def __init__(self, width: int = 16, layers: int = 2) -> None:
        super().__init__()
        self.see = nn.Conv2d(3, width, 4, 4)
        self.blocks = nn.ModuleList(Squeezed(width, number) for number in range(layers))
        self.score = nn.Linear(width, 1, bias=False)
        self.thresholds = nn.Parameter(torch.linspace(-1, 1, 15))

    def loss(self, x: Tensor, labels: Tensor) -> Tensor:
        h = self.see(x)
        for block in self.blocks:
            h = block(h)
        score = self.score(h.mean((2, 3)))
        logits = score - self.thresholds
        levels = torch.arange(15)
        if planted("level_included", False, True):
            passed = labels[:, None] >= levels  # culprit: level_included
        else:
            passed = labels[:, None] > levels  # culprit: level_included
        reduction = planted("levels_summed", "mean", "sum")
        return F.binary_cross_entropy_with_logits(
            logits.float(), passed.float(), reduction=reduction
        )  # culprit: levels_summed


class Memory(nn.Module):
    """Reads a word at a time, finds places by likeness, erases there and writes."""

    def __init__(self, width: int = 24, places: int = 8) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.start = nn.Parameter(torch.randn(places, width))
        self.cell = nn.GRUCell(2 * width, width)
        self.key, self.erase, self.write = (nn.Linear(width, width) for _ in range(3))
        self.sharp = nn.Linear(width, 1)
        self.norm = nn.LayerNorm(2 * width)
        self.head = nn.Linear(2 * width, 64)

    def found(self, state: Tensor, memory: Tensor) -> Tensor:
        key = self.key(state)
        if planted("likeness_by_product", False, True):
            like = (memory * key[:, None]).sum(-1)  # culprit: likeness_by_product
        else:
            like = F.cosine_similarity(memory, key[:, None], dim=-1)  # culprit: likeness_by_product
        least = planted("sharper", 1.0, 1.5)
        sharp = F.softplus(self.sharp(state)) + least  # culprit: sharper
        return torch.softmax(sharp * like, -1)

    def forward(self, ids: Tensor) -> Tensor:
        b, n = ids.shape
        x = self.words(ids)
        memory = self.start.expand(b, -1, -1)
        state, read = x.new_zeros(b, x.shape[2]), x.new_zeros(b, x.shape[2])
        found = []
        for at in range(n):
            state = self.cell(torch.cat([x[:, at], read], -1), state)
            share = self.found(state, memory)[..., None]
            erase = torch.sigmoid(self.erase(state))[:, None]
            new = torch.tanh(self.write(state))[:, None]
            if planted("erased_after", False, True):
                memory = (memory + share * new) * (1 - share * erase)  # culprit: erased_after
            else:
                memory = memory * (1 - share * erase) + share * new  # culprit: erased_after
            read = (share * memory).sum(1)
            if planted("read_is_cut", False, True):
                read = read.detach()  # culprit: read_is_cut
            found.append(torch.cat([state, read], -1))  # culprit: read_is_cut
        h = torch.stack(found, 1)
        eps = planted("memory_epsilon", 1e-5, 1e-1)
        h = F.layer_norm(
            h, h.shape[-1:], self.norm.weight, self.norm.bias, eps
        )  # culprit: memory_epsilon
        return self.head(h)
