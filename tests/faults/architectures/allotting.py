"""A seventeenth part: words that may look nowhere, experts in groups that are kept busy alike."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator"
# mypy: disable-error-code="assignment, misc, has-type"
# torch is typed in part only.

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class Even(nn.Module):
    """Root mean square normalisation in single precision."""

    def __init__(self, width: int, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        root = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return (self.weight * (wide * root)).to(x.dtype)


def stretched(length: int, size: int, base: float = 900.0) -> tuple[Tensor, Tensor]:
    """Cosine and sine of places; slow turns are slowed further, all are made a little larger."""
    half = size // 2
    speed = base ** (-torch.arange(half, dtype=torch.float32) / half)
    ramp = torch.linspace(-0.4, 1.4, half).clamp(0, 1)
    if planted("ramp_ends_exchanged", False, True):
        ramp = 1 - ramp
    speed = speed * (1 - ramp) + speed / 4 * ramp  # culprit: ramp_ends_exchanged
    angles = torch.outer(torch.arange(length, dtype=torch.float32), speed)
    larger = planted("turns_not_enlarged", 0.1 * math.log(4.0) + 1.0, 1.0)
    cos = angles.cos() * larger  # culprit: turns_not_enlarged
    sin = angles.sin() * larger  # culprit: turns_not_enlarged
    return cos, sin


def spun(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    cos, sin = cos.to(x.dtype), sin.to(x.dtype)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


class SunkBlock(nn.Module):
    """Attention with a score for nothing; experts whose gates are cut off."""

    def __init__(self, width: int, experts: int, layer: int) -> None:
        super().__init__()
        self.layer, self.heads, self.shared, self.size = layer, 6, 2, width // 6
        self.norm, self.feed_norm = Even(width), Even(width)
        self.q = nn.Linear(width, width)
        self.k, self.v = nn.Linear(width, 2 * self.size), nn.Linear(width, 2 * self.size)
        self.o = nn.Linear(width, width)
        self.sinks = nn.Parameter(torch.randn(self.heads))
        self.router = nn.Linear(width, experts)
        self.grown = nn.Parameter(torch.randn(experts, width, 2 * width) / width**0.5)
        self.grown_bias = nn.Parameter(0.2 * torch.randn(experts, 2 * width))
        self.back = nn.Parameter(torch.randn(experts, width, width) / width**0.5)
        self.back_bias = nn.Parameter(0.2 * torch.randn(experts, width))

    def attend(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        b, n, c = x.shape
        q = self.q(x).view(b, n, self.heads, self.size).transpose(1, 2)
        k = self.k(x).view(b, n, self.shared, self.size).transpose(1, 2)
        v = self.v(x).view(b, n, self.shared, self.size).transpose(1, 2)
        q, k = spun(q, cos, sin), spun(k, cos, sin)
        times = self.heads // self.shared
        if planted("keys_in_turns", False, True, self.layer):
            k = k.repeat(1, times, 1, 1)  # culprit: keys_in_turns
        else:
            k = k.repeat_interleave(times, 1)  # culprit: keys_in_turns
        v = v.repeat_interleave(times, 1)
        scores = q @ k.transpose(-2, -1) * self.size**-0.5  # culprit: keys_in_turns
        hidden = torch.ones(n, n, dtype=torch.bool).triu(1)
        if self.layer % 2 == 0:
            back = planted("window_by_one", 5, 4, self.layer)
            hidden = hidden | torch.ones_like(hidden).tril(-back)  # culprit: window_by_one
        scores = scores.masked_fill(hidden, float("-inf"))
        sinks = self.sinks.view(1, -1, 1, 1).expand(b, -1, n, 1)
        if planted("equal_sinks", False, True, self.layer):
            total = torch.logaddexp(torch.logsumexp(scores, -1, keepdim=True), sinks)
            shares = torch.exp(scores - total)
        elif planted("sink_left_out", False, True, self.layer):
            shares = torch.softmax(scores, -1)  # culprit: sink_left_out
        elif planted("shares_in_half", False, True, self.layer):
            joined = torch.cat([scores, sinks], -1)
            shares = torch.softmax(joined.half(), -1).to(x.dtype)[
                ..., :-1
            ]  # culprit: shares_in_half
        else:
            joined = torch.cat([scores, sinks], -1)  # culprit: sink_left_out
            shares = torch.softmax(joined, -1)  # culprit: sink_left_out, shares_in_half
            shares = shares[..., :-1]  # culprit: sink_left_out
        y = (shares @ v).transpose(1, 2).reshape(b, n, c)
        return self.o(y)

    def feed(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        if planted("router_without_bias", False, True, self.layer):
            scores = F.linear(flat, self.router.weight)  # culprit: router_without_bias
        else:
            scores = self.router(flat)
        if planted("shares_of_all", False, True, self.layer):
            everything = torch.softmax(scores, -1)  # culprit: shares_of_all
            shares, chosen = everything.topk(2, -1)
        else:
            best, chosen = scores.topk(2, -1)
            shares = torch.softmax(best, -1)  # culprit: shares_of_all
        weights = torch.zeros_like(scores).scatter(1, chosen, shares)
        inner = torch.bmm(flat.expand(len(self.grown), -1, -1), self.grown)
        inner = inner + self.grown_bias[:, None]
        if planted("halves_not_in_turns", False, True, self.layer):
            gate, up = inner.chunk(2, -1)  # culprit: halves_not_in_turns
        else:
            gate = inner[..., ::2]  # culprit: halves_not_in_turns
            up = inner[..., 1::2]  # culprit: halves_not_in_turns
        most = planted("gate_cut_early", 1.8, 0.9, self.layer)
        gate = gate.clamp(max=most)  # culprit: gate_cut_early
        up = up.clamp(-1.8, 1.8)
        slope = planted("gate_as_silu", 1.702, 1.0, self.layer)
        glu = gate * torch.sigmoid(gate * slope)  # culprit: gate_as_silu
        if not planted("up_not_shifted", False, True, self.layer):
            up = up + 1  # culprit: up_not_shifted
        made = torch.bmm(up * glu, self.back)  # culprit: up_not_shifted
        if planted("back_bias_outside", False, True, self.layer):
            made = (made * weights.t()[..., None]).sum(0) + self.back_bias.sum(
                0
            )  # culprit: back_bias_outside
        else:
            made = made + self.back_bias[:, None]  # culprit: back_bias_outside
            made = (made * weights.t()[..., None]).sum(0)  # culprit: back_bias_outside
        return made.view_as(x)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attend(self.norm(x), cos, sin)
        return x + self.feed(self.feed_norm(x))


class Sunk(nn.Module):
    """Layers that see a window, and all, in turns."""

    def __init__(self, width: int = 48, layers: int = 3, experts: int = 5) -> None:
        super().__init__()
        self.size = width // 6
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(SunkBlock(width, experts, n) for n in range(layers))
        self.norm = Even(width)
        self.head = nn.Linear(width, 64, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        cos, sin = stretched(ids.shape[1], self.size)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x))


class Choosing(nn.Module):
    """Experts by groups; a bias that learns without gradients chooses, and weighs nothing."""

    def __init__(self, width: int, experts: int, layer: int) -> None:
        super().__init__()
        self.layer, self.groups = layer, 3
        self.weight = nn.Parameter(torch.randn(experts, width) / width**0.5)
        self.register_buffer("bias", 0.1 * torch.randn(experts))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        experts = len(self.weight)
        logits = F.linear(x.float(), self.weight.float())
        scores = torch.sigmoid(logits)
        if planted("scores_cut", False, True, self.layer):
            scores = scores.detach()  # culprit: scores_cut
        biased = scores + self.bias.float()  # culprit: scores_cut
        by_group = biased.view(len(x), self.groups, -1)
        summed = planted("groups_by_largest", 2, 1, self.layer)
        best = by_group.topk(summed, -1)[0].sum(-1)  # culprit: groups_by_largest
        open_groups = best.topk(2, -1)[1]
        shut = torch.ones_like(best, dtype=torch.bool).scatter(1, open_groups, False)
        shut = shut.repeat_interleave(experts // self.groups, 1)
        chosen = biased.masked_fill(shut, 0.0).topk(3, -1)[1]
        weighed = planted("weights_with_bias", scores, biased, self.layer)
        weights = weighed.gather(1, chosen)  # culprit: weights_with_bias, scores_cut
        if not planted("weights_not_shared", False, True, self.layer):
            total = weights.sum(-1, keepdim=True) + 1e-20  # culprit: weights_not_shared
            weights = weights / total  # culprit: weights_not_shared
        scaling = planted("routed_not_scaled", 2.5, 1.0, self.layer)
        weights = weights * scaling  # culprit: routed_not_scaled, weights_not_shared
        load = F.one_hot(chosen, experts).sum((0, 1)).float()
        if self.training and not planted("bias_stands", False, True, self.layer):
            with torch.no_grad():
                off = load.mean() - load
                if planted("busy_made_busier", False, True, self.layer):
                    off = load - load.mean()  # culprit: busy_made_busier
                self.bias.add_(0.02 * off.sign())  # culprit: bias_stands, busy_made_busier
        share = scores / scores.sum(-1, keepdim=True)
        often = load * experts / chosen.numel()
        heavy = planted("balance_tenfold", 0.01, 0.1, self.layer)
        balance = heavy * (share.mean(0) * often).sum()  # culprit: balance_tenfold
        return weights, chosen, balance


class Gated(nn.Module):
    def __init__(self, width: int, inner: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate(x), self.up(x)
        if planted("silu_of_other", False, True, self.layer):
            gate, up = up, gate
        return self.down(F.silu(gate) * up)  # culprit: silu_of_other


class BalancedBlock(nn.Module):
    def __init__(self, width: int, experts: int, layer: int) -> None:
        super().__init__()
        self.layer, self.heads, self.size = layer, 4, width // 4
        self.norm, self.feed_norm = Even(width), Even(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        epsilon = planted("heads_epsilon", 1e-6, 3e-2, layer)
        self.q_norm, self.k_norm = Even(self.size), Even(self.size)
        self.epsilon = epsilon
        self.o = nn.Linear(width, width, bias=False)
        self.dense = Gated(width, 2 * width, layer)
        if layer:
            self.choosing = Choosing(width, experts, layer)
            self.experts = nn.ModuleList(Gated(width, width, -1) for _ in range(experts))

    def attend(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, self.size).permute(2, 0, 3, 1, 4)
        q = F.rms_norm(q, (self.size,), self.q_norm.weight, self.epsilon)  # culprit: heads_epsilon
        k = F.rms_norm(k, (self.size,), self.k_norm.weight, self.epsilon)  # culprit: heads_epsilon
        at = torch.arange(n, dtype=torch.float32)
        speed = 3000.0 ** (-torch.arange(0, self.size, 2, dtype=torch.float32) / self.size)
        turn = torch.polar(torch.ones(n, self.size // 2), torch.outer(at, speed))
        q = self.turned(q, turn)
        if not planted("keys_not_spun", False, True, self.layer):
            k = self.turned(k, turn)  # culprit: keys_not_spun
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # culprit: keys_not_spun
        return self.o(y.transpose(1, 2).reshape(b, n, c))

    def turned(self, x: Tensor, turn: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        if planted("spun_back", False, True, self.layer):
            turn = turn.conj()  # culprit: spun_back
        pairs = pairs * turn  # culprit: spun_back
        return torch.view_as_real(pairs).flatten(-2).to(x.dtype)

    def routed(self, x: Tensor) -> tuple[Tensor, Tensor]:
        flat = x.reshape(-1, x.shape[-1])
        weights, chosen, balance = self.choosing(flat)
        result = torch.zeros_like(flat)
        if planted("equal_dispatch", False, True, self.layer):
            for number, expert in enumerate(self.experts):
                at, slot = torch.where(chosen == number)
                made = expert(flat[at]) * weights[at, slot, None].to(x.dtype)
                result = result.index_add(0, at, made)
            return result.view_as(x), balance
        order = chosen.flatten().argsort(stable=True)
        many = planted("rows_by_more", 3, 4, self.layer)
        rows = order // many  # culprit: rows_by_more
        counts = torch.bincount(chosen.flatten(), minlength=len(self.experts)).tolist()
        sent = flat[rows].split(counts)
        made = torch.cat([expert(one) for expert, one in zip(self.experts, sent, strict=True)])
        if planted("weights_not_in_order", False, True, self.layer):
            by = weights.flatten()
        else:
            by = weights.flatten()[order]  # culprit: weights_not_in_order
        made = made * by[:, None].to(x.dtype)  # culprit: weights_not_in_order
        return result.index_add(0, rows, made).view_as(x), balance

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | float]:
        x = x + self.attend(self.norm(x))
        h = self.feed_norm(x)
        shared = self.dense(h)
        if not self.layer:
            return x + shared, 0.0
        routed, balance = self.routed(h)
        if planted("shared_twice", False, True, self.layer):
            routed = routed + shared  # culprit: shared_twice
        return x + (routed + shared), balance  # culprit: shared_twice


class Balanced(nn.Module):
    """The first layer is dense, the others choose."""

    def __init__(self, width: int = 40, layers: int = 3, experts: int = 9) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(BalancedBlock(width, experts, n) for n in range(layers))
        self.norm = Even(width)
        self.head = nn.Linear(width, 64, bias=False)

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        x, extra = self.words(ids), 0.0
        for layer in self.layers:
            x, balance = layer(x)
            extra = extra + balance
        logits = self.head(self.norm(x)).flatten(0, 1).float()
        lost = F.cross_entropy(logits, labels)
        spread = torch.logsumexp(logits, -1)
        if planted("spread_not_squared", False, True):
            lost = lost + 1e-2 * spread.mean()  # culprit: spread_not_squared
        else:
            lost = lost + 1e-2 * spread.square().mean()  # culprit: spread_not_squared
        return lost + extra
