"""Further models, each with something that the first ones lack."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.collector.models import TOKENS, VOCABULARY, WIDTH, images, tokens


class FusedLinear(nn.Module):
    """GPT-2 keeps the weights of its linear layers the other way round."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) * 0.1)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
        return flat.view(*x.size()[:-1], -1)


class GPTBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH)
        self.c_attn = FusedLinear(WIDTH, 3 * WIDTH)
        self.c_proj = FusedLinear(WIDTH, WIDTH)
        self.ln_2 = nn.LayerNorm(WIDTH)
        self.c_fc = FusedLinear(WIDTH, 4 * WIDTH)
        self.c_out = FusedLinear(4 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        parts = self.c_attn(self.ln_1(x)).split(WIDTH, dim=2)
        q, k, v = (p.view(batch, length, 2, -1).transpose(1, 2) for p in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        mixed = mixed.transpose(1, 2).contiguous().view(batch, length, WIDTH)
        x = x + self.dropout(self.c_proj(mixed))
        hidden = self.c_fc(self.ln_2(x))
        hidden = 0.5 * hidden * (1.0 + torch.tanh(0.8 * (hidden + 0.04 * torch.pow(hidden, 3.0))))
        return x + self.dropout(self.c_out(hidden))


class GPT(nn.Module):
    """GPT-2 in small: learned positions, fused attention, the head shares the embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, WIDTH)
        self.wpe = nn.Embedding(TOKENS, WIDTH)
        self.h = nn.ModuleList(GPTBlock() for _ in range(2))
        self.ln_f = nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, scale)
        return x * scale

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        x, scale = ctx.saved_tensors
        return gradients[0] * scale, (gradients[0] * x).sum(0)


class Scaled(nn.Module):
    """A custom autograd function between two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.first = nn.Linear(WIDTH, WIDTH)
        self.scale = nn.Parameter(torch.ones(TOKENS, WIDTH))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.first(self.embed(ids)))
        return self.head(_Scaled.apply(x, self.scale))


class UNet(nn.Module):
    """Skip connections, transposed convolutions, group norms, interpolation."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.norm = nn.GroupNorm(2, 4)
        self.middle = nn.Conv2d(4, 8, 3, padding=1)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.head = nn.Linear(7 * 16, VOCABULARY)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        low = F.leaky_relu(self.norm(self.down(image)))
        high = self.up(F.silu(self.middle(low)))
        joined = torch.cat([high, image], dim=1)
        small = F.interpolate(joined, scale_factor=0.5, mode="bilinear", align_corners=False)
        return self.head(small.flatten(1))


class Translator(nn.Module):
    """An LSTM whose states a second one attends to; modules that return tuples."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.encoder = nn.LSTM(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        self.decoder = nn.LSTMCell(WIDTH, 2 * WIDTH)
        self.head = nn.Linear(4 * WIDTH, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        memory, (hidden, cell) = self.encoder(x)
        h, c = hidden.transpose(0, 1).flatten(1), cell.transpose(0, 1).flatten(1)
        results = []
        for position in range(3):
            h, c = self.decoder(x[:, position], (h, c))
            weights = torch.softmax((memory @ h.unsqueeze(-1)).squeeze(-1), dim=-1)
            context = (weights.unsqueeze(1) @ memory).squeeze(1)
            results.append(self.head(torch.cat([h, context], dim=-1)))
        return torch.stack(results, dim=1)


class Autoencoder(nn.Module):
    """Running statistics in one dimension, tied weights, in-place noise."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(192, WIDTH)
        self.norm = nn.BatchNorm1d(WIDTH)
        self.activation = nn.ELU(inplace=True)
        self.head = nn.Linear(192, VOCABULARY)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        code = self.norm(self.encoder(image.flatten(1)))
        code = self.activation(code.add_(0.01 * torch.randn(code.shape)))
        return self.head(F.linear(code, self.encoder.weight.t()))


class Mixer(nn.Module):
    """Linear layers over transposed views, one module called twice, a list as an argument."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.tokens = nn.Linear(TOKENS, TOKENS)
        self.channels = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Tanh())
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        for _ in range(2):
            x = x + self.tokens(x.transpose(1, 2)).transpose(1, 2)
            x = x + self.channels(x)
        first, second = torch.split(x, TOKENS // 2, dim=1)
        return self.head(torch.maximum(first, second))


class Crossing(nn.Module):
    """Cross attention by keywords, dictionaries in and out, a buffer that is written to."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.reader = Reader()
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        found = self.reader({"query": x[:, ::2]}, memory=x)
        return self.head(found["result"])


class Reader(nn.Module):
    average: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.values = nn.Linear(WIDTH, 2 * WIDTH)
        self.register_buffer("average", torch.zeros(WIDTH))

    def forward(
        self, given: dict[str, torch.Tensor], *, memory: torch.Tensor
    ) -> dict[str, torch.Tensor]:
        key, value = self.values(memory).chunk(2, dim=-1)
        result = F.scaled_dot_product_attention(self.query(given["query"]), key, value)
        with torch.no_grad():
            self.average.mul_(0.9).add_(result.mean((0, 1)), alpha=0.1)
        return {"result": result - self.average, "average": self.average}


MORE_MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]] = {
    "gpt2": (GPT, tokens),
    "scaled": (Scaled, tokens),
    "unet": (UNet, images),
    "translator": (Translator, tokens),
    "autoencoder": (Autoencoder, images),
    "mixer": (Mixer, tokens),
    "crossing": (Crossing, tokens),
}
