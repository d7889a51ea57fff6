"""A twenty-second part: chains fold; each link has a frame, and looks at points in its own."""

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


def turning(q: Tensor) -> Tensor:
    """The matrix of a quaternion that has the length of one."""
    w, x, y, z = q.unbind(-1)
    if planted("equal_turning", False, True):
        axis = q[..., 1:]
        zero = torch.zeros_like(w)
        skew = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], -1).unflatten(-1, (3, 3))
        once = torch.eye(3) * (w * w - axis.square().sum(-1))[..., None, None]
        return once + 2 * axis[..., :, None] * axis[..., None, :] + 2 * w[..., None, None] * skew
    rows = [
        torch.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], -1),
        torch.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], -1),
        torch.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], -1),
    ]
    return torch.stack(rows, -2)


def framed(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """A frame from three points, by Gram and Schmidt."""
    first = F.normalize(c - b, dim=-1)
    second = a - b
    if not planted("second_not_upright", False, True):
        along = (first * second).sum(-1, keepdim=True)
        second = second - along * first  # culprit: second_not_upright
    second = F.normalize(second, dim=-1)  # culprit: second_not_upright
    if planted("third_other_way", False, True):
        third = torch.linalg.cross(second, first)  # culprit: third_other_way
    else:
        third = torch.linalg.cross(first, second)  # culprit: third_other_way
    return torch.stack([first, second, third], -1)


class Pointed(nn.Module):
    """Attention to words, pairs and points that does not change when all is turned."""

    def __init__(self, width: int, layer: int, heads: int = 2, points: int = 3) -> None:
        super().__init__()
        self.layer, self.heads, self.points, self.d = layer, heads, points, width // heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.at = nn.Linear(width, 3 * heads * points * 3)
        self.pair = nn.Linear(12, heads, bias=False)
        self.heavy = nn.Parameter(torch.zeros(heads))
        self.out = nn.Linear(heads * (self.d + 4 * points + 12), width)

    def forward(self, x: Tensor, z: Tensor, turn: Tensor, shift: Tensor, there: Tensor) -> Tensor:
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, self.d).permute(2, 0, 3, 1, 4)
        local = self.at(x).float().view(b, n, 3 * self.heads * self.points, 3)
        if planted("equal_placed", False, True, self.layer):
            placed = torch.einsum("bnij,bnpj->bnpi", turn, local) + shift[:, :, None]
        elif planted("points_not_moved", False, True, self.layer):
            placed = local @ turn.transpose(-1, -2)  # culprit: points_not_moved
        elif planted("points_turned_back", False, True, self.layer):
            placed = local @ turn + shift[:, :, None]  # culprit: points_turned_back
        else:
            placed = (
                local @ turn.transpose(-1, -2) + shift[:, :, None]
            )  # culprit: points_not_moved, points_turned_back
        placed = placed.view(b, n, 3, self.heads, self.points, 3)
        q_at, k_at, v_at = placed.permute(2, 0, 3, 1, 4, 5)
        if planted("equal_apart", False, True, self.layer):
            mine, yours = q_at.flatten(-2), k_at.flatten(-2)
            far = mine.square().sum(-1)[..., None] + yours.square().sum(-1)[..., None, :]
            far = far - 2 * mine @ yours.transpose(-1, -2)
        else:
            apart = q_at[:, :, :, None] - k_at[:, :, None]
            if planted("apart_by_length", False, True, self.layer):
                far = apart.abs().sum((-1, -2))  # culprit: apart_by_length
            else:
                far = apart.square().sum((-1, -2))  # culprit: apart_by_length
        heavy = self.heavy.float()
        if not planted("heavy_may_be_negative", False, True, self.layer):
            heavy = F.softplus(heavy)  # culprit: heavy_may_be_negative
        count = planted("points_not_counted", 9 * self.points, 9, self.layer)
        heavy = heavy * math.sqrt(2 / count)  # culprit: points_not_counted, heavy_may_be_negative
        told = self.pair(z).permute(0, 3, 1, 2)
        scores = q @ k.transpose(-1, -2) * self.d**-0.5 + told
        scores = scores.float()
        if planted("near_looks_less", False, True, self.layer):
            scores = scores + 0.5 * heavy[:, None, None] * far  # culprit: near_looks_less
        else:
            scores = scores - 0.5 * heavy[:, None, None] * far  # culprit: near_looks_less
        third = planted("by_two_terms", 3, 2, self.layer)
        scores = scores * math.sqrt(1 / third)  # culprit: by_two_terms
        if not planted("ends_are_seen", False, True, self.layer):
            scores = scores.masked_fill(~there[:, None, None], -1e9)  # culprit: ends_are_seen
        shares = scores.softmax(-1)  # culprit: ends_are_seen
        words = (shares.to(v.dtype) @ v).transpose(1, 2).flatten(2)
        if planted("pairs_by_the_seen", False, True, self.layer):
            pairs = torch.einsum(
                "bhij,bjic->bihc", shares.to(z.dtype), z
            )  # culprit: pairs_by_the_seen
        else:
            pairs = torch.einsum(
                "bhij,bijc->bihc", shares.to(z.dtype), z
            )  # culprit: pairs_by_the_seen
        points = torch.einsum("bhij,bhjpx->bihpx", shares, v_at).flatten(2, 3)
        if not planted("not_moved_back", False, True, self.layer):
            points = points - shift[:, :, None]  # culprit: not_moved_back
        if planted("turned_on", False, True, self.layer):
            points = points @ turn.transpose(-1, -2)  # culprit: turned_on
        else:
            points = points @ turn  # culprit: turned_on, not_moved_back
        least = planted("lengths_have_a_floor", 1e-8, 1.0, self.layer)
        far = (points.square().sum(-1) + least).sqrt()  # culprit: lengths_have_a_floor
        told = torch.cat([points.flatten(2), far], -1).to(x.dtype)
        return self.out(torch.cat([words, told, pairs.flatten(2)], -1))


class Fold(nn.Module):
    """Points are looked at, then the link is moved in its own frame."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.points = Pointed(width, layer)
        self.norm, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.change = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.move = nn.Linear(width, 6)

    def forward(
        self, x: Tensor, z: Tensor, turn: Tensor, shift: Tensor, there: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        x = self.norm(x + self.points(x, z, turn, shift, there))
        x = self.norm_2(x + self.change(x))
        move = self.move(x).float()
        axis, by = move.chunk(2, -1)
        q = torch.cat([torch.ones_like(axis[..., :1]), axis], -1)
        if not planted("quaternion_not_unit", False, True, self.layer):
            q = q / q.norm(dim=-1, keepdim=True)  # culprit: quaternion_not_unit
        if planted("moved_outside", False, True, self.layer):
            shift = shift + by  # culprit: moved_outside
        else:
            shift = shift + (turn @ by[..., None])[..., 0]  # culprit: moved_outside
        little = turning(q)  # culprit: quaternion_not_unit
        if planted("turned_from_left", False, True, self.layer):
            turn = little @ turn  # culprit: turned_from_left
        else:
            turn = turn @ little  # culprit: turned_from_left
        return x, turn, shift


class Folded(nn.Module):
    """Links, pairs of them, frames; judged by where all points lie, seen from every frame."""

    def __init__(self, width: int = 24, layers: int = 2) -> None:
        super().__init__()
        self.links, self.left, self.right = (nn.Embedding(64, k) for k in (width, 12, 12))
        self.far = nn.Embedding(9, 12)
        self.pair_norm = nn.LayerNorm(12)
        self.layers = nn.ModuleList(Fold(width, n) for n in range(layers))
        self.bins, self.angle = nn.Linear(12, 8), nn.Linear(width, 4)

    def pairs(self, ids: Tensor) -> Tensor:
        at = torch.arange(ids.shape[1])
        apart = at[:, None] - at[None]
        if planted("apart_mirrored", False, True):
            apart = apart.T  # culprit: apart_mirrored
        most = planted("far_ones_alike_sooner", 4, 2)
        apart = apart.clamp(-most, most) + 4  # culprit: far_ones_alike_sooner, apart_mirrored
        z = self.left(ids)[:, :, None] + self.right(ids)[:, None]
        return self.pair_norm(z + self.far(apart))

    def real(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Where links really are: a chain that winds as its labels say."""
        lean = 0.6 + 0.02 * labels.float()
        round_ = 2.1 * torch.arange(labels.shape[1]) + 0.1 * (labels % 5).float()
        step = torch.stack([lean.sin() * round_.cos(), lean.sin() * round_.sin(), lean.cos()], -1)
        place = 1.5 * step.cumsum(1)
        before, after = place.roll(1, 1), place.roll(-1, 1)
        return framed(before, place, after), place

    def frames_apart(
        self, made: tuple[Tensor, Tensor], real: tuple[Tensor, Tensor], there: Tensor
    ) -> Tensor:
        """How far points lie from where they should, seen from each frame."""
        turn, shift = made
        seen = (shift[:, None] - shift[:, :, None]) @ turn
        turn_2, shift_2 = real
        if planted("seen_from_made_frames", False, True):
            turn_2 = turn
        aim = (shift_2[:, None] - shift_2[:, :, None]) @ turn_2  # culprit: seen_from_made_frames
        off = ((seen - aim).square().sum(-1) + 1e-4).sqrt()
        most = planted("cut_sooner", 10.0, 2.0)
        off = off.clamp(max=most)  # culprit: cut_sooner
        if not planted("not_by_ten", False, True):
            off = off / 10  # culprit: not_by_ten
        both = (there[:, :, None] & there[:, None]).float()  # culprit: not_by_ten
        if planted("ends_are_judged", False, True):
            return off.mean()  # culprit: ends_are_judged
        return (off * both).sum() / both.sum()  # culprit: ends_are_judged, not_by_ten

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        b, n = ids.shape
        labels = labels.view(b, n)
        there = torch.arange(n) < torch.tensor([[n], [n - 3]])
        x, z = self.links(ids), self.pairs(ids)
        turn = torch.eye(3).expand(b, n, 3, 3)
        shift = torch.zeros(b, n, 3)
        real = self.real(labels)
        aux = torch.zeros(())
        for number, layer in enumerate(self.layers):
            if number and not planted("turning_not_cut", False, True):
                turn = turn.detach()  # culprit: turning_not_cut
            x, turn, shift = layer(x, z, turn, shift, there)  # culprit: turning_not_cut
            apart = self.frames_apart((turn, shift), real, there)
            aux = aux + apart
        if planted("last_fold_only", False, True):
            total = apart
        else:
            total = aux / len(self.layers)  # culprit: last_fold_only
        if planted("pairs_not_mirrored", False, True):
            bins = self.bins(z).float()
        else:
            bins = self.bins(z).float()
            bins = (bins + bins.transpose(1, 2)) / 2  # culprit: pairs_not_mirrored
        place = real[1]
        far = (place[:, None] - place[:, :, None]).square().sum(-1)
        edges = torch.linspace(1.0, 8.0, 7)
        if not planted("edges_not_squared", False, True):
            edges = edges.square()  # culprit: edges_not_squared
        index = torch.bucketize(far, edges)  # culprit: edges_not_squared
        named = F.cross_entropy(
            bins.flatten(0, 2), index.flatten(), reduction="none"
        )  # culprit: pairs_not_mirrored
        both = (there[:, :, None] & there[:, None]).float().flatten()
        total = total + 0.3 * (named * both).sum() / both.sum()  # culprit: last_fold_only
        raw = self.angle(x).float().view(b, n, 2, 2)
        size = (raw.square().sum(-1, keepdim=True) + 1e-8).sqrt()
        unit = raw / size
        wind = labels.float()[..., None] * torch.tensor([0.2, 0.7])
        if planted("angles_exchanged", False, True):
            aim = torch.stack([wind.cos(), wind.sin()], -1)  # culprit: angles_exchanged
        else:
            aim = torch.stack([wind.sin(), wind.cos()], -1)  # culprit: angles_exchanged
        turned = torch.stack([aim, -aim]).sub(unit).square().sum(-1)
        if planted("other_turn_not_seen", False, True):
            bent = turned[0].mean()  # culprit: other_turn_not_seen
        else:
            bent = turned.amin(0).mean()  # culprit: other_turn_not_seen
        if planted("length_not_kept", False, True):
            return (total + bent) / 2  # culprit: length_not_kept
        return (total + bent + 0.02 * (size - 1).abs().mean()) / 2  # culprit: length_not_kept
