"""Small real models of several kinds, and one training loop for all of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from msprobe_operators import close_module_tracker, open_module_tracker


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.drop(self.out(mixed))  # type: ignore[no-any-return]


class GatedMlp(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, 2 * width, bias=False)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(functional.silu(self.gate(x)) * self.up(x))  # type: ignore[no-any-return]


class Decoder(nn.Module):
    """Rows of tokens (batch, time) to logits (batch, time, 50)."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.layers = nn.ModuleList(nn.Sequential(Attention(32), GatedMlp(32)) for _ in range(2))
        self.head = nn.Linear(32, 50)

    def forward(self, tokens: Tensor) -> Tensor:
        x: Tensor = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)  # type: ignore[no-any-return]


class Convolutions(nn.Module):
    """Images (batch, 3, 16, 16) to logits (batch, 50), with operators that write in place."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.act = nn.ReLU(inplace=True)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(8 * 8 * 8, 50)

    def forward(self, images: Tensor) -> Tensor:
        x = self.pool(self.act(self.norm(self.conv(images))))
        return self.head(x.flatten(1))  # type: ignore[no-any-return]


class Experts(nn.Module):
    """Every token goes through the two experts that its router prefers, as in Mixtral."""

    def __init__(self, width: int, count: int = 4) -> None:
        super().__init__()
        self.router = nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(GatedMlp(width) for _ in range(count))

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        shares, chosen = functional.softmax(self.router(rows), -1, dtype=torch.float32).topk(2)
        shares = (shares / shares.sum(-1, keepdim=True)).to(rows.dtype)
        result = torch.zeros_like(rows)
        for number, expert in enumerate(self.experts):
            row, place = torch.where(chosen == number)
            result.index_add_(0, row, expert(rows[row]) * shares[row, place, None])
        return result.reshape(x.shape)


class Mixture(nn.Module):
    """Rows of tokens (batch, time) to logits (batch, time, 50), with experts in every layer."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 32)
        self.layers = nn.ModuleList(nn.Sequential(Attention(32), Experts(32)) for _ in range(2))
        self.norm = nn.RMSNorm(32)
        self.head = nn.Linear(32, 50)

    def forward(self, tokens: Tensor) -> Tensor:
        x: Tensor = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))  # type: ignore[no-any-return]


class Vision(nn.Module):
    """Images (batch, 3, 16, 16) to logits (batch, 50) by patches and attention, as in ViT."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 4, stride=4)
        self.first = nn.Parameter(torch.zeros(1, 1, 32))
        self.places = nn.Parameter(torch.linspace(-1, 1, 17 * 32).reshape(1, 17, 32))
        self.block = nn.TransformerEncoderLayer(32, 4, 64, 0.1, "gelu", batch_first=True)
        self.head = nn.Linear(32, 50)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.block(x)[:, 0])  # type: ignore[no-any-return]


class Residual(nn.Module):
    """Images (batch, 3, 16, 16) to logits (batch, 50) past convolutions, as in ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(8, 8, 3, padding=1, bias=False),
                nn.BatchNorm2d(8),
                nn.ReLU(inplace=True),
                nn.Conv2d(8, 8, 3, padding=1, bias=False),
                nn.BatchNorm2d(8),
            )
            for _ in range(2)
        )
        self.head = nn.Linear(8, 50)

    def forward(self, images: Tensor) -> Tensor:
        x = self.stem(images)
        for block in self.blocks:
            x = functional.relu(x + block(x))
        return self.head(x.mean((2, 3)))  # type: ignore[no-any-return]


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        [x] = ctx.saved_tensors
        return 2 * x * grads[0]  # type: ignore[no-any-return]


class Custom(nn.Module):
    """Vectors (batch, 16) to logits (batch, 50) through an autograd function of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 32)
        self.head = nn.Linear(32, 50)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(Square.apply(torch.tanh(self.first(x))))  # type: ignore[no-any-return]


def tokens() -> Tensor:
    return torch.arange(16).reshape(2, 8) * 3


def images() -> Tensor:
    return torch.linspace(-2, 2, 2 * 3 * 16 * 16).sin().reshape(2, 3, 16, 16)


def vectors() -> Tensor:
    return torch.linspace(-1, 1, 4 * 16).reshape(4, 16)


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor]]] = {
    "decoder": (Decoder, tokens),
    "convolutions": (Convolutions, images),
    "custom": (Custom, vectors),
    "mixture": (Mixture, tokens),
    "vision": (Vision, images),
    "residual": (Residual, images),
}


def train(
    name: str, mode: Any = None, *, dtype: torch.dtype = torch.float32, steps: int = 2
) -> list[Tensor]:
    """Losses of each step, all parameters and gradients after the last, and the random state.

    The same at every call.
    """
    make, give = MODELS[name]
    torch.manual_seed(1)
    model = make().to(dtype)
    data = give()
    data = data.to(dtype) if data.is_floating_point() else data
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, eps=1e-4)
    open_module_tracker(model)
    losses = []
    try:
        with mode or nullcontext():
            for _ in range(steps):
                logits = model(data).reshape(-1, 50).float()
                loss = functional.cross_entropy(logits, torch.arange(len(logits)) % 50)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                losses.append(loss.detach().clone())
                if mode is not None:
                    mode.step()
    finally:
        close_module_tracker(model)
    parameters = [parameter.detach().clone() for parameter in model.parameters()]
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    return [*losses, *parameters, *gradients, torch.get_rng_state()]
