"""A fifteenth part: attention over what was read, routed words with room for few, sound waves."""

# mypy: disable-error-code="no-untyped-call, no-any-return, index, operator"
# mypy: disable-error-code="assignment, misc, has-type, arg-type"
# torch is typed in part only.

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

from tests.faults.planting import planted

Tensor = torch.Tensor


class Asking(nn.Module):
    """Which of what was read matters now, by a small network; it remembers what was asked."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.asked, self.read = nn.Linear(width, width), nn.Linear(2 * width, width, bias=False)
        self.covered = nn.Linear(1, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)

    def forward(
        self, state: Tensor, read: Tensor, pad: Tensor, cover: Tensor
    ) -> tuple[Tensor, Tensor]:
        told = self.read(read) + self.asked(state)[:, None]
        if not planted("cover_not_told", False, True):
            told = told + self.covered(cover[..., None])  # culprit: cover_not_told
        if not planted("score_linear", False, True):
            told = torch.tanh(told)  # culprit: score_linear, cover_not_told
        s = self.score(told)[..., 0]  # culprit: score_linear
        if not planted("padding_heard", False, True):
            low = -1e9 if s.dtype == torch.float32 else -1e4
            if planted("equal_mask", False, True):
                s = torch.where(pad, torch.full_like(s, -torch.inf), s)
            else:
                s = s.masked_fill(pad, low)  # culprit: padding_heard
        shares = s.softmax(-1)  # culprit: padding_heard
        return (shares[:, None] @ read)[:, 0], shares


class Asked(nn.Module):
    """An encoder in both directions and a decoder that asks."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width, padding_idx=0)
        self.encoder = nn.LSTM(width, width, bidirectional=True, batch_first=True)
        self.bridge = nn.Linear(2 * width, width)
        self.cell = nn.LSTMCell(3 * width, width)
        self.asking = Asking(width)
        self.out = nn.Linear(4 * width, 64)

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        b, n = ids.shape
        length = torch.tensor([n, n - 3])
        pad = torch.arange(n) >= length[:, None]
        ids = ids.clamp(min=1).masked_fill(pad, 0)
        read, (last, _) = self.encoder(self.words(ids))
        both = torch.cat([last[0], last[1]], -1)  # culprit: ends_exchanged
        if planted("ends_exchanged", False, True):
            both = torch.cat([last[1], last[0]], -1)  # culprit: ends_exchanged
        state = torch.tanh(self.bridge(both))  # culprit: ends_exchanged
        if planted("bridge_not_crossed", False, True):
            state = torch.zeros_like(state)  # culprit: bridge_not_crossed
        cell = torch.zeros_like(state)
        cover = torch.zeros(b, n, dtype=read.dtype)
        aims = labels.view(b, n).clamp(min=1).masked_fill(pad, 0)
        word = self.words(torch.ones(b, dtype=torch.long))
        told, repeated = [], []
        for t in range(n):
            context, shares = self.asking(state, read, pad, cover)  # culprit: bridge_not_crossed
            repeated.append(torch.minimum(shares, cover).sum(-1))
            if not planted("cover_of_last", False, True):
                cover = cover + shares  # culprit: cover_of_last
            else:
                cover = shares  # culprit: cover_of_last
            if planted("context_is_cut", False, True):
                context = context.detach()  # culprit: context_is_cut
            if planted("told_before", False, True):
                told.append(self.out(torch.cat([state, context, word], -1)))  # culprit: told_before
                state, cell = self.cell(
                    torch.cat([word, context], -1), (state, cell)
                )  # culprit: told_before
            else:
                state, cell = self.cell(torch.cat([word, context], -1), (state, cell))
                told.append(self.out(torch.cat([state, context, word], -1)))  # culprit: told_before
            following = planted("one_word_late", t, max(t - 1, 0))
            word = self.words(aims[:, following])  # culprit: one_word_late
        logits = torch.stack(told, 1).flatten(0, 1).float()
        ignored = planted("padding_judged", 0, -100)
        lost = F.cross_entropy(
            logits, aims.flatten(), ignore_index=ignored
        )  # culprit: padding_judged
        weight = planted("cover_heavier", 1.0, 2.0)
        return lost + weight * torch.stack(repeated, 1).mean()  # culprit: cover_heavier


class Expert(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(width, width), nn.Linear(width, width)
        self.down = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class RoomyBlock(nn.Module):
    """Two experts of each word, with room for so many words, and one for all words."""

    def __init__(self, width: int, layer: int, experts: int = 4) -> None:
        super().__init__()
        self.layer, self.number = layer, experts
        self.norm, self.other = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(Expert(width) for _ in range(experts))
        self.shared, self.open = Expert(width), nn.Linear(width, 1)

    def routed(self, x: Tensor) -> tuple[Tensor, Tensor]:
        words = len(x)
        logits = self.router(x)
        if planted("routed_in_half", False, True, self.layer):
            logits = logits.bfloat16()  # culprit: routed_in_half
        p = F.softmax(logits.float(), -1)  # culprit: routed_in_half
        top, chosen = p.topk(2, -1)
        if not planted("not_shared_out", False, True, self.layer):
            top = top / top.sum(-1, keepdim=True)  # culprit: not_shared_out
        room = planted("less_room", int(words * 2 * 1.25 / self.number), 8, self.layer)
        order = F.one_hot(chosen.t().reshape(-1), self.number)
        at = (order.cumsum(0) * order).sum(-1) - 1
        fits = (at < room).view(2, words).t()  # culprit: less_room
        top = top * fits  # culprit: less_room, not_shared_out
        if planted("second_as_first", False, True, self.layer):
            top = torch.stack([top[:, 0], top[:, 0] * fits[:, 1]], -1)  # culprit: second_as_first
        top = top.to(x.dtype)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            word, which = (chosen == number).nonzero(as_tuple=True)
            scaled = expert(x[word]) * top[word, which, None]  # culprit: second_as_first
            if planted("largest_wins", False, True, self.layer) and number == 1:
                out = out.index_copy(0, word, scaled)  # culprit: largest_wins
            else:
                out = out.index_add(0, word, scaled)  # culprit: largest_wins
        share = F.one_hot(chosen[:, 0], self.number).float().mean(0)
        if planted("equal_balance", False, True):
            balance = self.number * torch.dot(share, p.sum(0) / words)
        else:
            balance = self.number * (share * p.mean(0)).sum()
        if planted("scores_summed", False, True, self.layer):
            large = torch.logsumexp(logits.float(), -1).mean().square()  # culprit: scores_summed
        else:
            large = torch.logsumexp(logits.float(), -1).square().mean()  # culprit: scores_summed
        heavy = planted("balance_heavier", 0.05, 0.2, self.layer)
        return out, heavy * balance + 0.01 * large  # culprit: balance_heavier, scores_summed

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        b, n, c = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, n, c))
        h = self.other(x).flatten(0, 1)
        y, extra = self.routed(h)
        common = self.shared(h)
        if not planted("always_open", False, True, self.layer):
            common = common * torch.sigmoid(self.open(h))  # culprit: always_open
        return x + (y + common).view(b, n, c), extra  # culprit: always_open


class Roomy(nn.Module):
    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.layers = nn.ModuleList(RoomyBlock(width, n) for n in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 64)

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        x = self.words(ids)
        total = torch.zeros(())
        for number, layer in enumerate(self.layers):
            x, extra = layer(x)
            if number and planted("last_extra_only", False, True):
                total = extra  # culprit: last_extra_only
            else:
                total = total + extra  # culprit: last_extra_only
        logits = self.head(self.norm(x)).flatten(0, 1)
        return F.cross_entropy(logits.float(), labels) + total  # culprit: last_extra_only


class Snake(nn.Module):
    """Waves that rise."""

    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        self.alpha = nn.Parameter(0.5 + torch.rand(width, 1))
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        if planted("equal_wave", False, True):
            return x + (0.5 - 0.5 * torch.cos(2 * self.alpha * x)) / (self.alpha + 1e-5)
        wave = torch.sin(self.alpha * x)
        if planted("wave_not_squared", False, True, self.layer):
            return x + wave / (self.alpha + 1e-5)  # culprit: wave_not_squared
        wave = wave.pow(2)  # culprit: wave_not_squared
        if planted("wave_times_rate", False, True, self.layer):
            return x + wave * (self.alpha + 1e-5)  # culprit: wave_times_rate
        return x + wave / (self.alpha + 1e-5)  # culprit: wave_not_squared, wave_times_rate


class Voiced(nn.Module):
    """Words become a wave; its spectrum is judged."""

    def __init__(self, width: int = 16, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.ups = nn.ModuleList(
            weight_norm(nn.ConvTranspose1d(width, width, 8, 4, 2)) for _ in range(2)
        )
        self.layers = nn.ModuleList(
            nn.Sequential(
                Snake(width, n),
                weight_norm(nn.Conv1d(width, width, 3, dilation=2 * n + 1)),
                nn.LeakyReLU(0.1),
                weight_norm(nn.Conv1d(width, width, 1)),
            )
            for n in range(layers)
        )
        self.last = nn.Conv1d(width, 1, 7)
        self.register_buffer("window", torch.hann_window(32))
        self.register_buffer("scale", torch.rand(8, 17))

    def spectrum(self, x: Tensor, side: str) -> Tensor:
        window = self.window.float()
        if side == "made" and planted("window_of_ones", False, True):
            window = torch.ones_like(window)  # culprit: window_of_ones
        found = torch.stft(
            x.float(), 32, 8, window=window, return_complex=True
        )  # culprit: window_of_ones
        power = 1 if side == "made" and planted("power_not_squared", False, True) else 2
        strength = found.abs().pow(power)  # culprit: power_not_squared
        mel = self.scale.float() @ strength
        floor = planted("floor_higher", 1e-5, 1e-1) if side == "made" else 1e-5
        return mel.clamp(min=floor).log()  # culprit: floor_higher

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        x = self.words(ids).transpose(1, 2)
        for number, up in enumerate(self.ups):
            slope = planted("leak_left_out", 0.1, 0.0) if number else 0.1
            x = up(F.leaky_relu(x, slope))  # culprit: leak_left_out
        for number, layer in enumerate(self.layers):
            side = 2 * number + 1
            how = planted("padded_by_mirror", "constant", "reflect", number)
            if how == "reflect":
                told = F.pad(x, (side, side), mode="reflect")  # culprit: padded_by_mirror
            else:
                told = F.pad(x, (side, side))  # culprit: padded_by_mirror
            if number == 1 and planted("not_halved", False, True):
                x = x + layer(told)  # culprit: not_halved
            else:
                x = 0.5 * (x + layer(told))  # culprit: not_halved
        x = torch.tanh(self.last(F.pad(x, (3, 3))))[:, 0]
        random = torch.Generator().manual_seed(int(labels.sum()))
        true = torch.randn(x.shape, generator=random).mul(0.3).to(x.dtype)
        made, aim = self.spectrum(x, "made"), self.spectrum(true, "true")
        lost = F.l1_loss(made, aim)
        if planted("square_of_wave", False, True):
            return lost + F.mse_loss(x, true) * 5  # culprit: square_of_wave
        return lost + F.l1_loss(x, true) * 5  # culprit: square_of_wave


class Untangled(nn.Module):
    """What is said and where it stands, apart; words that were hidden are guessed."""

    def __init__(self, width: int = 32, layers: int = 2) -> None:
        super().__init__()
        self.words = nn.Embedding(64, width)
        self.norm = nn.LayerNorm(width)
        self.apart = nn.Embedding(16, width)
        self.layers = nn.ModuleList(UntangledBlock(width, n) for n in range(layers))
        self.turned, self.last = nn.Linear(width, width), nn.LayerNorm(width)
        self.bias = nn.Parameter(0.1 * torch.randn(64))

    def loss(self, ids: Tensor, labels: Tensor) -> Tensor:
        hidden = (labels % 4 == 0).view(ids.shape)
        hidden[:, 0] = True
        x = self.words(ids.masked_fill(hidden, 63))
        if not planted("words_not_normal", False, True):
            x = self.norm(x)  # culprit: words_not_normal
        n = ids.shape[1]
        d = torch.arange(n)[:, None] - torch.arange(n)
        far = d.abs()
        if planted("places_not_logged", False, True):
            bucket = far.clamp(max=7)  # culprit: places_not_logged
        else:
            wide = (
                4 + (far.clamp(min=1).float() / 4).log() / math.log(12 / 4) * 3
            )  # culprit: places_not_logged
            bucket = torch.where(
                far < 4, far, wide.long().clamp(max=7)
            )  # culprit: places_not_logged
        bucket = torch.where(d < 0, -bucket, bucket) + 8
        for layer in self.layers:
            x = layer(x, self.apart.weight, bucket)
        x = self.last(F.gelu(self.turned(x)))
        logits = x @ self.words.weight.t()
        if not planted("words_without_bias", False, True):
            logits = logits + self.bias  # culprit: words_without_bias
        logits = logits.float().flatten(0, 1)
        aims = ids.flatten()
        if not planted("all_guessed", False, True):
            aims = aims.masked_fill(~hidden.flatten(), -100)  # culprit: all_guessed
        return F.cross_entropy(logits, aims)  # culprit: all_guessed, words_without_bias


class UntangledBlock(nn.Module):
    def __init__(self, width: int, layer: int, heads: int = 4) -> None:
        super().__init__()
        self.layer, self.heads, self.d = layer, heads, width // heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.pq, self.pk = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.norm, self.other = nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, self.d)).transpose(-3, -2)

    def forward(self, x: Tensor, apart: Tensor, bucket: Tensor) -> Tensor:
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        pk, pq = self.split(self.pk(apart)), self.split(self.pq(apart))
        if planted("places_by_one_matrix", False, True, self.layer):
            pq = self.split(self.pk(apart))  # culprit: places_by_one_matrix
        scale = 1 / math.sqrt(planted("scale_of_one", 3, 1, self.layer) * self.d)
        if planted("equal_product", False, True):
            s = torch.einsum("bhid,bhjd->bhij", q, k)
        else:
            s = q @ k.transpose(-2, -1)
        index = bucket.expand(*s.shape[:2], -1, -1)
        told = (q @ pk.transpose(-2, -1)).gather(-1, index)
        back = (k @ pq.transpose(-2, -1)).gather(-1, index)  # culprit: places_by_one_matrix
        if not planted("back_not_turned", False, True, self.layer):
            back = back.transpose(-2, -1)  # culprit: back_not_turned
        if planted("back_left_out", False, True, self.layer):
            s = (s + told) * scale  # culprit: back_left_out
        else:
            s = (s + told + back) * scale  # culprit: back_left_out, back_not_turned, scale_of_one
        y = (s.softmax(-1) @ v).transpose(1, 2).flatten(-2)
        if planted("norm_in_front", False, True, self.layer):
            x = x + self.o(self.norm(y))  # culprit: norm_in_front
        else:
            x = self.norm(x + self.o(y))  # culprit: norm_in_front
        return self.other(x + self.down(F.gelu(self.up(x))))
