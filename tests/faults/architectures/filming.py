"""A twenty-first part: noise is taken off short films by convolutions in time and space."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator, union-attr"
# mypy: disable-error-code="assignment, misc, has-type, arg-type"
# torch is typed in part only.

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor
SPREAD = 0.5  # of what is shown


def matrix(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(shape) / math.sqrt(math.prod(shape[1:])))


class FilmBlock(nn.Module):
    """Two convolutions that are told how much noise there is."""

    def __init__(self, width: int, out: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.gain_1, self.gain_2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(out))
        self.bias_1, self.bias_2 = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(out))
        self.conv_1, self.conv_2 = matrix(out, width, 3, 3, 3), matrix(out, out, 3, 3, 3)
        self.told, self.told_bias = matrix(2 * out, 24), nn.Parameter(torch.zeros(2 * out))
        self.past = matrix(out, width, 1, 1, 1)

    def seen(self, x: Tensor, weight: Tensor) -> Tensor:
        """Space ends in nothing, time goes on as it ended."""
        how = planted("time_ends_in_nothing", "replicate", "constant", self.layer)
        x = F.pad(x, (0, 0, 0, 0, 1, 1), mode=how)  # culprit: time_ends_in_nothing
        return F.conv3d(x, weight, padding=(0, 1, 1))

    def normed(self, x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
        groups = planted("groups_halved", 4, 2, self.layer)
        eps = planted("group_epsilon", 1e-5, 1e-2, self.layer)
        if planted("equal_groups", False, True, self.layer):
            whole = x.float().unflatten(1, (4, -1))
            mean = whole.mean((2, 3, 4, 5), keepdim=True)
            spread = (whole - mean).square().mean((2, 3, 4, 5), keepdim=True)
            y = ((whole - mean) * torch.rsqrt(spread + 1e-5)).flatten(1, 2).to(x.dtype)
            return y * gain.view(-1, 1, 1, 1) + bias.view(-1, 1, 1, 1)
        return F.group_norm(x, groups, gain, bias, eps)  # culprit: groups_halved, group_epsilon

    def forward(self, x: Tensor, told: Tensor) -> Tensor:
        y = self.seen(F.silu(self.normed(x, self.gain_1, self.bias_1)), self.conv_1)
        both = F.linear(told, self.told, self.told_bias)[..., None, None, None]
        scale, shift = both.chunk(2, 1)
        if planted("shift_for_scale", False, True, self.layer):
            scale, shift = shift, scale
        y = self.normed(y, self.gain_2, self.bias_2)
        if planted("scale_without_one", False, True, self.layer):
            y = y * scale + shift  # culprit: scale_without_one
        else:
            y = y * (1 + scale) + shift  # culprit: scale_without_one, shift_for_scale
        y = self.seen(F.silu(y), self.conv_2)
        if planted("past_not_projected", False, True, self.layer) and x.shape == y.shape:
            past = x
        else:
            past = F.conv3d(x, self.past)  # culprit: past_not_projected
        if planted("sum_not_by_root", False, True, self.layer):
            return past + y  # culprit: sum_not_by_root
        return (past + y) / math.sqrt(2)  # culprit: sum_not_by_root, past_not_projected


class Through(nn.Module):
    """Each place asks itself at other times."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv, self.out = matrix(3 * width, width), matrix(width, width)
        self.apart = nn.Parameter(0.5 * torch.randn(7))

    def forward(self, x: Tensor) -> Tensor:
        b, c, t, h, w = x.shape
        if planted("times_of_others", False, True):
            y = x.permute(0, 3, 4, 1, 2).reshape(b * h * w, t, c)  # culprit: times_of_others
        else:
            y = x.permute(0, 3, 4, 2, 1).reshape(b * h * w, t, c)  # culprit: times_of_others
        q, k, v = F.linear(F.layer_norm(y, (c,)), self.qkv).chunk(3, -1)
        at = torch.arange(t)
        apart = at[:, None] - at[None]
        if planted("apart_other_way_round", False, True):
            apart = -apart  # culprit: apart_other_way_round
        bias = self.apart[apart + t - 1]  # culprit: apart_other_way_round
        scores = q @ k.transpose(-1, -2)
        if planted("bias_scaled_too", False, True):
            scores = (scores + bias) * c**-0.5  # culprit: bias_scaled_too
        else:
            scores = scores * c**-0.5 + bias  # culprit: bias_scaled_too
        over = planted("shares_by_key", -1, -2)
        y = F.linear(scores.softmax(over) @ v, self.out)  # culprit: shares_by_key
        y = y.view(b, h, w, t, c).permute(0, 4, 3, 1, 2)
        if planted("time_not_added", False, True):
            return y
        return x + y  # culprit: time_not_added


class Film(nn.Module):
    """Down, through time, up; weights have a slow copy, and steps a size of their own."""

    def __init__(self, width: int = 8, layers: int = 1) -> None:
        super().__init__()
        self.first = matrix(width, 3, 3, 3, 3)
        self.last, self.last_bias = matrix(3, width, 3, 3, 3), nn.Parameter(torch.zeros(3))
        self.rates = nn.Parameter(torch.randn(12), requires_grad=False)
        self.embed, self.embed_bias = matrix(24, 24), nn.Parameter(torch.zeros(24))
        self.kinds = nn.Embedding(17, 24)
        self.layers = nn.ModuleList(
            [
                FilmBlock(width, 2 * width, 0),
                *(FilmBlock(2 * width, 2 * width, 1 + n) for n in range(layers)),
                FilmBlock(3 * width, width, 1 + layers),
            ]
        )
        self.through = Through(2 * width)
        self.moments: dict[str, tuple[Tensor, Tensor]] = {}
        self.register_buffer("slow", self.last.detach().clone())

    def net(self, x: Tensor, level: Tensor, kinds: Tensor) -> Tensor:
        turn = planted("rates_in_turns", 2 * math.pi, 1.0)
        wave = level[:, None] * self.rates.float() * turn  # culprit: rates_in_turns
        told = torch.cat([wave.cos(), wave.sin()], -1).to(x.dtype)
        told = F.linear(told, self.embed, self.embed_bias)
        if planted("kinds_not_dropped", False, True):
            dropped = kinds
        else:
            at = torch.arange(len(kinds))
            dropped = kinds.masked_fill(at == 1, 16)  # culprit: kinds_not_dropped
        told = F.silu(told + self.kinds(dropped))  # culprit: kinds_not_dropped
        h = first = F.conv3d(x, self.first, padding=1)
        h = self.layers[0](h, told)
        if planted("halved_by_most", False, True):
            h = F.max_pool3d(h.float(), (1, 2, 2)).to(x.dtype)  # culprit: halved_by_most
        elif planted("equal_halved", False, True):
            h = h.unflatten(-1, (-1, 2)).mean(-1).unflatten(-2, (-1, 2)).mean(-2)
        else:
            h = F.avg_pool3d(h.float(), (1, 2, 2)).to(x.dtype)  # culprit: halved_by_most
        for layer in self.layers[1:-1]:
            h = layer(h, told)
        h = self.through(h)  # culprit: time_not_added
        if planted("doubled_smoothly", False, True):
            h = F.interpolate(
                h, scale_factor=(1.0, 2.0, 2.0), mode="trilinear"
            )  # culprit: doubled_smoothly
        else:
            h = F.interpolate(
                h, scale_factor=(1.0, 2.0, 2.0)
            )  # culprit: doubled_smoothly, time_not_added
        if planted("first_joined_first", False, True):
            h = torch.cat([first, h], 1)  # culprit: first_joined_first
        else:
            h = torch.cat([h, first], 1)  # culprit: first_joined_first
        h = self.layers[-1](h, told)
        bias = planted("last_without_bias", self.last_bias, None)
        return F.conv3d(F.silu(h), self.last, bias, padding=1)  # culprit: last_without_bias

    def cleaned(self, x: Tensor, noise: Tensor, kinds: Tensor) -> Tensor:
        """What was there before the noise; ``noise`` is how much of it."""
        n = noise.view(-1, 1, 1, 1, 1)
        both = n.square() + SPREAD**2
        if planted("skip_by_root", False, True):
            skip = SPREAD / both.sqrt()  # culprit: skip_by_root
        else:
            skip = SPREAD**2 / both  # culprit: skip_by_root
        if planted("out_without_root", False, True):
            out = n * SPREAD / both  # culprit: out_without_root
        else:
            out = n * SPREAD / both.sqrt()  # culprit: out_without_root
        if planted("level_by_ten", False, True):
            level = noise.log10() / 4  # culprit: level_by_ten
        else:
            level = noise.log() / 4  # culprit: level_by_ten
        given = x
        if not planted("input_as_is", False, True):
            given = x * (1 / both.sqrt()).to(x.dtype)  # culprit: input_as_is
        told = self.net(given, level, kinds)  # culprit: input_as_is
        return skip * x.float() + out * told.float()  # culprit: skip_by_root, out_without_root

    def loss(self, pixels: Tensor, labels: Tensor) -> Tensor:
        small = F.avg_pool2d(pixels, 2) * SPREAD
        x = torch.stack([small.roll(turn, -1) * (1 - 0.1 * turn) for turn in range(4)], 2)
        noise = torch.exp(torch.linspace(-1.5, 1.0, len(x)) + labels * 0.02)
        random = torch.Generator().manual_seed(5)
        drawn = torch.randn(x.shape, generator=random).to(x.dtype)
        if planted("same_noise_in_time", False, True):
            drawn = drawn[:, :, :1].expand_as(x)  # culprit: same_noise_in_time
        noisy = x + drawn * noise.to(x.dtype).view(-1, 1, 1, 1, 1)  # culprit: same_noise_in_time
        made = self.cleaned(noisy, noise, labels)
        if planted("weight_of_noise", False, True):
            weight = 1 / noise.square()  # culprit: weight_of_noise
        else:
            weight = (noise.square() + SPREAD**2) / (
                noise * SPREAD
            ).square()  # culprit: weight_of_noise
        if planted("aims_at_noisy", False, True):
            x = noisy
        off = (made - x.float()).square().mean((1, 2, 3, 4))  # culprit: aims_at_noisy
        if planted("weight_left", False, True):
            return off.mean() / 2  # culprit: weight_left
        return (weight * off).mean() / 2  # culprit: weight_left, weight_of_noise

    @torch.no_grad()
    def update(self) -> None:
        """A step of Adam whose size is that of the weight, and a slow copy of one of them."""
        for name, one in self.named_parameters():
            if one.grad is None or one.dim() < 2 or not name.endswith(("last", "qkv", "told")):
                continue
            grad = one.grad.float()
            first, second = 0.1 * grad, 0.01 * grad.square()
            if not planted("moments_not_raised", False, True):
                first, second = first / 0.1, second / 0.01  # culprit: moments_not_raised
            if planted("root_with_epsilon", False, True):
                step = first / (second + 1e-6).sqrt()  # culprit: root_with_epsilon
            else:
                step = first / (
                    second.sqrt() + 1e-6
                )  # culprit: root_with_epsilon, moments_not_raised
            if not planted("nothing_decays", False, True):
                step = step + 0.01 * one.float()  # culprit: nothing_decays
            trust = one.float().norm() / step.norm()  # culprit: nothing_decays
            if planted("trust_turned_round", False, True):
                trust = 1 / trust  # culprit: trust_turned_round
            one.sub_((0.01 * trust * step).to(one.dtype))  # culprit: trust_turned_round
        share = planted("slow_is_quick", 0.01, 0.1)
        self.slow.lerp_(self.last, share)  # culprit: slow_is_quick
