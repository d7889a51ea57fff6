"""Written last: shifted windows with a bias by position, responses normalised, grouped heads."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class WindowBlock(nn.Module):
    """Attention inside of windows, which every other layer shifts."""

    index: Tensor

    def __init__(
        self, width: int, layer: int, side: int = 8, window: int = 4, heads: int = 4
    ) -> None:
        super().__init__()
        self.layer, self.side, self.window, self.heads = layer, side, window, heads
        self.shift = window // 2 if layer % 2 else 0
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.bias = nn.Parameter(torch.randn((2 * window - 1) ** 2, heads) * 0.3)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        at = torch.stack(
            torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")
        ).flatten(1)
        rel = at[:, :, None] - at[:, None, :] + window - 1
        self.register_buffer("index", rel[0] * (2 * window - 1) + rel[1])

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        s, w = self.side, self.window
        kept = x
        x = self.norm1(x).view(b, s, s, c)
        shift = planted("shift_forgotten", self.shift, 1, self.layer)
        if self.shift:
            x = torch.roll(x, (-shift, -shift), (1, 2))  # culprit: shift_forgotten
        x = x.view(b, s // w, w, s // w, w, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, c)
        qkv = self.qkv(x).view(-1, w * w, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        q = q * planted(
            "window_scale", (c // self.heads) ** -0.5, c**-0.5, self.layer
        )  # culprit: window_scale
        att = q @ k.transpose(-2, -1)
        index = planted("bias_transposed", self.index, self.index.t(), self.layer)
        table = self.bias[index.reshape(-1)]  # culprit: bias_transposed
        table = table.view(w * w, w * w, -1).permute(2, 0, 1)
        att = att + table.unsqueeze(0)
        att = F.softmax(att, dim=-1)
        x = (att @ v).transpose(1, 2).reshape(-1, w * w, c)
        x = self.proj(x)
        x = x.view(b, s // w, s // w, w, w, c).permute(0, 1, 3, 2, 4, 5).reshape(b, s, s, c)
        if self.shift:
            x = torch.roll(x, (self.shift, self.shift), (1, 2))
        x = kept + x.reshape(b, n, c)
        y = self.mlp(self.norm2(x))
        if planted("mlp_not_added", False, True, self.layer):
            return y + 0.0  # culprit: mlp_not_added
        return x + y  # culprit: mlp_not_added


class Windows(nn.Module):
    """A vision transformer of shifted windows whose bias is looked up by relative position."""

    def __init__(self, width: int = 32, layers: int = 3) -> None:
        super().__init__()
        self.cut = nn.Conv2d(3, width, 2, 2)
        self.blocks = nn.ModuleList(WindowBlock(width, n) for n in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 16)

    def forward(self, x: Tensor) -> Tensor:
        x = self.cut(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        pooled = (
            x.mean(1) if planted("pooled_first", True, False) else x[:, 0]
        )  # culprit: pooled_first
        return self.head(pooled)


class NextBlock(nn.Module):
    """A depthwise convolution, global response normalisation and a scale by layer."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.deep = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.gamma = nn.Parameter(torch.full((width,), 0.5))
        self.grn_gamma, self.grn_beta = (
            nn.Parameter(torch.randn(4 * width) * 0.5),
            nn.Parameter(torch.zeros(4 * width)),
        )

    def forward(self, x: Tensor) -> Tensor:
        kept = x
        mode = planted("padded_otherwise", "constant", "replicate", self.layer)
        padded = F.pad(x, (3, 3, 3, 3), mode=mode)  # culprit: padded_otherwise
        x = F.conv2d(padded, self.deep.weight, self.deep.bias, groups=x.shape[1])
        x = x.permute(0, 2, 3, 1)
        x = self.norm(x)
        x = F.gelu(
            self.up(x), approximate=planted("gelu_guessed", "none", "tanh", self.layer)
        )  # culprit: gelu_guessed
        dims = planted("response_over_channels", (1, 2), (2, 3), self.layer)
        g = torch.norm(x, p=2, dim=dims, keepdim=True)  # culprit: response_over_channels
        x = self.grn_gamma * (x * (g / (g.mean(-1, keepdim=True) + 1e-6))) + self.grn_beta + x
        x = self.down(x)
        gamma: Tensor = self.gamma
        if planted("gamma_detached", False, True, self.layer):
            gamma = gamma.detach()  # culprit: gamma_detached
        x = gamma * x  # culprit: gamma_detached
        return kept + x.permute(0, 3, 1, 2)


class Next(nn.Module):
    """A convolutional network of such blocks."""

    def __init__(self, width: int = 16, layers: int = 3) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, 2, 1)
        self.blocks = nn.ModuleList(NextBlock(width, n) for n in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 16)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        x = x.mean((-2, -1))
        if planted("final_norm_missing", False, True):
            return self.head(x)  # culprit: final_norm_missing
        return self.head(self.norm(x))  # culprit: final_norm_missing


class Root(nn.Module):
    """RMS normalisation by single calls."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class KvBlock(nn.Module):
    """Heads that share keys, both sides of the product normalised."""

    def __init__(self, width: int, layer: int, heads: int = 4, kv: int = 2) -> None:
        super().__init__()
        self.layer, self.heads, self.kv, self.d = layer, heads, kv, width // heads
        self.ln1, self.ln2 = Root(width), Root(width)
        self.qn, self.kn = Root(self.d), Root(self.d)
        self.q, self.k = nn.Linear(width, width), nn.Linear(width, kv * self.d)
        self.v, self.o = nn.Linear(width, kv * self.d), nn.Linear(width, width, bias=False)
        self.g, self.u = (
            nn.Linear(width, 2 * width, bias=False),
            nn.Linear(width, 2 * width, bias=False),
        )
        self.dn = nn.Linear(2 * width, width, bias=False)
        order = torch.arange(width).view(heads, 2, -1).transpose(1, 2).reshape(-1)
        if planted("query_rows_interleaved", False, True, layer):
            self.q.weight.data = self.q.weight.data[order].contiguous()
        if planted("gate_rows_swapped", False, True, layer):
            self.g.weight.data = self.g.weight.data.flip(0).contiguous()
        if planted("out_columns_swapped", False, True, layer):
            self.o.weight.data = self.o.weight.data.flip(1).contiguous()

    def turn(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        a, b = x[..., :half], x[..., half:]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        b, n, c = x.shape
        h = self.ln1(x)
        q = self.q(h).view(b, n, self.heads, self.d)  # culprit: query_rows_interleaved
        k = self.k(h).view(b, n, self.kv, self.d)
        v = self.v(h).view(b, n, self.kv, self.d)
        if planted("key_norm_skipped", False, True, self.layer):
            q, k = self.qn(q), k  # culprit: key_norm_skipped
        else:
            q, k = self.qn(q), self.kn(k)  # culprit: key_norm_skipped
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        q = self.turn(q, cos, sin)
        if planted("keys_not_turned", False, True, self.layer):
            k = k + 0.0  # culprit: keys_not_turned
        else:
            k = self.turn(k, cos, sin)  # culprit: keys_not_turned
        times = self.heads // self.kv
        if planted("heads_interleaved", False, True, self.layer):
            k, v = k.repeat(1, times, 1, 1), v.repeat(1, times, 1, 1)  # culprit: heads_interleaved
        else:
            k, v = (
                k.repeat_interleave(times, 1),
                v.repeat_interleave(times, 1),
            )  # culprit: heads_interleaved
        y = F.scaled_dot_product_attention(
            q, k, v, is_causal=planted("looks_ahead", True, False, self.layer)
        )  # culprit: looks_ahead
        y = y.transpose(1, 2).reshape(b, n, c)
        y = self.o(y)  # culprit: out_columns_swapped
        x = x + y
        h = self.ln2(x)
        gate = F.silu(self.g(h))  # culprit: gate_rows_swapped
        up = self.u(h)
        if planted("gate_saved_in_half", False, True, self.layer):
            gate = gate.half().to(up.dtype)  # culprit: gate_saved_in_half
        return x + self.dn(gate * up)


class Kv(nn.Module):
    """A decoder with grouped heads whose logits are made of its words."""

    def __init__(self, width: int = 32, layers: int = 3) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(KvBlock(width, n) for n in range(layers))
        self.norm = Root(width)
        self.d = width // 4

    def forward(self, ids: Tensor) -> Tensor:
        rate = 1e6 ** (-torch.arange(0, self.d, 2, device=ids.device).float() / self.d)
        at = torch.arange(ids.shape[1]).float() + planted(
            "positions_from_one", 0, 1
        )  # culprit: positions_from_one
        angle = at[:, None] * rate
        x = self.words(ids)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        x = self.norm(x)
        return F.linear(x, self.words.weight) * planted(
            "logits_scaled", 1.0, 0.9
        )  # culprit: logits_scaled
