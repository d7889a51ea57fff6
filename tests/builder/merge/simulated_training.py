"""A small model and everything its training computes, in whole tensors."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Record = dict[str, Any]
VOCABULARY, HIDDEN, INNER, LENGTH = 12, 5, 24, 8


@dataclass(frozen=True)
class Model:
    """What is trained, and how its modules are nested and numbered."""

    layers: int = 2
    micro_batches: int = 2
    nesting: str = "decoder"  # decoder: GPT > decoder > layers; flat: GPT > layers; bare: layers
    global_numbers: bool = False
    experts: int = 0  # in each layer, beside what all tokens pass

    @property
    def parts(self) -> list[str]:
        """What a pipeline can cut between; layers by their number."""
        return ["embedding", *map(str, range(self.layers)), "final_norm", "head"]


def tensor(values: Array) -> Record:
    """The record of a tensor."""
    return {
        "type": "torch.Tensor",
        "dtype": "torch.int64" if values.dtype.kind == "i" else "torch.float32",
        "shape": list(values.shape),
        "Max": float(values.max()),
        "Min": float(values.min()),
        "Mean": float(values.mean()),
        "Norm": float(np.sqrt(np.square(values.astype(np.float64)).sum())),
    }


class Training:
    """Weights, and what enters each part forward (``x``) and backward (``g``) by micro-batch."""

    def __init__(self, model: Model, seed: int, data: int = 0) -> None:
        self.model = model
        random = np.random.default_rng(seed)
        shapes = {"embedding": (VOCABULARY, HIDDEN), "head": (VOCABULARY, HIDDEN)}
        shapes |= {f"up{layer}": (INNER, HIDDEN) for layer in range(model.layers)}
        shapes |= {f"down{layer}": (HIDDEN, INNER) for layer in range(model.layers)}
        self.weight = {name: random.normal(size=shape) for name, shape in shapes.items()}
        for norm in ("final_norm", *(f"norm{layer}" for layer in range(model.layers))):
            self.weight[norm] = random.normal(size=HIDDEN)
        for layer in range(model.layers if model.experts else 0):
            self.weight[f"router{layer}"] = random.normal(size=(model.experts, HIDDEN))
            for expert in range(model.experts):
                self.weight[f"expert{layer}.{expert}"] = random.normal(size=(HIDDEN, HIDDEN))
        random = np.random.default_rng([seed, data])
        # The expert of each token, the same for all micro-batches.
        self.route = random.integers(0, max(model.experts, 1), (model.layers, LENGTH))
        self.x: dict[tuple[str, int], Array] = {}
        self.g: dict[tuple[str, int], Array] = {}
        for m in range(model.micro_batches):
            x = random.integers(0, VOCABULARY, LENGTH)
            for part in model.parts:
                self.x[part, m] = x
                x = self.forward(part, x)
            self.x["end", m] = x
            g = x * 0.1
            for part in reversed(model.parts):
                self.g[part, m] = g
                g = self.backward(part, g)

    def forward(self, part: str, x: Array) -> Array:
        """What a part makes of its input."""
        weight = self.weight
        if part == "embedding":
            return weight["embedding"][x]
        if part == "final_norm":
            return x * weight["final_norm"]
        if part == "head":
            return x @ weight["head"].T
        n = x * weight[f"norm{part}"]
        inner = n @ weight[f"up{part}"].T
        result = x + (inner * 2.0) @ weight[f"down{part}"].T
        return result + self.routed(part, n) if self.model.experts else result

    def backward(self, part: str, g: Array) -> Array:
        """What a part makes of the gradient of its output."""
        weight = self.weight
        if part == "embedding":
            return g
        if part == "final_norm":
            return g * weight["final_norm"]
        if part == "head":
            return g @ weight["head"]
        inner = ((g @ weight[f"down{part}"]) * 2.0) @ weight[f"up{part}"]
        if self.model.experts:
            inner = inner + self.routed(part, g, transposed=True)
        return g + inner * weight[f"norm{part}"]

    def routed(self, part: str, rows: Array, *, transposed: bool = False) -> Array:
        """What the experts make of the tokens sent to them; transposed of gradients."""
        result = np.zeros_like(rows)
        for expert in range(self.model.experts):
            weight, own = self.weight[f"expert{part}.{expert}"], self.route[int(part)] == expert
            result[own] = rows[own] @ (weight if transposed else weight.T)
        return result

    def part(self, rows: Array) -> Training:
        """The same training as a rank sees it that has only some tokens of each sequence."""
        own = copy(self)
        own.route = self.route[:, rows]
        own.x = {key: whole[rows] for key, whole in self.x.items()}
        own.g = {key: whole[rows] for key, whole in self.g.items()}
        return own


def runs(parts: Sequence[str], model: Model) -> list[list[str]]:
    """Neighbouring layers together, everything else alone."""
    result: list[list[str]] = []
    for part in parts:
        if result and part.isdigit() and result[-1][-1].isdigit():
            result[-1].append(part)
        else:
            result.append([part])
    return result if model.layers else [[part] for part in parts]
