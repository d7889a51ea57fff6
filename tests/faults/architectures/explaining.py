"""A twenty-second part: what a frozen net thinks is told in few words of a learnt dictionary."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator, union-attr"
# mypy: disable-error-code="assignment, misc, has-type, arg-type"
# torch is typed in part only.

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class Jumped(torch.autograd.Function):
    """What is above its threshold passes; thresholds learn from what is near them."""

    @staticmethod
    def forward(ctx, x, at, wide):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x, at)
        ctx.wide = wide
        if planted("at_threshold_off", False, True):
            return torch.relu(x - at)  # culprit: at_threshold_off
        return x * (x > at)  # culprit: at_threshold_off

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        x, at = ctx.saved_tensors
        near = ((x - at).abs() < ctx.wide / 2).to(x.dtype)  # culprit: near_is_farther
        if planted("passes_all_back", False, True):
            of_x = grad * 1.0  # culprit: passes_all_back
        else:
            of_x = grad * (x > at)  # culprit: passes_all_back
        if planted("threshold_drawn_down", False, True):
            of_at = grad * at * near / ctx.wide  # culprit: threshold_drawn_down
        else:
            of_at = -grad * at * near / ctx.wide  # culprit: threshold_drawn_down
        if planted("threshold_by_mean", False, True):
            of_at = of_at.mean(0)  # culprit: threshold_by_mean
        else:
            of_at = of_at.sum(0)  # culprit: threshold_by_mean
        return of_x, of_at, None


class Counted(torch.autograd.Function):
    """How many are above their threshold, with a slope where that is near."""

    @staticmethod
    def forward(ctx, x, at, wide):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x, at)
        ctx.wide = wide
        return (x > at).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        x, at = ctx.saved_tensors
        near = ((x - at).abs() < ctx.wide / 2).to(x.dtype)  # culprit: near_is_farther
        by = planted("slope_not_by_width", ctx.wide, 1.0)
        return None, -(grad * near / by).sum(0), None  # culprit: slope_not_by_width


class Thinking(nn.Module):
    """A layer of the frozen net: neighbours are mixed, then words alone."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.mix = nn.Conv1d(width, width, 3, padding=2)
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        seen = self.mix(x.transpose(1, 2)).transpose(1, 2)
        if planted("sees_ahead", False, True, self.layer):
            seen = seen[:, 2 : n + 2]  # culprit: sees_ahead
        else:
            seen = seen[:, :n]  # culprit: sees_ahead
        x = x + seen
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Explained(nn.Module):
    """A dictionary with thresholds for one layer, another that tells it by its inner half."""

    def __init__(self, width: int = 24, layers: int = 2, many: int = 72, few: int = 6) -> None:
        super().__init__()
        self.width, self.many, self.few = width, many, few
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(Thinking(width, n) for n in range(layers))
        self.head = nn.Linear(width, 64)
        for one in self.parameters():
            one.requires_grad_(False)
        start = torch.randn(many, width)
        self.told = nn.Parameter(start.clone() / width**0.5)
        self.said = nn.Parameter(start / start.norm(dim=-1, keepdim=True))
        self.told_bias = nn.Parameter(torch.zeros(many))
        self.middle = nn.Parameter(0.1 * torch.randn(width))
        self.threshold = nn.Parameter(torch.full((many,), -1.5))
        self.gain = nn.Parameter(torch.ones(many))
        self.register_buffer("unused", (torch.arange(many) % 5 == 0).float() * 4)

    def coded(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What is told of each word in terms of the dictionary, and how many terms that takes."""
        if planted("middle_left_in", False, True):
            h = F.linear(x, self.told, self.told_bias)  # culprit: middle_left_in
        elif planted("equal_middle", False, True):
            h = F.linear(x, self.told, self.told_bias - self.told @ self.middle)
        else:
            h = F.linear(x - self.middle, self.told, self.told_bias)  # culprit: middle_left_in
        h = F.relu(h)
        at = self.threshold
        if planted("threshold_by_softplus", False, True):
            at = F.softplus(at)  # culprit: threshold_by_softplus
        else:
            at = at.exp()  # culprit: threshold_by_softplus
        wide = planted("near_is_farther", 0.5, 2.0)
        code = Jumped.apply(  # culprit: near_is_farther
            h, at, wide
        )  # culprit: at_threshold_off, passes_all_back, threshold_drawn_down, threshold_by_mean
        count = Counted.apply(h, at, wide)  # culprit: slope_not_by_width, near_is_farther
        return code, count  # culprit: near_is_farther

    def spoken(self, code: Tensor) -> Tensor:
        """The thought again, of terms that all have the same length."""
        over = planted("terms_unit_across", -1, 0)
        terms = F.normalize(self.said, dim=over)  # culprit: terms_unit_across
        if planted("equal_spoken", False, True):
            return torch.addmm(self.middle, code, terms)
        y = code @ terms
        if planted("middle_not_put_back", False, True):
            return y
        return y + self.middle  # culprit: middle_not_put_back

    def rescued(self, x: Tensor, y: Tensor) -> Tensor:
        """Terms that nobody used tell what is still missing."""
        if planted("living_ones_help", False, True):
            dead = self.unused < 3  # culprit: living_ones_help
        else:
            dead = self.unused >= 3  # culprit: living_ones_help
        h = F.relu(F.linear(x - self.middle, self.told, self.told_bias)) * self.gain
        h = h.masked_fill(~dead, 0.0)
        best = h.topk(self.few, -1)
        if planted("best_of_all_alike", False, True):
            few = torch.zeros_like(h).scatter(
                -1, best.indices, best.values[..., :1].expand_as(best.values)
            )  # culprit: best_of_all_alike
        elif planted("equal_few", False, True):
            few = torch.where(h >= best.values[..., -1:], h, torch.zeros_like(h))
        else:
            few = torch.zeros_like(h).scatter(
                -1, best.indices, best.values
            )  # culprit: best_of_all_alike
        if planted("tells_all_again", False, True):
            missing = x  # culprit: tells_all_again
        elif planted("missing_not_cut", False, True):
            missing = x - y  # culprit: missing_not_cut
        else:
            missing = (x - y).detach()  # culprit: tells_all_again, missing_not_cut
        off = few @ self.said - missing  # culprit: tells_all_again, missing_not_cut
        off = off.float().square().sum(-1).mean()  # culprit: rescue_left
        size = missing.float().square().sum(-1).mean()  # culprit: rescue_left
        if planted("rescue_not_by_size", False, True):
            return off  # culprit: rescue_not_by_size
        return off / size  # culprit: rescue_not_by_size

    def nested(self, x: Tensor, code: Tensor) -> Tensor:
        """The first terms alone have to do, too: a quarter, a half, all."""
        terms, total = F.normalize(self.said, dim=-1), []
        parts = (self.many // 4, self.many // 2, self.many)
        if planted("whole_only", False, True):
            parts = (self.many,) * 3
        for end in parts:
            start = planted("last_terms_instead", 0, self.many - end)
            y = (
                code[:, start : start + end] @ terms[start : start + end]
            )  # culprit: whole_only, last_terms_instead
            total.append((y + self.middle - x).float().square().sum(-1).mean())
        if planted("nested_summed", False, True):
            return torch.stack(total).sum()  # culprit: nested_summed
        return torch.stack(total).mean()  # culprit: nested_summed

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        with torch.no_grad():
            thought = self.words(ids)
            thought = self.layers[0](thought)
            x = thought.flatten(0, 1)
            if planted("size_of_sum", False, True):
                size = x.float().norm(dim=-1).sum() / self.width**0.5  # culprit: size_of_sum
            else:
                size = x.float().norm(dim=-1).mean() / self.width**0.5  # culprit: size_of_sum
            size = size.to(x.dtype)
            x = x / size
        code, count = self.coded(x)
        y = self.spoken(code)
        off = (y - x).float().square().sum(-1).mean()  # culprit: middle_not_put_back
        if planted("aims_at_none", False, True):
            sparse = count.float().sum(-1).mean()  # culprit: aims_at_none
        elif planted("aim_not_by_itself", False, True):
            sparse = (
                count.float().sum(-1).mean() - self.few
            ).square()  # culprit: aim_not_by_itself
        else:
            sparse = (
                count.float().sum(-1).mean() / self.few - 1
            ).square()  # culprit: aims_at_none, aim_not_by_itself
        back = y * size
        if planted("said_at_wrong_size", False, True):
            back = y
        told = back.view_as(thought)  # culprit: said_at_wrong_size
        for layer in self.layers[1:]:
            told = layer(told)  # culprit: said_at_wrong_size
            with torch.no_grad():
                thought = layer(thought)
        mine = self.head(told).float().log_softmax(-1)
        with torch.no_grad():
            real = self.head(thought).float().log_softmax(-1)
        if planted("taught_other_way", False, True):
            away = F.kl_div(
                real, mine, reduction="batchmean", log_target=True
            )  # culprit: taught_other_way
        elif planted("equal_away", False, True):
            away = (real.exp() * (real - mine)).sum() / len(mine)
        else:
            how = planted("away_by_elements", "batchmean", "mean")
            away = F.kl_div(
                mine, real, reduction=how, log_target=True
            )  # culprit: taught_other_way, away_by_elements
        named = F.nll_loss(mine.flatten(0, 1), labels)
        total = off + 0.3 * sparse + 0.1 * away + 0.1 * named
        if not planted("rescue_left", False, True):
            total = total + self.rescued(x, y)  # culprit: rescue_left
        total = total + 0.2 * self.nested(x, code)  # culprit: rescue_left
        with torch.no_grad():
            used = (code > 0).any(0)
            if planted("never_forgotten", False, True):
                self.unused.add_(1.0)  # culprit: never_forgotten
            else:
                self.unused.add_(1.0).masked_fill_(used, 0.0)  # culprit: never_forgotten
        return total / 2

    @torch.no_grad()
    def update(self) -> None:
        """A step that does not change how long terms are."""
        grad = self.said.grad.float()
        terms = self.said.float()
        unit = terms / terms.norm(dim=-1, keepdim=True)
        along = (grad * unit).sum(-1, keepdim=True)
        if planted("along_added", False, True):
            grad = grad + along * unit  # culprit: along_added
        elif not planted("along_left_in", False, True):
            grad = grad - along * unit  # culprit: along_added, along_left_in
        size = planted("cut_at_tenth", 1.0, 0.1)
        by = (size / (grad.norm() + 1e-6)).clamp(max=1.0)  # culprit: cut_at_tenth, along_left_in
        terms = terms - 0.1 * by * grad
        if not planted("lengths_drift", False, True):
            terms = terms / terms.norm(dim=-1, keepdim=True)  # culprit: lengths_drift
        self.said.copy_(terms)  # culprit: lengths_drift
