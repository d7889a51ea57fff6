"""Models of which PyTorch twins were recorded: tests/data/pairs/pt_*. Equal weights, equal data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import mindspore
import numpy as np
from mindspore import Parameter, Tensor, mint, nn, ops
from mindspore.mint.nn import functional as F  # noqa: N812

HIDDEN, HEADS, INNER, VOCABULARY, LENGTH, LAYERS = 32, 4, 64, 64, 8, 2
SEED, BATCH, MICRO_BATCHES = 1234, 2, 2


class RMSNorm(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.weight = Parameter(mint.ones(HIDDEN), name="weight")

    def construct(self, x: Any) -> Any:
        variance = mint.mean(mint.square(x), -1, True)
        return mint.mul(mint.mul(x, mint.rsqrt(mint.add(variance, 1e-6))), self.weight)


class RotaryEmbedding(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        size = HIDDEN // HEADS
        powers = np.arange(0, size, 2, dtype=np.float32) / size
        self.frequencies = Tensor((1 / (10000.0**powers)).astype(np.float32))

    def construct(self, positions: Any) -> Any:
        angles = mint.mul(mint.unsqueeze(positions, -1), self.frequencies)
        both = mint.cat((angles, angles), -1)
        return mint.cos(both), mint.sin(both)


def turned(x: Any) -> Any:
    left, right = mint.chunk(x, 2, -1)
    return mint.cat((mint.neg(right), left), -1)


def linear(inputs: int, outputs: int) -> Any:
    return mint.nn.Linear(inputs, outputs, bias=False, dtype=mindspore.float32)


class Attention(nn.Cell):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.scale = factor / math.sqrt(HIDDEN // HEADS)
        self.q_proj = linear(HIDDEN, HIDDEN)
        self.k_proj = linear(HIDDEN, HIDDEN)
        self.v_proj = linear(HIDDEN, HIDDEN)
        self.o_proj = linear(HIDDEN, HIDDEN)

    def split(self, x: Any) -> Any:
        return mint.transpose(x.view(BATCH, LENGTH, HEADS, HIDDEN // HEADS), 1, 2)

    def construct(self, x: Any, cos: Any, sin: Any, mask: Any) -> Any:
        q = self.split(self.q_proj(x))
        k = self.split(self.k_proj(x))
        v = self.split(self.v_proj(x))
        q = mint.add(mint.mul(q, cos), mint.mul(turned(q), sin))
        k = mint.add(mint.mul(k, cos), mint.mul(turned(k), sin))
        weights = mint.mul(mint.matmul(q, mint.transpose(k, 2, 3)), self.scale)
        weights = F.softmax(mint.add(weights, mask), -1)
        context = mint.transpose(mint.matmul(weights, v), 1, 2)
        return self.o_proj(context.reshape(BATCH, LENGTH, HIDDEN))


class MLP(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.gate_proj = linear(HIDDEN, INNER)
        self.up_proj = linear(HIDDEN, INNER)
        self.down_proj = linear(INNER, HIDDEN)
        self.act_fn = mint.nn.SiLU()

    def construct(self, x: Any) -> Any:
        return self.down_proj(mint.mul(self.act_fn(self.gate_proj(x)), self.up_proj(x)))


class DecoderLayer(nn.Cell):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm()
        self.self_attn = Attention(factor)
        self.post_attention_layernorm = RMSNorm()
        self.mlp = MLP()

    def construct(self, x: Any, cos: Any, sin: Any, mask: Any) -> Any:
        x = mint.add(x, self.self_attn(self.input_layernorm(x), cos, sin, mask))
        return mint.add(x, self.mlp(self.post_attention_layernorm(x)))


class Model(nn.Cell):
    def __init__(self, fault: bool) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, HIDDEN)
        factors = [1.5 if fault and layer == 1 else 1.0 for layer in range(LAYERS)]
        self.layers = nn.CellList([DecoderLayer(factor) for factor in factors])
        self.norm = RMSNorm()
        self.rotary_emb = RotaryEmbedding()
        mask = np.triu(np.ones((LENGTH, LENGTH)), 1) * -1e4
        self.mask = Tensor(mask.astype(np.float32))
        self.positions = Tensor(np.arange(LENGTH).astype(np.float32))

    def construct(self, tokens: Any) -> Any:
        x = self.embed_tokens(tokens)
        cos, sin = self.rotary_emb(self.positions)
        for layer in self.layers:
            x = layer(x, cos, sin, self.mask)
        return self.norm(x)


class Llama(nn.Cell):
    def __init__(self, fault: bool = False) -> None:
        super().__init__()
        self.model = Model(fault)
        self.lm_head = linear(HIDDEN, VOCABULARY)

    def construct(self, tokens: Any, labels: Any) -> Any:
        scores = self.lm_head(self.model(tokens))
        flat = mint.reshape(scores, (-1, VOCABULARY)).float()
        return ops.cross_entropy(flat, mint.reshape(labels, (-1,)))


class Block(nn.Cell):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, pad_mode="pad", padding=1, has_bias=True)
        self.bn = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(2, 2)

    def construct(self, x: Any) -> Any:
        return self.pool(self.relu(self.bn(self.conv(x))))


class CNN(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.block1 = Block(3, 8)
        self.block2 = Block(8, 16)
        self.flatten = nn.Flatten()
        self.fc = nn.Dense(256, 10)

    def construct(self, images: Any, labels: Any) -> Any:
        return ops.cross_entropy(self.fc(self.flatten(self.block2(self.block1(images)))), labels)


def llama(fault: bool = False) -> Any:
    model = Llama(fault)
    draw = np.random.RandomState(SEED)

    def weight(*shape: int) -> Any:
        return (draw.randn(*shape) * 0.1).astype(np.float32)

    values = {"model.embed_tokens.embedding_table": weight(VOCABULARY, HIDDEN)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        values[f"{at}input_layernorm.weight"] = 1 + weight(HIDDEN)
        values[f"{at}post_attention_layernorm.weight"] = 1 + weight(HIDDEN)
        for part in "qkvo":
            values[f"{at}self_attn.{part}_proj.weight"] = weight(HIDDEN, HIDDEN)
        values[f"{at}mlp.gate_proj.weight"] = weight(INNER, HIDDEN)
        values[f"{at}mlp.up_proj.weight"] = weight(INNER, HIDDEN)
        values[f"{at}mlp.down_proj.weight"] = weight(HIDDEN, INNER)
    values["model.norm.weight"] = 1 + weight(HIDDEN)
    values["lm_head.weight"] = weight(VOCABULARY, HIDDEN)
    return filled(model, values)


def cnn() -> Any:
    model = CNN()
    draw = np.random.RandomState(SEED)

    def weight(*shape: int) -> Any:
        return (draw.randn(*shape) * 0.2).astype(np.float32)

    values = {}
    for block, (inputs, outputs) in {"block1": (3, 8), "block2": (8, 16)}.items():
        values[f"{block}.conv.weight"] = weight(outputs, inputs, 3, 3)
        values[f"{block}.conv.bias"] = weight(outputs)
        values[f"{block}.bn.gamma"] = 1 + weight(outputs)
        values[f"{block}.bn.beta"] = weight(outputs)
    values["fc.weight"] = weight(10, 256)
    values["fc.bias"] = weight(10)
    return filled(model, values)


def filled(model: Any, values: dict[str, Any]) -> Any:
    parameters = {parameter.name: parameter for parameter in model.trainable_params()}
    assert set(parameters) == set(values)
    for name, parameter in parameters.items():
        parameter.set_data(Tensor(values[name]))
    model.set_train()
    return model


def micro_batches(model: Any, steps: int = 1) -> Iterator[tuple[Any, Any]]:
    draw = np.random.RandomState(SEED + 1)
    for _ in range(steps * MICRO_BATCHES):
        if isinstance(model, CNN):
            images = draw.randn(BATCH, 3, 16, 16).astype(np.float32)
            yield Tensor(images), Tensor(draw.randint(0, 10, (BATCH,)).astype(np.int32))
        else:
            tokens = draw.randint(0, VOCABULARY, (BATCH, LENGTH)).astype(np.int32)
            yield Tensor(tokens), Tensor(np.roll(tokens, -1, 1))
