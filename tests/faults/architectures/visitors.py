"""Written when all rules stood: state spaces by convolution, and texts that find each other."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class StateSpace(nn.Module):
    """Diagonal states with complex rates, as one long convolution by frequencies."""

    def __init__(self, width: int, layer: int, states: int = 6) -> None:
        super().__init__()
        self.layer, self.states = layer, states
        self.rate = nn.Parameter(torch.randn(width, states) * 0.3 - 0.7)
        self.turn = nn.Parameter(math.pi * torch.arange(states).float().repeat(width, 1) + 0.1)
        self.weight = nn.Parameter(torch.randn(width, states, 2) * 0.5)
        self.step = nn.Parameter(torch.randn(width) * 0.5 - 2.0)
        self.skip = nn.Parameter(torch.randn(width))

    def kernel(self, n: int) -> Tensor:
        step = F.softplus(
            self.step.float(), threshold=planted("linear_too_early", 20.0, -3.0, self.layer)
        )  # culprit: linear_too_early
        decay = -torch.exp(self.rate.float())
        pole = torch.complex(decay, self.turn.float())
        moved = pole * step[:, None]
        if planted("euler_step", False, True, self.layer):
            held = torch.complex(step, torch.zeros_like(step))[:, None]  # culprit: euler_step
        else:
            held = (torch.exp(moved) - 1.0) / pole  # culprit: euler_step
        weight = torch.view_as_complex(self.weight.float().contiguous()) * held
        at = torch.arange(n).float()
        if planted("counted_from_one", False, True, self.layer):
            at = at + 1.0  # culprit: counted_from_one
        power = torch.exp(moved[..., None] * at)  # culprit: counted_from_one
        found = torch.einsum("ds,dsn->dn", weight, power)
        return planted("half_of_pairs", 2.0, 1.0, self.layer) * found.real  # culprit: half_of_pairs

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        kernel = self.kernel(n)
        length = planted("wraps_around", 2 * n, n, self.layer)
        told = torch.fft.rfft(x.float().transpose(1, 2), n=length)  # culprit: wraps_around
        rule = torch.fft.rfft(kernel, n=length)  # culprit: wraps_around
        y = torch.fft.irfft(told * rule, n=length)[..., :n]  # culprit: wraps_around
        y = y.transpose(1, 2).to(x.dtype)
        skip: Tensor = self.skip
        if planted("skip_of_first", False, True, self.layer):
            skip = skip[:1].expand_as(skip)  # culprit: skip_of_first
        return y + x * skip  # culprit: skip_of_first


class StateBlock(nn.Module):
    """A state space between two gates."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.norm = nn.LayerNorm(width)
        self.space = StateSpace(width, layer)
        self.into, self.out = nn.Linear(width, 2 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        y = F.gelu(self.space(self.norm(x)))
        y = self.into(y)
        if planted("gate_is_value", False, True, self.layer):
            first, second = y.chunk(2, -1)  # culprit: gate_is_value
            y = torch.cat((second, first), -1)  # culprit: gate_is_value
        y = F.glu(y, -1)  # culprit: gate_is_value
        if planted("clamped_branch", False, True, self.layer):
            y = y.clamp(-0.2, 0.2)  # culprit: clamped_branch
        return x + self.out(y)  # culprit: clamped_branch


class States(nn.Module):
    """A tagger of state spaces that drops nothing and weighs its classes."""

    def __init__(self, width: int = 28, layers: int = 3) -> None:
        super().__init__()
        self.words = nn.Embedding(
            64, width, scale_grad_by_freq=planted("gradient_by_count", False, True)
        )
        self.layers = nn.ModuleList(StateBlock(width, n) for n in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 64)
        self.rare: Tensor
        self.register_buffer("rare", torch.linspace(0.5, 1.5, 64))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)  # culprit: gradient_by_count
        for number, layer in enumerate(self.layers):
            if planted("layer_twice", False, True, number):
                x = layer(x)  # culprit: layer_twice
            x = layer(x)  # culprit: layer_twice
        return self.head(self.norm(x))

    def loss(self, data: Tensor, labels: Tensor) -> Tensor:
        logits = self(data).flatten(0, 1).float()
        labels = labels.masked_fill(labels % 5 == 0, -100)
        weight = planted("classes_not_weighed", self.rare.float(), None)
        return F.cross_entropy(logits, labels, weight=weight)  # culprit: classes_not_weighed


class Tower(nn.Module):
    """One text as one direction: attention, a mean of what is there, a projection."""

    def __init__(self, width: int, layers: int, name: int) -> None:
        super().__init__()
        self.name = name
        self.words = nn.Embedding(64, width, padding_idx=0)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 3 * width, dropout=0.0, batch_first=True)
            for _ in range(layers)
        )
        self.project = nn.Linear(width, width, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        there = ids != 0
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x)
        if planted("padding_in_mean", False, True, self.name):
            x = x.mean(1)  # culprit: padding_in_mean
        else:
            count = there.sum(1, keepdim=True).clamp(min=1)
            x = (x * there[..., None]).sum(1) / count  # culprit: padding_in_mean
        x = self.project(x)
        dim = planted("unit_over_batch", -1, 0, self.name)
        return F.normalize(x, dim=dim)  # culprit: unit_over_batch


class Retriever(nn.Module):
    """Questions and answers that are told from those of others, those kept from before too."""

    def __init__(self, width: int = 24, layers: int = 2) -> None:
        super().__init__()
        self.questions, self.answers = Tower(width, layers, 0), Tower(width, layers, 1)
        self.scale = nn.Parameter(torch.tensor([2.0]))
        self.kept: Tensor
        self.register_buffer("kept", torch.randn(6, width))

    def loss(self, data: Tensor, labels: Tensor) -> Tensor:
        ids = data.reshape(8, 3)
        ids = torch.cat((ids, ids.roll(1, 0)), 1)
        ids = ids.masked_fill(torch.arange(6) > 2 + labels.repeat(2)[:, None] % 4, 0)
        q, a = self.questions(ids[:4]), self.answers(ids[4:])
        kept = self.kept
        if not planted("kept_not_unit", False, True):
            kept = F.normalize(kept, dim=-1)  # culprit: kept_not_unit
        if planted("answers_detached", False, True):
            a = a.detach()  # culprit: answers_detached
        near = q @ a.T  # culprit: answers_detached
        far = q @ kept.T  # culprit: kept_not_unit
        if planted("own_masked", False, True):
            near = near - 2.0 * torch.eye(4, dtype=near.dtype)  # culprit: own_masked
        scores = torch.cat((near, far), 1)  # culprit: own_masked
        most = planted("scale_bounded", 100.0, 5.0)
        scale = self.scale.exp().clamp(max=most)  # culprit: scale_bounded
        scores = scores * scale
        truth = torch.arange(4)
        if planted("neighbour_is_truth", False, True):
            truth = (truth + 1) % 4  # culprit: neighbour_is_truth
        one = F.cross_entropy(scores.float(), truth)  # culprit: neighbour_is_truth
        if planted("one_way_only", False, True):
            return one
        other = F.cross_entropy((near * scale).T.float(), torch.arange(4))  # culprit: one_way_only
        margin = planted("margin_wider", 0.2, 0.6)
        hardest = (
            far.float().max(1).values - near.float().diagonal() + margin
        )  # culprit: margin_wider
        hard = F.relu(hardest).square().mean()  # culprit: margin_wider
        return (one + other) / 2 + 0.1 * hard  # culprit: one_way_only
