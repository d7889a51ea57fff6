"""A nineteenth part: neighbours in a graph, and weights that are rounded to few numbers."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator, union-attr"
# mypy: disable-error-code="assignment, misc, has-type, arg-type"
# torch is typed in part only.

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class Neighbours(nn.Module):
    """Messages along edges, weighed by a softmax over those that arrive at a node."""

    def __init__(self, width: int, heads: int, layer: int) -> None:
        super().__init__()
        self.layer, self.heads, self.size = layer, heads, width // heads
        self.lin = nn.Linear(width, width, bias=False)
        self.att_src = nn.Parameter(torch.randn(1, heads, self.size) / 2)
        self.att_dst = nn.Parameter(torch.randn(1, heads, self.size) / 2)
        self.lin_edge = nn.Linear(4, heads, bias=False)
        self.bias = nn.Parameter(0.1 * torch.randn(width))

    def forward(self, x: Tensor, edges: Tensor, kinds: Tensor) -> Tensor:
        n = len(x)
        x = self.lin(x).view(n, self.heads, self.size)
        src, dst = edges[0], edges[1]
        alpha_src = (x * self.att_src).sum(-1)
        alpha_dst = (x * self.att_dst).sum(-1)
        alpha = alpha_src[src] + alpha_dst[dst]
        if not planted("edges_not_told", False, True, self.layer):
            alpha += self.lin_edge(kinds)  # culprit: edges_not_told
        slope = planted("leaks_less", 0.2, 0.01, self.layer)
        alpha = F.leaky_relu(alpha, slope)  # culprit: leaks_less, edges_not_told
        alpha = alpha.float()
        who = src if planted("shared_by_senders", False, True, self.layer) else dst
        index = who[:, None].expand_as(alpha)  # culprit: shared_by_senders
        if not planted("equal_shares", False, True, self.layer):
            largest = alpha.new_full((n, self.heads), -1e30)
            largest = largest.scatter_reduce(
                0, index, alpha.detach(), "amax"
            )  # culprit: shared_by_senders
            alpha = alpha - largest[who]  # culprit: shared_by_senders
        share = alpha.exp()
        total = share.new_zeros(n, self.heads).scatter_add_(
            0, index, share
        )  # culprit: shared_by_senders
        share = share / (total[who] + 1e-16)  # culprit: shared_by_senders
        out = x.new_zeros(n, self.heads, self.size)
        message = x[src] * share.to(x.dtype)[..., None]
        to = dst
        if planted("told_to_senders", False, True, self.layer):
            to = src
        out.index_add_(0, to, message)  # culprit: told_to_senders
        return out.flatten(1) + self.bias


class Linked(nn.Module):
    """Words as nodes; layers are joined at the end, and pairs of nodes are judged."""

    def __init__(self, width: int = 24, layers: int = 2, heads: int = 3) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(Neighbours(width, heads, n) for n in range(layers))
        self.skips = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in range(layers))
        self.join = nn.Linear((layers + 1) * width, width)
        self.pair = nn.Bilinear(width, width, 1)

    def edges(self, n: int) -> tuple[Tensor, Tensor]:
        """Who tells whom, and of what kind each edge is."""
        at = torch.arange(n)
        src = torch.cat([at, (at * 7 + 3) % n, (at * at + 1) % n])
        dst = torch.cat([(at + 1) % n, at, (at * 5) % n])
        if not planted("nobody_hears_itself", False, True):
            src, dst = torch.cat([src, at]), torch.cat([dst, at])  # culprit: nobody_hears_itself
        kinds = F.one_hot((src + 2 * dst) % 4, 4)
        return torch.stack([src, dst]), kinds  # culprit: nobody_hears_itself

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        x = self.words(ids.flatten())
        n = len(x)
        edges, kinds = self.edges(n)
        kinds = kinds.to(x.dtype)
        seen = [x]
        for number, layer in enumerate(self.layers):
            y = layer(x, edges, kinds)  # culprit: nobody_hears_itself
            weight, bias = self.skips[number].weight, self.skips[number].bias
            if planted("skip_without_bias", False, True, number):
                bias = None
            y = y + F.linear(x, weight, bias)  # culprit: skip_without_bias
            norm = self.norms[number]
            norm.eps = planted("batch_epsilon", 1e-5, 1e-1, number)
            if planted("normed_by_past", False, True, number):
                norm.eval()
            y = norm(y)  # culprit: batch_epsilon, normed_by_past
            norm.train()
            x = F.elu(y, inplace=True)
            seen.append(x)
        if planted("joined_backwards", False, True):
            seen = seen[::-1]
        x = self.join(torch.cat(seen, -1))  # culprit: joined_backwards
        x = x.view(*ids.shape, -1)
        total = planted("read_by_largest", False, True)
        if total:
            whole = x.amax(1, keepdim=True)  # culprit: read_by_largest
        else:
            whole = x.sum(1, keepdim=True) / 12  # culprit: read_by_largest
        told = self.pair(x, whole.expand_as(x)).squeeze(-1).float()
        aims = (labels.view_as(ids) % 3 == 0).float()
        weight = torch.tensor(planted("rare_not_weighed", 2.0, 1.0))  # culprit: rare_not_weighed
        loss = F.binary_cross_entropy_with_logits(
            told, aims, pos_weight=weight
        )  # culprit: rare_not_weighed
        return loss / 2


class Coarse(torch.autograd.Function):
    """Weights rounded to sixteen numbers; inside of their range the gradient passes."""

    @staticmethod
    def forward(ctx, weight, scale, layer):  # type: ignore[no-untyped-def]
        least = planted("range_too_short", -8, -4, layer)
        level = torch.round(weight / scale)
        kept = level.clamp(least, 7)  # culprit: range_too_short
        ctx.layer = layer
        ctx.save_for_backward(weight, scale, level)
        return kept * scale

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        weight, scale, level = ctx.saved_tensors
        inside = (level >= -8) & (level <= 7)
        if planted("outside_passes", False, True, ctx.layer):
            inside = torch.ones_like(inside)  # culprit: outside_passes
        of_weight = grad * inside.to(grad.dtype)  # culprit: outside_passes
        slope = torch.where(inside, level - weight / scale, level.clamp(-8, 7))
        share = (7 * weight.numel()) ** -0.5
        if planted("scale_not_lessened", False, True, ctx.layer):
            share = 1.0
        of_scale = (grad * slope).sum(-1, keepdim=True) * share  # culprit: scale_not_lessened
        return of_weight, of_scale, None


class Blocks(torch.autograd.Function):
    """Attention in blocks of keys, with running sums; backward makes the shares anew."""

    @staticmethod
    def forward(ctx, q, k, v, layer):  # type: ignore[no-untyped-def]
        n, scale = q.shape[2], q.shape[3] ** -0.5
        most = q.new_full((*q.shape[:3], 1), float("-inf"))
        total, out = q.new_zeros((*q.shape[:3], 1)), torch.zeros_like(q)
        at = torch.arange(n)
        for start in range(0, n, 4):
            keys, values = k[:, :, start : start + 4], v[:, :, start : start + 4]
            scores = (q @ keys.transpose(2, 3)) * scale
            first = start
            if start and planted("block_begins_late", False, True, layer):
                first = start + 1
            seen = at[:, None] >= first + torch.arange(4)[None]  # culprit: block_begins_late
            scores = scores.masked_fill(~seen, float("-inf"))  # culprit: block_begins_late
            now = torch.maximum(most, scores.amax(-1, keepdim=True))
            shares = torch.exp(scores - now)
            rescale = torch.exp(most - now)
            total = total * rescale + shares.sum(-1, keepdim=True)
            if planted("sums_not_rescaled", False, True, layer):
                out = out + shares @ values  # culprit: sums_not_rescaled
            else:
                out = out * rescale + shares @ values  # culprit: sums_not_rescaled
            most = now
        out = out / total
        ctx.layer = layer
        ctx.save_for_backward(q, k, v, out, most + total.log())
        return out

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        q, k, v, out, size = ctx.saved_tensors
        scale = q.shape[3] ** -0.5
        scores = (q @ k.transpose(2, 3)) * scale
        shares = torch.exp(scores - size).tril()
        of_v = shares.transpose(2, 3) @ grad
        of_shares = grad @ v.transpose(2, 3)
        if planted("rows_not_taken_off", False, True, ctx.layer):
            of_scores = shares * of_shares  # culprit: rows_not_taken_off
        else:
            rows = (grad * out).sum(-1, keepdim=True)
            of_scores = shares * (of_shares - rows)  # culprit: rows_not_taken_off
        of_q = of_scores @ k * scale
        if not planted("keys_not_scaled_back", False, True, ctx.layer):
            of_scores = of_scores * scale  # culprit: keys_not_scaled_back
        of_k = of_scores.transpose(2, 3) @ q  # culprit: keys_not_scaled_back
        return of_q, of_k, of_v, None


class CoarseLinear(nn.Module):
    """A matrix that is rounded by the scale of each of its rows."""

    def __init__(self, width: int, out: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.weight = nn.Parameter(torch.randn(out, width) / width**0.5)
        self.scale = nn.Parameter(self.weight.detach().abs().amax(-1, keepdim=True) / 12)
        self.bias = nn.Parameter(torch.zeros(out))

    def forward(self, x: Tensor) -> Tensor:
        scale = self.scale
        if planted("one_scale_for_all", False, True, self.layer):
            scale = scale.mean(0, keepdim=True).expand_as(scale)  # culprit: one_scale_for_all
        if planted("equal_levels", False, True, self.layer):
            level = self.weight / scale
            share = (7 * level.numel()) ** -0.5
            held = (scale - scale * share).detach() + scale * share
            level = self.weight / held
            kept = level.detach().round().clamp(-8, 7)
            inside = (level > -8.5) & (level < 7.5)
            level = torch.where(inside, level, kept)
            weight = (level + (kept - level).detach()) * held
        else:
            weight = Coarse.apply(
                self.weight, scale, self.layer
            )  # culprit: range_too_short, outside_passes, scale_not_lessened, one_scale_for_all
        return F.linear(x, weight, self.bias)


class CoarseBlock(nn.Module):
    """A squared rectifier behind attention in blocks."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.norm = nn.Parameter(torch.ones(width))
        self.qkv, self.out = CoarseLinear(width, 3 * width, -1), CoarseLinear(width, width, -1)
        self.up = CoarseLinear(width, 2 * width, layer)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        if planted("summed_in_half", False, True, self.layer):
            half = x.half()
            square = (half * half).sum(-1, keepdim=True).float() / c  # culprit: summed_in_half
        else:
            square = x.float().square().mean(-1, keepdim=True)  # culprit: summed_in_half
        h = (x.float() * torch.rsqrt(square + 1e-5)).to(x.dtype) * self.norm
        q, k, v = self.qkv(h).view(b, n, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        if planted("equal_blocks", False, True, self.layer):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            y = Blocks.apply(
                q,  # culprit: block_begins_late, sums_not_rescaled, rows_not_taken_off
                k,  # culprit: keys_not_scaled_back
                v,
                self.layer,
            )
        x = x + self.out(y.transpose(1, 2).reshape(b, n, c))
        h = F.layer_norm(x, (c,))
        wide = self.up(h)
        if planted("square_keeps_sign", False, True, self.layer):
            wide = wide * wide.abs()  # culprit: square_keeps_sign
        else:
            wide = torch.relu(wide).square()  # culprit: square_keeps_sign
        return x + self.down(wide)  # culprit: square_keeps_sign


class Rounded(nn.Module):
    """Words with few numbers; steps of an optimizer that keeps rows and columns only."""

    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(CoarseBlock(width, n) for n in range(layers))
        self.head = nn.Linear(width, 64)
        for n, one in enumerate(self.stepped()):
            self.register_buffer(f"rows{n}", 1e-6 + 1e-6 * torch.rand(one.shape[0]))
            self.register_buffer(f"columns{n}", 1e-6 + 1e-6 * torch.rand(one.shape[1]))

    def stepped(self) -> list[nn.Parameter]:
        return [one.down.weight for one in self.layers]

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        x = self.words(ids) * 64.0
        for layer in self.layers:
            x = layer(x)
        x = x / 32.0
        apart = x[:, 1:] - x[:, :-1]
        if planted("root_of_nothing", False, True):
            apart = apart * (ids[:, 1:] % 4 > 0)[..., None]  # culprit: root_of_nothing
            far = apart.float().square().sum(-1).sqrt()  # culprit: root_of_nothing
        else:
            far = (apart.float().square().sum(-1) + 1e-6).sqrt()  # culprit: root_of_nothing
        logits = self.head(x).float()
        aims = labels.view_as(ids).clone()
        aims[0, 8:] = -100
        logits, aims = logits.flatten(0, 1), aims.flatten()
        if planted("equal_named", False, True):
            named = F.cross_entropy(logits, aims)
        else:
            said = logits.log_softmax(-1)
            said = said.gather(-1, aims.clamp(min=0)[:, None]).squeeze(-1)
            counts = (aims >= 0).float()
            if planted("unjudged_in_mean", False, True):
                named = -(said * counts).mean()  # culprit: unjudged_in_mean
            else:
                named = -(said * counts).sum() / counts.sum()  # culprit: unjudged_in_mean
        return (named + 1e-3 * far.mean()) / 2

    @torch.no_grad()
    def update(self) -> None:
        """One step by rows and columns."""
        for n, one in enumerate(self.stepped()):
            grad = one.grad.float()
            rows, columns = getattr(self, f"rows{n}"), getattr(self, f"columns{n}")
            square = grad.square() + planted(
                "square_epsilon", 1e-30, 1e-6
            )  # culprit: square_epsilon
            power = planted("forgets_by_root", -0.8, -0.5)
            stays = 1 - 5.0**power
            mean = square.mean(1)
            rows.mul_(stays).add_(mean, alpha=1 - stays)  # culprit: forgets_by_root
            mean = square.mean(0)
            columns.mul_(stays).add_(mean, alpha=1 - stays)  # culprit: forgets_by_root
            if planted("rows_not_shared", False, True):
                by_row = rows.rsqrt()[:, None]  # culprit: rows_not_shared
            else:
                by_row = (rows / rows.mean()).rsqrt()[:, None]  # culprit: rows_not_shared
            step = grad * by_row * columns.rsqrt()[None]  # culprit: rows_not_shared
            if not planted("steps_not_bounded", False, True):
                size = step.square().mean().sqrt()
                step = step / (size * 100).clamp(min=1.0)  # culprit: steps_not_bounded
            rate = planted("rate_not_relative", True, False)
            if rate:
                step = step * one.square().mean().sqrt().clamp(
                    min=1e-3
                )  # culprit: rate_not_relative
            one.add_(
                step.to(one.dtype), alpha=-1e-2
            )  # culprit: steps_not_bounded, rate_not_relative
