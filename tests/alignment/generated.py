"""Small random models as two authors write them: same weights, same tensors, other code.

Each record has a tag that says what it is in the model, whoever wrote it: so the truth is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import permutations
from random import Random
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from tests.alignment.respell import Recording
from tests.builder.small_dumps import Record, forward, number, tensor

Array = NDArray[np.float64]
HEAD = {"task": "statistics", "level": "mix", "framework": "pytorch"}
WIDTHS = (8, 12, 16)


@dataclass(frozen=True)
class Shape:
    """What both authors agree on."""

    seed: int
    width: int
    layers: int
    kinds: tuple[str, ...]  # of the parts of a layer, in their order
    has_mask: bool
    has_gate: bool


@dataclass(frozen=True)
class Style:
    """What an author is free in."""

    order: tuple[str, ...] = ("q", "k", "v")  # in which the projections are called
    is_inlined: bool = False  # the layer itself holds the linears of its MLP
    has_activation: bool = True  # as a module, not as a function
    gate_first: bool = False
    has_blocks: bool = True  # modules around attention and MLP alike
    is_one_call: bool = False  # attention: one call instead of its parts
    more: str = ""  # what this call puts out is scaled by a call that the other author lacks


def some_shape(random: Random) -> Shape:
    kinds = random.choice([("attention", "mlp"), ("mlp",), ("mlp", "mlp"), ("attention",)])
    return Shape(
        random.randrange(1 << 30),
        random.choice(WIDTHS),
        random.randint(2, 3),
        kinds,
        random.random() < 0.5,
        random.random() < 0.5,
    )


def some_style(random: Random) -> Style:
    return Style(
        random.choice(list(permutations("qkv"))),
        random.random() < 0.4,
        random.random() < 0.5,
        random.random() < 0.4,
        random.random() < 0.7,
    )


def told(values: Array) -> Record:
    """What a recorder says of a tensor."""
    return tensor(
        float(np.linalg.norm(values)),
        high=float(values.max()),
        low=float(values.min()),
        mean=float(values.mean()),
        shape=values.shape,
    )


@dataclass
class Program:
    """Records as they come, by whom each is made, and what it is in the model."""

    shape: Shape
    style: Style
    data: dict[str, Any] = field(default_factory=dict)
    parent: dict[str, str | None] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    def draw(self, key: str, *shape: int) -> Array:
        """Numbers that are the same in the programs of all authors."""
        drawn = np.random.default_rng((self.shape.seed, crc32(key.encode())))
        return drawn.normal(size=shape)

    def call(
        self, stem: str, tag: str, within: str, given: list[Array], made: Array, *plain: object
    ) -> Array:
        """Record a call."""
        place = self.numbers.get(stem, 0)
        self.numbers[stem] = place + 1
        name = f"{stem}.{place}.forward"
        self.data[name] = forward([*map(told, given), *map(number, plain)], [told(made)])
        self.parent[name], self.tags[name] = within, f"{tag} {stem}"
        if self.style.more == f"{tag} {stem}":
            return self.call("Tensor.__mul__", "more", within, [made], 1.5 * made, 1.5)
        return made

    def open(self, path: str, class_name: str, tag: str, within: str | None) -> str:
        """Begin a module; its record stands in its place, and is filled when it ends."""
        name = ".".join(part for part in ("Module", path, class_name, "forward", "0") if part)
        self.data[name], self.parent[name], self.tags[name] = {}, within, tag
        return name

    def close(self, name: str, given: Array, made: Array, **weights: Array) -> Array:
        self.data[name] = forward([told(given)], [told(made)])
        if weights:
            self.data[name]["parameters"] = {key: told(one) for key, one in weights.items()}
        return made


def linear(program: Program, path: str, tag: str, within: str, x: Array, width: int) -> Array:
    weight = program.draw(f"{tag} weight", width, x.shape[-1]) / np.sqrt(x.shape[-1])
    bias = 0.1 * program.draw(f"{tag} bias", width)
    name = program.open(path, "Linear", tag, within)
    y = program.call("Functional.linear", tag, name, [x, weight, bias], x @ weight.T + bias)
    return program.close(name, x, y, weight=weight, bias=bias)


def norm(program: Program, path: str, tag: str, within: str, x: Array) -> Array:
    weight = 1 + 0.1 * program.draw(f"{tag} weight", x.shape[-1])
    bias = 0.1 * program.draw(f"{tag} bias", x.shape[-1])
    name = program.open(path, "LayerNorm", tag, within)
    y = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True) * weight + bias
    program.call("Functional.layer_norm", tag, name, [x, weight, bias], y, x.shape[-1])
    return program.close(name, x, y, weight=weight, bias=bias)


def activation(program: Program, path: str, tag: str, within: str, x: Array) -> Array:
    y = x / (1 + np.exp(-1.7 * x))
    if not program.style.has_activation:
        return program.call("Functional.gelu", tag, within, [x], y, "none")
    name = program.open(path, "GELU", f"{tag} module", within)
    program.call("Functional.gelu", tag, name, [x], y, "none")
    return program.close(name, x, y)


def attention(program: Program, path: str, tag: str, within: str, x: Array) -> Array:
    name = program.open(path, "Attention", tag, within)
    width = x.shape[-1]
    made = {
        one: linear(program, f"{path}.{one}_proj", f"{tag} {one}", name, x, width)
        for one in program.style.order
    }
    q, k, v = (made[one] for one in "qkv")
    turned = np.swapaxes(k, -1, -2)
    score, scale = q @ turned, float(np.sqrt(width))
    mask = np.triu(np.full(score.shape[-2:], -50.0), 1)
    masked = score / scale + (mask if program.shape.has_mask else 0.0)
    share = np.exp(masked - masked.max(-1, keepdims=True))
    share /= share.sum(-1, keepdims=True)
    if program.style.is_one_call:
        given = [q, k, v, *([mask] if program.shape.has_mask else [])]
        stem = "Functional.scaled_dot_product_attention"
        y = program.call(stem, tag, name, given, share @ v)
    else:
        program.call("Tensor.transpose", tag, name, [k], turned, -2, -1)
        program.call("Torch.matmul", f"{tag} score", name, [q, turned], score)
        program.call("Tensor.__truediv__", tag, name, [score], score / scale, scale)
        if program.shape.has_mask:
            program.call("Tensor.__add__", f"{tag} mask", name, [score / scale, mask], masked)
        program.call("Torch.softmax", tag, name, [masked], share, -1)
        y = program.call("Torch.matmul", f"{tag} result", name, [share, v], share @ v)
    y = linear(program, f"{path}.o_proj", f"{tag} o", name, y, width)
    return program.close(name, x, y)


def mlp(program: Program, path: str, tag: str, within: str, x: Array) -> Array:
    is_inlined = program.style.is_inlined
    name = within if is_inlined else program.open(path, "MLP", tag, within)
    joint = "_" if is_inlined else "."  # one attribute of the layer, or one of the MLP
    wide = 2 * x.shape[-1]

    def part(kind: str, given: Array, width: int) -> Array:
        return linear(program, f"{path}{joint}{kind}_proj", f"{tag} {kind}", name, given, width)

    gate = None
    if program.shape.has_gate and program.style.gate_first:
        gate = part("gate", x, wide)
    y = activation(program, f"{path}{joint}act", tag, name, part("up", x, wide))
    if program.shape.has_gate:
        gate = part("gate", x, wide) if gate is None else gate
        y = program.call("Tensor.__mul__", tag, name, [y, gate], y * gate)
    y = part("down", y, x.shape[-1])
    return y if is_inlined else program.close(name, x, y)


def layer(program: Program, path: str, tag: str, within: str, x: Array) -> Array:
    name = program.open(path, "Block", tag, within)
    start = x
    for place, kind in enumerate(program.shape.kinds):
        part, own = f"{path}.{kind}{place}", f"{tag} {kind}{place}"
        host = name
        if program.style.has_blocks:
            host, part = program.open(part, "Part", f"{own} around", name), f"{part}.inner"
        y = norm(program, f"{path}.norm{place}", f"{own} norm", host, x)
        y = (attention if kind == "attention" else mlp)(program, part, own, host, y)
        if host != name:
            program.close(host, x, y)
        x = program.call("Tensor.__add__", own, name, [x, y], x + y)
    return program.close(name, start, x)


def model(shape: Shape, style: Style) -> Recording:
    """Layers of one kind between an entry and a head, two sequences of six tokens."""
    program = Program(shape, style)
    x = program.draw("input", 2, 6, 5)
    top = program.open("", "Net", "net", None)
    y = linear(program, "entry", "entry", top, x, shape.width)
    for place in range(shape.layers):
        y = layer(program, f"layers.{place}", f"layer {place}", top, y)
    y = norm(program, "norm", "norm", top, y)
    y = program.call("Tensor.mean", "pool", top, [y], y.mean(1), 1)
    y = linear(program, "head", "head", top, y, 3)
    program.close(top, x, y)
    backward(program)
    return Recording(dict(HEAD), program.data, program.parent, dict(program.tags))


def backward(program: Program) -> None:
    """The backward pass: modules in the other order, with gradients of the shapes going forward."""
    for name in [*program.data][::-1]:
        if not name.startswith("Module"):
            continue
        record, tag = program.data[name], program.tags[name]
        made, given = (
            [told(program.draw(f"{tag} {side} gradient", *one["shape"])) for one in record[side]]
            for side in ("output", "input_args")
        )
        turned = name.replace(".forward.", ".backward.")
        program.data[turned] = {"input": made, "output": given}
        above = program.parent[name]
        program.parent[turned] = None if above is None else above.replace(".forward.", ".backward.")
        program.tags[turned] = f"{tag} backward"


CONTAINERS = ("mlp", "around", "module")  # what an author may do without


def truth(npu: Recording, bench: Recording) -> tuple[dict[str, str], set[str]]:
    """The pairs of one tag, and the calls of ``npu`` that the other author does not make.

    A module around others that one author does without may go with one that the other does
    without.
    """
    theirs = {tag: name for name, tag in bench.origin.items() if tag is not None}
    right = {name: theirs[tag] for name, tag in npu.origin.items() if tag in theirs}
    added = {
        name
        for name, tag in npu.origin.items()
        if name not in right and not (name.startswith("Module") and _is_container(tag or ""))
    }
    return right, added


def _is_container(tag: str) -> bool:
    last = tag.removesuffix(" backward").rpartition(" ")[2]
    return last.rstrip("0123456789") in CONTAINERS
