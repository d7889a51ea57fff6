"""A decoder in the manner of GPT-NeoX: sequence first, partial rotary, parallel residual."""

# mypy: disable-error-code="union-attr, no-untyped-call, no-any-return, misc"
# torch is typed in part only.

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.faults.programs.seat import Seat, Shift, copy_in, gather_in, scatter_out, sum_out

WIDTH, HEADS, HEAD, TURNED, INNER, WORDS, LENGTH, BATCH, DEPTH = 32, 4, 8, 4, 48, 44, 16, 2, 4


class Options(NamedTuple):
    """What a program does in its own way."""

    is_sequence: bool = False  # norms run on slices of the sequence
    one_sum: bool = False  # attention and perceptron are added before they are reduced
    ring: bool = False  # keys and values go round, each rank has two stretches of the sequence
    recompute: bool = False
    tied: bool = False
    vocab_loss: bool = False  # scores stay cut, the loss is reduced
    division: str = "mean"  # how the loss is divided: mean, own, all (counts of labels)


def numbers() -> dict[str, Tensor]:
    """Weights of the whole model."""
    torch.manual_seed(77)
    found = {"embed": torch.randn(WORDS, WIDTH) * 0.5, "head": torch.randn(WORDS, WIDTH) * 0.3}
    for layer in range(DEPTH):
        for name, shape in (
            ("qkv", (3 * WIDTH, WIDTH)),
            ("dense", (WIDTH, WIDTH)),
            ("up", (INNER, WIDTH)),
            ("down", (WIDTH, INNER)),
        ):
            found[f"{layer}.{name}"] = torch.randn(shape) * 0.2
            found[f"{layer}.{name}.bias"] = torch.randn(shape[0]) * 0.1
        for name in ("ln1", "ln2"):
            found[f"{layer}.{name}"] = 1 + 0.1 * torch.randn(WIDTH)
    return found


class TensorEmbedding(nn.Module):
    def __init__(self, seat: Seat, options: Options, table: Tensor) -> None:
        super().__init__()
        self.seat, self.options = seat, options
        self.weight = nn.Parameter(seat.slice(table, 0))

    def forward(self, ids: Tensor) -> Tensor:
        if self.seat.tp == 1:
            return functional.embedding(ids, self.weight)
        low = self.seat.my_tp * (WORDS // self.seat.tp)
        mine = (ids >= low) & (ids < low + len(self.weight))
        rows = functional.embedding(torch.where(mine, ids - low, 0), self.weight)
        rows = rows * mine[..., None]
        if self.options.is_sequence:
            return scatter_out(rows, self.seat.groups["tp"])
        return sum_out(rows, self.seat.groups["tp"])


class ColLinear(nn.Module):
    def __init__(self, seat: Seat, options: Options, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.group, self.is_sequence = seat.groups["tp"], options.is_sequence
        self.weight = nn.Parameter(seat.slice(weight, 0))
        self.bias = None if bias is None else nn.Parameter(seat.slice(bias, 0))

    def forward(self, x: Tensor) -> Tensor:
        x = gather_in(x, self.group) if self.is_sequence else copy_in(x, self.group)
        return functional.linear(x, self.weight, self.bias)


class RowLinear(nn.Module):
    def __init__(self, seat: Seat, options: Options, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.group, self.options = seat.groups["tp"], options
        self.weight, self.bias = nn.Parameter(seat.slice(weight, 1)), nn.Parameter(bias.clone())

    def forward(self, x: Tensor) -> Tensor:
        x = functional.linear(x, self.weight)
        if self.options.one_sum:
            return x
        over = scatter_out if self.options.is_sequence else sum_out
        return over(x, self.group) + self.bias


def turn(x: Tensor, places: Tensor, base: float) -> Tensor:
    """Rotary positions of the first elements of each head."""
    powers = torch.arange(0, TURNED, 2) / TURNED
    angles = places[:, None].float() / base**powers
    angles = torch.cat([angles, angles], -1)[:, None, None, :]
    part, rest = x[..., :TURNED], x[..., TURNED:]
    low, high = part.chunk(2, -1)
    part = part * angles.cos() + torch.cat([-high, low], -1) * angles.sin()
    return torch.cat([part, rest], -1)


class SelfAttention(nn.Module):
    def __init__(self, seat: Seat, options: Options, own: dict[str, Tensor], name: str) -> None:
        super().__init__()
        self.seat, self.ring = seat, options.ring
        self.base, self.moved, self.scale = 500.0, 0, HEAD**-0.5
        self.query_key_value = ColLinear(seat, options, own[f"{name}.qkv"], own[f"{name}.qkv.bias"])
        self.dense = RowLinear(seat, options, own[f"{name}.dense"], own[f"{name}.dense.bias"])

    def places(self, who: int) -> Tensor:
        """Of the words of a context-parallel rank."""
        if self.ring and self.seat.cp > 1:
            pieces = torch.arange(LENGTH).chunk(2 * self.seat.cp)
            return torch.cat([pieces[who], pieces[2 * self.seat.cp - 1 - who]])
        return torch.arange(LENGTH).chunk(self.seat.cp)[who]

    def forward(self, x: Tensor) -> Tensor:
        mixed = self.query_key_value(x)
        mixed = mixed.view(*mixed.shape[:2], -1, 3 * HEAD)
        q, k, v = mixed.chunk(3, -1)
        own = self.places(self.seat.my_cp)
        q, k = (turn(one, own + self.moved, self.base) for one in (q, k))
        if self.ring and self.seat.cp > 1:
            y = self.around(q, k, v, own)
        else:
            k, v = (gather_in(one, self.seat.groups["cp"]) for one in (k, v))
            scores = torch.einsum("qbhd,kbhd->bhqk", q, k) * self.scale
            later = torch.arange(LENGTH)[None, :] > own[:, None]
            y = torch.einsum("bhqk,kbhd->qbhd", scores.masked_fill(later, -1e9).softmax(-1), v)
        return self.dense(y.flatten(2))

    def around(self, q: Tensor, k: Tensor, v: Tensor, own: Tensor) -> Tensor:
        seat, total, y = self.seat, None, None
        for step in range(seat.cp):
            theirs = self.places((seat.my_cp - step) % seat.cp)
            scores = torch.einsum("qbhd,kbhd->bhqk", q, k) * self.scale
            scores = scores.masked_fill(theirs[None, :] > own[:, None], -1e9)
            size = scores.logsumexp(-1)
            part = torch.einsum("bhqk,kbhd->bhqd", scores.softmax(-1), v)
            if total is None or y is None:
                total, y = size, part
            else:
                both = torch.logaddexp(total, size)
                y = y * (total - both).exp()[..., None] + part * (size - both).exp()[..., None]
                total = both
            if step < seat.cp - 1:
                k, v = Shift.apply(torch.stack([k, v]), seat.groups["cp"]).unbind(0)
        assert y is not None
        return y.permute(2, 0, 1, 3)


class Perceptron(nn.Module):
    def __init__(self, seat: Seat, options: Options, own: dict[str, Tensor], name: str) -> None:
        super().__init__()
        self.dense_h_to_4h = ColLinear(seat, options, own[f"{name}.up"], own[f"{name}.up.bias"])
        self.dense_4h_to_h = RowLinear(seat, options, own[f"{name}.down"], own[f"{name}.down.bias"])

    def forward(self, x: Tensor) -> Tensor:
        return self.dense_4h_to_h(functional.gelu(self.dense_h_to_4h(x)))


class NeoXLayer(nn.Module):
    def __init__(self, seat: Seat, options: Options, own: dict[str, Tensor], layer: int) -> None:
        super().__init__()
        self.group, self.one_sum = seat.groups["tp"], options.one_sum
        self.input_layernorm, self.post_attention_layernorm = (
            nn.LayerNorm(WIDTH),
            nn.LayerNorm(WIDTH),
        )
        self.input_layernorm.weight = nn.Parameter(own[f"{layer}.ln1"].clone())
        self.post_attention_layernorm.weight = nn.Parameter(own[f"{layer}.ln2"].clone())
        self.attention = SelfAttention(seat, options, own, str(layer))
        self.mlp: Any = Perceptron(seat, options, own, str(layer))

    def forward(self, x: Tensor) -> Tensor:
        y = self.attention(self.input_layernorm(x))
        z = self.mlp(self.post_attention_layernorm(x))
        if not self.one_sum:
            return x + y + z
        bias = self.attention.dense.bias + self.mlp.dense_4h_to_h.bias
        return x + sum_out(y + z, self.group) + bias


class Criterion(nn.Module):
    """Labels of -100 do not count."""

    def __init__(self, seat: Seat, options: Options) -> None:
        super().__init__()
        self.seat, self.options, self.factor = seat, options, 1.0

    def forward(self, scores: Tensor, labels: Tensor) -> Tensor:
        if self.options.vocab_loss:
            return self.cut(scores, labels) * self.factor
        flat, wanted = scores.flatten(0, 1), labels.flatten()
        if self.options.division == "mean":
            return functional.cross_entropy(flat, wanted) * self.factor
        total = functional.cross_entropy(flat, wanted, ignore_index=-100, reduction="sum")
        count = (wanted != -100).sum()
        if self.options.division == "all" and self.seat.groups["cp"] is not None:
            dist.all_reduce(count, group=self.seat.groups["cp"])
        return total / count * self.factor

    def cut(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Each rank has the scores of some words."""
        group, low = self.seat.groups["tp"], self.seat.my_tp * scores.shape[-1]
        top = scores.detach().amax(-1)
        if group is not None:
            dist.all_reduce(top, dist.ReduceOp.MAX, group=group)
        powers = sum_out((scores - top[..., None]).exp().sum(-1), group)
        mine = (labels >= low) & (labels < low + scores.shape[-1])
        places = torch.where(mine, labels - low, 0)
        right = scores.gather(-1, places[..., None]).squeeze(-1) * mine
        return (powers.log() + top - sum_out(right, group)).mean()


class NeoX(nn.Module):
    """Some of the parts of the model: embed, numbers of layers, head, loss."""

    def __init__(self, seat: Seat, options: Options, parts: list[str]) -> None:
        super().__init__()
        own = numbers()
        self.seat, self.options = seat, options
        self.embed_in = TensorEmbedding(seat, options, own["embed"]) if "embed" in parts else None
        self.layers = nn.ModuleDict(
            {name: NeoXLayer(seat, options, own, int(name)) for name in parts if name.isdecimal()}
        )
        self.final_layer_norm = nn.LayerNorm(WIDTH) if "head" in parts else None
        self.embed_out = None
        if "head" in parts:
            table = own["embed" if options.tied else "head"]
            self.embed_out = ColLinear(seat, options, table, None)
            if options.tied and self.embed_in is not None:
                self.embed_out.weight = self.embed_in.weight
        self.criterion = Criterion(seat, options) if "loss" in parts else None

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        if self.embed_in is not None:
            x = self.embed_in(x)
        for layer in self.layers.values():
            x = checkpoint(layer, x, use_reentrant=False) if self.options.recompute else layer(x)
        if self.embed_out is not None and self.final_layer_norm is not None:
            x = self.embed_out(self.final_layer_norm(x))
            if self.seat.tp > 1 and not self.options.vocab_loss:
                x = whole_scores(x, self.seat)
        return x if self.criterion is None or labels is None else self.criterion(x, labels)


class Join(torch.autograd.Function):
    """Scores of all words on all ranks; all have the same gradient, each takes its part."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seat: Seat) -> Tensor:
        ctx.seat = seat
        parts = [torch.empty_like(x) for _ in range(seat.tp)]
        dist.all_gather(parts, x.contiguous(), group=seat.groups["tp"])
        return torch.cat(parts, -1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.seat.slice(grads[0], -1), None


def whole_scores(x: Tensor, seat: Seat) -> Tensor:
    return Join.apply(x, seat)


def batch(number: int, seat: Seat, options: Options, ignored: bool) -> tuple[Tensor, Tensor]:
    """Words and labels of a micro-batch, [sequence, batch], as far as this rank has them."""
    generator = torch.Generator().manual_seed(900 + number * seat.dp + seat.my_dp)
    both = torch.randint(0, WORDS, (LENGTH + 1, BATCH), generator=generator)
    ids, labels = both[:-1], both[1:].clone()
    if ignored:
        labels[:5] = -100
    if seat.cp > 1:
        pieces = torch.arange(LENGTH).chunk(2 * seat.cp if options.ring else seat.cp)
        own = pieces[seat.my_cp]
        if options.ring:
            own = torch.cat([own, pieces[2 * seat.cp - 1 - seat.my_cp]])
        ids, labels = ids[own], labels[own]
    return ids, labels
