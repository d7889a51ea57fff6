"""Small models with what real ones are made of."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

VOCABULARY = 48
WIDTH = 16
TOKENS = 8


class RMSNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        variance = x.float().pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + 1e-6))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        batch, length, _ = hidden.shape
        parts = self.qkv(hidden).view(batch, length, 3, 2, WIDTH // 2).permute(2, 0, 3, 1, 4)
        q, k, v = parts[0], parts[1], parts[2]
        scores = q @ k.transpose(-1, -2) / (WIDTH // 2) ** 0.5
        if mask is not None:
            scores = scores + mask
        weights = F.dropout(F.softmax(scores, dim=-1), p=0.1, training=self.training)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, WIDTH))


class GatedMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, 2 * WIDTH)
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """Top-1 routing with indexing and in-place accumulation."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, 3)
        self.experts = nn.ModuleList(GatedMLP() for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = x.reshape(-1, WIDTH)
        weight, chosen = torch.softmax(self.router(flat), dim=-1).max(dim=-1)
        result = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            rows = torch.where(chosen == number)[0]
            if rows.numel():
                result.index_add_(0, rows, expert(flat[rows]) * weight[rows, None])
        return result.view_as(x)


class DecoderLayer(nn.Module):
    def __init__(self, experts: bool) -> None:
        super().__init__()
        self.input_norm = RMSNorm()
        self.attention = Attention()
        self.post_norm = RMSNorm()
        self.mlp = Experts() if experts else GatedMLP()

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.input_norm(x), mask=mask)
        return x + self.mlp(self.post_norm(x))


class Decoder(nn.Module):
    """A llama in small, or a mixtral with ``experts``."""

    def __init__(self, experts: bool = False, layers: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(DecoderLayer(experts) for _ in range(layers))
        self.norm = RMSNorm()
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        mask = torch.full((length, length), float("-inf")).triu(1)
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.norm(x))


class Bottleneck(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += x
        return self.relu(y)


class ResNet(nn.Module):
    """In-place activations and additions, statistics that change in the forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.blocks = nn.Sequential(Bottleneck(), Bottleneck())
        self.head = nn.Linear(4, VOCABULARY)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.pool(self.stem(image)))
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class VisionTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, 4, stride=4)
        self.position = nn.Parameter(torch.randn(1, 5, WIDTH) * 0.02)
        self.token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.encoder = nn.TransformerEncoderLayer(
            WIDTH, 2, 2 * WIDTH, batch_first=True, activation="gelu"
        )
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.position
        return self.head(self.encoder(x)[:, 0])


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.gru = nn.GRU(WIDTH, WIDTH, num_layers=2, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        states, _ = self.gru(self.embed(tokens))
        return self.head(states)


def tokens() -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (2, TOKENS))


def images() -> torch.Tensor:
    return torch.randn(2, 3, 8, 8)


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]] = {
    "llama": (Decoder, tokens),
    "mixtral": (lambda: Decoder(experts=True), tokens),
    "resnet": (ResNet, images),
    "vit": (VisionTransformer, images),
    "gru": (Recurrent, tokens),
}


def loss_of(model: nn.Module, data: torch.Tensor) -> torch.Tensor:
    """Cross entropy of every prediction with a fixed class."""
    logits = model(data).reshape(-1, VOCABULARY)
    return F.cross_entropy(logits, torch.arange(logits.shape[0]) % VOCABULARY)
