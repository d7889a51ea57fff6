"""Written when all rules stood: pictures cut into parts, and experts of which one is shared."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class Standardised(nn.Conv2d):
    """A convolution whose weights have mean 0 and variance 1."""

    layer: int | None = None

    def forward(self, x: Tensor) -> Tensor:
        w = self.weight
        mean = w.mean((1, 2, 3), keepdim=True)
        if planted("weights_not_centred", False, True, self.layer):
            mean = mean * 0.0  # culprit: weights_not_centred
        spread = w.var(
            (1, 2, 3), keepdim=True, unbiased=planted("spread_of_all", True, False)
        )  # culprit: spread_of_all
        spread = spread.add(1e-5).sqrt()  # culprit: spread_of_all
        w = (w - mean) / spread  # culprit: weights_not_centred
        return F.conv2d(x, w, self.bias, padding=1)


class Stage(nn.Module):
    """Two convolutions and a gate of channels."""

    def __init__(self, into: int, out: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.first, self.second = Standardised(into, out, 3), Standardised(out, out, 3)
        self.first.layer = self.second.layer = layer
        self.norm1, self.norm2 = nn.GroupNorm(4, out), nn.GroupNorm(4, out)
        self.gate = nn.Conv2d(out, out, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.mish(self.norm1(self.first(x)))
        if planted("second_as_first", False, True, self.layer):
            x = self.norm1(self.second(x))  # culprit: second_as_first
        else:
            x = self.norm2(self.second(x))  # culprit: second_as_first
        gate = self.gate(F.adaptive_avg_pool2d(x, 1))
        if planted("gate_is_hard", False, True, self.layer):
            gate = F.hardsigmoid(gate)  # culprit: gate_is_hard
        else:
            gate = torch.sigmoid(gate)  # culprit: gate_is_hard
        return F.mish(x * gate)


class Segmenter(nn.Module):
    """Down by rearranged pixels, up by transposed convolutions; judged by overlap."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            (
                Stage(3, width, 0),
                Stage(4 * width, width, 1),
                Stage(4 * width, width, 2),
                Stage(2 * width, width, 3),
                Stage(2 * width, width, 4),
            )
        )
        self.up1 = nn.ConvTranspose2d(width, width, 2, stride=2)
        self.up2 = nn.ConvTranspose2d(width, width, 2, stride=2)
        self.head, self.aside = nn.Conv2d(width, 4, 1), nn.Conv2d(width, 4, 1)

    def down(self, x: Tensor) -> Tensor:
        if planted("pixels_in_rows", False, True):
            b, c, h, w = x.shape
            x = x.view(b, c, h // 2, 2, w // 2, 2)  # culprit: pixels_in_rows
            x = x.permute(0, 3, 5, 1, 2, 4)  # culprit: pixels_in_rows
            return x.reshape(b, 4 * c, h // 2, w // 2)  # culprit: pixels_in_rows
        return F.pixel_unshuffle(x, 2)  # culprit: pixels_in_rows

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first = self.blocks[0](x)
        second = self.blocks[1](self.down(first))  # culprit: pixels_in_rows
        low = self.blocks[2](F.pixel_unshuffle(second, 2))
        aside = self.aside(low)
        kernel = self.up1.weight
        if planted("kernel_turned", False, True):
            kernel = kernel.flip(-1)  # culprit: kernel_turned
        up = F.conv_transpose2d(low, kernel, self.up1.bias, stride=2)  # culprit: kernel_turned
        if planted("skip_shifted", False, True):
            second = second.roll(1, -1)  # culprit: skip_shifted
        up = self.blocks[3](torch.cat((up, second), 1))  # culprit: skip_shifted
        up = self.up2(up)
        if planted("skip_overwritten", False, True):
            first.mul_(0.5)  # culprit: skip_overwritten
        up = self.blocks[4](torch.cat((up, first), 1))  # culprit: skip_overwritten
        return self.head(up), aside

    def loss(self, data: Tensor, labels: Tensor) -> Tensor:
        found, aside = self(data)
        shade = data.float().mean(1)
        truth = (
            (shade > -0.4).long()
            + (shade > 0).long()
            + (shade > 0.4).long()
            + labels[:, None, None]
        ) % 4
        share = found.float().softmax(1)
        wanted = F.one_hot(truth, 4).permute(0, 3, 1, 2).float()
        both = (share * wanted).sum((2, 3))
        power = planted("overlap_squared", 1, 2)
        size = (share**power).sum((2, 3)) + wanted.sum((2, 3))  # culprit: overlap_squared
        smooth = planted("smoothed_more", 1.0, 20.0)
        overlap = (2 * both + smooth) / (size + smooth)  # culprit: smoothed_more
        rough = truth[:, ::4, ::4]
        if planted("aside_misplaced", False, True):
            rough = truth[:, 1::4, 1::4]  # culprit: aside_misplaced
        side = F.cross_entropy(aside.float(), rough)  # culprit: aside_misplaced
        weight = planted("aside_heavier", 0.4, 0.8)
        return 1 - overlap.mean() + weight * side  # culprit: aside_heavier


class Cross(nn.Module):
    """Attention of few key heads with a place to look at nothing; keys may come from elsewhere."""

    def __init__(self, width: int, layer: int, heads: int = 4, own: int = 2) -> None:
        super().__init__()
        self.layer, self.heads, self.own, self.d = layer, heads, own, width // heads
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, own * self.d, bias=False) for _ in range(2))
        self.nothing = nn.Parameter(torch.randn(heads) * 0.5)

    def forward(self, x: Tensor, told: Tensor, *, is_causal: bool) -> Tensor:
        b, n, c = x.shape
        q = self.q(x).view(b, n, self.heads, self.d).transpose(1, 2)
        k, v = (one(told).view(b, -1, self.own, self.d).transpose(1, 2) for one in (self.k, self.v))
        times = self.heads // self.own
        if planted("heads_tiled", False, True, self.layer) and is_causal:
            k, v = k.repeat(1, times, 1, 1), v.repeat(1, times, 1, 1)  # culprit: heads_tiled
        else:
            k = k.repeat_interleave(times, 1)  # culprit: heads_tiled
            v = v.repeat_interleave(times, 1)  # culprit: heads_tiled
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.d)
        if is_causal:
            ahead = torch.ones(n, n, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(ahead, float("-inf"))
        nothing = self.nothing.view(1, -1, 1, 1).expand(b, -1, n, 1).to(scores.dtype)
        if planted("nothing_left_out", False, True, self.layer):
            weight = scores.softmax(-1)  # culprit: nothing_left_out
        else:
            weight = torch.cat((scores, nothing), -1).softmax(-1)  # culprit: nothing_left_out
            weight = weight[..., :-1]  # culprit: nothing_left_out
        y = (weight @ v).transpose(1, 2).reshape(b, n, c)
        return self.o(y)


class Experts(nn.Module):
    """The best by squashed scores and a bias that only chooses, and one that all share."""

    def __init__(self, width: int, layer: int, experts: int = 6, best: int = 2) -> None:
        super().__init__()
        self.layer, self.best = layer, best
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, width) * width**-0.5)
        self.down = nn.Parameter(torch.randn(experts, width, width) * width**-0.5)
        self.shared, self.gate = nn.Linear(width, width), nn.Linear(width, 1)
        self.bias: Tensor
        self.register_buffer("bias", torch.linspace(-0.1, 0.1, experts))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        flat = x.flatten(0, 1)
        scores = torch.sigmoid(self.router(flat).float())
        chosen = (scores + self.bias.float()).topk(self.best, -1).indices
        if planted("bias_in_weights", False, True, self.layer):
            weight = (scores + self.bias).gather(1, chosen)  # culprit: bias_in_weights
        else:
            weight = scores.gather(1, chosen)  # culprit: bias_in_weights
        weight = weight / (weight.sum(-1, keepdim=True) + 1e-9)
        factor = planted("routed_factor", 1.5, 1.0, self.layer)
        weight = (weight * factor).to(x.dtype)  # culprit: routed_factor
        out = torch.zeros_like(flat)
        for number in range(self.up.shape[0]):
            token, place = torch.where(chosen == number)
            if not len(token):
                continue
            h = F.silu(flat[token] @ self.up[number])
            h = h @ self.down[number]
            if planted("second_expert_first", False, True, self.layer):
                place = 1 - place  # culprit: second_expert_first
            h = h * weight[token, place, None]  # culprit: second_expert_first
            if planted("last_expert_wins", False, True, self.layer):
                out = out.index_copy(0, token, h)  # culprit: last_expert_wins
            else:
                out = out.index_add(0, token, h)  # culprit: last_expert_wins
        shared = self.shared(flat)
        if not planted("shared_ungated", False, True, self.layer):
            shared = shared * torch.sigmoid(self.gate(flat))  # culprit: shared_ungated
        out = out + shared  # culprit: shared_ungated
        share = torch.zeros(scores.shape[1]).index_add(
            0, chosen.flatten(), torch.ones(chosen.numel())
        )
        if planted("balance_detached", False, True, self.layer):
            scores = scores.detach()  # culprit: balance_detached
        mean = scores.mean(0)  # culprit: balance_detached
        return out.view_as(x), (share / chosen.numel() * mean).sum()


class Answering(nn.Module):
    """Half of the words are read, the other half is answered, with experts in between."""

    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.places = nn.Embedding(6, width)
        self.reads = nn.ModuleList(Cross(width, n) for n in range(layers))
        self.selfs = nn.ModuleList(Cross(width, n) for n in range(layers))
        self.layers = nn.ModuleList(Cross(width, n) for n in range(layers))
        self.blocks = nn.ModuleList(Experts(width, n) for n in range(layers))
        self.norms = nn.ModuleList(nn.RMSNorm(width, 1e-6) for _ in range(4 * layers + 1))

    def loss(self, data: Tensor, labels: Tensor) -> Tensor:
        at = torch.arange(6)
        seen, said = self.words(data[:, :6]), self.words(data[:, 6:])
        told, x = seen + self.places(at), said + self.places(at)
        balance = torch.zeros(())
        for n, read in enumerate(self.reads):
            h = self.norms[4 * n](told)
            told = told + read(h, h, is_causal=planted("reads_in_order", False, True, n))
        for n, (own, other, experts) in enumerate(
            zip(self.selfs, self.layers, self.blocks, strict=True)
        ):
            h = self.norms[4 * n + 1](x)
            x = x + own(h, h, is_causal=True)
            h = self.norms[4 * n + 2](x)
            if planted("asks_itself", False, True, n):
                x = x + other(h, h, is_causal=False)  # culprit: asks_itself
            else:
                x = x + other(h, told, is_causal=False)  # culprit: asks_itself
            if planted("norm_after_sum", False, True, n):
                h = x
            else:
                h = self.norms[4 * n + 3](x)  # culprit: norm_after_sum
            h, more = experts(h)  # culprit: norm_after_sum
            x, balance = x + h, balance + more
        logits = F.linear(self.norms[-1](x), self.words.weight).float().flatten(0, 1)
        peak = torch.logsumexp(logits, -1).square().mean()
        most = labels.reshape(2, 12)[:, :6].flatten()
        found = F.cross_entropy(logits, most)
        return (
            found + planted("peak_heavier", 1e-2, 1e-1) * peak + 0.1 * balance
        )  # culprit: peak_heavier
