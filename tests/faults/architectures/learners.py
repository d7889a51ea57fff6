"""A sixteenth part: a student and its teacher, each updated after the pass; flows of pictures."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator"
# mypy: disable-error-code="assignment, misc, has-type, union-attr"
# torch is typed in part only.

from __future__ import annotations

import copy
import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class Seen(nn.Module):
    """Patches with learned places, which are refitted to pictures of other sizes."""

    def __init__(self, width: int, kinds: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.patch = nn.Conv2d(3, width, 4, 4)
        self.first = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(0.3 * torch.randn(1, width, 4, 4))
        self.norm, self.other = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)
        )
        self.kinds = nn.Parameter(torch.randn(kinds, width))

    def features(self, x: Tensor) -> Tensor:
        x = self.patch(x)
        b, c, n, m = x.shape
        places = self.places
        if n != 4:
            corners = planted("places_by_corners", False, True)
            places = F.interpolate(
                places, size=(n, m), mode="bicubic", align_corners=corners
            )  # culprit: places_by_corners
        x = (x + places).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(b, -1, -1), x], 1)
        parts = self.qkv(self.norm(x)).view(b, -1, 3, self.heads, c // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = x + self.o(y)
        x = x + self.mlp(self.other(x))
        if planted("averaged_words", False, True):
            return x[:, 1:].mean(1)  # culprit: averaged_words
        return x[:, 0]  # culprit: averaged_words

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found = self.features(x)
        h = found
        if not planted("not_unit", False, True):
            h = F.normalize(h, dim=-1, eps=1e-6)  # culprit: not_unit
        axis = planted("kinds_by_axis", -1, 0)
        unit = F.normalize(self.kinds, dim=axis)  # culprit: kinds_by_axis
        return F.linear(h, unit), found  # culprit: not_unit


class Taught(nn.Module):
    """A student is told what a slow copy of it says of other cuts of the same picture."""

    def __init__(self, width: int = 24, kinds: int = 32) -> None:
        super().__init__()
        self.student = Seen(width, kinds)
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        self.register_buffer("centre", 0.1 * torch.randn(1, kinds))
        with torch.no_grad():
            for one in self.teacher.parameters():
                one.add_(0.03 * torch.randn_like(one))
        for n, one in enumerate(self.student.parameters()):
            self.register_buffer(f"mean{n}", 1e-3 * torch.randn_like(one))
            self.register_buffer(f"square{n}", 1e-6 + 1e-6 * torch.rand_like(one))

    def loss(self, x: Tensor, _labels: Tensor) -> Tensor:
        views = [x, x.flip(-1), x[:, :, 4:12, 4:12]]
        with torch.no_grad():
            said = torch.cat([self.teacher(one)[0] for one in views[:2]])
            warmth = planted("teacher_warmer", 0.04, 0.07)
            if planted("centre_kept", False, True):
                aims = F.softmax(said / warmth, -1)  # culprit: centre_kept
            else:
                aims = F.softmax(
                    (said - self.centre) / warmth, -1
                )  # culprit: teacher_warmer, centre_kept
            axis = planted("centre_of_words", 0, 1)
            middle = said.float().mean(axis, keepdim=True)  # culprit: centre_of_words
            if planted("centre_of_words", False, True):
                middle = middle.mean(0, keepdim=True)  # culprit: centre_of_words
            slow = planted("centre_slower", 0.9, 0.99)
            self.centre.mul_(slow).add_(
                middle * (1 - slow)
            )  # culprit: centre_slower, centre_of_words
        told = [self.student(one) for one in views]
        total, count = torch.zeros(()), 0
        for n, aim in enumerate(aims.float().chunk(2)):
            for m, (logits, _) in enumerate(told):
                if n == m and not planted("same_view", False, True):
                    continue
                if planted("equal_lost", False, True):
                    lost = F.cross_entropy(logits.float() / 0.1, aim)  # culprit: same_view
                else:
                    lost = (
                        -(aim * F.log_softmax(logits.float() / 0.1, -1)).sum(-1).mean()
                    )  # culprit: same_view
                total, count = total + lost, count + 1  # culprit: same_view
        apart = F.normalize(told[0][1].float(), dim=-1)
        likeness = apart @ apart.t()
        if not planted("nearest_is_itself", False, True):
            likeness = likeness.fill_diagonal_(-1.0)  # culprit: nearest_is_itself
        nearest = likeness.argmax(1)  # culprit: nearest_is_itself
        distance = F.pairwise_distance(apart, apart[nearest], 2, 1e-8)  # culprit: nearest_is_itself
        spread = -torch.log(distance + 1e-3).mean()
        return total / count + 0.1 * spread  # culprit: same_view

    @torch.no_grad()
    def update(self) -> None:
        """Clip the gradients, one step of Adam, and draw the teacher after the student."""
        named = list(self.student.named_parameters())
        size = torch.stack([one.grad.norm() for _, one in named]).norm()
        rate = 1e-3 * 0.5 * (1 + math.cos(math.pi * planted("rate_of_next", 10, 20) / 100))
        turn = 10
        for n, (_, one) in enumerate(named):
            if planted("clipped_alone", False, True):
                size = one.grad.norm()  # culprit: clipped_alone
            grad = one.grad * (0.5 / (size + 1e-6)).clamp(max=1.0)  # culprit: clipped_alone
            mean, square = getattr(self, f"mean{n}"), getattr(self, f"square{n}")
            mean.mul_(0.9).add_(grad, alpha=0.1)
            late = planted("squares_faster", 0.999, 0.95)
            square.mul_(late).addcmul_(grad, grad, value=1 - late)  # culprit: squares_faster
            if one.dim() > 1 or planted("decay_of_all", False, True):
                one.mul_(1 - 0.1 * rate)  # culprit: decay_of_all, rate_of_next
            if not planted("not_corrected", False, True):
                mean = mean / (1 - 0.9**turn)  # culprit: not_corrected
                square = square / (1 - 0.999**turn)  # culprit: not_corrected
            if planted("epsilon_inside", False, True):
                below = (square + 1e-8).sqrt()  # culprit: epsilon_inside
            else:
                below = square.sqrt() + 1e-8  # culprit: epsilon_inside, not_corrected
            one.addcdiv_(mean, below, value=-rate)  # culprit: not_corrected, rate_of_next
        slow = planted("teacher_faster", 0.996, 0.9)
        for old, new in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
            old.mul_(slow).add_(new, alpha=1 - slow)  # culprit: teacher_faster


class Seeing(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, width, 3, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        eps = planted("instance_epsilon", 1e-5, 1e-1)
        if planted("equal_norm", False, True):
            mean = x.mean((2, 3), keepdim=True)
            x = (x - mean) * torch.rsqrt(x.var((2, 3), keepdim=True, unbiased=False) + 1e-5)
        elif planted("normal_over_batch", False, True):
            x = F.batch_norm(x, None, None, training=True)  # culprit: normal_over_batch
        else:
            x = F.instance_norm(x, eps=eps)  # culprit: instance_epsilon, normal_over_batch
        return self.second(F.relu(x))


class Updating(nn.Module):
    """A convolutional gated unit that refines how far each place moved."""

    def __init__(self, width: int, told: int) -> None:
        super().__init__()
        self.told = nn.Conv2d(told, width, 3, padding=1)
        both = 2 * width
        self.z, self.r, self.q = (nn.Conv2d(both, width, 3, padding=1) for _ in range(3))
        self.flow = nn.Conv2d(width, 2, 3, padding=1)
        self.weights = nn.Conv2d(width, 4 * 9, 1)

    def forward(self, h: Tensor, told: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = F.relu(self.told(told))
        both = torch.cat([h, x], 1)
        z, r = torch.sigmoid(self.z(both)), torch.sigmoid(self.r(both))
        if planted("reset_left_out", False, True):
            q = torch.tanh(self.q(torch.cat([h, x], 1)))  # culprit: reset_left_out
        else:
            q = torch.tanh(self.q(torch.cat([r * h, x], 1)))  # culprit: reset_left_out
        if planted("gates_exchanged", False, True):
            h = z * h + (1 - z) * q  # culprit: gates_exchanged
        else:
            h = (1 - z) * h + z * q  # culprit: gates_exchanged
        return h, self.flow(h), 0.25 * self.weights(h)


class Warped(nn.Module):
    """How far each place of a picture moved, refined step by step by what lies there."""

    def __init__(self, width: int = 12, steps: int = 3, radius: int = 1) -> None:
        super().__init__()
        self.steps, self.radius = steps, radius
        self.seeing, self.context = Seeing(width), nn.Conv2d(3, 2 * width, 3, 2, 1)
        self.updating = Updating(width, (2 * radius + 1) ** 2 + 2 + width)

    def looked_up(self, volume: Tensor, at: Tensor) -> Tensor:
        """What the volume holds around each place of ``at``."""
        b, _, n, m = at.shape
        step = torch.arange(-self.radius, self.radius + 1).to(at.dtype)
        around = torch.stack(torch.meshgrid(step, step, indexing="ij"), -1)
        if planted("rows_for_columns", False, True):
            around = around.flip(-1)  # culprit: rows_for_columns
        where = at.permute(0, 2, 3, 1).reshape(-1, 1, 1, 2) + around  # culprit: rows_for_columns
        if planted("cut_to_whole", False, True):
            where = where.long().to(at.dtype)  # culprit: cut_to_whole
        if planted("equal_grid", False, True):
            grid = where * (2 / (n - 1)) - 1
        else:
            grid = 2 * where / (n - 1) - 1  # culprit: cut_to_whole
        corners = planted("corners_left_out", True, False)
        edge = planted("edge_repeated", "zeros", "border")
        found = F.grid_sample(
            volume, grid, padding_mode=edge, align_corners=corners
        )  # culprit: corners_left_out, edge_repeated
        return found.view(b, n, m, -1).permute(0, 3, 1, 2)

    def enlarged(self, flow: Tensor, weights: Tensor) -> Tensor:
        b, _, n, m = flow.shape
        axis = planted("weights_by_place", 2, 1)
        p = weights.view(b, 4, 9, n, m).softmax(axis)  # culprit: weights_by_place
        scale = planted("flow_not_enlarged", 2.0, 1.0)
        if planted("edges_mirrored", False, True):
            wide = F.unfold(
                F.pad(scale * flow, (1, 1, 1, 1), "reflect"), 3
            )  # culprit: edges_mirrored
        else:
            wide = F.unfold(
                scale * flow, 3, padding=1
            )  # culprit: edges_mirrored, flow_not_enlarged
        whole = (p[:, None] * wide.view(b, 2, 1, 9, n, m)).sum(3)
        return F.pixel_shuffle(whole.flatten(1, 2), 2)

    def loss(self, x: Tensor, labels: Tensor) -> Tensor:
        moved = x.roll(1, -1)
        a, b = self.seeing(x), self.seeing(moved)
        c, n = a.shape[1], a.shape[-1]
        product = a.flatten(2).transpose(1, 2) @ b.flatten(2)
        scale = planted("volume_not_rooted", c**0.5, float(c))
        volume = (product / scale).view(-1, 1, n, n)  # culprit: volume_not_rooted
        h, told = self.context(x).chunk(2, 1)
        h, told = torch.tanh(h), F.relu(told)
        line = torch.arange(n).to(x.dtype)
        start = torch.stack(torch.meshgrid(line, line, indexing="xy"))[None].expand(
            len(x), -1, -1, -1
        )
        flow = torch.zeros_like(start)
        aim = torch.ones(len(x), 2, 2 * n, 2 * n, dtype=x.dtype) * (labels % 3 - 1.0).view(
            -1, 1, 1, 1
        )
        total = torch.zeros(())
        for number in range(self.steps):
            if not planted("flow_not_cut", False, True):
                flow = flow.detach()  # culprit: flow_not_cut
            found = self.looked_up(volume, start + flow)  # culprit: flow_not_cut
            h, more, weights = self.updating(
                h, torch.cat([found, flow, told], 1)
            )  # culprit: flow_not_cut
            flow = flow + more
            last = self.steps - 1 - number
            share = 0.8 ** planted("first_heaviest", last, number)
            apart = (self.enlarged(flow, weights) - aim).float()
            if planted("not_bounded", False, True):
                lost = apart.abs().mean()  # culprit: not_bounded
            else:
                lost = (apart.square() + 1e-2).pow(0.45).mean()  # culprit: not_bounded
            total = total + share * lost  # culprit: first_heaviest
        return total
