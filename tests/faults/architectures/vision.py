"""Pictures: a vision transformer and a residual network."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.faults.planting import planted

Tensor = torch.Tensor


class VitBlock(nn.Module):
    def __init__(self, width: int, heads: int, layer: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 2 * width)
        self.fc2 = nn.Linear(2 * width, width)
        self.gamma = nn.Parameter(0.5 * torch.ones(width))
        self.heads, self.layer = heads, layer

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        if planted("norm_skipped", False, True, self.layer):
            normal = x
        else:
            normal = self.norm1(x)  # culprit: norm_skipped
        fused = self.qkv(normal)
        fused = fused.view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = fused.permute(2, 0, 3, 1, 4).unbind(0)
        scale = planted("kernel_scale", None, 0.1, self.layer)
        mixed = F.scaled_dot_product_attention(q, k, v, scale=scale)  # culprit: kernel_scale
        mixed = mixed.transpose(1, 2).reshape(batch, length, width)
        gamma = self.gamma
        if planted("layer_scale_missing", False, True, self.layer):
            grown = self.proj(mixed)
        else:
            grown = self.proj(mixed)
            grown = gamma * grown  # culprit: layer_scale_missing
        x = x + grown
        inner = F.gelu(self.fc1(self.norm2(x)))
        rate = planted("dropout_left_on", 0.0, 0.1, self.layer)
        inner = F.dropout(inner, rate, training=True)  # culprit: dropout_left_on
        return x + self.fc2(inner)


class Vit(nn.Module):
    def __init__(self, width: int = 48, layers: int = 2, heads: int = 4, classes: int = 16) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.1)
        self.position = nn.Parameter(torch.randn(1, 17, width) * 0.1)
        self.blocks = nn.ModuleList(VitBlock(width, heads, layer) for layer in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, image: Tensor) -> Tensor:
        image = image - 0.1
        image = image / planted("pixel_scale", 0.5, 0.55)  # culprit: pixel_scale
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), dim=1)
        position: Tensor = self.position
        if planted("positions_reversed", False, True):
            position = position.flip(1)  # culprit: positions_reversed
        x = x + position
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        if planted("mean_pooled", False, True):
            x = x.mean(1)  # culprit: mean_pooled
        else:
            x = x[:, 0]  # culprit: mean_pooled
        return self.head(x)


class ResidualBlock(nn.Module):
    def __init__(self, width: int, layer: int) -> None:
        super().__init__()
        eps = planted("batch_norm_epsilon", 1e-5, 1e-2, layer)
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width, eps=eps)
        self.relu = nn.ReLU(inplace=True)
        mode: Any = planted("padding_mode", "zeros", "replicate", layer)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, padding_mode=mode)
        self.bn2 = nn.BatchNorm2d(width)
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn1(self.conv1(x))  # culprit: batch_norm_epsilon
        y = self.relu(y)
        y = self.conv2(y)  # culprit: padding_mode
        if planted("batch_norm_frozen", False, True, self.layer):
            self.bn2.eval()
        y = self.bn2(y)  # culprit: batch_norm_frozen
        y = y + x
        if planted("slope_leaks", False, True, self.layer):
            return F.leaky_relu(y, 0.2)  # culprit: slope_leaks
        return F.relu(y)  # culprit: slope_leaks


class ResNet(nn.Module):
    def __init__(self, width: int = 12, layers: int = 3, classes: int = 16) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.blocks = nn.Sequential(*(ResidualBlock(width, layer) for layer in range(layers)))
        self.head = nn.Linear(width, classes)

    def forward(self, image: Tensor) -> Tensor:
        x = self.stem(image)
        if planted("pool_average", False, True):
            x = F.avg_pool2d(x, 2)  # culprit: pool_average
        else:
            x = self.pool(x)  # culprit: pool_average
        x = self.blocks(x)
        return self.head(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))
