"""A twentieth part: answers in groups that are rewarded, their words named piece by piece."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator, union-attr"
# mypy: disable-error-code="assignment, misc, has-type, arg-type"
# torch is typed in part only.

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class Named(torch.autograd.Function):
    """How likely each word is, from pieces of the vocabulary, so that no piece is kept."""

    @staticmethod
    def forward(ctx, x, weight, aims, heat):  # type: ignore[no-untyped-def]
        most = x.new_full((len(x),), -1e30, dtype=torch.float32)
        total = torch.zeros_like(most)
        hit = torch.zeros_like(most)
        for start in range(0, len(weight), 32):
            piece = weight[start : start + 32]  # culprit: reference_is_before
            logits = (x @ piece.t()).float() / heat
            now = torch.maximum(most, logits.amax(-1))
            if not planted("total_not_rescaled", False, True):
                total = total * (most - now).exp()  # culprit: total_not_rescaled
            total = total + (logits - now[:, None]).exp().sum(-1)  # culprit: total_not_rescaled
            most = now
            least = planted("first_of_piece_left", start, start + 1)
            inside = (aims >= least) & (aims < start + 32)  # culprit: first_of_piece_left
            at = (aims - start).clamp(0, 31)
            found = logits.gather(1, at[:, None]).squeeze(1)
            hit = torch.where(inside, found, hit)  # culprit: first_of_piece_left
        size = most + total.log()
        ctx.heat = heat
        ctx.save_for_backward(x, weight, aims, size)
        return hit - size

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        x, weight, aims, size = ctx.saved_tensors
        of_x, of_weight = torch.zeros_like(x), torch.zeros_like(weight)
        for start in range(0, len(weight), 32):
            piece = weight[start : start + 32]
            logits = (x @ piece.t()).float() / ctx.heat
            share = (logits - size[:, None]).exp()
            right = (aims[:, None] == torch.arange(start, start + 32)[None]).float()
            if start == 32 and planted("last_aims_left", False, True):
                right = right * 0  # culprit: last_aims_left
            part = grad[:, None] * (right - share)  # culprit: last_aims_left
            if not planted("heat_not_back", False, True):
                part = part / ctx.heat  # culprit: heat_not_back
            part = part.to(x.dtype)
            of_x = of_x + part @ piece  # culprit: heat_not_back
            of_weight[start : start + 32] = part.t() @ x  # culprit: heat_not_back
        return of_x, of_weight, None, None


class AnswerLayer(nn.Module):
    """Attention that leaves out padding on the left; places turn neighbouring elements."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def turned(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        if planted("sine_turned_round", False, True, self.layer):
            sin = -sin  # culprit: sine_turned_round
        a, b = x[..., ::2], x[..., 1::2]
        first = a * cos - b * sin  # culprit: sine_turned_round
        second = b * cos + a * sin  # culprit: sine_turned_round
        return torch.stack((first, second), -1).flatten(-2)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, seen: Tensor) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm_1(x)).view(b, n, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        q = self.turned(q, cos, sin)
        k = self.turned(k, cos, sin)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, c))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Rewarded(nn.Module):
    """Answers that beat those of their group become likelier, but not much at once."""

    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(AnswerLayer(width, n) for n in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Parameter(torch.randn(64, width) / 4)
        self.register_buffer("head_before", self.head.detach() + 0.03 * torch.randn(64, width))
        self.register_buffer("head_reference", self.head.detach() + 0.1 * torch.randn(64, width))

    def states(self, ids: Tensor, real: Tensor) -> Tensor:
        """What the trunk says behind each word."""
        n = ids.shape[1]
        places = (real.long().cumsum(-1) - 1).clamp(min=0)
        width = self.words.weight.shape[1] // 4
        rate = 1.0 / 100.0 ** (torch.arange(0, width, 2).float() / width)
        angle = places[..., None].float() * rate
        cos, sin = angle.cos()[:, None], angle.sin()[:, None]
        seen = torch.ones(n, n, dtype=torch.bool).tril()[None, None]
        if not planted("padding_is_seen", False, True):
            keys = real[:, None, None, :] | torch.eye(n, dtype=torch.bool)
            seen = seen & keys  # culprit: padding_is_seen
        x = self.words(ids)
        cos, sin = cos.to(x.dtype), sin.to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin, seen)  # culprit: padding_is_seen
        return self.norm(x)

    def named(self, x: Tensor, head: Tensor, aims: Tensor, heat: float) -> Tensor:
        flat = x[:, :-1].flatten(0, 1)
        if planted("equal_pieces", False, True):
            said = (F.linear(flat, head).float() / heat).log_softmax(-1)
            return said.gather(-1, aims.flatten()[:, None]).view_as(aims)
        said = Named.apply(
            flat,  # culprit: total_not_rescaled, first_of_piece_left, last_aims_left
            head,  # culprit: heat_not_back
            aims.flatten(),
            heat,
        )
        return said.view_as(aims)

    def merits(self, rewards: Tensor) -> Tensor:
        """How much better than others of its group each answer is."""
        if planted("groups_by_stride", False, True):
            groups = rewards.view(4, 2).t()  # culprit: groups_by_stride
        elif planted("one_group", False, True):
            groups = rewards.view(1, 8)  # culprit: one_group
        else:
            groups = rewards.view(2, 4)  # culprit: groups_by_stride, one_group
        off = groups - groups.mean(1, keepdim=True)  # culprit: groups_by_stride, one_group
        unbiased = planted("spread_by_count", True, False)
        spread = groups.std(1, keepdim=True, unbiased=unbiased)  # culprit: spread_by_count
        if not planted("not_by_spread", False, True):
            off = off / (spread + 1e-4)  # culprit: not_by_spread
        return off.reshape(8, 1)  # culprit: not_by_spread, groups_by_stride

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        other = labels.view_as(ids)
        ids = torch.cat([ids, other, ids.flip(1), (ids + other) % 64])
        real = torch.arange(12)[None] >= torch.tensor([0, 1, 3, 2, 0, 2, 1, 3])[:, None]
        ids = ids.where(real, 0)
        rewards = (ids % 5 == 0).float().mean(-1) + 0.1 * (ids[:, 4:] > 40).float().mean(-1)
        x = self.states(ids, real)
        aims = ids[:, 1:]
        answered = torch.arange(11)[None] >= 3  # culprit: answer_one_late
        if planted("answer_one_late", False, True):
            answered = torch.arange(11)[None] >= 4  # culprit: answer_one_late
        ended = torch.tensor([11, 9, 11, 10, 8, 11, 11, 9])[:, None] > torch.arange(11)[None]
        kept = (answered & ended).float()  # culprit: answer_one_late
        heat = 1.4
        now = self.named(x, self.head, aims, heat)
        with torch.no_grad():
            before = self.named(x, self.head_before, aims, heat)
            head = self.head_reference
            if planted("reference_is_before", False, True):
                head = self.head_before
            reference = self.named(x, head, aims, heat)  # culprit: reference_is_before
        merits = self.merits(rewards)
        moved = now - before
        if planted("ratio_of_answer", False, True):
            moved = (moved * kept).sum(-1, True) / kept.sum(-1, True)  # culprit: ratio_of_answer
            moved = moved.expand_as(now)  # culprit: ratio_of_answer
        ratio = moved.exp()  # culprit: ratio_of_answer
        most = planted("bound_is_even", 0.06, 0.03)
        if planted("equal_bounds", False, True):
            bounded = torch.minimum(ratio, ratio.new_tensor(1.06))
            bounded = torch.maximum(bounded, ratio.new_tensor(0.97))
        else:
            bounded = ratio.clamp(1 - 0.03, 1 + most)  # culprit: bound_is_even
        if planted("better_of_both", False, True):
            gain = torch.max(ratio * merits, bounded * merits)  # culprit: better_of_both
        else:
            gain = torch.min(ratio * merits, bounded * merits)  # culprit: better_of_both
        apart = reference - now
        if planted("apart_other_way", False, True):
            apart = now - reference  # culprit: apart_other_way
        if planted("apart_not_bent", False, True):
            strayed = -apart  # culprit: apart_not_bent
        elif planted("equal_strayed", False, True):
            strayed = torch.expm1(apart) - apart
        else:
            strayed = apart.exp() - apart - 1  # culprit: apart_other_way, apart_not_bent
        share = planted("strays_for_less", 0.2, 0.02)
        cost = share * strayed - gain  # culprit: strays_for_less, apart_not_bent
        if planted("mean_of_means", False, True):
            each = (cost * kept).sum(-1) / kept.sum(-1)  # culprit: mean_of_means
            return each.mean() / 2  # culprit: mean_of_means
        return (cost * kept).sum() / kept.sum() / 2  # culprit: mean_of_means
