"""A seventh part: transducers, opponents, shared and normalised weights, crossing streams."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator"
# torch is typed in part only.

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.utils import parametrizations

from tests.faults.planting import planted

Tensor = torch.Tensor


class Transducer(nn.Module):
    """A heard and a told stream meet in every pair of places."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.hears = nn.LSTM(width, width, batch_first=True)
        self.tells = nn.GRU(width, width, batch_first=True)
        self.joined = nn.Linear(width, width)
        self.blank = nn.Linear(width, 64)

    def forward(self, ids: Tensor) -> Tensor:
        answered, _ = self.hears(self.words(ids))
        before = F.pad(ids, (1, 0))
        start = planted("told_too_late", 0, 1)
        before = before[:, start : start + ids.shape[1]]  # culprit: told_too_late
        told, _ = self.tells(self.words(before))  # culprit: told_too_late
        both = answered[:, :, None] + told[:, None]
        if planted("joined_by_product", False, True):
            both = answered[:, :, None] * told[:, None]  # culprit: joined_by_product
        both = torch.tanh(self.joined(both))  # culprit: joined_by_product
        axis = planted("wrong_axis", -1, 1)
        chances = F.log_softmax(self.blank(both), axis)  # culprit: wrong_axis
        return torch.logsumexp(chances, 2) - math.log(ids.shape[1])


class Crossed(nn.Module):
    """One layer of a decoder that attends to what an encoder made."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer, self.heads = layer, 4
        self.norm, self.other = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * width)
        self.out = parametrizations.weight_norm(nn.Linear(width, width))
        self.feed = nn.Linear(width, 2 * width)
        self.back = nn.Linear(2 * width, width)

    def forward(self, x: Tensor, memory: Tensor, kept: Tensor) -> Tensor:
        b, n, c = x.shape
        q = self.q(self.norm(x)).view(b, n, self.heads, -1).transpose(1, 2)
        k, v = self.kv(memory).view(b, -1, 2, self.heads, c // self.heads).unbind(2)
        k, v = k.transpose(1, 2), v.transpose(1, 2)
        if planted("operands_swapped", False, True, self.layer):
            scores = torch.matmul(k, q.transpose(-1, -2))  # culprit: operands_swapped
        else:
            scores = torch.matmul(q, k.transpose(-1, -2))  # culprit: operands_swapped
        scores = scores / math.sqrt(c // self.heads)
        if not planted("padding_seen", False, True, self.layer):
            scores = scores.masked_fill(~kept[:, None, None], -torch.inf)  # culprit: padding_seen
        dim = planted("normal_over_queries", -1, -2, self.layer)
        shares = torch.softmax(scores, dim)  # culprit: normal_over_queries, padding_seen
        mixed = torch.matmul(shares, v).transpose(1, 2).reshape(b, n, c)
        mixed = self.out(mixed)
        if planted("half_in_between", False, True, self.layer):
            mixed = mixed.to(torch.bfloat16).to(x.dtype)  # culprit: half_in_between
        x = x + mixed  # culprit: half_in_between
        wide = F.gelu(self.feed(self.other(x)))
        keep = planted("dropout_on", False, True, self.layer)
        wide = F.dropout(wide, 0.1, keep)  # culprit: dropout_on
        return x + self.back(wide)  # culprit: dropout_on


class Translator(nn.Module):
    """Cross attention; the words are the head, too."""

    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.source = nn.TransformerEncoderLayer(width, 4, 64, 0.0, batch_first=True)
        self.layers = nn.ModuleList(Crossed(width, number) for number in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 64, bias=False)
        self.head.weight = self.words.weight
        self.register_buffer(
            "places", torch.sin(torch.arange(12.0)[:, None] * 0.3 + torch.arange(width))
        )

    def forward(self, ids: Tensor) -> Tensor:
        places = self.places
        if planted("stale_places", False, True):
            places = places.roll(1, 0)  # culprit: stale_places
        memory = self.source(self.words(ids) + places)  # culprit: stale_places
        x = self.words(ids.flip(-1))
        for layer in self.layers:
            x = layer(x, memory, ids % 7 != 3)
        x = self.norm(x)
        if planted("one_element_hit", False, True):
            x = x + 0.0 * x  # culprit: one_element_hit
            x.data[0, 3, 5] += 4.0
        x = x * 1.0  # culprit: one_element_hit
        return self.head(x) / math.sqrt(x.shape[-1])


class Slanted(torch.autograd.Function):
    """A swish whose backward kernel is its own."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        (x,) = ctx.saved_tensors
        open_ = torch.sigmoid(x)
        rest = planted("backward_kernel", 1.0, 0.0)
        return grad * (open_ + rest * x * open_ * (1 - open_))  # culprit: backward_kernel


class Opponents(nn.Module):
    """A maker and a judge in one step; the judge sees what is made with its gradient cut."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.make = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1), nn.InstanceNorm2d(width, affine=True)
        )
        self.grow = nn.ConvTranspose2d(width, 3, 4, 2, 1)
        self.judge = nn.Conv2d(3, width, 4, 2, 1)
        self.norm = nn.GroupNorm(4, width)
        self.head = nn.Linear(width, 16)

    def _judged(self, x: Tensor) -> Tensor:
        x = self.judge(x)
        eps = planted("group_epsilon", 1e-5, 1e-1)
        x = F.group_norm(x, 4, self.norm.weight, self.norm.bias, eps)  # culprit: group_epsilon
        x = Slanted.apply(x)  # culprit: backward_kernel
        axes = planted("one_axis_only", (2, 3), (2,))
        x = x.mean(axes)  # culprit: one_axis_only
        return self.head(x if x.dim() == 2 else x[..., 0])  # culprit: one_axis_only

    def forward(self, x: Tensor) -> Tensor:
        hidden = F.leaky_relu(self.make(x), 0.2)
        made = torch.tanh(self.grow(hidden))
        if planted("reflected", False, True):
            made = F.pad(made[..., 1:-1, 1:-1], (1, 1, 1, 1), mode="reflect")  # culprit: reflected
        made = made * 1.0  # culprit: reflected
        against = made.detach()
        if planted("detach_missing", False, True):
            against = made * 1.0  # culprit: detach_missing
        low = self._judged(against)  # culprit: detach_missing
        high = self._judged(x)
        fooled = self._judged(made)
        share = torch.sigmoid(fooled)
        if planted("log_of_nothing", False, True):
            share = torch.relu(fooled)  # culprit: log_of_nothing
        share = torch.log(share)  # culprit: log_of_nothing
        return high - 0.5 * low + 0.1 * share


class Topped(nn.Module):
    """Experts by top-k; what they give is added in place."""

    def __init__(self, width: int = 24, experts: int = 4) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.gate = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, 2 * width) / math.sqrt(width))
        self.down = nn.Parameter(torch.randn(experts, 2 * width, width) / math.sqrt(2 * width))
        self.square = nn.Linear(width, width, bias=False)
        self.head = nn.Linear(width, 64)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        weight = self.square.weight
        if planted("not_transposed", False, True):
            x = torch.matmul(x, weight)  # culprit: not_transposed
        else:
            x = torch.matmul(x, weight.t())  # culprit: not_transposed
        chances = torch.softmax(self.gate(x), -1)
        best, chosen = chances.topk(planted("one_too_few", 2, 1))  # culprit: one_too_few
        best = best / best.sum(-1, keepdim=True)
        shares = torch.zeros_like(chances).scatter(-1, chosen, best)
        hidden = F.silu(torch.einsum("bnc,ecd->bned", x, self.up))
        given = torch.einsum("bned,edc->bnec", hidden, self.down)
        y = (given * shares[..., None]).sum(2)
        rest = y.view(-1) if planted("aliased", False, True) else y.clone()  # culprit: aliased
        rest.mul_(0.5)
        y = y + x  # culprit: aliased
        return self.head(
            F.rms_norm(y, (y.shape[-1],), eps=planted("wide_eps", 1e-6, 1e-2))
        )  # culprit: wide_eps
