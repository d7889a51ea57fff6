"""A twenty-second part: a decoder of several streams, a loss in pieces, two-sided steps."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator, union-attr"
# mypy: disable-error-code="assignment, misc, has-type, arg-type"
# torch is typed in part only.

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class LossInPieces(torch.autograd.Function):
    """Head and cross entropy, some words at a time; gradients are made on the way there."""

    @staticmethod
    def forward(ctx, x, weight, aims, cap):  # type: ignore[no-untyped-def]
        of_x, of_weight = torch.zeros_like(x), torch.zeros_like(weight, dtype=torch.float32)
        total = torch.zeros(())
        many = x.shape[0]
        for start in range(0, many, 8):
            part, aim = x[start : start + 8], aims[start : start + 8]
            raw = (part @ weight.T).float()
            bent = torch.sigmoid(raw / cap)  # culprit: cap_halved
            logits = 2 * cap * bent  # culprit: cap_halved
            sure = logits.softmax(-1)
            rows = torch.arange(len(aim))
            total = total - sure[rows, aim].log().sum()
            grad = sure.clone()
            grad[rows, aim] -= 1
            if planted("bend_not_led_back", False, True):
                grad = 2 * grad  # culprit: bend_not_led_back
            else:
                grad = grad * 2 * bent * (1 - bent)  # culprit: bend_not_led_back
            count = planted("by_words_of_piece", many, len(aim))
            grad = (grad / count).to(x.dtype)  # culprit: by_words_of_piece
            of_x[start : start + 8] = grad @ weight
            if planted("last_piece_only", False, True):
                of_weight = (grad.T @ part).float()  # culprit: last_piece_only
            else:
                of_weight = of_weight + (grad.T @ part).float()  # culprit: last_piece_only
        ctx.save_for_backward(of_x, of_weight.to(weight.dtype))
        return total / many

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        of_x, of_weight = ctx.saved_tensors
        if not planted("not_told_what_follows", False, True):
            of_x, of_weight = (
                of_x * grad.to(of_x.dtype),
                of_weight * grad.to(of_weight.dtype),
            )  # culprit: not_told_what_follows
        return of_x, of_weight, None, None


def evened(scores: Tensor, turns: int) -> Tensor:
    """Rows and columns that sum to one, by turns."""
    if planted("equal_evened", False, True):
        log = scores
        for _ in range(turns):
            log = log.log_softmax(-1)
            log = log.log_softmax(-2)
        return log.exp()
    if planted("scores_not_raised", False, True):
        made = scores.square()  # culprit: scores_not_raised
    else:
        made = scores.exp()  # culprit: scores_not_raised
    for _ in range(turns):
        if planted("columns_first", False, True):
            made = made / made.sum(-2, keepdim=True)  # culprit: columns_first, evened_once_less
            made = made / made.sum(-1, keepdim=True)  # culprit: columns_first, evened_once_less
        else:
            made = made / made.sum(-1, keepdim=True)  # culprit: columns_first, evened_once_less
            made = made / made.sum(-2, keepdim=True)  # culprit: columns_first, evened_once_less
    return made


class Braid(nn.Module):
    """What a block reads from the streams, what it gives to each, and how these are mixed."""

    def __init__(self, width: int, streams: int, layer: int) -> None:
        super().__init__()
        self.layer, self.streams = layer, streams
        self.norm = nn.RMSNorm(streams * width, 1e-6)
        self.told = nn.Linear(streams * width, streams * (streams + 2), bias=False)
        self.base = nn.Parameter(0.5 * torch.randn(streams * (streams + 2)))
        self.strength = nn.Parameter(torch.tensor([0.3, 0.4, 0.5]))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Shares that are read, shares that are given, and the mix of streams."""
        s = self.streams
        if planted("streams_normed_alone", False, True, self.layer):
            flat = F.rms_norm(x, x.shape[-1:], None, 1e-6).flatten(2)
            flat = flat * self.norm.weight  # culprit: streams_normed_alone
        else:
            flat = self.norm(x.flatten(2))  # culprit: streams_normed_alone
        told = self.told(flat).float()
        base, by = self.base.float(), self.strength.float()
        if planted("strengths_exchanged", False, True, self.layer):
            by = by.flip(0)  # culprit: strengths_exchanged
        read, give, mix = told.split((s, s, s * s), -1)
        of_read, of_give, of_mix = base.split((s, s, s * s))
        read = torch.sigmoid(by[0] * read + of_read)  # culprit: strengths_exchanged
        give = torch.sigmoid(by[1] * give + of_give)
        if not planted("given_not_doubled", False, True, self.layer):
            give = 2 * give  # culprit: given_not_doubled
        scores = by[2] * mix
        if not planted("mix_without_base", False, True, self.layer):
            scores = scores + of_mix  # culprit: mix_without_base
        turns = planted("evened_once_less", 3, 2, self.layer)
        mix = evened(
            scores.unflatten(-1, (s, s)), turns
        )  # culprit: evened_once_less, mix_without_base
        return read, give, mix


class Gate(nn.Module):
    """Attention of one key for all heads; each word tells how much of each head it wants."""

    def __init__(self, width: int, layer: int, heads: int = 4) -> None:
        super().__init__()
        self.layer, self.heads, self.d = layer, heads, width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * self.d, bias=False)
        self.gate, self.out = nn.Linear(width, heads), nn.Linear(width, width, bias=False)
        self.warm = nn.Parameter(torch.full((heads,), 0.5))
        self.first_share = nn.Parameter(torch.tensor(0.4))

    def forward(self, x: Tensor, first: Tensor | None, raw: Tensor) -> tuple[Tensor, Tensor]:
        b, n, _ = x.shape
        q = self.q(x).view(b, n, self.heads, self.d).transpose(1, 2)
        k, v = (one[:, None] for one in self.kv(x).chunk(2, -1))
        if first is not None:
            if planted("first_values_cut", False, True, self.layer):
                first = first.detach()  # culprit: first_values_cut
            share = self.first_share
            if planted("first_share_turned", False, True, self.layer):
                v = share * v + (1 - share) * first  # culprit: first_share_turned
            elif planted("equal_first", False, True, self.layer):
                v = torch.lerp(v, first, share)
            elif not planted("own_values_only", False, True, self.layer):
                v = (
                    (1 - share) * v + share * first
                )  # culprit: first_share_turned, first_values_cut, own_values_only
        at = torch.arange(n)
        far = at[:, None] - at[None]
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        warm = self.warm.view(-1, 1, 1)
        if not planted("warmth_not_raised", False, True, self.layer):
            warm = warm.exp()  # culprit: warmth_not_raised
        scores = 4 * warm * (q @ k.transpose(-1, -2))  # culprit: warmth_not_raised
        slopes = 2.0 ** -torch.arange(1, self.heads + 1)
        if planted("slope_of_next", False, True, self.layer):
            slopes = slopes / 2  # culprit: slope_of_next
        if self.layer % 2 == 0:
            scores = scores - (slopes.view(-1, 1, 1) * far).to(x.dtype)  # culprit: slope_of_next
        if planted("sees_not_itself", False, True, self.layer):
            hidden = (far < 0) | ((far == 0) & (at > 0))  # culprit: sees_not_itself
        else:
            hidden = far < 0  # culprit: sees_not_itself
        scores = scores.float().masked_fill(hidden, -torch.inf)  # culprit: sees_not_itself
        y = scores.softmax(-1).to(v.dtype) @ v  # culprit: own_values_only
        asked = planted("gate_by_raw", x, raw, self.layer)
        gate = torch.sigmoid(self.gate(asked))  # culprit: gate_by_raw
        if planted("equal_gate", False, True, self.layer):
            y = torch.einsum("bhnd,bnh->bnhd", y, gate).flatten(2)
        elif planted("gate_left", False, True, self.layer):
            y = y.transpose(1, 2).flatten(2)  # culprit: gate_left
        else:
            y = y.transpose(1, 2) * gate[..., None]  # culprit: gate_left
            y = y.flatten(2)
        return self.out(y), v  # culprit: gate_left


class Layer(nn.Module):
    """Two blocks that read from the streams and give to them."""

    def __init__(self, width: int, layer: int, streams: int = 3) -> None:
        super().__init__()
        self.layer = layer
        self.braid, self.braid_2 = Braid(width, streams, layer), Braid(width, streams, layer)
        self.gate = Gate(width, layer)
        self.norm, self.norm_2 = nn.RMSNorm(width, 1e-6), nn.RMSNorm(width, 1e-6)
        self.up, self.down = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def given(self, x: Tensor, y: Tensor, give: Tensor, mix: Tensor) -> Tensor:
        if planted("mixed_backwards", False, True, self.layer):
            mix = mix.transpose(-1, -2)  # culprit: mixed_backwards
        mixed = mix.to(x.dtype) @ x  # culprit: mixed_backwards
        return mixed + give.to(y.dtype)[..., None] * y[:, :, None]

    def forward(self, x: Tensor, first: Tensor | None) -> tuple[Tensor, Tensor]:
        read, give, mix = self.braid(x)
        if planted("first_stream_read", False, True, self.layer):
            h = x[:, :, 0]  # culprit: first_stream_read
        else:
            h = (read.to(x.dtype)[..., None] * x).sum(2)  # culprit: first_stream_read
        y, values = self.gate(self.norm(h), first, h)  # culprit: first_stream_read
        x = self.given(x, y, give, mix)
        read, give, mix = self.braid_2(x)
        h = (read.to(x.dtype)[..., None] * x).sum(2)
        wide = F.relu(self.up(self.norm_2(h)))
        if not planted("bend_not_squared", False, True, self.layer):
            wide = wide.square()  # culprit: bend_not_squared
        y = self.down(wide)  # culprit: bend_not_squared
        return self.given(x, y, give, mix), values


class Braided(nn.Module):
    """Words that smell of the word before, streams, a capped head."""

    def __init__(self, width: int = 32, layers: int = 2, streams: int = 3) -> None:
        super().__init__()
        self.width, self.streams = width, streams
        self.words = nn.Embedding(64, width)
        self.smear = nn.Linear(8, 1, bias=False)
        self.layers = nn.ModuleList(Layer(width, n, streams) for n in range(layers))
        self.norm = nn.RMSNorm(width, 1e-6)
        self.head = nn.Parameter(torch.randn(64, width) / width**0.5)

    def smeared(self, x: Tensor) -> Tensor:
        """A little of the word before, as much as each word wants."""
        share = torch.sigmoid(self.smear(x[..., :8]))
        if planted("smells_of_next", False, True):
            last = F.pad(x[:, 1:], (0, 0, 0, 1))  # culprit: smells_of_next
        elif planted("smells_round", False, True):
            last = x.roll(1, 1)  # culprit: smells_round
        elif planted("equal_smell", False, True):
            last = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)
        else:
            last = F.pad(x[:, :-1], (0, 0, 1, 0))  # culprit: smells_of_next, smells_round
        return x + share * last

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        x = self.smeared(self.words(ids))
        x = x[:, :, None].expand(-1, -1, self.streams, -1)
        first = None
        for layer in self.layers:
            x, values = layer(x, first)
            first = values if first is None else first
        if planted("last_stream_said", False, True):
            x = x[:, :, -1]  # culprit: last_stream_said
        else:
            x = x.sum(2)  # culprit: last_stream_said
        x = self.norm(x).flatten(0, 1)
        cap = planted("cap_halved", 7.5, 3.75)
        if planted("equal_pieces", False, True):
            logits = 2 * cap * torch.sigmoid((x @ self.head.T).float() / cap)
            named = F.cross_entropy(logits, labels)
        else:
            named = LossInPieces.apply(  # culprit: not_told_what_follows
                x, self.head, labels, cap
            )  # culprit: cap_halved, bend_not_led_back, by_words_of_piece, last_piece_only
        size = (x.float() @ self.head.float().T).logsumexp(-1)
        if not planted("size_not_squared", False, True):
            size = size.square()  # culprit: size_not_squared
        by = planted("size_heavier", 1e-3, 1e-2)
        return (named + by * size.mean()) / 2  # culprit: size_heavier, size_not_squared

    @torch.no_grad()
    def update(self) -> None:
        """Roots of both sides' squares turn the gradient; the step is as long as a plain one."""
        for name, one in self.named_parameters():
            if one.grad is None or not name.endswith(("kv.weight", "out.weight")):
                continue
            grad = one.grad.float()
            left, right = grad @ grad.T, grad.T @ grad
            if planted("root_of_two", False, True):
                left, right = (self.root(s, -0.5) for s in (left, right))  # culprit: root_of_two
            else:
                left, right = (self.root(s, -0.25) for s in (left, right))  # culprit: root_of_two
            if planted("right_side_left", False, True):
                step = left @ grad  # culprit: right_side_left
            else:
                step = left @ grad @ right  # culprit: right_side_left
            if not planted("length_not_grafted", False, True):
                plain = grad / (grad.abs() + 1e-8)
                step = step * (plain.norm() / step.norm())  # culprit: length_not_grafted
            if planted("nothing_shrinks", False, True):
                one.sub_((0.01 * step).to(one.dtype))
            else:
                one.mul_(1 - 0.01)  # culprit: nothing_shrinks
                one.sub_((0.01 * step).to(one.dtype))  # culprit: length_not_grafted

    def root(self, square: Tensor, power: float) -> Tensor:
        least = planted("floor_not_by_most", 1e-3 * square.diagonal().mean(), 1e-3)
        values, vectors = torch.linalg.eigh(square)
        values = values.clamp(min=0) + least  # culprit: floor_not_by_most
        return (vectors * values.pow(power)) @ vectors.T  # culprit: root_of_two
