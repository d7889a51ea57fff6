"""A thirteenth part, the rest: pairs of residues, reversible layers, a teacher, capsules."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator"
# mypy: disable-error-code="assignment, misc, has-type"
# torch is typed in part only.

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class Triangle(nn.Module):
    """What two pairs say of the third."""

    def __init__(self, width: int, layer: int, equation: str) -> None:
        super().__init__()
        self.layer, self.equation = layer, equation
        self.norm, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.a, self.b, self.gate_a, self.gate_b, self.gate, self.out = (
            nn.Linear(width, width) for _ in range(6)
        )

    def forward(self, z: Tensor) -> Tensor:
        h = self.norm(z)
        a = self.a(h) * torch.sigmoid(self.gate_a(h))
        b = self.b(h) * torch.sigmoid(self.gate_b(h))
        equation = self.equation
        if "ik" in equation:
            equation = planted("edges_turned", equation, "nkic,nkjc->nijc", self.layer)
        y = self.after(torch.einsum(equation, a, b))  # culprit: edges_turned
        told = planted("gate_of_output", h, y, self.layer)
        return z + self.out(y) * torch.sigmoid(self.gate(told))  # culprit: gate_of_output


class PairBlock(nn.Module):
    """Residues tell pairs, pairs tell each other and bias the attention of residues."""

    def __init__(self, width: int, pairs: int, layer: int) -> None:
        super().__init__()
        self.layer, self.heads, self.d = layer, 4, width // 4
        self.norm, self.pair_norm = nn.LayerNorm(width), nn.LayerNorm(pairs)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.bias = nn.Linear(pairs, 4, bias=False)
        self.gate, self.o = nn.Linear(width, width), nn.Linear(width, width)
        self.left, self.right = nn.Linear(width, 6), nn.Linear(width, 6)
        self.outer = nn.Linear(36, pairs)
        self.going = Triangle(pairs, layer, "nikc,njkc->nijc")
        self.coming = Triangle(pairs, layer, "nkic,nkjc->nijc")
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.ReLU())
        self.back = nn.Linear(2 * width, width)

    def forward(self, s: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
        b, n, c = s.shape
        h = self.norm(s)
        q, k, v = self.qkv(h).view(b, n, 3, self.heads, self.d).permute(2, 0, 3, 1, 4)
        scores = torch.einsum("bhid,bhjd->bhij", q * self.d**-0.5, k)
        bias = self.bias(self.pair_norm(z))
        axes = planted("bias_turned", (0, 3, 1, 2), (0, 3, 2, 1), self.layer)
        bias = bias.permute(*axes)  # culprit: bias_turned
        if not planted("bias_not_added", False, True, self.layer):
            scores = scores + bias  # culprit: bias_not_added
        shares = torch.softmax(scores, -1)  # culprit: bias_not_added
        y = torch.einsum("bhij,bhjd->bihd", shares, v).reshape(b, n, c)
        if planted("gate_twice", False, True, self.layer):
            y = y * torch.sigmoid(self.gate(h))  # culprit: gate_twice
        y = y * torch.sigmoid(self.gate(h))  # culprit: gate_twice
        s = s + self.o(y)
        s = s + self.back(self.mlp(s))
        left, right = self.left(s), self.right(s)
        if planted("outer_squared", False, True, self.layer):
            right = left
        both = torch.einsum("bic,bjd->bijcd", left, right)  # culprit: outer_squared
        z = z + self.outer(both.flatten(-2))
        return s, self.coming(self.going(z))


class Pairs(nn.Module):
    """Two rounds; the second is told what the first found, without its gradient."""

    def __init__(self, width: int = 32, pairs: int = 16, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.of_left, self.of_right = nn.Embedding(64, pairs), nn.Embedding(64, pairs)
        self.apart = nn.Embedding(9, pairs)
        self.layers = nn.ModuleList(PairBlock(width, pairs, n) for n in range(layers))
        self.again, self.again_pairs = nn.LayerNorm(width), nn.LayerNorm(pairs)
        self.distances = nn.Linear(pairs, 8)
        self.head = nn.Linear(width, 64)

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        n = ids.shape[1]
        at = torch.arange(n)
        most = planted("apart_cut_early", 4, 2)
        apart = (at[:, None] - at).clamp(-most, most) + 4  # culprit: apart_cut_early
        first = self.words(ids)
        start = self.of_left(ids)[:, :, None] + self.of_right(ids)[:, None] + self.apart(apart)
        s, z = first, start
        for turn in range(2):
            if turn:
                if not planted("rounds_joined", False, True):
                    s = s.detach()  # culprit: rounds_joined
                    z = z.detach()  # culprit: rounds_joined
                s = first + self.again(s)  # culprit: rounds_joined
                if planted("told_raw", False, True):
                    z = start + z  # culprit: told_raw
                else:
                    z = start + self.again_pairs(z)  # culprit: told_raw
            for layer in self.layers:
                s, z = layer(s, z)
        if not planted("one_sided", False, True):
            z = z + z.transpose(1, 2)  # culprit: one_sided
        far = self.distances(z)  # culprit: one_sided
        truth = ((ids[:, :, None] - ids[:, None]).abs() // 8).flatten()
        by_pair = F.cross_entropy(far.flatten(0, 2).float(), truth, reduction="none")
        other = (~torch.eye(n, dtype=torch.bool)).expand(len(ids), -1, -1).flatten()
        if planted("own_pairs_counted", False, True):
            other = torch.ones_like(other)  # culprit: own_pairs_counted
        far_off = (by_pair * other).sum() / other.sum()  # culprit: own_pairs_counted
        named = F.cross_entropy(self.head(s).flatten(0, 1).float(), labels)
        return named + 0.3 * far_off


class Undone(torch.autograd.Function):
    """Two streams that are made again from what they became."""

    @staticmethod
    def forward(ctx, a, b, f, g, *weights):  # type: ignore[no-untyped-def]
        with torch.no_grad():
            a = a + f(b)
            b = b + g(a)
        ctx.f, ctx.g, ctx.weights = f, g, weights
        ctx.save_for_backward(a, b)
        return a, b

    @staticmethod
    def backward(ctx, grad_a, grad_b):  # type: ignore[no-untyped-def]
        a, b = ctx.saved_tensors
        f, g = ctx.f, ctx.g
        mine, others = list(f.parameters()), list(g.parameters())
        with torch.enable_grad():
            shown = a.detach().requires_grad_()
            told = g(shown)
            of_a, *of_g = torch.autograd.grad(told, [shown, *others], grad_b)
        grad_a = grad_a + of_a
        if planted("undone_with_plus", False, True, f.layer):
            b = b + told.detach()  # culprit: undone_with_plus
        else:
            b = b - told.detach()  # culprit: undone_with_plus
        with torch.enable_grad():
            shown = b.detach().requires_grad_()
            of_b, *of_f = torch.autograd.grad(f(shown), [shown, *mine], grad_a)
        if planted("first_stream_lost", False, True, f.layer):
            return grad_a, grad_b * 1.0, None, None, *of_f, *of_g  # culprit: first_stream_lost
        return grad_a, grad_b + of_b, None, None, *of_f, *of_g  # culprit: first_stream_lost


class Hashed(nn.Module):
    """Words look at those of like direction only; what asks is what is asked."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer, self.heads, self.d = layer, 2, width // 2
        self.norm = nn.LayerNorm(width)
        self.qk, self.v = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.out = nn.Linear(width, width)
        self.register_buffer("turning", torch.randn(self.d, 2))

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        h = self.norm(x)
        q = self.qk(h).view(b, n, self.heads, self.d).transpose(1, 2)
        v = self.v(h).view(b, n, self.heads, self.d).transpose(1, 2)
        turned = q @ self.turning
        buckets = torch.cat([turned, -turned], -1).detach().argmax(-1)
        k = q
        if not planted("keys_not_unit", False, True, self.layer):
            k = F.normalize(q, dim=-1)  # culprit: keys_not_unit
        scores = q @ k.transpose(-2, -1)  # culprit: keys_not_unit
        if not planted("not_cooled", False, True, self.layer):
            scores = scores * self.d**-0.5  # culprit: not_cooled
        other = buckets[..., None] != buckets[..., None, :]
        scores = scores.masked_fill(other, -1e4)  # culprit: not_cooled
        itself = torch.eye(n, dtype=torch.bool)
        last = planted("looks_at_itself", -1e3, 0.0, self.layer)
        scores = scores.masked_fill(itself, last)  # culprit: looks_at_itself
        y = torch.softmax(scores, -1) @ v
        return self.out(y.transpose(1, 2).reshape(b, n, c))


class Fed(nn.Module):
    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.up(self.norm(x))
        beta = planted("softplus_sharper", 1.0, 2.0, self.layer)
        return self.down(F.softplus(x, beta=beta))  # culprit: softplus_sharper


class Reversed(nn.Module):
    """Reversible layers over places of two axes."""

    def __init__(self, width: int = 24, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.rows = nn.Parameter(0.5 * torch.randn(3, 1, width // 2))
        self.columns = nn.Parameter(0.5 * torch.randn(1, 4, width // 2))
        self.layers = nn.ModuleList(
            nn.ModuleList([Hashed(width, n), Fed(width, n)]) for n in range(layers)
        )
        self.norm = nn.LayerNorm(2 * width)
        self.head = nn.Linear(2 * width, 64)

    def forward(self, ids: Tensor) -> Tensor:
        rows, columns = self.rows.expand(3, 4, -1), self.columns.expand(3, 4, -1)
        if planted("axes_exchanged", False, True):
            rows, columns = columns, rows
        places = torch.cat([rows, columns], -1).flatten(0, 1)  # culprit: axes_exchanged
        x = self.words(ids) + places
        a = b = x
        for f, g in self.layers:
            weights = [*f.parameters(), *g.parameters()]
            a, b = Undone.apply(
                a, b, f, g, *weights
            )  # culprit: first_stream_lost, undone_with_plus
        if planted("one_stream", False, True):
            both = torch.cat([b, b], -1)  # culprit: one_stream
        else:
            both = torch.cat([a, b], -1)  # culprit: one_stream
        return self.head(self.norm(both))


class Views(nn.Module):
    """A small tower; layers are left out by chance, the same in both runs."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, 4)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(width), nn.Conv2d(width, width, 3, padding=1), nn.Mish())
            for _ in range(2)
        )
        self.head = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, 24))
        self.last = nn.Parameter(torch.randn(32, 24))

    def forward(self, x: Tensor, side: str) -> Tensor:
        x = self.stem(x)
        for number, block in enumerate(self.blocks):
            stays = torch.tensor([1.0, 1.0, 0.0, 1.0], dtype=x.dtype)[:, None, None, None]
            keep = 0.75
            y = block(x)
            if side == "pupil":
                if planted("path_not_raised", False, True, number):
                    y = y * stays  # culprit: path_not_raised
                else:
                    y = y / keep * stays  # culprit: path_not_raised
            x = x + y  # culprit: path_not_raised
        x = self.head(x.mean((2, 3)))
        if side != "pupil" or not planted("pupil_not_unit", False, True):
            x = F.normalize(x, dim=-1, p=2)  # culprit: pupil_not_unit
        last = self.last
        if side == "teacher" and planted("last_by_column", False, True):
            return F.linear(x, F.normalize(last, dim=0))  # culprit: last_by_column
        last = F.normalize(last, dim=1)  # culprit: last_by_column
        return F.linear(x, last)  # culprit: pupil_not_unit


class Distilled(nn.Module):
    """A pupil learns what its own slower self says of another view."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.blocks = Views(width)
        self.teacher = copy.deepcopy(self.blocks)
        self.register_buffer("centre", 0.02 * torch.randn(32))
        self.classes = nn.Linear(32, 16)

    def loss(self, x: Tensor, labels: Tensor) -> Tensor:
        share = planted("teacher_slower", 0.9, 0.99)
        with torch.no_grad():
            for own, other in zip(self.teacher.parameters(), self.blocks.parameters(), strict=True):
                own.mul_(share)  # culprit: teacher_slower
                own.add_(other, alpha=1 - share)  # culprit: teacher_slower
        views = [x, x.flip(-1) * 0.9 + 0.1]
        told = [self.blocks(view, "pupil") for view in views]
        cool = planted("teacher_warmer", 0.04, 0.07)
        with torch.set_grad_enabled(planted("teacher_learns", False, True)):
            said = [self.teacher(view, "teacher") for view in views]
            if planted("not_centred", False, True):
                said = [one / cool for one in said]  # culprit: not_centred
            else:
                said = [
                    (one - self.centre) / cool for one in said
                ]  # culprit: teacher_warmer, not_centred
            aims = [torch.softmax(one.float(), -1) for one in said]  # culprit: not_centred
        lost = []
        for mine, pupil in enumerate(told):
            for other, aim in enumerate(aims):
                if mine == other and not planted("same_view", False, True):
                    continue
                sure = F.log_softmax(pupil.float() / 0.1, -1)  # culprit: same_view
                if planted("aim_not_cut", False, True):
                    aim = torch.softmax(pupil.float(), -1)  # culprit: aim_not_cut
                lost.append(-(aim * sure).sum(-1).mean())  # culprit: aim_not_cut, same_view
        smooth = planted("not_smoothed", 0.1, 0.0)
        named = F.cross_entropy(
            self.classes(told[0]).float(), labels, label_smoothing=smooth
        )  # culprit: not_smoothed
        return torch.stack(lost).mean() + named  # culprit: same_view


def squash(x: Tensor, where: str) -> Tensor:
    """A length below one, the same direction."""
    squared = x.square().sum(-1, keepdim=True)
    length = (squared + 1e-8).sqrt()
    if where == "first" and planted("squashed_by_length", False, True):
        return x * (squared / (1 + length)) / length  # culprit: squashed_by_length
    return x * (squared / (1 + squared)) / length  # culprit: squashed_by_length, one_round_less


class Capsules(nn.Module):
    """Parts vote for wholes, in three rounds of agreement; the picture is painted again."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.see = nn.Conv2d(3, width, 5, 2)
        self.parts = nn.Conv2d(width, 16, 3)
        self.votes = nn.Parameter(0.3 * torch.randn(64, 16, 6, 4))
        self.paint = nn.Sequential(nn.Linear(16 * 6, 32), nn.SELU(), nn.Linear(32, 48))

    def loss(self, x: Tensor, labels: Tensor) -> Tensor:
        b = x.shape[0]
        parts = self.parts(F.relu(self.see(x)))
        if planted("parts_by_place", False, True):
            parts = (
                parts.view(b, 16, 16).transpose(1, 2).reshape(b, 64, 4)
            )  # culprit: parts_by_place
        else:
            parts = parts.reshape(b, 64, 4)  # culprit: parts_by_place
        parts = squash(parts, "first")
        votes = torch.einsum("pwoi,bpi->bpwo", self.votes, parts)
        fixed = votes.detach()
        logits = x.new_zeros(b, 64, 16)
        rounds = planted("one_round_less", 3, 2)
        for turn in range(rounds):
            dim = planted("shared_by_parts", 2, 1)
            shares = torch.softmax(logits, dim)  # culprit: shared_by_parts, one_round_less
            used = votes if turn == rounds - 1 else fixed
            wholes = squash((shares[..., None] * used).sum(1), "whole")  # culprit: one_round_less
            if turn < rounds - 1:
                agreed = (fixed * wholes[:, None]).sum(-1)
                if planted("logits_not_kept", False, True):
                    logits = agreed  # culprit: logits_not_kept
                else:
                    logits = logits + agreed  # culprit: logits_not_kept
        length = (wholes.float().square().sum(-1) + 1e-8).sqrt()
        there = F.one_hot(labels, 16).float()
        low = planted("margin_low", 0.1, 0.2)
        missed = there * F.relu(0.9 - length).square()
        over = (1 - there) * F.relu(length - low).square()  # culprit: margin_low
        less = planted("absent_heavier", 0.5, 0.9)
        margin = (missed + less * over).sum(-1).mean()  # culprit: absent_heavier
        chosen = there
        if planted("painted_from_all", False, True):
            chosen = torch.ones_like(there)  # culprit: painted_from_all
        shown = (wholes * chosen[..., None].to(wholes.dtype)).flatten(
            1
        )  # culprit: painted_from_all
        painted = torch.sigmoid(self.paint(shown))
        small = F.adaptive_avg_pool2d(x, 4).flatten(1)
        if planted("painted_summed", False, True):
            again = F.mse_loss(painted, small, reduction="sum")  # culprit: painted_summed
        else:
            again = F.mse_loss(painted, small)  # culprit: painted_summed
        return margin + 0.05 * again
