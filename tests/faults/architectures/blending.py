"""A seventeenth part: pictures made of noise beside words, and sounds that are written down."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator"
# mypy: disable-error-code="assignment, misc, has-type, arg-type, attr-defined"
# torch is typed in part only.

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class Hushed(torch.autograd.Function):
    """The identity, through which less of a gradient comes back."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        return x * 1.0

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        return grad * planted("words_heard_fully", 0.3, 1.0)  # culprit: words_heard_fully


class Stream(nn.Module):
    """What is separate for words and picture in a block of both."""

    def __init__(self, width: int, layer: int, name: str) -> None:
        super().__init__()
        self.layer, self.name, self.heads, self.size = layer, name, 3, width // 3
        self.modulation = nn.Linear(width, 6 * width)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.q_weight = nn.Parameter(torch.ones(self.size))
        self.k_weight = nn.Parameter(torch.ones(self.size))
        self.grow, self.back = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def ask(self, x: Tensor, condition: Tensor) -> tuple[Tensor, ...]:
        parts = self.modulation(F.silu(condition))[:, None].chunk(6, -1)
        shift, scale, *rest = parts
        h = F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale) + shift
        shape = (len(x), -1, self.heads, self.size)
        q, k, v = (one.view(shape).transpose(1, 2) for one in self.qkv(h).chunk(3, -1))
        q = F.rms_norm(q, (self.size,), self.q_weight, 1e-6)
        told = self.name == "words" and planted("words_keys_raw", False, True, self.layer)
        if not told:
            k = F.rms_norm(k, (self.size,), self.k_weight, 1e-6)  # culprit: words_keys_raw
        return q, k, v, *rest

    def answer(self, x: Tensor, answered: Tensor, *rest: Tensor) -> Tensor:
        gate, shift, scale, last = rest
        if self.name == "words" and planted("gates_confused", False, True, self.layer):
            gate = last
        x = x + gate * self.o(answered)  # culprit: gates_confused
        h = F.layer_norm(x, x.shape[-1:], eps=1e-6)
        if self.name == "picture" and planted("shifted_first", False, True, self.layer):
            h = (h + shift) * (1 + scale)  # culprit: shifted_first
        else:
            h = h * (1 + scale) + shift  # culprit: shifted_first
        h = self.grow(h)
        exact = planted("gelu_exactly", "tanh", "none", self.layer)
        h = F.gelu(h, approximate=exact)  # culprit: gelu_exactly
        if self.name == "picture" and planted("inner_too_large", False, True, self.layer):
            h = (h * 60000).half().to(h.dtype) / 60000  # culprit: inner_too_large
        return x + last * self.back(h)


class JointBlock(nn.Module):
    """Words and picture ask themselves and each other at once."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.words, self.picture = Stream(width, layer, "words"), Stream(width, layer, "picture")

    def forward(self, words: Tensor, picture: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v, *rest = self.words.ask(words, condition)
        other_q, other_k, other_v, *other_rest = self.picture.ask(picture, condition)
        values = [v, other_v]
        if planted("values_joined_backwards", False, True, self.layer):
            values.reverse()
        q, k = torch.cat([q, other_q], 2), torch.cat([k, other_k], 2)
        v = torch.cat(values, 2)  # culprit: values_joined_backwards
        if planted("equal_mixing", False, True, self.layer):
            shares = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), -1)
            y = shares @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v)
        y = y.transpose(1, 2).flatten(2)
        n = words.shape[1]
        if planted("words_taken_last", False, True, self.layer):
            answered, seen = y[:, -n:], y[:, :-n]  # culprit: words_taken_last
        else:
            answered, seen = y[:, :n], y[:, n:]  # culprit: words_taken_last
        return self.words.answer(words, answered, *rest), self.picture.answer(
            picture, seen, *other_rest
        )


class Joint(nn.Module):
    """A straight way from noise to pictures, told by words and the time."""

    def __init__(self, width: int = 36, layers: int = 2) -> None:
        super().__init__()
        self.width = width
        self.patch = nn.Conv2d(3, width, 4, 4)
        self.context = nn.Embedding(16, 5 * width)
        self.nothing = nn.Parameter(torch.randn(5, width))
        self.time = nn.Sequential(nn.Linear(16, width), nn.SiLU(), nn.Linear(width, width))
        self.pooled = nn.Linear(width, width)
        self.layers = nn.ModuleList(JointBlock(width, n) for n in range(layers))
        self.last = nn.Linear(width, 2 * width)
        self.head = nn.Linear(width, 48)

    def places(self, kind: torch.dtype) -> Tensor:
        speed = 50.0 ** (-torch.arange(self.width // 4, dtype=torch.float32) / (self.width // 4))
        angles = torch.outer(torch.arange(4, dtype=torch.float32), speed)
        one = torch.cat([angles.sin(), angles.cos()], -1)
        rows, columns = one[:, None].expand(4, 4, -1), one[None].expand(4, 4, -1)
        if planted("rows_told_as_columns", False, True):
            rows, columns = columns, rows
        return (
            torch.cat([rows, columns], -1).flatten(0, 1).to(kind)
        )  # culprit: rows_told_as_columns

    def of_time(self, t: Tensor, kind: torch.dtype) -> Tensor:
        speed = torch.exp(-math.log(1000.0) * torch.arange(8, dtype=torch.float32) / 8)
        thousands = planted("time_by_hundreds", 1000.0, 100.0)
        angles = (t * thousands)[:, None] * speed  # culprit: time_by_hundreds
        encoded = torch.cat([angles.cos(), angles.sin()], -1)
        return self.time(encoded.to(kind))

    def loss(self, pictures: Tensor, labels: Tensor) -> Tensor:
        b, kind = len(pictures), pictures.dtype
        noise = pictures.flip(0).roll(3, -1) * 0.8 + 0.1
        t = torch.sigmoid(torch.linspace(-1.2, 1.6, b))
        at = t.to(kind)[:, None, None, None]
        if planted("ends_of_way_exchanged", False, True):
            mixed = at * pictures + (1 - at) * noise  # culprit: ends_of_way_exchanged
        else:
            mixed = (1 - at) * pictures + at * noise  # culprit: ends_of_way_exchanged
        if planted("way_back", False, True):
            aim = pictures - noise  # culprit: way_back
        else:
            aim = noise - pictures  # culprit: way_back
        x = self.patch(mixed).flatten(2).transpose(1, 2) + self.places(kind)
        words = self.context(labels).view(b, 5, self.width)
        if not planted("always_told", False, True):
            silent = torch.tensor([False, False, True, False])[:, None, None]
            words = torch.where(silent, self.nothing, words)  # culprit: always_told
        words = Hushed.apply(words)  # culprit: words_heard_fully, always_told
        time = self.of_time(t, kind)
        if planted("time_cut_off", False, True):
            time = time.detach()  # culprit: time_cut_off
        condition = time + self.pooled(words.mean(1))  # culprit: time_cut_off, always_told
        for layer in self.layers:
            words, x = layer(words, x, condition)
        shift, scale = self.last(F.silu(condition))[:, None].chunk(2, -1)
        x = F.layer_norm(
            x, x.shape[-1:], eps=planted("last_epsilon", 1e-6, 5e-2)
        )  # culprit: last_epsilon
        x = self.head(x * (1 + scale) + shift)
        axes = planted("patches_across", (0, 5, 1, 3, 2, 4), (0, 5, 2, 3, 1, 4))
        x = x.view(b, 4, 4, 4, 4, 3).permute(*axes)  # culprit: patches_across
        found = x.reshape(b, 3, 16, 16)
        off = (found.float() - aim.float()).square().mean((1, 2, 3))
        if planted("weighed_by_time", False, True):
            weights = 1 / t
        else:
            weights = 1 / (1 - t)  # culprit: weighed_by_time
        return (weights * off).mean()  # culprit: weighed_by_time


class AllRanks(nn.Module):
    """Attention whose keys have no bias; half of its scale is on either side."""

    def __init__(self, width: int, layer: int, name: str) -> None:
        super().__init__()
        self.layer, self.name, self.heads, self.size = layer, name, 2, width // 2
        self.q, self.v, self.o = (nn.Linear(width, width) for _ in range(3))
        self.k = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, told: Tensor, mask: Tensor | None = None) -> Tensor:
        shape = (len(x), -1, self.heads, self.size)
        if self.name == "cross" and planted("asks_without_bias", False, True, self.layer):
            q = F.linear(x, self.q.weight)  # culprit: asks_without_bias
        else:
            q = self.q(x)  # culprit: asks_unnormal
        k = self.k(told).view(shape).transpose(1, 2)  # culprit: told_unnormal
        v = self.v(told).view(shape).transpose(1, 2)  # culprit: told_unnormal
        q = q.view(shape).transpose(1, 2)
        scale = self.size**-0.25
        if self.name == "own" and planted("equal_scaling", False, True, self.layer):
            scores = (q @ k.transpose(-2, -1)) * self.size**-0.5
        elif self.name == "heard" and planted("keys_not_scaled", False, True, self.layer):
            scores = (q * scale) @ k.transpose(-2, -1)  # culprit: keys_not_scaled
        else:
            scores = (q * scale) @ (k * scale).transpose(-2, -1)  # culprit: keys_not_scaled
        if mask is not None:
            scores = scores + mask
        axis = planted("shares_by_asker", -1, -2, self.layer) if self.name == "cross" else -1
        shares = torch.softmax(scores.float(), axis).to(q.dtype)  # culprit: shares_by_asker
        y = (shares @ v).transpose(1, 2)
        return self.o(y.reshape(len(x), -1, self.heads * self.size))


class HeardBlock(nn.Module):
    def __init__(self, width: int, layer: int, speaks: bool) -> None:
        super().__init__()
        self.layer, self.speaks = layer, speaks
        self.norm, self.feed_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.own = AllRanks(width, layer, "own" if speaks else "heard")
        if speaks:
            self.cross_norm, self.cross = nn.LayerNorm(width), AllRanks(width, layer, "cross")
        self.grow, self.back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None, told: Tensor | None = None) -> Tensor:
        h = self.norm(x)
        x = x + self.own(h, h, mask)
        if told is not None:
            asked = self.cross_norm(x)
            if planted("asks_unnormal", False, True, self.layer):
                asked = x
            x = x + self.cross(asked, told)  # culprit: asks_unnormal
        h = self.grow(self.feed_norm(x))
        if not self.speaks and planted("ears_with_relu", False, True, self.layer):
            h = F.relu(h)  # culprit: ears_with_relu
        else:
            h = F.gelu(h)  # culprit: ears_with_relu
        return x + self.back(h)


class Whispered(nn.Module):
    """Sound as powers of pitches, heard at half the rate and written down word by word."""

    def __init__(self, width: int = 28, layers: int = 2, pitches: int = 20) -> None:
        super().__init__()
        self.width = width
        middle = torch.linspace(0, 47, pitches + 2)[1:-1, None]
        spread = planted("pitches_wider", 3.0, 4.0)
        bank = (1 - (torch.arange(48.0) - middle).abs() / spread).clamp(min=0)
        self.register_buffer("bank", bank)
        self.first = nn.Conv1d(pitches, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.hear = nn.ModuleDict(
            {"layers": nn.ModuleList(HeardBlock(width, n, False) for n in range(layers))}
        )
        self.heard_norm = nn.LayerNorm(width)
        self.words = nn.Embedding(64, width)
        self.said_at = nn.Parameter(0.3 * torch.randn(16, width))
        self.speak = nn.ModuleDict(
            {"layers": nn.ModuleList(HeardBlock(width, n, True) for n in range(layers))}
        )
        self.said_norm = nn.LayerNorm(width)

    def ears(self, sound: Tensor) -> Tensor:
        powers = F.linear(
            sound.float().transpose(1, 2).square(), self.bank.float()
        )  # culprit: pitches_wider
        if planted("logs_natural", False, True):
            logs = powers.clamp(min=1e-10).log()  # culprit: logs_natural
        else:
            logs = powers.clamp(min=1e-10).log10()  # culprit: logs_natural
        below = planted("quiet_cut_less", 1.5, 8.0)
        quietest = logs.amax((1, 2), keepdim=True) - below  # culprit: quiet_cut_less
        logs = (torch.maximum(logs, quietest) + 1.0) / 1.5  # culprit: quiet_cut_less
        x = logs.transpose(1, 2).to(sound.dtype)
        x = self.first(x)
        if not planted("first_gelu_missing", False, True):
            x = F.gelu(x)  # culprit: first_gelu_missing
        x = F.gelu(self.second(x)).transpose(1, 2)  # culprit: first_gelu_missing
        half = self.width // 2
        longest = planted("ear_waves_shorter", 10000.0, 1000.0)
        speed = torch.exp(
            -math.log(longest) / (half - 1) * torch.arange(half, dtype=torch.float32)
        )  # culprit: ear_waves_shorter
        angles = torch.outer(torch.arange(x.shape[1], dtype=torch.float32), speed)
        x = x + torch.cat([angles.sin(), angles.cos()], -1).to(x.dtype)
        for layer in self.hear["layers"]:
            x = layer(x)
        raw = x
        x = self.heard_norm(x)
        if planted("heard_norm_twice", False, True):
            x = self.heard_norm(x)  # culprit: heard_norm_twice
        if planted("told_unnormal", False, True):
            return raw
        return x

    def loss(self, pictures: Tensor, labels: Tensor) -> Tensor:
        told = self.ears(pictures.reshape(len(pictures), 48, 16))
        said = (labels[:, None] * 7 + torch.arange(10) * 5 + 1) % 64
        given, aim = said[:, :-1], said[:, 1:]
        n = given.shape[1]
        late = planted("said_at_late", 0, 1)
        x = self.words(given) + self.said_at[late : late + n]  # culprit: said_at_late
        ahead = planted("one_word_ahead", 1, 2)
        mask = torch.full((n, n), float("-inf")).triu(ahead)  # culprit: one_word_ahead
        for layer in self.speak["layers"]:
            x = layer(x, mask.to(x.dtype), told)  # culprit: told_unnormal
        x = self.said_norm(x)
        logits = (x @ self.words.weight.t()).float()
        if planted("logits_too_large", False, True):
            logits = (logits * 6000).half().float() / 6000  # culprit: logits_too_large
        silent = torch.arange(n) >= (n - labels % 4)[:, None]
        padding = planted("silence_judged", -100, 0)
        aim = aim.masked_fill(silent, padding)  # culprit: silence_judged
        smooth = planted("nothing_smoothed", 0.1, 0.0)
        return F.cross_entropy(
            logits.flatten(0, 1), aim.flatten(), label_smoothing=smooth
        )  # culprit: nothing_smoothed, silence_judged
