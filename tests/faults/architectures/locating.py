"""A twenty-first part: boxes are found by looking at few chosen places of two pictures in one."""

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
SIZES = ((8, 6), (4, 3))  # rows and columns of both levels


class Frozen(nn.Module):
    """A normalisation whose numbers are kept as they came."""

    mean: Tensor
    spread: Tensor

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.gain, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", 0.2 * torch.randn(width))
        self.register_buffer("spread", 0.3 + torch.rand(width))

    def forward(self, x: Tensor) -> Tensor:
        eps = planted("frozen_epsilon", 1e-5, 1e-2, self.layer)
        if planted("spread_without_root", False, True, self.layer):
            scale = self.gain / (self.spread + eps)  # culprit: spread_without_root
        else:
            scale = (
                self.gain * (self.spread + eps).rsqrt()
            )  # culprit: spread_without_root, frozen_epsilon
        if planted("mean_not_scaled", False, True, self.layer):
            shift = self.bias - self.mean  # culprit: mean_not_scaled
        else:
            shift = self.bias - self.mean * scale  # culprit: mean_not_scaled
        return x * scale.view(-1, 1, 1) + shift.view(-1, 1, 1)


class Glances(nn.Module):
    """Each question looks at four places for each head: two in each level."""

    def __init__(self, width: int, layer: int, heads: int = 2, points: int = 2) -> None:
        super().__init__()
        self.layer, self.heads, self.points = layer, heads, points
        self.where = nn.Linear(width, heads * 2 * points * 2)
        self.shares = nn.Linear(width, heads * 2 * points)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, asked: Tensor, near: Tensor, x: Tensor) -> Tensor:
        b, n, c = asked.shape
        value = self.value(x)  # culprit: values_placed_too
        value = value.view(b, -1, self.heads, c // self.heads)
        away = self.where(asked).view(b, n, self.heads, 2, self.points, 2)
        shares = self.shares(asked).view(b, n, self.heads, 2, self.points)
        if planted("shares_by_level", False, True, self.layer):
            shares = shares.softmax(-1)  # culprit: shares_by_level
        else:
            shares = shares.flatten(-2).softmax(-1).view_as(shares)  # culprit: shares_by_level
        sizes = torch.tensor(SIZES, dtype=x.dtype)
        if not planted("rows_before_columns", False, True, self.layer):
            sizes = sizes.flip(-1)  # culprit: rows_before_columns
        if planted("away_not_by_size", False, True, self.layer):
            at = near[:, :, None, None, None] + away * 0.2  # culprit: away_not_by_size
        else:
            at = (
                near[:, :, None, None, None] + away / sizes[:, None]
            )  # culprit: rows_before_columns, away_not_by_size
        grid = at
        if not planted("grid_not_doubled", False, True, self.layer):
            grid = 2 * at - 1  # culprit: grid_not_doubled
        seen, start = [], 0
        for level, (h, w) in enumerate(SIZES):
            part = value[:, start : start + h * w]
            if planted("read_by_columns", False, True, self.layer):
                part = part.permute(0, 2, 3, 1).reshape(-1, c // self.heads, w, h)
                part = part.transpose(2, 3)  # culprit: read_by_columns
            else:
                part = part.permute(0, 2, 3, 1).reshape(
                    -1, c // self.heads, h, w
                )  # culprit: read_by_columns
            start += h * w
            if planted("equal_glance", False, True, self.layer):
                places = grid[:, :, :, level].permute(0, 2, 1, 3, 4).flatten(0, 1)
            else:
                places = grid[:, :, :, level]  # culprit: grid_not_doubled
                places = places.transpose(1, 2).flatten(0, 1)
            how = planted("nearest_place", "bilinear", "nearest", self.layer)
            edge = planted("edges_go_on", "zeros", "border", self.layer)
            corners = planted("corners_are_centres", False, True, self.layer)
            seen.append(
                F.grid_sample(  # culprit: nearest_place, edges_go_on, corners_are_centres
                    part.float(),  # culprit: grid_not_doubled
                    places.float(),
                    mode=how,
                    padding_mode=edge,
                    align_corners=corners,
                ).to(x.dtype)
            )
        told = torch.stack(seen, -2)
        by = shares.transpose(1, 2).flatten(0, 1)[:, None]
        y = (told * by).flatten(-2).sum(-1)
        return self.out(y.view(b, c, n).transpose(1, 2))


class Finding(nn.Module):
    """Questions ask one another, then look, then say how their box is to be moved."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.qk, self.v = nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.glances = Glances(width, layer)
        self.norm_1, self.norm_2, self.norm_3 = (nn.LayerNorm(width) for _ in range(3))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.box, self.kind = nn.Linear(width, 4), nn.Linear(width, 16)

    def forward(self, x: Tensor, asked: Tensor, box: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        both = x
        if not planted("questions_not_told", False, True, self.layer):
            both = x + asked  # culprit: questions_not_told
        q, k = self.qk(both).chunk(2, -1)  # culprit: questions_not_told
        of = both if planted("values_told_too", False, True, self.layer) else x
        v = self.v(of)  # culprit: values_told_too
        y = F.scaled_dot_product_attention(q, k, v)
        if planted("normed_before_sum", False, True, self.layer):
            x = x + self.norm_1(y)  # culprit: normed_before_sum
        else:
            x = self.norm_1(x + y)  # culprit: normed_before_sum
        near = box[..., :2]  # culprit: box_not_cut
        x = self.norm_2(x + self.glances(x + asked, near, seen))
        x = self.norm_3(x + self.down(F.relu(self.up(x))))
        if planted("box_from_nothing", False, True, self.layer):
            moved = self.box(x)  # culprit: box_from_nothing
        else:
            least = planted("logits_cut_early", 1e-3, 0.2, self.layer)
            kept = box.clamp(least, 1 - least)  # culprit: logits_cut_early, box_not_cut
            moved = self.box(x) + torch.log(kept / (1 - kept))  # culprit: box_from_nothing
        return x, torch.sigmoid(moved)  # culprit: box_from_nothing


def corners(box: Tensor) -> Tensor:
    """Left, top, right, bottom."""
    x, y, w, h = box.unbind(-1)
    if planted("equal_corners", False, True):
        return torch.cat([box[..., :2] - box[..., 2:] / 2, box[..., :2] + box[..., 2:] / 2], -1)
    if planted("sides_not_halved", False, True):
        return torch.stack([x - w, y - h, x + w, y + h], -1)  # culprit: sides_not_halved
    return torch.stack(
        [x - w / 2, y - h / 2, x + w / 2, y + h / 2], -1
    )  # culprit: sides_not_halved


def overlap(box: Tensor, aim: Tensor) -> Tensor:
    """Shared area by joined area, less what is empty around both."""
    box, aim = corners(box), corners(aim)
    size = (box[..., 2:] - box[..., :2]).prod(-1) + (aim[..., 2:] - aim[..., :2]).prod(-1)
    low, high = torch.maximum(box[..., :2], aim[..., :2]), torch.minimum(box[..., 2:], aim[..., 2:])
    inner = high - low
    if not planted("apart_is_negative", False, True):
        inner = inner.clamp(min=0)  # culprit: apart_is_negative
    shared = inner.prod(-1)  # culprit: apart_is_negative
    if planted("shared_counted_twice", False, True):
        joined = size  # culprit: shared_counted_twice
    else:
        joined = size - shared  # culprit: shared_counted_twice
    first, last = (
        torch.minimum(box[..., :2], aim[..., :2]),
        torch.maximum(box[..., 2:], aim[..., 2:]),
    )
    if planted("hull_of_shared", False, True):
        first, last = low, high
    hull = (last - first).prod(-1)  # culprit: hull_of_shared
    told = shared / (joined + 1e-6)  # culprit: shared_counted_twice
    if planted("hull_left", False, True):
        return told
    return told - (hull - joined) / (hull + 1e-6)  # culprit: hull_left


class Located(nn.Module):
    """Two levels of a picture, one layer that looks at itself, two that find boxes."""

    def __init__(self, width: int = 16, layers: int = 2, questions: int = 5) -> None:
        super().__init__()
        self.conv_1 = nn.Conv2d(3, width, 3, 2, 1, bias=False)
        self.conv_2 = nn.Conv2d(width, width, 3, 2, 1, bias=False)
        self.frozen_1, self.frozen_2 = Frozen(width, 0), Frozen(width, 1)
        self.level = nn.Parameter(torch.randn(2, width))
        self.encoder, self.encoder_norm = Glances(width, -1), nn.LayerNorm(width)
        self.asked, self.start = nn.Embedding(questions, width), nn.Embedding(questions, width)
        self.box = nn.Parameter(torch.randn(questions, 4))
        self.layers = nn.ModuleList(Finding(width, n) for n in range(layers))

    def waves(self, h: int, w: int, width: int) -> Tensor:
        """Waves of rows, then of columns, both counted to a full turn."""
        turn = planted("turns_not_full", 2 * math.pi, 1.0)
        rows = torch.arange(1, h + 1) / h * turn  # culprit: turns_not_full
        columns = torch.arange(1, w + 1) / w * turn  # culprit: turns_not_full
        rate = 20.0 ** -(torch.arange(width // 4) / (width // 4))
        told = [
            torch.cat([(one[:, None] * rate).sin(), (one[:, None] * rate).cos()], -1)
            for one in (rows, columns)
        ]
        grid = [told[0][:, None].expand(h, w, -1), told[1][None].expand(h, w, -1)]
        if planted("columns_first", False, True):
            grid.reverse()
        return torch.cat(grid, -1).flatten(0, 1)  # culprit: columns_first

    def pictured(self, x: Tensor) -> Tensor:
        first = F.relu(self.frozen_1(self.conv_1(x)))
        levels = [first, F.relu(self.frozen_2(self.conv_2(first)))]
        flat = torch.cat([one.flatten(2).transpose(1, 2) for one in levels], 1)
        told, near = [], []
        for (h, w), level in zip(SIZES, self.level, strict=True):
            waves = self.waves(h, w, flat.shape[-1]).to(x.dtype)
            if planted("levels_not_told", False, True):
                told.append(waves)
            else:
                told.append(waves + level)  # culprit: levels_not_told
            middle = planted("near_at_corner", 0.5, 0.0)
            down, along = torch.meshgrid(
                (torch.arange(h) + middle) / h,  # culprit: near_at_corner
                (torch.arange(w) + middle) / w,
                indexing="ij",
            )
            near.append(torch.stack([along, down], -1).flatten(0, 1).to(x.dtype))
        asked = flat + torch.cat(told)  # culprit: levels_not_told
        where = torch.cat(near).expand(len(x), -1, -1)
        of = asked if planted("values_placed_too", False, True) else flat
        return self.encoder_norm(
            flat + self.encoder(asked, where, of)  # culprit: values_placed_too
        )

    def lost(self, kinds: Tensor, box: Tensor, labels: Tensor) -> Tensor:
        """Two boxes a picture; the first two questions are to find them."""
        aims = torch.stack([labels % 4 / 5 + 0.2, labels // 4 / 5 + 0.2], -1).float()
        aims = torch.stack([torch.cat([aims, aims / 2 + 0.1], -1), 0.6 - aims.repeat(1, 2) / 2], 1)
        named = torch.zeros_like(kinds)
        named[torch.arange(len(labels)), 0, labels] = 1.0
        named[torch.arange(len(labels)), 1, (labels + 3) % 16] = 1.0
        many = 2 * len(labels)
        p = torch.sigmoid(kinds)
        off = F.binary_cross_entropy_with_logits(kinds, named, reduction="none")
        share = planted("rare_for_frequent", 0.25, 0.75)
        if planted("equal_focus", False, True):
            missed = (p - named).abs()
        else:
            missed = p * (1 - named) + (1 - p) * named
        power = planted("focus_less", 2.0, 1.0)
        heavy = share * named + (1 - share) * (1 - named)  # culprit: rare_for_frequent
        focus = heavy * missed**power * off  # culprit: focus_less
        if planted("focus_by_questions", False, True):
            by_kind = focus.mean(1).sum()  # culprit: focus_by_questions
        else:
            by_kind = focus.sum() / many  # culprit: focus_by_questions
        found = box[:, :2]
        by = planted("away_by_number", many, 4 * many)
        away = (found - aims).abs().sum() / by  # culprit: away_by_number
        if planted("overlap_not_turned", False, True):
            less = overlap(found, aims).sum() / many  # culprit: overlap_not_turned
        else:
            less = (1 - overlap(found, aims)).sum() / many  # culprit: overlap_not_turned, hull_left
        return by_kind + 5 * away + 2 * less

    def loss(self, pixels: Tensor, labels: Tensor) -> Tensor:
        x = pixels[..., :12]
        seen = self.pictured(x)
        b = len(x)
        asked, told = (one.weight.expand(b, -1, -1) for one in (self.asked, self.start))
        box = torch.sigmoid(self.box).expand(b, -1, -1)
        total = torch.zeros(())
        for number, layer in enumerate(self.layers):
            told, box = layer(told, asked, box, seen)
            if planted("first_not_judged", False, True) and not number:
                pass
            else:
                kinds = layer.kind(told).float()  # culprit: first_not_judged
                total = total + self.lost(kinds, box.float(), labels)  # culprit: first_not_judged
            if not planted("box_not_cut", False, True):
                box = box.detach()  # culprit: box_not_cut
        return total / 2
