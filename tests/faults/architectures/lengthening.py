"""A twentieth part: filters as long as the text, and products of numbers in blocks."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator, union-attr"
# mypy: disable-error-code="assignment, misc, has-type, arg-type"
# torch is typed in part only.

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


def in_blocks(x: Tensor, saturates: bool, upwards: bool) -> Tensor:
    """Numbers of four bits that share a power of two by eights."""
    shape = x.shape
    x = x.float().unflatten(-1, (-1, 8))
    most = x.abs().amax(-1, keepdim=True).clamp(min=1e-12)
    if upwards:
        power = torch.ceil(torch.log2(most)) - 2  # culprit: power_upwards
    else:
        power = torch.floor(torch.log2(most)) - 2  # culprit: power_upwards
    scale = torch.exp2(power)
    y = x / scale
    if saturates:
        y = y.clamp(-6, 6)  # culprit: not_saturated
    size = y.abs()  # culprit: not_saturated
    step = torch.where(size < 2, 0.5, torch.where(size < 4, 1.0, 2.0))
    return (torch.round(y / step) * step * scale).reshape(shape)  # culprit: weight_not_rounded


class BlockProduct(torch.autograd.Function):
    """A product of rounded numbers whose gradients are products of rounded numbers, too."""

    @staticmethod
    def forward(ctx, x, weight, layer):  # type: ignore[no-untyped-def]
        saturates = not planted("not_saturated", False, True, layer)
        upwards = planted("power_upwards", False, True, layer)
        few = in_blocks(x, saturates, upwards)  # culprit: not_saturated, power_upwards
        if planted("blocks_by_rows", False, True, layer):
            coarse = in_blocks(weight.t(), True, False).t()  # culprit: blocks_by_rows
        elif planted("weight_not_rounded", False, True, layer):
            coarse = weight.float()  # culprit: weight_not_rounded
        else:
            coarse = in_blocks(weight, True, False)  # culprit: blocks_by_rows, weight_not_rounded
        few, coarse = few.to(x.dtype), coarse.to(x.dtype)
        ctx.layer = layer
        ctx.save_for_backward(x, few, coarse)
        return few @ coarse.t()  # culprit: weight_not_rounded

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        x, few, coarse = ctx.saved_tensors
        of_x = grad @ coarse
        if planted("gradient_of_raw", False, True, ctx.layer):
            few = x
        if planted("clipped_gives_nothing", False, True, ctx.layer):
            of_x = of_x * (x.abs() <= few.abs().amax(-1, keepdim=True) * 0.5).to(
                x.dtype
            )  # culprit: clipped_gives_nothing
        of_weight = grad.flatten(0, -2).t() @ few.flatten(0, -2)  # culprit: gradient_of_raw
        return of_x, of_weight, None  # culprit: clipped_gives_nothing


def spread_out(x: Tensor, steps: Tensor, layer: int) -> Tensor:
    """Outliers shared among eight: signs, and sums and differences of halves."""
    x = (x * steps).unflatten(-1, (-1, 8))
    if planted("equal_spread", False, True, layer):
        both = torch.ones(1, 1, dtype=x.dtype)
        for _ in range(3):
            both = torch.cat([torch.cat([both, both], 1), torch.cat([both, -both], 1)])
        x = x @ both
    else:
        for size in (1, 2, 4):
            x = x.unflatten(-1, (-1, 2, size))
            a, b = x[..., 0, :], x[..., 1, :]
            x = torch.stack((a + b, a - b), -2).flatten(-3)
    return x.flatten(-2) * 8**-0.5


class BlockLinear(nn.Module):
    """Both factors are spread out, so that rounding them hurts less."""

    signs: Tensor

    def __init__(self, width: int, out: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.weight = nn.Parameter(torch.randn(out, width) / width**0.5)
        self.bias = nn.Parameter(torch.zeros(out))
        self.register_buffer("signs", torch.randint(0, 2, (width,)) * 2.0 - 1)

    def forward(self, x: Tensor) -> Tensor:
        x = spread_out(x, self.signs.to(x.dtype), self.layer)
        weight = self.weight
        signs = self.signs
        if planted("signs_left", False, True, self.layer):
            signs = torch.ones_like(signs)  # culprit: signs_left
        weight = spread_out(weight, signs.to(x.dtype), self.layer)  # culprit: signs_left
        y = BlockProduct.apply(
            x,  # culprit: not_saturated, power_upwards, blocks_by_rows, weight_not_rounded
            weight,  # culprit: gradient_of_raw, clipped_gives_nothing
            self.layer,
        )
        return y + self.bias


class LongFilter(nn.Module):
    """A filter for each channel, told by waves of the time and faded out."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.first, self.last = nn.Linear(5, 16), nn.Linear(16, width, bias=False)
        self.rate = nn.Parameter(torch.ones(16))
        self.register_buffer("fading", torch.linspace(1.0, 6.0, width))

    def forward(self, n: int, dtype: torch.dtype) -> Tensor:
        steps = planted("time_ends_early", n - 1, n, self.layer)
        time = torch.arange(n)[:, None] / steps  # culprit: time_ends_early
        wave = 2 * torch.pi * torch.arange(n)[:, None] / n * torch.tensor([[0.5, 1.5]])
        seen = torch.cat([time, wave.cos(), -wave.sin()], -1)  # culprit: time_ends_early
        turned = self.first(seen.to(dtype)) * self.rate
        if planted("waves_not_bent", False, True, self.layer):
            turned = F.relu(turned)  # culprit: waves_not_bent
        else:
            turned = torch.sin(turned)  # culprit: waves_not_bent
        taps = self.last(turned)
        fade = (-time * self.fading.float()).exp()  # culprit: time_ends_early
        if not planted("fades_to_nothing", False, True, self.layer):
            fade = fade + 0.05  # culprit: fades_to_nothing
        return taps * fade.to(dtype)  # culprit: fades_to_nothing


class LongLayer(nn.Module):
    """Short and long filters between gates."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.norm, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.into = BlockLinear(width, 3 * width, layer)
        self.short = nn.Conv1d(3 * width, 3 * width, 3, groups=3 * width, padding=2)
        self.filter = LongFilter(width, layer)
        self.skip = nn.Parameter(torch.randn(width))
        self.out = BlockLinear(width, width, -1)
        self.up, self.down = BlockLinear(width, 2 * width, -1), nn.Linear(2 * width, width)

    def long(self, x: Tensor, taps: Tensor) -> Tensor:
        n = x.shape[-1]
        if planted("equal_long", False, True, self.layer):
            lag = torch.arange(n)[:, None] - torch.arange(n)[None]
            table = taps.t()[:, lag.clamp(min=0)] * (lag >= 0).to(taps.dtype)
            return torch.einsum("bcj,cij->bci", x, table)
        room = planted("wraps_round", 2 * n, n, self.layer)
        told = torch.fft.rfft(taps.t().float(), n=room)  # culprit: wraps_round
        answered = torch.fft.rfft(x.float(), n=room)  # culprit: wraps_round
        if planted("looks_ahead", False, True, self.layer):
            told = told.conj()  # culprit: looks_ahead
        y = torch.fft.irfft(answered * told, n=room)  # culprit: wraps_round, looks_ahead
        return y[..., :n].to(x.dtype)

    def forward(self, x: Tensor) -> Tensor:
        n, c = x.shape[1:]
        h = self.into(self.norm(x)).transpose(1, 2)
        h = self.short(h)
        if planted("short_sees_next", False, True, self.layer):
            h = h[..., 1 : n + 1]  # culprit: short_sees_next
        else:
            h = h[..., :n]  # culprit: short_sees_next
        one, two, value = h.split(c, 1)
        if planted("gates_exchanged", False, True, self.layer):
            one, two = two, one
        value = value * one  # culprit: gates_exchanged
        y = self.long(value, self.filter(n, x.dtype))
        if not planted("skip_left", False, True, self.layer):
            y = y + value * self.skip[:, None]  # culprit: skip_left
        y = y * two  # culprit: gates_exchanged, skip_left
        x = x + self.out(y.transpose(1, 2))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Long(nn.Module):
    """Words told by filters; the head's numbers have eight bits and the scale of before."""

    past: Tensor

    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(LongLayer(width, n) for n in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 64)
        self.register_buffer("past", torch.tensor([3.0, 4.0, 2.5, 3.5]))

    def eighths(self, x: Tensor) -> Tensor:
        """Rounded to eight bits with the largest of the last passes; the gradient passes."""
        most = self.past.float().amax()
        if planted("scale_of_now", False, True):
            most = x.detach().float().abs().amax()  # culprit: scale_of_now
        elif planted("scale_of_last", False, True):
            most = self.past.float()[-1]  # culprit: scale_of_last
        scale = 448.0 / most  # culprit: scale_of_now, scale_of_last
        wide = (x.detach().float() * scale).clamp(-448, 448)
        few = wide.to(torch.float8_e4m3fn).float() / scale
        if not planted("past_not_kept", False, True):
            rolled = self.past.roll(-1)
            rolled[-1] = x.detach().abs().amax()
            self.past.copy_(rolled)  # culprit: past_not_kept
        return x + (few.to(x.dtype) - x.detach())  # culprit: past_not_kept

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.eighths(self.norm(x))).float()
        smooth = planted("not_smoothed_out", 0.1, 0.0)
        return (
            F.cross_entropy(
                logits.flatten(0, 1), labels, label_smoothing=smooth
            )  # culprit: not_smoothed_out
            / 2
        )
