"""A thirteenth part: a flow of couplings, a decoder that keeps its keys, patches left out."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator, assignment"
# torch is typed in part only.

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.faults.planting import planted

Tensor = torch.Tensor


class Coupling(nn.Module):
    """One half of the channels says how the other half is moved; the volume is kept account of."""

    def __init__(self, channels: int, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.gain = nn.Parameter(0.1 * torch.randn(channels))
        self.shift = nn.Parameter(0.1 * torch.randn(channels))
        self.mixing = nn.Parameter(torch.linalg.qr(torch.randn(channels, channels))[0])
        self.first = nn.Conv2d(channels // 2, width, 3, padding=1)
        self.second = nn.Conv2d(width, channels, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        pixels = x.shape[2] * x.shape[3]
        gain = self.gain
        if planted("gain_not_exp", False, True, self.layer):
            gain = 1 + gain  # culprit: gain_not_exp
        else:
            gain = torch.exp(gain)  # culprit: gain_not_exp
        x = (x + self.shift[:, None, None]) * gain[:, None, None]
        each = planted("volume_of_one_pixel", pixels, 1, self.layer)
        volume = self.gain.sum() * each  # culprit: volume_of_one_pixel
        mixing = self.mixing
        if planted("mixing_transposed", False, True, self.layer):
            mixing = mixing.t()  # culprit: mixing_transposed
        x = F.conv2d(x, mixing[:, :, None, None])  # culprit: mixing_transposed
        volume = volume + torch.linalg.slogdet(self.mixing.float())[1] * pixels
        told, moved = x.chunk(2, 1)
        if planted("halves_exchanged", False, True, self.layer):
            told, moved = moved, told
        raw, shift = self.second(
            F.relu(self.first(told))  # culprit: halves_exchanged
        ).chunk(2, 1)
        offset = planted("scale_offset", 2.0, 1.0, self.layer)
        scale = torch.sigmoid(raw + offset)  # culprit: scale_offset
        if planted("scaled_first", False, True, self.layer):
            moved = moved * scale + shift  # culprit: scaled_first
        else:
            moved = (moved + shift) * scale  # culprit: scaled_first
        volume = volume + torch.log(scale.float()).flatten(1).sum(1)
        return torch.cat([told, moved], 1), volume


class Flow(nn.Module):
    """How likely a picture is, for a normal distribution of each class."""

    def __init__(self, width: int = 16, layers: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Coupling(12, width, number) for number in range(layers))
        self.means = nn.Embedding(16, 12)

    def loss(self, x: Tensor, labels: Tensor) -> Tensor:
        x = F.pixel_unshuffle(x, 2)
        volumes = []
        for layer in self.layers:
            x, volume = layer(x)
            volumes.append(volume)
        if planted("last_volume_lost", False, True):
            volumes = volumes[:-1]
        volume = torch.stack(volumes).sum(0)  # culprit: last_volume_lost
        away = x - self.means(labels)[:, :, None, None]
        density = -0.5 * (away.float().square() + math.log(2 * math.pi)).flatten(1).sum(1)
        if planted("volume_subtracted", False, True):
            likely = density - volume  # culprit: volume_subtracted
        else:
            likely = density + volume  # culprit: volume_subtracted
        count = planted("per_pixel", x[0].numel(), 3 * 64)
        return -(likely / count).mean() / math.log(2)  # culprit: per_pixel


class Rounded(torch.autograd.Function):
    """Rounds a weight to 15 levels a row; its gradient passes where nothing was cut."""

    @staticmethod
    def forward(ctx, weight, levels, over):  # type: ignore[no-untyped-def]
        size = weight.abs().amax(over, keepdim=True) * 0.9  # culprit: step_of_all
        step = size / levels  # culprit: more_levels
        ctx.save_for_backward(weight.abs() <= size)
        down = planted("rounded_down", torch.round, torch.floor)
        whole = down(weight / step)  # culprit: rounded_down
        return whole.clamp(-levels, levels) * step  # culprit: more_levels

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        (inside,) = ctx.saved_tensors
        if planted("cut_passes", False, True):
            return grad * 1.0, None, None  # culprit: cut_passes
        return grad * inside, None, None  # culprit: cut_passes


class KeptBlock(nn.Module):
    """One key and value for all heads, kept for the words that come later; rounded weights."""

    def __init__(self, width: int, layer: int, heads: int = 4) -> None:
        super().__init__()
        self.layer, self.heads, self.d = layer, heads, width // heads
        self.norm, self.other = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * self.d, bias=False)
        self.o = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def turned(self, x: Tensor, start: int) -> Tensor:
        """Half of the features turn with the place."""
        half = self.d // 2
        rate = 100.0 ** -(torch.arange(0, half, 2) / half)
        angle = (torch.arange(x.shape[-2]) + start)[:, None] * rate  # culprit: places_restart
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        still, moves = x[..., half:], x[..., :half]
        if planted("other_half_turns", False, True, self.layer):
            still, moves = x[..., :half], x[..., half:]
        even, odd = moves[..., ::2], moves[..., 1::2]  # culprit: other_half_turns
        both = torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)
        return torch.cat([both, still], -1)

    def forward(
        self, x: Tensor, kept: tuple[Tensor, Tensor] | None, start: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        b, n, c = x.shape
        h = self.norm(x)
        over = planted("step_of_all", (1,), (0, 1), self.layer)
        levels = planted("more_levels", 7, 8, self.layer)
        q = F.linear(
            h, Rounded.apply(self.q.weight, 7, over)
        )  # culprit: step_of_all, rounded_down, cut_passes
        q = q.view(b, n, self.heads, self.d).transpose(1, 2)
        k, v = self.kv(h)[:, None].chunk(2, -1)
        at = start if not planted("places_restart", False, True, self.layer) else 0
        q, raw = self.turned(q, at), k  # culprit: places_restart
        k = self.turned(k, start)
        shown = k
        if planted("kept_unturned", False, True, self.layer):
            shown = raw
        if kept is not None:
            if planted("kept_behind", False, True, self.layer):
                k = torch.cat([k, kept[0]], 2)  # culprit: kept_behind
            else:
                k = torch.cat([kept[0], k], 2)  # culprit: kept_behind, kept_unturned
            v = torch.cat([kept[1], v], 2)
        ahead = start + planted("mask_of_kept", 0, 1, self.layer)
        seen = torch.ones(n, k.shape[2], dtype=torch.bool).tril(ahead)  # culprit: mask_of_kept
        if self.fused:
            y = F.scaled_dot_product_attention(
                q, k.expand(-1, self.heads, -1, -1), v.expand(-1, self.heads, -1, -1), seen
            )
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(self.d)
            scores = scores.masked_fill(~seen, -torch.inf)
            y = torch.softmax(scores, -1) @ v
        y = y.transpose(1, 2).reshape(b, n, c)
        x = x + self.o(y)
        up = Rounded.apply(
            self.up.weight, levels, (1,)
        )  # culprit: more_levels, rounded_down, cut_passes
        bias = planted("bias_forgotten", self.up.bias, None, self.layer)
        wide = F.linear(self.other(x), up, bias)  # culprit: bias_forgotten
        return x + self.down(F.silu(wide)), shown, v

    fused = False


class Kept(nn.Module):
    """Reads eight words, then the rest beside what it kept of the first."""

    def __init__(
        self, width: int = 32, layers: int = 2, *, fused: bool = False, recompute: bool = False
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(KeptBlock(width, number) for number in range(layers))
        for layer in self.layers:
            layer.fused = fused
        self.recompute = recompute
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: Tensor) -> Tensor:
        kept: list[tuple[Tensor, Tensor] | None] = [None] * len(self.layers)
        found, start = [], 0
        for part in ids.split([8, ids.shape[1] - 8], 1):
            x = self.words(part)
            for number, layer in enumerate(self.layers):
                if self.recompute:
                    x, k, v = checkpoint(layer, x, kept[number], start, use_reentrant=False)
                else:
                    x, k, v = layer(x, kept[number], start)  # culprit: kept_unturned
                if planted("kept_is_cut", False, True, number):
                    k = k.detach()  # culprit: kept_is_cut
                kept[number] = (k, v)
            found.append(x)
            start += part.shape[1]
        x = self.norm(torch.cat(found, 1))
        head = self.words.weight
        if planted("head_one_off", False, True):
            head = head.roll(1, 0)  # culprit: head_one_off
        return F.linear(x, head)  # culprit: head_one_off


class Attending(nn.Module):
    def __init__(self, width: int, layer: int, side: str) -> None:
        super().__init__()
        self.layer, self.side = layer, side
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm1(x)
        if self.side == "encoder" and planted("values_raw", False, True, self.layer):
            y, _ = self.attention(h, h, x, need_weights=False)  # culprit: values_raw
        else:
            y, _ = self.attention(h, h, h, need_weights=False)  # culprit: values_raw
        x = x + y
        if self.side == "encoder" and planted("skip_of_normal", False, True, self.layer):
            h = self.norm2(x)
            return h + self.mlp(h)  # culprit: skip_of_normal
        return x + self.mlp(self.norm2(x))  # culprit: skip_of_normal


class LeftOut(nn.Module):
    """Sees a quarter of the patches and paints the others."""

    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Linear(48, width)
        self.places = nn.Parameter(0.5 * torch.randn(16, width))
        self.encoder = nn.ModuleList(Attending(width, n, "encoder") for n in range(layers))
        self.norm = nn.LayerNorm(width)
        self.token = nn.Parameter(0.5 * torch.randn(width))
        self.between = nn.Linear(width, width)
        self.decoder = nn.ModuleList([Attending(width, 0, "decoder")])
        self.paint = nn.Linear(width, 48)

    def cut(self, x: Tensor, order: str) -> Tensor:
        b = x.shape[0]
        x = x.reshape(b, 3, 4, 4, 4, 4)  # culprit: pixels_by_channel
        return torch.einsum(order, x).reshape(b, 16, 48)  # culprit: pixels_by_channel

    def loss(self, x: Tensor, labels: Tensor) -> Tensor:
        b = x.shape[0]
        random = torch.Generator().manual_seed(5)
        shuffle = torch.rand(b, 16, generator=random).argsort(1)
        back = shuffle.argsort(1)
        patches = self.cut(x, "nchpwq->nhwpqc")
        h = self.embed(patches)
        few = shuffle[:, :6, None].expand(-1, -1, h.shape[2])
        if planted("places_of_first", False, True):
            h = h.gather(1, few) + self.places[:6]  # culprit: places_of_first
        else:
            h = (h + self.places).gather(1, few)  # culprit: places_of_first
        for layer in self.encoder:
            h = layer(h)
        h = self.between(self.norm(h))
        token = self.token
        if planted("painted_on_zeros", False, True):
            token = torch.zeros_like(token)  # culprit: painted_on_zeros
        rest = token.expand(b, 10, -1)  # culprit: painted_on_zeros
        whole = torch.cat([h, rest], 1)  # culprit: painted_on_zeros
        order = planted("not_put_back", back, shuffle)
        whole = whole.gather(1, order[:, :, None].expand_as(whole))  # culprit: not_put_back
        for layer in self.decoder:
            whole = layer(whole + self.places)
        painted = self.paint(whole)
        target = patches
        if planted("pixels_by_channel", False, True):
            target = self.cut(x, "nchpwq->nhwcpq")  # culprit: pixels_by_channel
        mean = target.mean(-1, keepdim=True)
        spread = target.var(
            -1, keepdim=True, unbiased=planted("spread_biased", True, False)
        )  # culprit: spread_biased
        eps = planted("spread_epsilon", 1e-6, 1e-1)
        if not planted("target_raw", False, True):
            target = (target - mean) / (spread + eps).sqrt()  # culprit: spread_epsilon, target_raw
        apart = (painted - target).square().mean(-1)  # culprit: target_raw
        hidden = (back >= 6).to(apart.dtype)
        if planted("seen_judged", False, True):
            hidden = 1 - hidden  # culprit: seen_judged
        lost = (apart * hidden).sum() / hidden.sum()  # culprit: seen_judged
        named = F.cross_entropy(self.norm(whole).mean(1)[:, :16].float(), labels)
        return lost + planted("named_heavier", 0.1, 0.2) * named  # culprit: named_heavier
