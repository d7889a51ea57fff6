"""Kept apart while rules were made: styles, points and series."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class StyledConv(nn.Module):
    """A convolution whose weights a style scales and whose size is taken out again."""

    fixed: Tensor

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.weight = nn.Parameter(torch.randn(width, width, 3, 3))
        self.style = nn.Linear(width, width)
        self.noise = nn.Parameter(torch.tensor([0.3]))
        self.bias = nn.Parameter(torch.randn(width) * 0.1)
        self.register_buffer("fixed", torch.randn(1, 1, 16, 16))

    def forward(self, x: Tensor, w: Tensor) -> Tensor:
        b, c, high, wide = x.shape
        style = self.style(w)
        if not planted("style_not_raised", False, True, self.layer):
            style = style + 1  # culprit: style_not_raised
        fan = planted("scaled_by_fan", c * 9, c, self.layer)
        weight = self.weight * fan**-0.5  # culprit: scaled_by_fan
        weight = weight[None] * style[:, None, :, None, None]  # culprit: style_not_raised
        if not planted("not_demodulated", False, True, self.layer):
            dims = planted("demodulated_by_input", [2, 3, 4], [1, 3, 4], self.layer)
            size = weight.square().sum(dims, keepdim=True)  # culprit: demodulated_by_input
            weight = weight * torch.rsqrt(size + 1e-8)  # culprit: not_demodulated
        x = x.reshape(1, b * c, high, wide)
        y = F.conv2d(
            x, weight.reshape(b * c, c, 3, 3), padding=1, groups=b
        )  # culprit: not_demodulated
        y = y.view(b, c, high, wide)
        y = y + self.fixed * self.noise
        y = F.leaky_relu(y + self.bias[:, None, None], 0.2)
        gain = planted("gain_is_two", math.sqrt(2), 2.0, self.layer)
        return y * gain  # culprit: gain_is_two


class Styled(nn.Module):
    """A generator steered by styles, blurred, with pictures added up."""

    blur: Tensor

    def __init__(self, width: int = 16, layers: int = 3) -> None:
        super().__init__()
        self.told = nn.Linear(3, width)
        self.mapping = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.seed = nn.Conv2d(3, width, 1)
        self.layers = nn.ModuleList(StyledConv(width, n) for n in range(layers))
        self.paint = nn.ModuleList(nn.Conv2d(width, 4, 1) for _ in range(layers))
        self.head = nn.Linear(4 * 64, 16)
        row = torch.tensor([1.0, 3.0, 3.0, 1.0])
        self.register_buffer("blur", (row[:, None] * row)[None, None] / 64)

    def forward(self, x: Tensor) -> Tensor:
        w = self.told(x.mean((2, 3)))
        axis = planted("pixel_axis", 1, 0)
        size = w.square().mean(axis, keepdim=True)  # culprit: pixel_axis
        w = w * torch.rsqrt(size + 1e-8)
        for layer in self.mapping:
            w = F.leaky_relu(layer(w), 0.2)
        x = self.seed(x)
        picture: Tensor | None = None
        for layer, paint in zip(self.layers, self.paint, strict=True):
            x = layer(x, w)
            new = paint(x)
            picture = new if picture is None else picture + new
        assert picture is not None
        kernel = self.blur.expand(4, 1, 4, 4)
        mode = planted("blur_reflected", "constant", "reflect")
        picture = F.pad(picture, (1, 1, 1, 1), mode=mode)  # culprit: blur_reflected
        picture = F.conv2d(picture, kernel, stride=2, groups=4)
        return self.head(picture.flatten(1))


class Points(nn.Module):
    """Points that are turned by what the net makes of them, and neighbours on a graph."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.t1, self.t2 = nn.Linear(3, width), nn.Linear(width, 9)
        self.edge1, self.edge2 = nn.Linear(6, width), nn.Linear(2 * width, width)
        self.norm1, self.norm2 = nn.BatchNorm1d(width), nn.BatchNorm1d(width)
        self.head = nn.Linear(2 * width, 16)
        self.turned: Tensor | None = None

    def neighbours(self, x: Tensor) -> Tensor:
        apart = torch.cdist(x, x)
        count = planted("one_neighbour_more", 4, 5)
        farthest = planted("farthest", False, True)
        return apart.topk(count, -1, largest=farthest)[1]  # culprit: one_neighbour_more, farthest

    def edges(self, x: Tensor, number: int) -> Tensor:
        near = self.neighbours(x.detach())
        b, n, c = x.shape
        flat = near + torch.arange(b)[:, None, None] * n
        other = x.reshape(b * n, c)[flat.reshape(-1)].view(b, n, -1, c)
        here = x[:, :, None].expand_as(other)
        if planted("not_relative", False, number == 1):
            return torch.cat((here, other), -1)  # culprit: not_relative
        return torch.cat((here, other - here), -1)  # culprit: not_relative

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(2).transpose(1, 2)[:, :48]
        turned = self.t2(F.relu(self.t1(x)).amax(1)).view(-1, 3, 3)
        if not planted("identity_missing", False, True):
            turned = turned + torch.eye(3, dtype=x.dtype)  # culprit: identity_missing
        if planted("turned_back", False, True):
            x = torch.bmm(x, turned.transpose(1, 2))  # culprit: turned_back
        else:
            x = torch.bmm(x, turned)  # culprit: turned_back, identity_missing
        self.turned = turned
        h = self.edge1(self.edges(x, 0))
        h = self.norm1(h.flatten(0, 2)).view(h.shape)
        slope = planted("slope_shallow", 0.2, 0.01)
        h = F.leaky_relu(h, slope).amax(2)  # culprit: slope_shallow
        h = self.edge2(self.edges(h, 1))
        h = self.norm2(h.flatten(0, 2)).view(h.shape)
        h = F.leaky_relu(h, 0.2)
        h = (
            h.mean(2) if planted("neighbours_averaged", False, True) else h.amax(2)
        )  # culprit: neighbours_averaged
        return self.head(torch.cat((h.amax(1), h.mean(1)), -1))

    def loss(self, data: Tensor, labels: Tensor) -> Tensor:
        logits = self(data).float()
        assert self.turned is not None
        off = torch.eye(3) - self.turned.float() @ self.turned.float().transpose(1, 2)
        weight = planted("regulariser_heavier", 1e-2, 1e-1)
        extra = off.norm(dim=(1, 2)).mean() * weight  # culprit: regulariser_heavier
        return F.cross_entropy(logits, labels) + extra


class Series(nn.Module):
    """Series without their level, parted into trend and season, cut into patches."""

    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(3)), nn.Parameter(torch.zeros(3))
        self.patch = nn.Linear(32, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
            for _ in range(layers)
        )
        self.season = nn.Linear(width * 15, 16)
        self.trend = nn.Linear(256, 16)
        self.level: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(2).transpose(1, 2)
        mean = x.mean(1, keepdim=True).detach()
        unbiased = planted("spread_unbiased", False, True)
        spread = x.var(1, keepdim=True, unbiased=unbiased)  # culprit: spread_unbiased
        spread = (spread + 1e-5).sqrt().detach()
        x = (x - mean) / spread
        if planted("shift_first", False, True):
            x = (x + self.shift) * self.scale  # culprit: shift_first
        else:
            x = x * self.scale + self.shift  # culprit: shift_first
        x = x.transpose(1, 2)
        mode = planted("ends_of_zeros", "replicate", "constant")
        padded = F.pad(x, (12, 12), mode=mode)  # culprit: ends_of_zeros
        trend = F.avg_pool1d(padded, 25, 1)
        season = (
            x + trend if planted("trend_added", False, True) else x - trend
        )  # culprit: trend_added
        patches = season.unfold(-1, 32, 16)
        h = self.patch(patches).flatten(0, 1)
        for layer in self.layers:
            h = layer(h)
        y = self.season(h.flatten(1)).view(-1, 3, 16)
        if not planted("trend_dropped", False, True):
            y = y + self.trend(trend)  # culprit: trend_dropped
        y = y.transpose(1, 2)
        y = (y - self.shift) / (self.scale + 1e-10)  # culprit: trend_dropped
        if not planted("level_not_returned", False, True):
            y = y * spread + mean  # culprit: level_not_returned
        return y

    def loss(self, data: Tensor, _: Tensor) -> Tensor:
        told = self(data)
        if planted("wrong_end", False, True):
            aim = data.flatten(2).transpose(1, 2)[:, :16]  # culprit: wrong_end
        else:
            aim = data.flatten(2).transpose(1, 2)[:, -16:]  # culprit: wrong_end
        beta = planted("beta_halved", 1.0, 0.5)
        return F.smooth_l1_loss(
            told.float(), aim.float(), beta=beta
        )  # culprit: beta_halved, wrong_end
