"""An eighteenth part: words stretched to sounds, and pictures that move."""

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


def _waves(length: int, width: int, first: int = 0) -> Tensor:
    at = torch.arange(first, first + length, dtype=torch.float32)  # culprit: frames_from_one
    at = at[:, None]
    speed = 1000.0 ** (-torch.arange(width // 2, dtype=torch.float32) / (width // 2))
    return torch.cat([(at * speed).sin(), (at * speed).cos()], -1)


class Guess(nn.Module):
    """One number for each word."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(width, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, padding=1)
        self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.out = nn.Linear(width, 1)

    def forward(self, x: Tensor, there: Tensor) -> Tensor:
        h = self.first_norm(F.relu(self.first(x.transpose(1, 2))).transpose(1, 2))
        h = self.second_norm(F.relu(self.second(h.transpose(1, 2))).transpose(1, 2))
        return self.out(h).squeeze(-1).masked_fill(~there, 0.0)


class SpokenBlock(nn.Module):
    """Attention, then convolutions; what is padding stays zero."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.asking = nn.MultiheadAttention(width, 2, batch_first=True)
        self.norm, self.feed_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.grow = nn.Conv1d(width, 2 * width, 5)
        self.back = nn.Conv1d(2 * width, width, 1)

    def forward(self, x: Tensor, there: Tensor) -> Tensor:
        hidden = None
        if not planted("padding_asked", False, True, self.layer):
            hidden = ~there  # culprit: padding_asked
        y, _ = self.asking(
            x, x, x, key_padding_mask=hidden, need_weights=False
        )  # culprit: padding_asked
        x = self.norm(x + y)
        if not planted("padding_not_zeroed", False, True, self.layer):
            x = x * there[..., None]  # culprit: padding_not_zeroed
        sides = planted("grown_from_before", (2, 2), (4, 0), self.layer)
        h = F.pad(x.transpose(1, 2), sides)  # culprit: grown_from_before, padding_not_zeroed
        h = self.back(F.relu(self.grow(h))).transpose(1, 2)
        if planted("feed_without_past", False, True, self.layer):
            x = self.feed_norm(h)  # culprit: feed_without_past
        else:
            x = self.feed_norm(x + h)  # culprit: feed_without_past
        return x.masked_fill(~there[..., None], 0.0)


class Stretched(nn.Module):
    """Each word lasts as long as it was told; height and loudness are put in between."""

    def __init__(self, width: int = 32, layers: int = 2, bands: int = 12) -> None:
        super().__init__()
        self.width = width
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(SpokenBlock(width, n) for n in range(layers))
        self.lasting, self.height, self.loudness = Guess(width), Guess(width), Guess(width)
        self.heights, self.loudnesses = nn.Embedding(8, width), nn.Embedding(8, width)
        self.speaking = nn.ModuleList(SpokenBlock(width, 90) for _ in range(1))
        self.bands = nn.Linear(width, bands)
        self.after = nn.Sequential(
            nn.Conv1d(bands, width, 5, padding=2),
            nn.BatchNorm1d(width),
            nn.Tanh(),
            nn.Conv1d(width, bands, 5, padding=2),
        )
        self.register_buffer("sounds", torch.randn(64, bands))

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        b, n = ids.shape
        words = torch.arange(n) < torch.tensor([[n], [n - 2]])
        lasts = (ids % 3 + 1) * words
        x = self.words(ids)
        if not planted("words_not_raised", False, True):
            x = x * math.sqrt(self.width)  # culprit: words_not_raised
        x = x + _waves(n, self.width).to(x.dtype)  # culprit: words_not_raised
        x = x.masked_fill(~words[..., None], 0.0)
        for layer in self.layers:
            x = layer(x, words)
        told = x
        if not planted("guess_not_cut", False, True):
            told = x.detach()  # culprit: guess_not_cut
        guessed = self.lasting(told, words)  # culprit: guess_not_cut
        high = labels.view(b, n).float() / 16 - 2
        loud = (ids.float() / 64).square() * 3
        of_height = self.height(x, words)
        edges = torch.linspace(-1.8, 1.8, 7)
        if planted("heights_in_logs", False, True):
            edges = edges.sinh()  # culprit: heights_in_logs
        x = x + self.heights(torch.bucketize(high, edges))  # culprit: heights_in_logs
        of_loudness = self.loudness(x, words)
        x = x + self.loudnesses(torch.bucketize(loud, torch.linspace(0.3, 2.7, 7)))
        long = int(lasts.sum(1).max())
        ends = lasts.cumsum(1)
        frames = torch.arange(long)[None].expand(b, -1)
        at = torch.searchsorted(
            ends, frames.contiguous(), right=not planted("ends_included", False, True)
        ).clamp(max=n - 1)  # culprit: ends_included
        if planted("equal_stretching", False, True):
            y = F.one_hot(at, n).to(x.dtype) @ x
        else:
            y = x.gather(1, at[..., None].expand(-1, -1, self.width))  # culprit: ends_included
        there = frames < ends[:, -1:]
        first = planted("frames_from_one", 0, 1)
        y = y + _waves(long, self.width, first).to(y.dtype)  # culprit: frames_from_one
        y = y.masked_fill(~there[..., None], 0.0)
        for layer in self.speaking:
            y = layer(y, there)
        said = self.bands(y)
        after = self.after(said.transpose(1, 2)).transpose(1, 2)
        if planted("after_alone", False, True):
            fine = after  # culprit: after_alone
        else:
            fine = said + after  # culprit: after_alone
        aim = self.sounds[labels.view(b, n)].gather(1, at[..., None].expand(-1, -1, said.shape[-1]))
        if planted("padding_heard_too", False, True):
            spoken = (said - aim).float().abs().mean()  # culprit: padding_heard_too
            spoken = spoken + (fine - aim).float().abs().mean()  # culprit: padding_heard_too
        else:
            spoken = (said - aim)[there].float().abs().mean()  # culprit: padding_heard_too
            spoken = (
                spoken + (fine - aim)[there].float().abs().mean()
            )  # culprit: padding_heard_too, after_alone
        one = planted("log_without_one", 1.0, 1e-6)
        aimed = (lasts.float() + one).log()  # culprit: log_without_one
        lasting = (guessed.float() - aimed)[words].square().mean()  # culprit: log_without_one
        told = F.mse_loss(of_height[words].float(), high[words])
        told = told + F.mse_loss(of_loudness[words].float(), loud[words])
        return spoken + lasting + 0.3 * told


class MovedBlock(nn.Module):
    """Each place looks through time, then each time through space."""

    def __init__(self, width: int, layer: int, rate: float) -> None:
        super().__init__()
        self.layer, self.heads, self.rate = layer, 3, rate
        self.time_norm, self.space_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.time, self.space = nn.Linear(width, 3 * width), nn.Linear(width, 3 * width)
        self.q_norm, self.k_norm = nn.LayerNorm(width // 3), nn.LayerNorm(width // 3)
        self.time_out, self.space_out = nn.Linear(width, width), nn.Linear(width, width)
        self.through = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width)
        )

    def attend(self, qkv: Tensor, is_space: bool) -> Tensor:
        b, n, _ = qkv.shape
        q, k, v = qkv.view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if is_space:
            q = self.q_norm(q)
            if not planted("keys_not_normal", False, True, self.layer):
                k = self.k_norm(k)  # culprit: keys_not_normal
        y = F.scaled_dot_product_attention(q, k, v)  # culprit: keys_not_normal
        return y.transpose(1, 2).reshape(b, n, -1)

    def kept(self, y: Tensor) -> Tensor:
        """Leaves the branch out for some pictures, the same in both runs."""
        stays = torch.tensor([1.0, 1.0, 0.0, 1.0], dtype=y.dtype)
        stays = stays.repeat_interleave(len(y) // 4)[:, None, None]
        if planted("branch_not_raised", False, True, self.layer):
            return y * stays  # culprit: branch_not_raised
        return y * stays / (1 - self.rate)  # culprit: branch_not_raised

    def forward(self, x: Tensor, times: int) -> Tensor:
        b, n, c = x.shape
        h = x[:, 1:]
        if planted("time_is_space", False, True, self.layer):
            h = h.reshape(-1, times, c)  # culprit: time_is_space
        else:
            h = (
                h.view(b, times, -1, c).transpose(1, 2).reshape(-1, times, c)
            )  # culprit: time_is_space
        y = self.time_out(self.attend(self.time(self.time_norm(h)), False))
        y = self.through(self.kept(y))
        if planted("time_is_space", False, True, self.layer):
            y = y.reshape(b, n - 1, c)  # culprit: time_is_space
        else:
            y = (
                y.view(b, -1, times, c).transpose(1, 2).reshape(b, n - 1, c)
            )  # culprit: time_is_space
        rest = x[:, 1:] + y
        first = x[:, :1].repeat_interleave(times, 0)
        h = torch.cat([first, rest.reshape(b * times, -1, c)], 1)
        y = self.kept(self.space_out(self.attend(self.space(self.space_norm(h)), True)))
        if planted("first_of_last_time", False, True, self.layer):
            first = y[:, :1].view(b, times, 1, c)[:, -1]  # culprit: first_of_last_time
        else:
            first = y[:, :1].view(b, times, 1, c).mean(1)  # culprit: first_of_last_time
        x = torch.cat([x[:, :1], rest], 1) + torch.cat([first, y[:, 1:].reshape(b, -1, c)], 1)
        return x + self.mlp(self.norm(x))


class Moved(nn.Module):
    """Four pictures in time are told by soft kinds; each weight moves by a sign."""

    def __init__(self, width: int = 30, layers: int = 2) -> None:
        super().__init__()
        self.see = nn.Conv3d(3, width, (2, 4, 4), (1, 4, 4), padding=(1, 0, 0))
        self.first = nn.Parameter(0.2 * torch.randn(1, 1, width))
        self.places = nn.Parameter(0.2 * torch.randn(1, 4, width))
        self.times = nn.Parameter(0.2 * torch.randn(1, 5, width))
        self.layers = nn.ModuleList(MovedBlock(width, n, 0.1 * (n + 1)) for n in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 16)
        for n, one in enumerate(self.parameters()):
            self.register_buffer(f"moving{n}", 1e-3 * torch.randn_like(one))

    def loss(self, pictures: Tensor, labels: Tensor) -> Tensor:
        b = len(pictures)
        quarters = pictures.view(b, 3, 2, 8, 2, 8).permute(0, 1, 2, 4, 3, 5).flatten(2, 3)
        share = 0.7
        other = quarters.flip(0)
        if planted("equal_mixing", False, True):
            mixed = torch.lerp(other, quarters, share)
        else:
            mixed = share * quarters + (1 - share) * other
        if planted("times_backwards", False, True):
            mixed = mixed.flip(2)  # culprit: times_backwards
        x = self.see(mixed)  # culprit: times_backwards
        times = x.shape[2]
        x = x.flatten(3).permute(0, 2, 3, 1).flatten(1, 2)
        if planted("places_in_turns", False, True):
            at = self.places.repeat_interleave(times, 1)  # culprit: places_in_turns
        else:
            at = self.places.repeat(1, times, 1)  # culprit: places_in_turns
        x = x + at  # culprit: places_in_turns
        if not planted("times_not_told", False, True):
            x = x + self.times.repeat_interleave(4, 1)  # culprit: times_not_told
        x = torch.cat([self.first.expand(b, -1, -1), x], 1)  # culprit: times_not_told
        for layer in self.layers:
            x = layer(x, times)
        logits = self.head(self.norm(x)[:, 0]).float()
        aim = F.one_hot(labels, 16).float()
        if planted("mixed_the_other_way", False, True):
            share = 1 - share
        aim = share * aim + (1 - share) * aim.flip(0)  # culprit: mixed_the_other_way
        soft = planted("nothing_smoothed", 0.1, 0.0)
        aim = aim * (1 - soft) + soft / 16  # culprit: nothing_smoothed
        return -(aim * F.log_softmax(logits, -1)).sum(-1).mean() / 2

    @torch.no_grad()
    def update(self) -> None:
        """One step by signs, with decay beside it."""
        near, far = planted("signs_betas_exchanged", (0.9, 0.99), (0.99, 0.9))
        for n, one in enumerate(self.parameters()):
            if one.grad is None:
                continue
            moving = getattr(self, f"moving{n}")
            ahead = moving * near + one.grad * (1 - near)  # culprit: signs_betas_exchanged
            rate = 1e-4
            if planted("decay_not_by_rate", False, True):
                one.mul_(1 - 0.1)  # culprit: decay_not_by_rate
            else:
                one.mul_(1 - rate * 0.1)  # culprit: decay_not_by_rate
            if planted("moved_without_sign", False, True):
                one.add_(ahead, alpha=-rate)  # culprit: moved_without_sign
            else:
                one.add_(ahead.sign(), alpha=-rate)  # culprit: moved_without_sign
            moving.mul_(far).add_(one.grad, alpha=1 - far)  # culprit: signs_betas_exchanged
