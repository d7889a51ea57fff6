"""A twenty-first part: letters joined to pieces where they change, told apart by two softmaxes."""

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


class Smoothed(torch.autograd.Function):
    """Each piece is mixed with what came before it, as far as it is not sure."""

    @staticmethod
    def forward(ctx, x, sure):  # type: ignore[no-untyped-def]
        made = [x[:, 0]]
        for at in range(1, x.shape[1]):
            p = sure[:, at, None]
            if planted("sureness_turned_round", False, True):
                made.append((1 - p) * x[:, at] + p * made[-1])  # culprit: sureness_turned_round
            else:
                made.append(p * x[:, at] + (1 - p) * made[-1])  # culprit: sureness_turned_round
        y = torch.stack(made, 1)  # culprit: sureness_turned_round
        ctx.save_for_backward(x, sure, y)
        return y

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        x, sure, y = ctx.saved_tensors
        of_x, of_sure = torch.zeros_like(x), torch.zeros_like(sure)
        carried = torch.zeros_like(grad[:, 0])
        for at in range(x.shape[1] - 1, 0, -1):
            here = grad[:, at] + carried
            p = sure[:, at, None]
            of_x[:, at] = p * here
            if planted("former_not_taken_off", False, True):
                of_sure[:, at] = (here * x[:, at]).sum(-1)  # culprit: former_not_taken_off
            else:
                of_sure[:, at] = (here * (x[:, at] - y[:, at - 1])).sum(
                    -1
                )  # culprit: former_not_taken_off
            carried = here
            if not planted("carried_whole", False, True):
                carried = (1 - p) * here  # culprit: carried_whole
        of_x[:, 0] = grad[:, 0] + carried  # culprit: carried_whole
        return of_x, of_sure


class Nearby(nn.Module):
    """A causal convolution of each channel between a norm and a gate."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.norm = nn.LayerNorm(width)
        self.into = nn.Linear(width, 2 * width)
        self.taps = nn.Parameter(0.5 * torch.randn(width, 1, 4))
        self.bias = nn.Parameter(torch.zeros(width))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        y, gate = self.into(self.norm(x)).chunk(2, -1)
        y = y.transpose(1, 2)
        taps = self.taps
        if planted("taps_turned_round", False, True, self.layer):
            taps = taps.flip(-1)  # culprit: taps_turned_round
        around = planted("padded_on_both", (3, 0), (2, 1), self.layer)
        y = F.pad(y, around)  # culprit: padded_on_both
        bias = planted("taps_without_bias", self.bias, None, self.layer)
        y = F.conv1d(
            y, taps, bias, groups=y.shape[1]
        )  # culprit: taps_turned_round, taps_without_bias
        y = F.silu(y.transpose(1, 2))
        return x + self.out(y * torch.sigmoid(gate))


class Differing(nn.Module):
    """Two softmaxes of which the second is taken off the first, then a norm of each head."""

    def __init__(self, width: int, layer: int, heads: int = 2) -> None:
        super().__init__()
        self.layer, self.heads, self.d = layer, heads, width // heads // 2
        self.norm, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.v, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.of_q, self.of_k = (nn.Parameter(0.3 * torch.randn(2, self.d)) for _ in range(2))
        self.head_norm = nn.Parameter(torch.ones(2 * self.d))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        h = self.norm(x)
        q, k = (
            one.view(b, n, self.heads, 2, self.d).permute(3, 0, 2, 1, 4)
            for one in (self.q(h), self.k(h))
        )
        v = self.v(h).view(b, n, self.heads, 2 * self.d).transpose(1, 2)
        by = planted("scale_of_both_halves", self.d, 2 * self.d, self.layer)
        scores = q @ k.transpose(-1, -2) * by**-0.5  # culprit: scale_of_both_halves
        shift = planted("sees_next_piece", 1, 2, self.layer)
        ahead = torch.ones(n, n, dtype=torch.bool).triu(shift)  # culprit: sees_next_piece
        shares = scores.masked_fill(ahead, -torch.inf).softmax(-1)  # culprit: sees_next_piece
        depth = planted("begins_by_next", self.layer, self.layer + 1, self.layer)
        begins = 0.8 - 0.6 * math.exp(-0.3 * depth)
        size = (self.of_q.float() * self.of_k.float()).sum(-1)
        if not planted("exponents_left", False, True, self.layer):
            size = size.exp()  # culprit: exponents_left
        if planted("halves_added", False, True, self.layer):
            less = size[0] + size[1] + begins  # culprit: halves_added
        else:
            less = (
                size[0] - size[1] + begins
            )  # culprit: begins_by_next, exponents_left, halves_added
        less = less.to(x.dtype)
        if planted("equal_difference", False, True, self.layer):
            y = shares[0] @ v - less * (shares[1] @ v)
        elif planted("second_not_weighed", False, True, self.layer):
            y = (shares[0] - shares[1]) @ v  # culprit: second_not_weighed
        else:
            y = (shares[0] - less * shares[1]) @ v  # culprit: second_not_weighed
        over = (1, -1) if planted("normed_over_heads", False, True, self.layer) else (-1,)
        size = y.float().square().mean(over, keepdim=True)  # culprit: normed_over_heads
        y = (y.float() * torch.rsqrt(size + 1e-5)).to(x.dtype) * self.head_norm
        if not planted("heads_not_scaled", False, True, self.layer):
            first = 0.8 - 0.6 * math.exp(-0.3 * self.layer)
            y = y * (1 - first)  # culprit: heads_not_scaled
        y = self.out(y.transpose(1, 2).reshape(b, n, c))  # culprit: heads_not_scaled
        x = x + y
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Chunked(nn.Module):
    """Letters, pieces of them that begin where neighbours are unlike, and letters again."""

    def __init__(self, width: int = 32, layers: int = 2, pieces: int = 5) -> None:
        super().__init__()
        self.pieces = pieces
        self.letters, self.pairs = nn.Embedding(64, width), nn.Embedding(37, width)
        self.before, self.after = Nearby(width, 0), Nearby(width, 1)
        self.of_this, self.of_last = nn.Linear(width, 16), nn.Linear(width, 16)
        self.layers = nn.ModuleList(Differing(width, n) for n in range(layers))
        self.beside = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 64)

    def spelled(self, ids: Tensor) -> Tensor:
        """A letter, and which pair it makes with the one before it."""
        last = ids.roll(planted("pairs_with_next", 1, -1), 1)  # culprit: pairs_with_next
        if not planted("pairs_wrap_round", False, True):
            first = torch.arange(ids.shape[1]) == 0
            last = last.masked_fill(first, 0)  # culprit: pairs_wrap_round
        pairs = (last * 31 + ids) % 37  # culprit: pairs_wrap_round, pairs_with_next
        x = self.letters(ids)
        if planted("pairs_not_added", False, True):
            return x
        return x + self.pairs(pairs)  # culprit: pairs_not_added

    def changes(self, x: Tensor) -> Tensor:
        """How unlike its neighbour each letter is, from zero to one; the first is new."""
        this, last = self.of_this(x).float(), self.of_last(x).float()
        if planted("likeness_not_unit", False, True):
            pass
        else:
            this = F.normalize(this, dim=-1)  # culprit: likeness_not_unit
            last = F.normalize(last, dim=-1)  # culprit: likeness_not_unit
        if planted("likeness_to_itself", False, True):
            last = last[:, 1:]  # culprit: likeness_to_itself
        else:
            last = last[:, :-1]  # culprit: likeness_to_itself
        like = (this[:, 1:] * last).sum(-1)  # culprit: likeness_not_unit
        p = ((1 - like) / 2).clamp(0, 1)
        new = planted("first_half_new", 1.0, 0.5)
        first = torch.full_like(p[:, :1], new)  # culprit: first_half_new
        return torch.cat([first, p], 1)  # culprit: first_half_new

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        x = self.before(self.spelled(ids))  # culprit: pairs_not_added
        p = self.changes(x)
        begins = p.topk(self.pieces, 1).indices.sort(-1).values
        is_first = torch.zeros_like(p).scatter(1, begins, 1.0)
        y = x.gather(1, begins[..., None].expand(-1, -1, x.shape[-1]))
        for layer in self.layers:
            y = layer(y)
        sure = p.gather(1, begins).to(y.dtype)
        if planted("equal_smoothed", False, True):
            kept = [y[:, 0]]
            for at in range(1, self.pieces):
                kept.append(torch.lerp(kept[-1], y[:, at], sure[:, at, None]))
            y = torch.stack(kept, 1)
        else:
            y = Smoothed.apply(
                y, sure
            )  # culprit: sureness_turned_round, former_not_taken_off, carried_whole
        number = is_first.long().cumsum(1)
        if planted("piece_of_next", False, True):
            number = number.clamp(max=self.pieces - 1)  # culprit: piece_of_next
        else:
            number = (number - 1).clamp(min=0)  # culprit: piece_of_next
        if planted("equal_repeated", False, True):
            y = F.one_hot(number, self.pieces).to(y.dtype) @ y
        else:
            y = y.gather(1, number[..., None].expand(-1, -1, y.shape[-1]))  # culprit: piece_of_next
        trust = torch.where(is_first > 0, p, 1 - p)
        if planted("trust_not_rounded", False, True):
            pass
        elif planted("trust_not_learnt", False, True):
            trust = torch.ones_like(trust)  # culprit: trust_not_learnt
        else:
            trust = trust + (1 - trust).detach()  # culprit: trust_not_rounded, trust_not_learnt
        y = y * trust[..., None].to(y.dtype)  # culprit: trust_not_rounded, trust_not_learnt
        if planted("letters_not_beside", False, True):
            x = y
        else:
            x = y + self.beside(x)  # culprit: letters_not_beside
        x = self.after(x)  # culprit: letters_not_beside
        logits = self.head(self.norm(x)).float()
        named = F.cross_entropy(logits.flatten(0, 1), labels)
        hard, soft = is_first.mean(), p.mean()
        if planted("soft_is_hard", False, True):
            soft = hard  # culprit: soft_is_hard
        many = 3
        evenly = (many - 1) * hard * soft + (1 - hard) * (1 - soft)  # culprit: soft_is_hard
        if not planted("evenness_not_raised", False, True):
            evenly = evenly * many / (many - 1)  # culprit: evenness_not_raised
        return (named + 0.03 * evenly) / 2  # culprit: evenness_not_raised
