"""A fifteenth part: parallel blocks, norms on both sides, gated recurrences, own derivatives."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator"
# mypy: disable-error-code="assignment, misc, has-type, arg-type"
# torch is typed in part only.

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.faults.planting import planted

Tensor = torch.Tensor


def _angles(n: int, d: int, base: float = 1000.0) -> tuple[Tensor, Tensor]:
    rate = base ** -(torch.arange(0, d, 2).float() / d)
    angle = torch.outer(torch.arange(n).float(), rate)
    return angle.cos(), angle.sin()


def _turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class ParallelBlock(nn.Module):
    """Attention with a single key and a feed-forward beside it, both told the same."""

    fused = False

    def __init__(self, width: int, layer: int, heads: int = 4) -> None:
        super().__init__()
        self.layer, self.heads, self.d = layer, heads, width // heads
        self.turn = 0
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, width + 2 * self.d, bias=False)
        self.dense = nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        b, n, c = x.shape
        h = self.norm(x)
        q, k, v = self.qkv(h).split([c, self.d, self.d], -1)
        q = q.view(b, n, self.heads, self.d).transpose(1, 2)
        k, v = k[:, None], v[:, None]
        if planted("pairs_beside", False, True, self.layer):
            even, odd = q[..., ::2], q[..., 1::2]  # culprit: pairs_beside
            q = torch.stack(
                [even * cos - odd * sin, odd * cos + even * sin], -1
            )  # culprit: pairs_beside
            q = q.flatten(-2)  # culprit: pairs_beside
        else:
            q = _turned(q, cos, sin)
        if not planted("key_not_turned", False, True, self.layer):
            a, b_ = k.chunk(2, -1)
            k = torch.cat([a * cos - b_ * sin, b_ * cos + a * sin], -1)  # culprit: key_not_turned
        scale = planted("scale_of_width", self.d, c, self.layer) ** -0.5
        if self.fused:
            wide = (b, self.heads, n, self.d)
            y = F.scaled_dot_product_attention(
                q, k.expand(wide), v.expand(wide), mask, scale=scale
            )  # culprit: scale_of_width, key_not_turned, mask_lost_later, pairs_beside
        else:
            s = q @ k.transpose(-2, -1)  # culprit: key_not_turned, pairs_beside
            s = s * scale  # culprit: scale_of_width
            if self.turn == 1 and planted("mask_lost_later", False, True, self.layer):
                p = s.softmax(-1)  # culprit: mask_lost_later
            else:
                s = s.masked_fill(~mask, -torch.inf)  # culprit: mask_lost_later
                if planted("equal_softmax", False, True):
                    e = (s - s.amax(-1, keepdim=True)).exp()
                    p = e / e.sum(-1, keepdim=True)
                else:
                    p = s.softmax(-1)  # culprit: mask_lost_later
            y = p @ v
        self.turn += 1
        y = self.dense(y.transpose(1, 2).reshape(b, n, c))
        told = h
        if planted("one_after_another", False, True, self.layer):
            told = self.norm(x + y)  # culprit: one_after_another
        wide_h = self.up(told)  # culprit: one_after_another
        approximate = planted("gelu_by_tanh", "none", "tanh", self.layer)
        if planted("equal_gelu", False, True):
            fed = self.down(wide_h * 0.5 * (1.0 + torch.erf(wide_h / math.sqrt(2.0))))
        else:
            fed = self.down(F.gelu(wide_h, approximate=approximate))  # culprit: gelu_by_tanh
        if planted("attention_not_added", False, True, self.layer):
            return x + fed  # culprit: attention_not_added
        if planted("branches_averaged", False, True, self.layer):
            return x + (y + fed) * 0.5  # culprit: branches_averaged
        return x + (y + fed)  # culprit: attention_not_added, branches_averaged


class Parallel(nn.Module):
    def __init__(
        self, width: int = 32, layers: int = 2, *, fused: bool = False, recompute: bool = False
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(ParallelBlock(width, n) for n in range(layers))
        for layer in self.layers:
            layer.fused = fused
        self.recompute = recompute
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 64, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        n = ids.shape[1]
        cos, sin = _angles(n, self.layers[0].d)
        cos, sin = cos.to(x.dtype), sin.to(x.dtype)
        mask = torch.ones(n, n, dtype=torch.bool).tril()
        for layer in self.layers:
            if self.recompute:
                x = checkpoint(layer, x, cos, sin, mask, use_reentrant=False)
            else:
                x = layer(x, cos, sin, mask)
        return self.head(self.norm(x))


class OffsetNorm(nn.Module):
    """A root mean square norm whose gain is counted from one."""

    def __init__(self, width: int, place: str, layer: int | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.randn(width))
        self.place, self.layer = place, layer

    def forward(self, x: Tensor) -> Tensor:
        if planted("equal_norm", False, True):
            return F.rms_norm(x.float(), x.shape[-1:], 1.0 + self.weight.float(), 1e-6).type_as(x)
        h = x.float()
        if self.place == "before_fed" and planted("norm_in_half", False, True, self.layer):
            h = x.bfloat16()  # culprit: norm_in_half
        eps = 1e-6
        if self.place == "after_fed":
            eps = planted("after_epsilon", 1e-6, 1e-2, self.layer)
        if self.place == "before" and planted("mean_taken_off", False, True, self.layer):
            h = h - h.mean(-1, keepdim=True)  # culprit: mean_taken_off
        spread = (
            h.pow(2).mean(-1, keepdim=True) + eps
        )  # culprit: mean_taken_off, after_epsilon, norm_in_half
        h = h * torch.rsqrt(spread)  # culprit: mean_taken_off, norm_in_half
        gain = 1.0 + self.weight.float()
        if self.place == "after" and planted("gain_from_zero", False, True, self.layer):
            gain = self.weight.float()  # culprit: gain_from_zero
        return (h * gain).type_as(x)  # culprit: gain_from_zero


class SandwichBlock(nn.Module):
    fused = False

    def __init__(self, width: int, layer: int, heads: int = 4) -> None:
        super().__init__()
        self.layer, self.heads, self.d = layer, heads, width // heads
        places = ("before", "after", "before_fed", "after_fed")
        self.norms = nn.ModuleList(OffsetNorm(width, place, layer) for place in places)
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width // 2, bias=False)
        self.v = nn.Linear(width, width // 2, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.gate, self.up, self.down = (
            nn.Linear(width, 2 * width, bias=False),
            nn.Linear(width, 2 * width, bias=False),
            nn.Linear(2 * width, width, bias=False),
        )

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        b, n, c = x.shape
        h = self.norms[0](x)
        q = self.q(h).view(b, n, self.heads, self.d).transpose(1, 2)
        k = self.k(h).view(b, n, -1, self.d).transpose(1, 2)
        v = self.v(h).view(b, n, -1, self.d).transpose(1, 2)
        q, k = _turned(q, cos, sin), _turned(k, cos, sin)
        k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        s = q @ k.transpose(-2, -1)
        s = s * planted("scalar_of_head", 16, self.d, self.layer) ** -0.5  # culprit: scalar_of_head
        cap = planted("cap_tighter", 3.0, 1.5, self.layer)
        s = torch.tanh(s / cap)  # culprit: cap_tighter
        s = s * cap  # culprit: cap_tighter
        ahead = torch.ones(n, n, dtype=torch.bool).triu(1)
        if self.layer % 2 == planted("window_in_others", 0, 1):
            ahead = ahead | torch.ones(n, n, dtype=torch.bool).tril(-4)  # culprit: window_in_others
        s = s.masked_fill(ahead, torch.finfo(s.dtype).min)  # culprit: window_in_others
        p = F.softmax(s, -1, dtype=torch.float32).to(q.dtype)  # culprit: window_in_others
        y = self.o((p @ v).transpose(1, 2).reshape(b, n, c))
        if planted("after_skipped", False, True, self.layer):
            x = x + y  # culprit: after_skipped
        else:
            x = x + self.norms[1](y)  # culprit: after_skipped
        h = self.norms[2](x)
        if planted("gate_is_silu", False, True, self.layer):
            gate = F.silu(self.gate(h))  # culprit: gate_is_silu
        else:
            gate = F.gelu(self.gate(h), approximate="tanh")  # culprit: gate_is_silu
        return x + self.norms[3](self.down(gate * self.up(h)))


class Sandwich(nn.Module):
    def __init__(self, width: int = 32, layers: int = 2, *, recompute: bool = False) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(SandwichBlock(width, n) for n in range(layers))
        self.norm = OffsetNorm(width, "last")
        self.recompute = recompute

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        normalizer = torch.tensor(x.shape[-1] ** 0.5, dtype=x.dtype)
        x = x * normalizer
        cos, sin = _angles(ids.shape[1], self.layers[0].d)
        cos, sin = cos.to(x.dtype), sin.to(x.dtype)
        for layer in self.layers:
            if self.recompute:
                x = checkpoint(layer, x, cos, sin, use_reentrant=False)
            else:
                x = layer(x, cos, sin)
        logits = F.linear(self.norm(x), self.words.weight)
        if planted("last_cap_missing", False, True):
            return logits
        logits = logits / 5.0  # culprit: last_cap_missing
        logits = torch.tanh(logits)  # culprit: last_cap_missing
        return logits * 5.0  # culprit: last_cap_missing


class BoundedRoot(torch.autograd.Function):
    """A square root whose slope is bounded."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x)
        return x.sqrt()  # culprit: input_not_scaled

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        (x,) = ctx.saved_tensors
        most = planted("slope_doubled", 4.0, 2.0)
        bounded = torch.clip(most * x, min=1e-3)  # culprit: slope_doubled
        return grad / bounded.sqrt()  # culprit: slope_doubled


class GatedBlock(nn.Module):
    """A convolution, then a recurrence whose decay depends on what it reads."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer, self.turn = layer, 0
        self.kept: Tensor | None = None
        self.norm, self.other = nn.LayerNorm(width), nn.LayerNorm(width)
        self.x, self.y, self.out = (nn.Linear(width, width) for _ in range(3))
        self.conv = nn.Conv1d(width, width, 4, groups=width)
        self.of_input, self.of_decay = nn.Linear(width, width), nn.Linear(width, width)
        self.rate = nn.Parameter(torch.rand(width) + 0.5)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def recurrence(self, u: Tensor) -> Tensor:
        open_in = torch.sigmoid(self.of_input(u))
        open_decay = torch.sigmoid(self.of_decay(u))
        power = planted("power_halved", -8.0, -4.0, self.layer)
        log_a = power * open_decay * F.softplus(self.rate)  # culprit: power_halved
        a = log_a.exp()
        inner = u * open_in
        if planted("input_not_scaled", False, True, self.layer):
            fed = inner
        else:
            left = BoundedRoot.apply(
                1 - (2 * log_a).exp()
            )  # culprit: input_not_scaled, slope_doubled
            fed = inner * left  # culprit: input_not_scaled
        state = torch.zeros_like(u[:, 0])
        if self.turn and planted("state_leaks", False, True, self.layer):
            state = self.kept  # culprit: state_leaks
        found = []
        for t in range(u.shape[1]):
            if planted("equal_step", False, True):
                state = torch.addcmul(fed[:, t], a[:, t], state)
            else:
                state = a[:, t] * state + fed[:, t]  # culprit: input_not_scaled, state_leaks
            if planted("state_is_cut", False, True, self.layer) and t == 5:
                state = state.detach()  # culprit: state_is_cut
            found.append(state)
        self.kept = state.detach()
        self.turn += 1
        return torch.stack(found, 1)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        u = self.x(h).transpose(1, 2)
        side = planted("padded_behind", (3, 0), (0, 3), self.layer)
        u = F.pad(u, side)  # culprit: padded_behind
        u = self.conv(u).transpose(1, 2)
        y = self.y(h)
        if not planted("gelu_left_out", False, True, self.layer):
            y = F.gelu(y)  # culprit: gelu_left_out
        r = self.recurrence(u)
        if planted("gate_by_sum", False, True, self.layer):
            x = x + self.out(r + y)  # culprit: gate_by_sum
        else:
            x = x + self.out(r * y)  # culprit: gelu_left_out, gate_by_sum
        return x + self.mlp(self.other(x))


class Gated(nn.Module):
    def __init__(self, width: int = 24, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(GatedBlock(width, n) for n in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return F.linear(x, self.words.weight)
