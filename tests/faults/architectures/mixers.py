"""A selective scan, a recommender of embedding bags, and a recurrent tagger."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class ScanBlock(nn.Module):
    """A state space whose step, input and output matrices depend on the input."""

    def __init__(self, width: int, layer: int, states: int = 4) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 2 * width, bias=False)
        self.mix = nn.Conv1d(width, width, 3, groups=width, padding=2)
        self.select = nn.Linear(width, 2 * states + 1, bias=False)
        self.step = nn.Linear(1, width)
        self.log_decay = nn.Parameter(torch.log(torch.arange(1.0, states + 1)).repeat(width, 1))
        self.skip = nn.Parameter(torch.ones(width))
        self.narrow = nn.Linear(width, width, bias=False)
        self.states, self.layer = states, layer

    def forward(self, x: Tensor) -> Tensor:
        inner, gate = self.widen(self.norm(x)).chunk(2, dim=-1)
        length = x.shape[1]
        mixed = self.mix(inner.transpose(1, 2))
        start = planted("conv_not_causal", 0, 1, self.layer)
        mixed = mixed[..., start : start + length]  # culprit: conv_not_causal
        inner = F.silu(mixed.transpose(1, 2))
        step, given, shown = self.select(inner).split([1, self.states, self.states], dim=-1)
        step = self.step(step)
        if planted("step_not_positive", False, True, self.layer):
            step = torch.sigmoid(step)  # culprit: step_not_positive
        else:
            step = F.softplus(step)  # culprit: step_not_positive
        decay = -torch.exp(self.log_decay)
        decay = torch.exp(step[..., None] * decay)
        drive = step[..., None] * given[:, :, None]
        if planted("step_not_applied", False, True, self.layer):
            drive = given[:, :, None].expand_as(drive)  # culprit: step_not_applied
        drive = drive * inner[..., None]  # culprit: step_not_applied
        state = torch.zeros_like(drive[:, 0])
        outputs = []
        for place in range(length):
            kept = decay[:, place] * state
            if planted("state_forgotten", False, place == 3, self.layer):
                kept = kept * 0.5  # culprit: state_forgotten
            state = kept + drive[:, place]  # culprit: state_forgotten
            outputs.append((state * shown[:, place, None]).sum(-1))
        y = torch.stack(outputs, dim=1)
        if not planted("skip_missing", False, True, self.layer):
            y = y + inner * self.skip  # culprit: skip_missing
        if planted("gate_activation", False, True, self.layer):
            y = y * torch.sigmoid(gate)  # culprit: gate_activation
        else:
            y = y * F.silu(gate)  # culprit: gate_activation
        return x + self.narrow(y)


class Scan(nn.Module):
    def __init__(self, width: int = 24, layers: int = 2, words: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(ScanBlock(width, layer) for layer in range(layers))
        self.norm = nn.LayerNorm(width, eps=planted("final_epsilon", 1e-5, 1e-3))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)  # culprit: final_epsilon
        return self.head(x)


class Recommender(nn.Module):
    """Bags of sparse features that meet dense ones in products of pairs."""

    def __init__(self, width: int = 16, fields: int = 4, words: int = 64) -> None:
        super().__init__()
        mode = planted("bag_mode", "sum", "mean")
        self.bags = nn.ModuleList(nn.EmbeddingBag(words, width, mode=mode) for _ in range(fields))
        self.bottom = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, width))
        pairs = (fields + 1) * fields // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens.reshape(4, -1)
        dtype: torch.dtype = next(self.parameters()).dtype
        counts = tokens.to(dtype)
        if planted("counts_not_logged", False, True):
            dense = counts / 64  # culprit: counts_not_logged
        else:
            dense = torch.log1p(counts)  # culprit: counts_not_logged
        dense = torch.relu(self.bottom(dense))
        if planted("hash_offset", False, True):
            tokens = (tokens + 7) % 64  # culprit: hash_offset
        sparse = [
            bag(tokens.roll(number, 1)) for number, bag in enumerate(self.bags)
        ]  # culprit: bag_mode, hash_offset
        features = torch.stack([dense, *sparse], dim=1)
        products = torch.bmm(features, features.transpose(1, 2))
        offset = planted("interaction_diagonal", -1, 0)
        rows, columns = torch.tril_indices(5, 5, offset=offset)  # culprit: interaction_diagonal
        flat = products[:, rows, columns][:, :10]  # culprit: interaction_diagonal
        if planted("dense_dropped", False, True):
            dense = torch.zeros_like(dense)  # culprit: dense_dropped
        return self.top(torch.cat([dense, flat], dim=1))  # culprit: dense_dropped


class Tagger(nn.Module):
    """A recurrent layer of the library, pooled by attention."""

    def __init__(self, width: int = 20, words: int = 64) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width, padding_idx=0)
        self.rnn = nn.GRU(width, width, num_layers=2, batch_first=True, bidirectional=True)
        self.query = nn.Linear(2 * width, 1)
        self.drop = nn.Dropout(planted("dropout_higher", 0.0, 0.1))
        self.head = nn.Linear(2 * width, words)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.drop(self.embed(tokens))  # culprit: dropout_higher
        start = x.new_zeros(4, x.shape[0], x.shape[2])
        if planted("start_of_ones", False, True):
            start = torch.ones_like(start)  # culprit: start_of_ones
        states, _ = self.rnn(x, start)  # culprit: start_of_ones
        if planted("directions_added", False, True):
            first, second = states.chunk(2, -1)  # culprit: directions_added
            states = torch.cat([second, first], -1)  # culprit: directions_added
        scores = self.query(states)  # culprit: directions_added
        hidden = (tokens % 5 == 0)[..., None]
        if not planted("padding_attended", False, True):
            scores = scores.masked_fill(hidden, -1e4)  # culprit: padding_attended
        weights = torch.softmax(scores, dim=planted("weights_dim", 1, 0))  # culprit: weights_dim
        pooled = (weights * states).sum(1, keepdim=True)
        return self.head(states + torch.tanh(pooled))
