"""Kept apart while rules were made: preferences, policies, and labels in chains."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils.checkpoint import checkpoint

from tests.faults.planting import planted

Tensor = torch.Tensor


class Speaker(nn.Module):
    """A small decoder with attention and feed-forward side by side, and partly turned heads."""

    def __init__(self, width: int = 32, layers: int = 2, heads: int = 2) -> None:
        super().__init__()
        self.heads, self.d = heads, width // heads
        self.words = nn.Embedding(64, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers + 1))
        self.qkvs = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.outs = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.ups = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(layers))
        self.downs = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(layers))

    def turn(self, x: Tensor) -> Tensor:
        part = planted("turned_whole", self.d // 2, self.d)
        a, rest = x[..., :part], x[..., part:]  # culprit: turned_whole
        rate = 1e4 ** (-torch.arange(0, part, 2).float() / part)  # culprit: turned_whole
        angle = torch.arange(x.shape[2]).float()[:, None] * rate
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        b, c = a.chunk(2, -1)
        return torch.cat((b * cos - c * sin, c * cos + b * sin, rest), -1)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids)
        for number, norm in enumerate(self.norms[:-1]):
            h = norm(x)
            b, n, c = h.shape
            q, k, v = (
                one.view(b, n, self.heads, self.d).transpose(1, 2)
                for one in self.qkvs[number](h).chunk(3, -1)
            )
            scores = self.turn(q) @ self.turn(k).transpose(-2, -1) / math.sqrt(self.d)
            hidden = torch.full((n, n), -1e9).triu(
                planted("one_step_ahead", 1, 2)
            )  # culprit: one_step_ahead
            scores = scores + hidden.to(x.dtype)  # culprit: one_step_ahead
            y = (scores.float().softmax(-1).to(x.dtype) @ v).transpose(1, 2).reshape(b, n, c)
            y = self.outs[number](y)
            if planted("one_after_the_other", False, True):
                h = norm(x + y)  # culprit: one_after_the_other
            x = (
                x + y + self.downs[number](F.gelu(self.ups[number](h)))
            )  # culprit: one_after_the_other
        return F.linear(self.norms[-1](x), self.words.weight)


class Preferred(nn.Module):
    """Which of two answers is better, against a frozen model: sequences are sums of tokens."""

    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.policy, self.reference = Speaker(width, layers), Speaker(width, layers)
        self.reference.requires_grad_(False)

    def told(self, model: nn.Module, ids: Tensor) -> Tensor:
        shift = planted("labels_not_shifted", 1, 0)
        logits = model(ids).float()[:, :-1]
        labels = ids[:, 1:] if shift else ids[:, :-1]  # culprit: labels_not_shifted
        each = logits.log_softmax(-1).gather(-1, labels[..., None]).squeeze(-1)
        start = planted("question_counted", 4, 0)
        counted = torch.arange(each.shape[1]) >= start  # culprit: question_counted
        total = (each * counted).sum(-1)  # culprit: question_counted
        if planted("averaged", False, True):
            total = total / counted.sum()  # culprit: averaged
        return total * 1.0  # culprit: averaged

    def forward(self, ids: Tensor) -> Tensor:
        other = (ids * 7 + 3) % 64
        chosen, rejected = self.told(self.policy, ids), self.told(self.policy, other)
        with torch.no_grad():
            kept, dropped = self.told(self.reference, ids), self.told(self.reference, other)
        if planted("exchanged", False, True):
            margin = (rejected - chosen) - (kept - dropped)  # culprit: exchanged
        else:
            margin = (chosen - rejected) - (kept - dropped)  # culprit: exchanged
        return margin * planted("warmer", 0.1, 0.5)  # culprit: warmer

    def loss(self, data: Tensor, _: Tensor) -> Tensor:
        margin = self(data)
        less = planted("label_noise", 0.0, 0.2)
        loss = (
            -F.logsigmoid(margin) * (1 - less) - F.logsigmoid(-margin) * less
        )  # culprit: label_noise
        return loss.mean()


class Policy(nn.Module):
    """An actor and a critic with memory; advantages run backwards in time, ratios are clipped."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.memory = nn.GRUCell(width, width)
        self.actor, self.critic = nn.Linear(width, 8), nn.Linear(width, 1)

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        seen = self.words(ids)
        state = seen.new_zeros(ids.shape[0], seen.shape[-1])
        if planted("remembers_ones", False, True):
            state = state + 1  # culprit: remembers_ones
        logits, values = [], []
        for time in range(ids.shape[1]):
            fresh = (ids[:, time] % 5 != 0).to(seen.dtype)
            if not planted("never_reset", False, True):
                state = state * fresh[:, None]  # culprit: never_reset
            state = self.memory(seen[:, time], state)  # culprit: never_reset, remembers_ones
            logits.append(self.actor(state))
            values.append(self.critic(state).squeeze(-1))
        return torch.stack(logits, 1), torch.stack(values, 1)

    def loss(self, data: Tensor, labels: Tensor) -> Tensor:
        logits, values = self(data)
        logits, values = logits.float(), values.float()
        chosen = labels.view(data.shape) % 8
        told = logits.log_softmax(-1).gather(-1, chosen[..., None]).squeeze(-1)
        reward = ((labels.view(data.shape) % 7).float() - 3) / 3
        lam, total = planted("lambda_one", 0.95, 1.0), torch.zeros(data.shape[0])
        gain: list[Tensor] = []
        fixed = values.detach()
        for time in reversed(range(data.shape[1])):
            after = fixed[:, time + 1] if time + 1 < data.shape[1] else torch.zeros(data.shape[0])
            delta = reward[:, time] + 0.99 * after - fixed[:, time]
            total = delta + 0.99 * lam * total  # culprit: lambda_one
            gain.insert(0, total)
        gained = torch.stack(gain, 1)
        aim = gained + fixed
        if not planted("not_normal", False, True):
            gained = (gained - gained.mean()) / (gained.std() + 1e-8)  # culprit: not_normal
        ratio = torch.exp(told - (told.detach() * 0.5 - 1.0))
        clip = planted("clip_wider", 0.2, 0.4)
        first = ratio * gained  # culprit: not_normal
        second = ratio.clamp(1 - clip, 1 + clip) * gained  # culprit: clip_wider
        if planted("the_larger", False, True):
            actor = -torch.maximum(first, second).mean()  # culprit: the_larger
        else:
            actor = -torch.minimum(first, second).mean()  # culprit: the_larger
        entropy = -(logits.softmax(-1) * logits.log_softmax(-1)).sum(-1).mean()
        critic = F.mse_loss(values, aim)
        weight = planted("critic_heavier", 0.5, 1.0)
        sign = planted("entropy_punished", -0.01, 0.01)
        loss = actor + critic * weight  # culprit: critic_heavier
        return loss + entropy * sign  # culprit: entropy_punished


class LabelledBlock(nn.Module):
    """An encoder layer that is computed again in the backward pass."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        if planted("padding_seen", False, True, self.layer):
            hidden = torch.zeros_like(hidden)
        y, _ = self.attention(
            x, x, x, key_padding_mask=hidden, need_weights=False
        )  # culprit: padding_seen
        x = self.norm1(x + y)
        h = self.up(x)
        if planted("twice_rectified", False, True, self.layer):
            h = F.relu(h).square()  # culprit: twice_rectified
        else:
            h = F.gelu(h)  # culprit: twice_rectified
        return self.norm2(x + self.down(h))


class Labelled(nn.Module):
    """Letters to words, an encoder with padding, and chains of labels that exclude one another."""

    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.words, self.letters = nn.Embedding(64, width, padding_idx=0), nn.Embedding(64, 16)
        self.wide = nn.Conv1d(16, width, 3, padding=1)
        self.gate, self.other = nn.Linear(width, width), nn.Linear(width, width)
        self.layers = nn.ModuleList(LabelledBlock(width, n) for n in range(layers))
        self.emit = nn.Linear(width, 6)
        self.follow = nn.Parameter(torch.randn(6, 6) * 0.5)
        self.start, self.stop = nn.Parameter(torch.randn(6)), nn.Parameter(torch.randn(6))

    def forward(self, ids: Tensor) -> Tensor:
        letters = torch.stack([(ids * factor + 1) % 64 for factor in (1, 3, 5, 7)], -1)
        told = self.letters(letters).flatten(0, 1).transpose(1, 2)
        told = self.wide(told)
        told = (
            told.mean(-1) if planted("letters_averaged", False, True) else told.amax(-1)
        )  # culprit: letters_averaged
        told = told.view(*ids.shape, -1)
        gate = torch.sigmoid(self.gate(told))
        one, rest = F.relu(self.other(told)), told
        if planted("highway_exchanged", False, True):
            one, rest = rest, one
        told = gate * one + (1 - gate) * rest  # culprit: highway_exchanged
        x = self.words(ids) + told
        length = torch.tensor([ids.shape[1], ids.shape[1] - 4])
        at = torch.arange(ids.shape[1])
        if planted("padded_in_front", False, True):
            hidden = at[None] < (ids.shape[1] - length)[:, None]  # culprit: padded_in_front
        else:
            hidden = at[None] >= length[:, None]  # culprit: padded_in_front
        for layer in self.layers:
            x = checkpoint(layer, x, hidden, use_reentrant=False)
        return self.emit(x)

    def loss(self, data: Tensor, labels: Tensor) -> Tensor:
        emitted = self(data).float()
        labels = labels.view(data.shape) % 6
        follow = self.follow.float()
        score = emitted[:, 0] + self.start.float()
        for time in range(1, data.shape[1]):
            if planted("other_axis", False, True):
                each = score[:, None, :] + follow  # culprit: other_axis
            else:
                each = score[:, :, None] + follow  # culprit: other_axis
            axis = planted("summed_over_next", 1, 2)
            score = torch.logsumexp(each, axis) + emitted[:, time]  # culprit: summed_over_next
        if not planted("stop_missing", False, True):
            score = score + self.stop.float()  # culprit: stop_missing
        total = torch.logsumexp(score, -1)  # culprit: stop_missing
        right = emitted.gather(-1, labels[..., None]).squeeze(-1).sum(-1)
        right = right + self.start.float()[labels[:, 0]] + self.stop.float()[labels[:, -1]]
        if planted("steps_exchanged", False, True):
            steps = follow[labels[:, 1:], labels[:, :-1]]  # culprit: steps_exchanged
        else:
            steps = follow[labels[:, :-1], labels[:, 1:]]  # culprit: steps_exchanged
        right = right + steps.sum(-1)
        loss = total - right
        return (
            loss.sum() if planted("loss_added_up", False, True) else loss.mean()
        )  # culprit: loss_added_up
