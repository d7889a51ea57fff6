"""A seventeenth part: pictures told apart from a queue of others, and what somebody may buy."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator"
# mypy: disable-error-code="assignment, misc, has-type, arg-type"
# torch is typed in part only.

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class Excited(nn.Module):
    """A wide depthwise convolution whose channels are excited by their means."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.grow = nn.Conv2d(width, 3 * width, 1, bias=False)
        groups = planted("groups_of_channels", 4, 2, layer)
        self.grow_norm = nn.GroupNorm(groups, 3 * width)
        self.deep = nn.Conv2d(3 * width, 3 * width, 3, padding=1, groups=3 * width, bias=False)
        epsilon = planted("groups_epsilon", 1e-5, 1e-1, layer)
        self.deep_norm = nn.GroupNorm(4, 3 * width, eps=epsilon)
        self.less, self.more = nn.Conv2d(3 * width, width, 1), nn.Conv2d(width, 3 * width, 1)
        self.back = nn.Conv2d(3 * width, width, 1, bias=False)
        self.share = nn.Parameter(0.3 * torch.ones(width, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        h = F.silu(self.grow_norm(self.grow(x)))  # culprit: groups_of_channels
        h = F.silu(self.deep_norm(self.deep(h)))  # culprit: groups_epsilon
        axes = planted("excited_by_rows", (2, 3), (2,), self.layer)
        seen = h.mean(axes, keepdim=True)  # culprit: excited_by_rows
        told = self.more(F.silu(self.less(seen)))
        if planted("excited_hard", False, True, self.layer):
            h = h * F.hardsigmoid(told)  # culprit: excited_hard
        else:
            h = h * torch.sigmoid(told)  # culprit: excited_hard
        h = self.back(h)
        if planted("share_left_out", False, True, self.layer):
            return x + h  # culprit: share_left_out
        return x + self.share * h  # culprit: share_left_out


class Looking(nn.Module):
    """Excited layers, smoothed halving, and one question that is put to all places."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.width, self.heads = width, 4
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.layers = nn.ModuleList(Excited(width, n) for n in range(layers))
        row = torch.tensor(planted("smoothing_flat", [1.0, 2.0, 1.0], [1.0, 1.0, 1.0]))
        kernel = torch.outer(row, row) / torch.outer(row, row).sum()
        self.register_buffer("kernel", kernel.expand(width, 1, 3, 3).contiguous())
        self.probe = nn.Parameter(torch.randn(1, 1, width))
        self.q, self.kv = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.o = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.GELU(approximate="tanh"), nn.Linear(2 * width, width)
        )
        self.out = nn.Linear(width, 20)

    def forward(self, x: Tensor, who: str) -> Tensor:
        x = self.stem(x)  # culprit: slow_not_cut
        for layer in self.layers:
            x = layer(x)
        x = F.pad(
            x, (1, 1, 1, 1), mode=planted("edges_of_nothing", "reflect", "constant")
        )  # culprit: edges_of_nothing
        x = F.conv2d(x, self.kernel, stride=2, groups=self.width)  # culprit: smoothing_flat
        x = x.flatten(2).transpose(1, 2)
        shape = (len(x), -1, self.heads, self.width // self.heads)
        q = self.q(self.probe).expand(len(x), -1, -1).view(shape).transpose(1, 2)
        k, v = (one.reshape(shape).transpose(1, 2) for one in self.kv(x).chunk(2, -1))
        scale = planted("scaled_by_width", self.width // self.heads, self.width) ** -0.5
        y = F.scaled_dot_product_attention(q, k, v, scale=scale)  # culprit: scaled_by_width
        y = self.o(y.transpose(1, 2).reshape(len(x), self.width))
        y = y + self.mlp(self.norm(y))
        y = self.out(y)
        if who == "own" and planted("own_not_unit", False, True):
            return y
        return F.normalize(y, dim=-1)  # culprit: own_not_unit


class Contrasted(nn.Module):
    """Told from a queue of what a slow copy said, and by pairs of picture and word."""

    def __init__(self, width: int = 16, layers: int = 2) -> None:
        super().__init__()
        self.own = Looking(width, layers)
        self.slow = copy.deepcopy(self.own)
        self.texts = nn.Embedding(16, 20)
        self.sharpness, self.lean = (
            nn.Parameter(torch.tensor([1.2])),
            nn.Parameter(torch.tensor([-2.0])),
        )
        self.register_buffer("queue", F.normalize(torch.randn(12, 20), dim=-1))
        self.register_buffer("at", torch.zeros((), dtype=torch.long))

    def loss(self, pictures: Tensor, labels: Tensor) -> Tensor:
        q = self.own(pictures, "own")
        with torch.set_grad_enabled(planted("slow_not_cut", False, True)):
            if not planted("slow_stands", False, True):
                share = planted("slow_too_slow", 0.9, 0.99)
                with torch.no_grad():
                    for slow, own in zip(
                        self.slow.parameters(), self.own.parameters(), strict=True
                    ):
                        slow.mul_(share)  # culprit: slow_stands, slow_too_slow
                        slow.add_(own, alpha=1 - share)  # culprit: slow_stands, slow_too_slow
            k = self.slow(pictures.flip(-1) * 0.9, "slow")  # culprit: slow_not_cut
        if planted("queue_too_early", False, True):
            self.enqueue(k.detach())
        alike = (q * k).sum(-1, keepdim=True)  # culprit: slow_not_cut, own_not_unit
        other = q @ self.queue.detach().clone().t()  # culprit: queue_too_early
        both = [alike, other]
        if planted("alike_comes_last", False, True):
            both.reverse()
        warmth = planted("queue_colder", 0.2, 0.07)
        logits = torch.cat(both, 1)  # culprit: alike_comes_last
        logits = logits / warmth  # culprit: queue_colder
        named = torch.zeros(len(q), dtype=torch.long)
        told = F.cross_entropy(logits.float(), named)
        if not planted("queue_too_early", False, True):
            self.enqueue(k.detach())  # culprit: queue_too_early
        return told + 0.5 * self.paired(q, labels)

    def enqueue(self, k: Tensor) -> None:
        if planted("queue_stands", False, True):
            return
        with torch.no_grad():
            places = (self.at + torch.arange(len(k))) % len(self.queue)
            self.queue[places] = k  # culprit: queue_stands, queue_too_early
            by = planted("place_by_one", len(k), len(k) - 1)
            self.at.add_(by)  # culprit: place_by_one, queue_stands, queue_too_early

    def paired(self, q: Tensor, labels: Tensor) -> Tensor:
        axis = planted("texts_by_column", -1, 0)
        texts = F.normalize(self.texts(labels), dim=axis)  # culprit: texts_by_column
        logits = q @ texts.t()
        if planted("sharpness_raw", False, True):
            logits = logits * self.sharpness  # culprit: sharpness_raw
        else:
            logits = logits * self.sharpness.exp()  # culprit: sharpness_raw
        if not planted("lean_left_out", False, True):
            logits = logits + self.lean  # culprit: lean_left_out
        same = (labels[:, None] == labels).to(q.dtype)
        signs = 2 * same - 1
        if planted("equal_signs", False, True):
            each = F.softplus(-signs * logits)
        else:
            each = -F.logsigmoid(signs * logits)  # culprit: lean_left_out
        if planted("pairs_averaged_twice", False, True):
            return each.mean()  # culprit: pairs_averaged_twice
        return each.sum() / len(q)  # culprit: pairs_averaged_twice


class Dicing(nn.Module):
    """A rectifier whose bend lies at the mean of the batch."""

    def __init__(self, width: int, name: str) -> None:
        super().__init__()
        self.name = name
        self.norm = nn.BatchNorm1d(width, eps=planted("bend_epsilon", 1e-8, 1e-1), affine=False)
        self.alpha = nn.Parameter(0.25 * torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        share = torch.sigmoid(self.norm(x))  # culprit: bend_epsilon
        if self.name == "last" and planted("bend_turned", False, True):
            return x * ((1 - share) + share * self.alpha)  # culprit: bend_turned
        return x * (share + (1 - share) * self.alpha)  # culprit: bend_turned


class Ranked(nn.Module):
    """What somebody looked at before weighs what is shown; experts for looking and buying."""

    def __init__(self, width: int = 12, experts: int = 3) -> None:
        super().__init__()
        self.things = nn.Embedding(64, width)
        self.wide = nn.EmbeddingBag(64, 1, mode="sum")
        self.unit = nn.Sequential(nn.Linear(4 * width, 16), Dicing(16, "unit"), nn.Linear(16, 1))
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(3 * width, 20), nn.PReLU(20)) for _ in range(experts)
        )
        self.gates = nn.ModuleList(nn.Linear(3 * width, experts, bias=False) for _ in range(2))
        self.towers = nn.ModuleList(
            nn.Sequential(nn.Linear(20, 10), Dicing(10, "last"), nn.Linear(10, 1)) for _ in range(2)
        )

    def interest(self, shown: Tensor, before: Tensor, there: Tensor) -> tuple[Tensor, Tensor]:
        b, n, c = before.shape
        asked = shown[:, None].expand(-1, n, -1)
        off = asked - before
        if planted("difference_turned", False, True):
            off = before - asked  # culprit: difference_turned
        told = torch.cat([asked, before, off, asked * before], -1)  # culprit: difference_turned
        scores = self.unit(told.view(b * n, -1)).view(b, n)
        if not planted("padding_weighed", False, True):
            scores = scores.masked_fill(~there, -4096.0)  # culprit: padding_weighed
        shares = torch.softmax(scores.float() / c**0.5, -1)  # culprit: padding_weighed
        weighed = (shares.to(before.dtype)[..., None] * before).sum(1)
        count = there.sum(1, keepdim=True).to(before.dtype)
        if not planted("nobody_looked", False, True):
            count = count.clamp(min=1)  # culprit: nobody_looked
        mean = (before * there[..., None]).sum(1) / count  # culprit: nobody_looked
        return weighed, mean

    def crossed(self, fields: Tensor) -> Tensor:
        """Products of all pairs, as half of what the square of the sum has more."""
        if planted("equal_pairs", False, True):
            left, right = torch.triu_indices(fields.shape[1], fields.shape[1], 1)
            return (fields[:, left] * fields[:, right]).sum((1, 2))
        whole = fields.sum(1).square()
        each = fields.square().sum(1)
        if planted("squares_of_mean", False, True):
            each = fields.mean(1).square()  # culprit: squares_of_mean
        half = planted("crossed_not_halved", 0.5, 1.0)
        return half * (whole - each).sum(-1)  # culprit: crossed_not_halved, squares_of_mean

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        ids = torch.cat(
            [ids.view(4, 6), (ids * 3 + 5).view(4, 6) % 64, (ids * 5 + 9).view(4, 6) % 64]
        )
        ids[2, 1:] = 0
        there = ids[:, 1:] >= 12
        shown, before = self.things(ids[:, 0]), self.things(ids[:, 1:])
        weighed, mean = self.interest(shown, before, there)
        x = torch.cat([shown, weighed, mean], -1)
        mode = planted("wide_by_mean", "sum", "mean")
        wide = F.embedding_bag(ids, self.wide.weight, mode=mode)[:, 0]  # culprit: wide_by_mean
        fields = torch.stack([shown, weighed, mean], 1)
        wide = wide + 0.1 * self.crossed(fields)
        made = torch.stack([expert(x) for expert in self.experts], 1)
        logits = []
        for number, tower in enumerate(self.towers):
            by = planted("gates_of_other_task", number, 1 - number)
            gate = self.gates[by](x)  # culprit: gates_of_other_task
            if number and planted("gate_not_shared_out", False, True):
                gate = torch.sigmoid(gate)  # culprit: gate_not_shared_out
            else:
                axis = planted("gate_by_row", -1, 0) if number else -1
                gate = torch.softmax(
                    gate, axis
                )  # culprit: gate_not_shared_out, gate_by_row, gates_of_other_task
            mixed = (gate[..., None] * made).sum(1)
            logits.append(tower(mixed)[:, 0])
        looked, bought = torch.sigmoid(logits[0] + wide), torch.sigmoid(logits[1])
        if planted("bought_alone", False, True):
            both = bought * 1.0  # culprit: bought_alone
        elif planted("looked_cut_off", False, True):
            both = looked.detach() * bought  # culprit: looked_cut_off
        else:
            both = looked * bought  # culprit: bought_alone, looked_cut_off
        did_look = (ids.sum(1) % 2).float()
        did_buy = did_look * ((labels.repeat(3) + torch.arange(12)) % 2)
        heavier = planted("buying_not_heavier", 3.0, 1.0)
        by_row = torch.where(did_buy > 0, heavier, 1.0)  # culprit: buying_not_heavier
        lost = F.binary_cross_entropy_with_logits((logits[0] + wide).float(), did_look)
        sure = both.float()
        each = did_buy * torch.log(sure) + (1 - did_buy) * torch.log1p(-sure)
        if planted("buying_summed", False, True):
            lost = lost - (by_row * each).sum()  # culprit: buying_summed
        else:
            lost = lost - (by_row * each).mean()  # culprit: buying_summed
        lengths = self.things(ids).float().norm(dim=-1)
        if planted("lengths_not_squared", False, True):
            return lost + 1e-2 * lengths.mean()  # culprit: lengths_not_squared
        return lost + 1e-2 * lengths.square().mean()  # culprit: lengths_not_squared
