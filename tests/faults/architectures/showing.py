"""A twentieth part: pictures that are shown to a decoder between its words."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator, union-attr"
# mypy: disable-error-code="assignment, misc, has-type, arg-type"
# torch is typed in part only.

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


def spun(x: Tensor, angle: Tensor) -> Tensor:
    """Halves of the elements turned against one another."""
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class LookingLayer(nn.Module):
    """Attention between patches, turned by row and by column; branches are scaled."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer, self.size = layer, 8
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.qkv, self.proj = nn.Linear(width, 96), nn.Linear(32, width)
        self.fc1, self.fc2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.scale1 = nn.Parameter(0.5 * torch.ones(width))
        self.scale2 = nn.Parameter(0.5 * torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, 4, 8).permute(2, 0, 3, 1, 4)
        row, col = torch.arange(n) // 4, torch.arange(n) % 4
        if planted("rows_for_columns", False, True, self.layer):
            row, col = col, row
        per = 1.0 / 10.0 ** (torch.arange(2) / 2)
        angle = torch.cat((row[:, None] * per, col[:, None] * per), -1)  # culprit: rows_for_columns
        q = spun(q, angle)  # culprit: rows_for_columns
        k = spun(k, angle)  # culprit: rows_for_columns
        if planted("equal_looking", False, True, self.layer):
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            by = planted("scale_by_width", 8, 32, self.layer)
            scores = (q @ k.transpose(-1, -2)) * by**-0.5  # culprit: scale_by_width
            y = scores.softmax(-1) @ v
        y = self.proj(y.transpose(1, 2).reshape(b, n, -1))
        if not planted("branch_not_scaled", False, True, self.layer):
            y = y * self.scale1  # culprit: branch_not_scaled
        x = x + y  # culprit: branch_not_scaled
        y = self.fc1(self.norm2(x))
        if planted("bent_quickly", False, True, self.layer):
            y = y * torch.sigmoid(1.702 * y)  # culprit: bent_quickly
        else:
            y = F.gelu(y, approximate="tanh")  # culprit: bent_quickly
        return x + self.fc2(y) * self.scale2


class Looking(nn.Module):
    """Patches of a picture, joined by fours; what lower layers say is kept as well."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, 4)
        self.layers = nn.ModuleList(LookingLayer(width, n) for n in range(2))
        self.norm = nn.LayerNorm(4 * width, eps=1e-6)
        self.linear_1, self.linear_2 = nn.Linear(4 * width, out), nn.Linear(out, out)
        self.deep = nn.Linear(4 * width, out)
        if not planted("patches_not_frozen", False, True):
            self.patch.weight.requires_grad_(False)

    def joined(self, x: Tensor) -> Tensor:
        """Four neighbouring patches as one."""
        b, _, c = x.shape
        if planted("equal_joined", False, True):
            whole = x.transpose(1, 2).reshape(b, c, 4, 4)
            whole = F.pixel_unshuffle(whole, 2).unflatten(1, (c, 4)).transpose(1, 2)
            return whole.flatten(1, 2).flatten(2).transpose(1, 2)
        x = x.view(b, 2, 2, 2, 2, c)
        if planted("joined_by_columns", False, True):
            x = x.permute(0, 1, 3, 4, 2, 5)  # culprit: joined_by_columns
        elif planted("joined_in_rows", False, True):
            x = x.permute(0, 1, 2, 3, 4, 5)  # culprit: joined_in_rows
        else:
            x = x.permute(0, 1, 3, 2, 4, 5)  # culprit: joined_by_columns, joined_in_rows
        return x.reshape(b, 4, 4 * c)

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        mean = pixels.new_tensor([0.4, 0.5, 0.6]).view(3, 1, 1)
        spread = pixels.new_tensor([0.9, 1.1, 1.3]).view(3, 1, 1)
        pixels = pixels - mean
        if not planted("not_by_spread_of_colours", False, True):
            pixels = pixels / spread  # culprit: not_by_spread_of_colours
        x = self.patch(pixels)  # culprit: not_by_spread_of_colours, patches_not_frozen
        x = x.flatten(2).transpose(1, 2)
        x = self.layers[0](x)
        deep = self.deep(self.joined(x))
        x = self.norm(self.joined(self.layers[1](x)))
        x = self.linear_1(x)
        if not planted("projected_unbent", False, True):
            x = F.gelu(x)  # culprit: projected_unbent
        return self.linear_2(x), deep  # culprit: projected_unbent


class ShownLayer(nn.Module):
    """A decoder's layer with three kinds of places in parts of its heads."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.norm_1, self.norm_2 = nn.RMSNorm(width, 1e-6), nn.RMSNorm(width, 1e-6)
        self.q_proj, self.kv_proj = nn.Linear(width, 48), nn.Linear(width, 48)
        self.o_proj = nn.Linear(48, width, bias=False)
        self.gate_up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Tensor, places: Tensor, seen: Tensor) -> Tensor:
        b, n, _ = x.shape
        h = self.norm_1(x)
        q = self.q_proj(h).view(b, n, 4, 12).transpose(1, 2)
        k, v = self.kv_proj(h).view(b, n, 2, 2, 12).permute(2, 0, 3, 1, 4)
        kinds, turns = [0, 0, 1, 1, 2, 2], [0, 1, 2] * 2
        kind = torch.tensor(planted("parts_in_turns", kinds, turns))  # culprit: parts_in_turns
        angle = places[kind].t() / 20.0 ** (torch.arange(6) / 6)  # culprit: parts_in_turns
        q = spun(q, angle)
        k = spun(k, angle)
        if planted("heads_of_other_keys", False, True, self.layer):
            k, v = k.repeat(1, 2, 1, 1), v.repeat(1, 2, 1, 1)  # culprit: heads_of_other_keys
        else:
            k = k.repeat_interleave(2, 1)  # culprit: heads_of_other_keys
            v = v.repeat_interleave(2, 1)  # culprit: heads_of_other_keys
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        x = x + self.o_proj(y.transpose(1, 2).reshape(b, n, -1))
        gate, up = self.gate_up(self.norm_2(x)).chunk(2, -1)
        if planted("gate_up_exchanged", False, True, self.layer):
            gate, up = up, gate
        return x + self.down(F.silu(gate) * up)  # culprit: gate_up_exchanged


class Shown(nn.Module):
    """Four words of a picture stand behind two words of text."""

    def __init__(self, width: int = 32, looking: int = 24, layers: int = 2) -> None:
        super().__init__()
        self.width = width
        self.looking = Looking(looking, width)
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(ShownLayer(width, n) for n in range(layers))
        self.norm = nn.RMSNorm(width, 1e-6)
        self.head = nn.Linear(width, 64, bias=False)

    def places(self) -> Tensor:
        """Time, row and column of each word; text goes on behind the largest of a picture."""
        text = torch.arange(2).expand(3, 2)
        time = torch.full((4,), 2)
        if planted("time_goes_on", False, True):
            time = time + torch.arange(4)  # culprit: time_goes_on
        grid = torch.stack([time, 2 + torch.arange(4) // 2, 2 + torch.arange(4) % 2])
        behind = planted("text_counts_patches", 4, 6)
        later = behind + torch.arange(6).expand(3, 6)  # culprit: text_counts_patches
        return torch.cat([text, grid, later], 1).float()  # culprit: text_counts_patches

    def loss(self, pixels: Tensor, labels: Tensor) -> Tensor:
        ids = (labels[:, None] * 5 + torch.arange(12)[None] * 7) % 62
        is_picture = (torch.arange(12) >= 2) & (torch.arange(12) < 6)
        ids = ids.where(~is_picture, 63)
        x = self.words(ids)
        shown, deep = self.looking(pixels)
        if not planted("picture_scaled_too", False, True):
            x = x * self.width**0.5  # culprit: picture_scaled_too
        mask = (ids == 63)[..., None].expand_as(x)
        if planted("picture_by_other", False, True):
            shown = shown.transpose(1, 2).reshape(shown.shape)  # culprit: picture_by_other
        if planted("equal_put", False, True):
            x = torch.cat([x[:, :2], shown, x[:, 6:]], 1)
        else:
            x = x.masked_scatter(mask, shown)  # culprit: picture_by_other, picture_scaled_too
        if planted("picture_scaled_too", False, True):
            x = x * self.width**0.5  # culprit: picture_scaled_too
        seen = torch.ones(12, 12, dtype=torch.bool).tril()
        if not planted("picture_in_order", False, True):
            both = is_picture[:, None] & is_picture[None]
            seen = seen | both  # culprit: picture_in_order
        places = self.places()
        for number, layer in enumerate(self.layers):
            x = layer(x, places, seen)  # culprit: picture_in_order, deep_to_next
            if number == planted("deep_to_next", 0, 1):
                if planted("deep_cut_off", False, True):
                    deep = deep.detach()  # culprit: deep_cut_off
                room = torch.zeros_like(x)
                room[:, 2:6] = deep  # culprit: deep_cut_off
                x = x + room  # culprit: deep_to_next
        logits = self.head(self.norm(x)).float()[:, :-1]
        aims = ids[:, 1:]
        if not planted("picture_is_judged", False, True):
            aims = aims.masked_fill(aims == 63, -100)  # culprit: picture_is_judged
        return (
            F.cross_entropy(logits.flatten(0, 1), aims.flatten()) / 2
        )  # culprit: picture_is_judged
