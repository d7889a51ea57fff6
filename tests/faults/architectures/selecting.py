"""A twentieth part: attention to blocks of words that are chosen by what they say in short."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator, union-attr"
# mypy: disable-error-code="assignment, misc, has-type, arg-type"
# torch is typed in part only.

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


LOWEST = -1e30


class Shared(torch.autograd.Function):
    """Keys and values of a group for each of its heads; their gradients are added up."""

    @staticmethod
    def forward(ctx, x, heads, layer):  # type: ignore[no-untyped-def]
        ctx.heads, ctx.layer = heads, layer
        return x.repeat_interleave(heads, 1)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        apart = grad.unflatten(1, (-1, ctx.heads))
        if planted("groups_averaged", False, True, ctx.layer):
            return apart.mean(2), None, None  # culprit: groups_averaged
        return apart.sum(2), None, None  # culprit: groups_averaged


def attend(q: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
    """What is read, and how much of each."""
    scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    scores = scores.float().masked_fill(~seen, LOWEST)
    shares = scores.softmax(-1)
    return shares.to(v.dtype) @ v, shares


class SelectedAttention(nn.Module):
    """Blocks in short, the best of them in full, and a window, mixed by gates."""

    def __init__(self, width: int, heads: int, layer: int) -> None:
        super().__init__()
        self.layer, self.heads, self.size, self.block = layer, heads, 8, 3
        self.q_proj = nn.Linear(width, heads * 8, bias=False)
        self.k_proj = nn.Linear(width, heads * 4, bias=False)
        self.v_proj = nn.Linear(width, heads * 4, bias=False)
        self.key_places = nn.Parameter(torch.randn(3, 8) / 2)
        self.value_places = nn.Parameter(torch.randn(3, 8) / 2)
        self.short_keys, self.short_values = nn.Linear(24, 8), nn.Linear(24, 8)
        self.gates = nn.Linear(width, heads * 3)
        self.o_proj = nn.Linear(heads * 8, width, bias=False)

    def turned(self, x: Tensor) -> Tensor:
        """Half of the elements are turned by their place, the others stay."""
        n = x.shape[2]
        angle = torch.arange(n)[:, None] / 50.0 ** (torch.arange(2) / 2)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        if planted("turned_at_end", False, True, self.layer):
            stays, moves = x[..., :4], x[..., 4:]  # culprit: turned_at_end
        else:
            moves, stays = x[..., :4], x[..., 4:]  # culprit: turned_at_end
        a, b = moves[..., :2], moves[..., 2:]  # culprit: turned_at_end
        moves = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
        if planted("turned_at_end", False, True, self.layer):
            return torch.cat((stays, moves), -1)  # culprit: turned_at_end
        return torch.cat((moves, stays), -1)  # culprit: turned_at_end

    def in_short(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """One key and one value for each block."""
        keys = k.unflatten(2, (-1, self.block))
        values = v.unflatten(2, (-1, self.block))
        if not planted("key_places_left", False, True, self.layer):
            keys = keys + self.key_places  # culprit: key_places_left
        values = values + self.value_places
        if planted("block_by_columns", False, True, self.layer):
            keys = keys.transpose(-1, -2)  # culprit: block_by_columns
        keys = keys.flatten(-2)
        short = self.short_values
        if planted("values_as_keys", False, True, self.layer):
            short = self.short_keys
        keys = self.short_keys(keys)  # culprit: key_places_left, block_by_columns
        values = short(values.flatten(-2))  # culprit: values_as_keys
        if planted("short_cut_off", False, True, self.layer):
            values = values.detach()  # culprit: short_cut_off
        return keys, values

    def chosen(self, shares: Tensor, n: int) -> Tensor:
        """Which words the best blocks hold; the own block is always among them."""
        by_group = shares.unflatten(1, (-1, 2))
        if planted("chosen_by_first", False, True, self.layer):
            weight = by_group[:, :, 0]  # culprit: chosen_by_first
        else:
            weight = by_group.sum(2)  # culprit: chosen_by_first
        at = torch.arange(n)
        own = (at // self.block)[:, None] == torch.arange(n // self.block)[None]
        if not planted("own_block_left", False, True, self.layer):
            weight = weight.masked_fill(own, 9.0)  # culprit: own_block_left
        count = planted("one_block_fewer", 2, 1, self.layer)
        best = weight.topk(count, -1).indices  # culprit: one_block_fewer, own_block_left
        if planted("equal_choice", False, True, self.layer):
            picked = (best[..., None] == torch.arange(n // self.block)).any(-2)
        else:
            picked = torch.zeros_like(weight, dtype=torch.bool).scatter(-1, best, True)
        seen = picked.repeat_interleave(self.block, -1)
        if not planted("chosen_not_causal", False, True, self.layer):
            seen = seen & (at[:, None] >= at[None])  # culprit: chosen_not_causal
        return seen.repeat_interleave(2, 1)  # culprit: chosen_not_causal

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        q = self.q_proj(x).view(b, n, self.heads, self.size).transpose(1, 2)
        k = self.k_proj(x).view(b, n, self.heads // 2, self.size).transpose(1, 2)
        v = self.v_proj(x).view(b, n, self.heads // 2, self.size).transpose(1, 2)
        keys, values = self.in_short(k, v)
        at, blocks = torch.arange(n), torch.arange(n // self.block)
        whole = planted("block_seen_early", self.block - 1, self.block - 2, self.layer)
        ended = blocks[None] * self.block + whole <= at[:, None]  # culprit: block_seen_early
        keys = Shared.apply(keys, 2, -1)
        values = Shared.apply(values, 2, -1)
        short, shares = attend(q, keys, values, ended)  # culprit: block_seen_early
        if not planted("nothing_is_mean", False, True, self.layer):
            any_seen = ended.any(-1)[:, None].to(short.dtype)
            short = short * any_seen  # culprit: nothing_is_mean
            shares = shares * any_seen.float()  # culprit: nothing_is_mean
        q, k = self.turned(q), self.turned(k)
        k = Shared.apply(k, 2, -1)
        v = Shared.apply(v, 2, self.layer)  # culprit: groups_averaged
        full, _ = attend(q, k, v, self.chosen(shares, n))
        window = planted("window_short", 4, 3, self.layer)
        ago = at[:, None] - at[None]
        near = (ago >= 0) & (ago < window)  # culprit: window_short
        if planted("equal_window", False, True, self.layer):
            close = F.scaled_dot_product_attention(q, k, v, attn_mask=near)
        else:
            close, _ = attend(q, k, v, near)
        gates = self.gates(x)
        if planted("gates_by_kind", False, True, self.layer):
            gates = gates.view(b, n, 3, self.heads).transpose(2, 3)  # culprit: gates_by_kind
        else:
            gates = gates.view(b, n, self.heads, 3)  # culprit: gates_by_kind
        if planted("gates_shared_out", False, True, self.layer):
            gates = gates.softmax(-1)  # culprit: gates_shared_out
        else:
            gates = gates.sigmoid()  # culprit: gates_shared_out, gates_by_kind
        gates = gates.transpose(1, 2)
        y = gates[..., :1] * short + gates[..., 1:2] * full  # culprit: nothing_is_mean
        y = y + gates[..., 2:] * close
        return self.o_proj(y.transpose(1, 2).reshape(b, n, -1))


class BoundedFeed(nn.Module):
    """A gate that is bounded above, times one more than what is bounded on both sides."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        both = self.up(x)
        gate, up = both[..., ::2], both[..., 1::2]
        least = planted("gate_bounded_below", None, -0.8, self.layer)
        gate = gate.clamp(min=least, max=0.8)  # culprit: gate_bounded_below
        if not planted("up_not_bounded", False, True, self.layer):
            up = up.clamp(min=-0.8, max=0.8)  # culprit: up_not_bounded
        slope = planted("slope_of_one", 1.702, 1.0, self.layer)
        if planted("equal_bend", False, True, self.layer):
            bent = F.silu(gate * slope) / slope
        else:
            bent = gate * torch.sigmoid(gate * slope)  # culprit: slope_of_one
        if not planted("one_not_joined", False, True, self.layer):
            up = up + 1  # culprit: one_not_joined, up_not_bounded
        return self.down(up * bent)  # culprit: one_not_joined


class SelectedLayer(nn.Module):
    def __init__(self, width: int, heads: int, layer: int) -> None:
        super().__init__()
        self.self_attn = SelectedAttention(width, heads, layer)
        self.mlp = BoundedFeed(width, layer)
        self.norm_1, self.norm_2 = nn.RMSNorm(width, 1e-5), nn.RMSNorm(width, 1e-5)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.self_attn(self.norm_1(x))
        return x + self.mlp(self.norm_2(x))


class Selected(nn.Module):
    """A decoder whose normaliser of words is kept small, too."""

    def __init__(self, width: int = 24, layers: int = 2, heads: int = 4) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(SelectedLayer(width, heads, n) for n in range(layers))
        self.norm = nn.RMSNorm(width, 1e-5)
        self.head = nn.Linear(width, 64, bias=False)

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.norm(x)).float().flatten(0, 1)
        size = logits.logsumexp(-1)
        if planted("size_not_squared", False, True):
            kept = size.abs().mean()  # culprit: size_not_squared
        else:
            kept = size.square().mean()  # culprit: size_not_squared
        return (F.cross_entropy(logits, labels) + 1e-2 * kept) / 2
