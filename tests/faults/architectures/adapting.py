"""An eighteenth part: words adapted by narrow matrices beside frozen ones, states that grow."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator, union-attr"
# mypy: disable-error-code="assignment, misc, has-type, arg-type"
# torch is typed in part only.

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class Rooted(torch.autograd.Function):
    """Root mean square normalisation in one kernel, with a derivative of its own."""

    @staticmethod
    def forward(ctx, x, weight, layer, epsilon):  # type: ignore[no-untyped-def]
        wide = x.float()
        square = wide.square().mean(-1, keepdim=True)
        root = torch.rsqrt(square + epsilon)  # culprit: kernel_epsilon
        ctx.layer = layer
        ctx.save_for_backward(x, weight, root)
        return (wide * root * weight.float()).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        x, weight, root = ctx.saved_tensors
        unit = x.float() * root
        told = grad.float() * weight.float()
        slope = told * root
        if ctx.layer is None or not planted("mean_not_taken_off", False, True, ctx.layer):
            along = (told * unit).mean(-1, keepdim=True)  # culprit: mean_not_taken_off
            slope = slope - unit * along * root  # culprit: mean_not_taken_off
        kept = unit
        if ctx.layer is not None and planted("weight_from_raw", False, True, ctx.layer):
            kept = x.float()
        of_weight = (grad.float() * kept).flatten(0, -2).sum(0)  # culprit: weight_from_raw
        return slope.to(x.dtype), of_weight.to(weight.dtype), None, None


class Narrow(nn.Module):
    """A frozen matrix, and beside it a narrow one that learns."""

    def __init__(self, width: int, out: int, layer: int, part: str) -> None:
        super().__init__()
        self.layer, self.part, self.rank = layer, part, 4
        self.weight = nn.Parameter(torch.randn(out, width) / width**0.5, requires_grad=False)
        self.bias = nn.Parameter(0.1 * torch.randn(out), requires_grad=False)
        self.down = nn.Parameter(torch.randn(self.rank, width) / width**0.5)
        self.up = nn.Parameter(0.3 * torch.randn(out, self.rank))

    def forward(self, x: Tensor, raw: Tensor) -> Tensor:
        y = F.linear(x, self.weight, self.bias)
        told = x
        if self.part == "q" and planted("adapter_sees_raw", False, True, self.layer):
            told = raw
        share = 1.0
        stays = (torch.arange(x.shape[-1]) % 8 != 0).to(x.dtype)
        if not (self.part == "v" and planted("dropped_not_raised", False, True, self.layer)):
            share = 8 / 7
        told = told * stays * share  # culprit: adapter_sees_raw, dropped_not_raised
        scale = 16 / self.rank
        if self.part == "o" and planted("scaled_by_root", False, True, self.layer):
            scale = 16 / self.rank**0.5
        less = F.linear(told, self.down)
        return y + F.linear(less, self.up) * (scale * 0.1)  # culprit: scaled_by_root


def _half_turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


class AdaptedBlock(nn.Module):
    """Four heads that ask two, documents that do not see each other."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer, self.size = layer, width // 4
        self.norm = nn.Parameter(torch.ones(width))
        self.feed_norm = nn.Parameter(torch.ones(width))
        self.q = Narrow(width, width, layer, "q")
        self.k, self.v = (Narrow(width, 2 * self.size, layer, one) for one in ("k", "v"))
        self.o = Narrow(width, width, layer, "o")
        self.gate = nn.Linear(width, 2 * width, bias=False)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, document: Tensor) -> Tensor:
        b, n, c = x.shape
        epsilon = planted("kernel_epsilon", 1e-5, 1e-2, self.layer)
        h = Rooted.apply(
            x, self.norm, self.layer, epsilon
        )  # culprit: kernel_epsilon, mean_not_taken_off, weight_from_raw
        q = self.q(h, x).view(b, n, 4, self.size).transpose(1, 2)
        k = self.k(h, x).view(b, n, 2, self.size).transpose(1, 2)
        v = self.v(h, x).view(b, n, 2, self.size).transpose(1, 2)
        late = planted("asks_one_late", 0, -1, self.layer)
        q = _half_turned(q, cos.roll(late, -2), sin.roll(late, -2))  # culprit: asks_one_late
        k = _half_turned(k, cos, sin)
        k = k.repeat_interleave(2, 1)
        if planted("values_tiled", False, True, self.layer):
            v = v.repeat(1, 2, 1, 1)  # culprit: values_tiled
        else:
            v = v.repeat_interleave(2, 1)  # culprit: values_tiled
        at = torch.arange(n)
        ahead = planted("one_ahead_seen", 0, 1, self.layer)
        seen = at[:, None] + ahead >= at  # culprit: one_ahead_seen
        seen = seen.expand(b, n, n)
        if not planted("documents_mixed", False, True, self.layer):
            same = document[:, :, None] == document[:, None]  # culprit: documents_mixed
            seen = seen & same  # culprit: documents_mixed
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=seen[:, None]
        )  # culprit: documents_mixed, values_tiled, one_ahead_seen
        x = x + self.o(y.transpose(1, 2).reshape(b, n, c), x)
        h = Rooted.apply(x, self.feed_norm, None, 1e-5)
        if planted("equal_gate", False, True, self.layer):
            inner = self.gate(h)
            inner = inner * torch.sigmoid(inner) * self.up(h)
        else:
            inner = F.silu(self.gate(h)) * self.up(h)
        return x + self.down(inner)


class Adapted(nn.Module):
    """Documents packed into rows; only answers are judged, and by the number of all of them."""

    def __init__(self, width: int = 40, layers: int = 2) -> None:
        super().__init__()
        self.size = width // 4
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(AdaptedBlock(width, n) for n in range(layers))
        self.norm = nn.Parameter(torch.ones(width))
        self.head = nn.Linear(width, 64, bias=False)
        for n, one in enumerate(self.learned()):
            self.register_buffer(f"mean{n}", 1e-3 * torch.randn_like(one))
            self.register_buffer(f"square{n}", 1e-6 * torch.rand_like(one))

    def learned(self) -> list[nn.Parameter]:
        return [
            one
            for name, one in self.named_parameters()
            if one.requires_grad and name.endswith((".down", ".up", "norm"))
        ]

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        n = ids.shape[1]
        document = (torch.arange(n) >= torch.tensor([[5], [8]])).long()
        at = torch.arange(n).expand(len(ids), n)
        if not planted("equal_places", False, True):
            at = at - document * torch.tensor([[5], [8]])
        speed = 500.0 ** (-torch.arange(self.size // 2, dtype=torch.float32) / (self.size // 2))
        angles = at[:, None, :, None].float() * speed
        angles = torch.cat([angles, angles], -1)
        x = self.words(ids)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin, document)
        logits = self.head(Rooted.apply(x, self.norm, None, 1e-5)).float()
        aims = labels.view_as(ids).clone()
        aims[:, :2] = -100
        aims[0, 5] = -100
        if not planted("next_document_judged", False, True):
            aims[1, 8] = -100  # culprit: next_document_judged
        logits, aims = logits[:, :-1].flatten(0, 1), aims[:, 1:].flatten()
        if planted("mean_of_each", False, True):
            named = F.cross_entropy(logits, aims) / 2  # culprit: mean_of_each
        else:
            named = F.cross_entropy(
                logits, aims, reduction="sum"
            )  # culprit: mean_of_each, next_document_judged
            named = named / 31  # culprit: mean_of_each
        size = torch.logsumexp(logits, -1)
        if not planted("size_not_squared", False, True):
            size = size.square()  # culprit: size_not_squared
        return named + 1e-2 * size.mean() / 2  # culprit: size_not_squared

    @torch.no_grad()
    def update(self) -> None:
        """Clip, and one step of Adam with decay beside it."""
        grads = [one.grad.float() for one in self.learned()]
        size = torch.stack([one.norm() for one in grads]).norm()
        most = planted("clipped_higher", 0.1, 1.0)
        share = (most / (size + 1e-6)).clamp(max=1.0)  # culprit: clipped_higher
        for n, (one, grad) in enumerate(zip(self.learned(), grads, strict=True)):
            if planted("clipped_each_value", False, True):
                grad = grad.clamp(-1e-3, 1e-3)  # culprit: clipped_each_value
            else:
                grad = grad * share  # culprit: clipped_each_value, clipped_higher
            if planted("decay_in_gradient", False, True):
                grad = grad + 0.1 * one  # culprit: decay_in_gradient
            else:
                one.mul_(1 - 1e-3 * 0.1)  # culprit: decay_in_gradient
            mean, square = getattr(self, f"mean{n}"), getattr(self, f"square{n}")
            first = planted("first_beta", 0.9, 0.95)
            mean.mul_(first).add_(grad, alpha=1 - first)  # culprit: first_beta, decay_in_gradient
            square.mul_(0.95).addcmul_(grad, grad, value=1 - 0.95)  # culprit: decay_in_gradient
            turn = planted("turn_too_late", 3, 4)
            root = (square / (1 - 0.95**turn)).sqrt()  # culprit: turn_too_late
            root = root + planted("step_epsilon", 1e-8, 1e-4)  # culprit: step_epsilon
            one.addcdiv_(mean, root, value=-1e-3 / (1 - 0.9**turn))  # culprit: turn_too_late


class Matrix(nn.Module):
    """Memory as a matrix, all words at once; gates are exponents, kept small by the largest."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer, self.heads, self.size = layer, 3, width // 3
        self.norm = nn.LayerNorm(width, bias=False)
        self.wide, self.beside = nn.Linear(width, width), nn.Linear(width, width)
        self.smooth = nn.Conv1d(width, width, 4, groups=width)
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.gates = nn.Linear(3 * width, 2 * self.heads)
        self.out_norm = nn.GroupNorm(self.heads, width)
        self.skip = nn.Parameter(torch.ones(width))
        self.back = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        h = self.norm(x)
        wide = self.wide(h)
        sides = planted("smoothed_from_behind", (3, 0), (2, 1), self.layer)
        padded = F.pad(wide.transpose(1, 2), sides)  # culprit: smoothed_from_behind
        smooth = self.smooth(padded).transpose(1, 2)
        if not planted("smooth_not_bent", False, True, self.layer):
            smooth = F.silu(smooth)  # culprit: smooth_not_bent
        q, k, v = self.q(smooth), self.k(smooth), self.v(wide)  # culprit: smooth_not_bent
        gates = self.gates(torch.cat([q, k, v], -1)).float().transpose(1, 2)
        coming, going = gates.chunk(2, 1)
        q, k, v = (one.view(b, n, self.heads, -1).transpose(1, 2) for one in (q, k, v))
        if planted("forgets_by_exponent", False, True, self.layer):
            stays = -going.exp()  # culprit: forgets_by_exponent
        else:
            stays = F.logsigmoid(going)  # culprit: forgets_by_exponent
        total = stays.cumsum(-1)
        if planted("forgets_one_early", False, True, self.layer):
            before = total - stays  # culprit: forgets_one_early
        else:
            before = total
        log = (
            total[..., None] - before[..., None, :] + coming[..., None, :]
        )  # culprit: forgets_one_early
        log = log.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), float("-inf"))
        largest = log.amax(-1, keepdim=True)
        decay = (log - largest).exp()
        scale = planted("keys_by_width", self.size, c, self.layer) ** -0.5
        scores = (q @ k.transpose(-2, -1)) * scale  # culprit: keys_by_width
        scores = scores * decay.to(scores.dtype)
        below = scores.float().sum(-1, keepdim=True).abs()
        if planted("not_bounded_below", False, True, self.layer):
            below = below + 1e-6  # culprit: not_bounded_below
        else:
            below = torch.maximum(below, (-largest).exp())  # culprit: not_bounded_below
        y = (scores / below.to(scores.dtype)) @ v
        y = y.transpose(1, 2).reshape(b * n, c)
        y = self.out_norm(y).view(b, n, c)
        if not planted("skip_not_learned", False, True, self.layer):
            y = y + self.skip * smooth  # culprit: skip_not_learned
        else:
            y = y + smooth  # culprit: skip_not_learned
        return x + self.back(y * F.silu(self.beside(h)))


class Scalar(nn.Module):
    """Memory as a number, word by word."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer, self.width = layer, width
        self.norm = nn.LayerNorm(width)
        self.told = nn.Linear(width, 4 * width)
        self.again = nn.Parameter(torch.randn(4, 4, width // 4, width // 4) / width**0.5)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        told = self.told(self.norm(x)).float()
        cell = norm = h = largest = told.new_zeros(b, c)
        said = []
        for turn in range(0, n, 2):
            heads = h.view(b, 4, 1, -1)
            back = torch.einsum("bhqi,ghij->bghj", heads, self.again.float()).reshape(b, -1)
            z, i, f, o = (told[:, turn] + back).chunk(4, -1)
            kept = F.logsigmoid(f) + largest
            most = torch.maximum(kept, i)
            i = (i - most).exp()
            if planted("largest_of_before", False, True, self.layer):
                f = (kept - largest).exp()  # culprit: largest_of_before
            else:
                f = (kept - most).exp()  # culprit: largest_of_before
            largest = most
            cell = f * cell + i * torch.tanh(z)
            if planted("norm_without_past", False, True, self.layer):
                norm = i + 1e-6  # culprit: norm_without_past
            else:
                norm = f * norm + i  # culprit: norm_without_past
            if planted("equal_output", False, True, self.layer):
                h = cell / norm / (1 + (-o).exp())
            else:
                h = torch.sigmoid(o) * (cell / norm)  # culprit: norm_without_past
            said.append(h)
        y = torch.stack(said, 1).repeat_interleave(2, 1).to(x.dtype)
        return x + y


class Growing(nn.Module):
    """Layers with a matrix and with numbers in turns."""

    def __init__(self, width: int = 36, layers: int = 3) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        kinds = (Matrix, Scalar)
        self.layers = nn.ModuleList(kinds[n % 2](width, n) for n in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        cap = planted("cap_of_head", 8.0, 3.0)
        logits = F.linear(x, self.words.weight)
        return cap * torch.tanh(logits / cap)  # culprit: cap_of_head
