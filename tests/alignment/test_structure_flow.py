"""Dumps without any numbers, recorded live: who made a tensor is known all the same."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from msprobe_builder.base.options import DEFAULT_OPTIONS
from tests.alignment.score import matched
from tests.collector.recording import record

Tensor = torch.Tensor
F = nn.functional
SIZE, WIDTH = 6, 8
WEIGHTS = {name: torch.ones(WIDTH, WIDTH) / 7 for name in ("q", "k", "v", "o")}
LAYERS = 3


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def tables(scaling: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    angles = torch.outer(torch.arange(SIZE).float(), torch.arange(WIDTH).float())
    return scaling(angles.cos()), scaling(angles.sin())


def layer(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """One kernel for the attention."""
    q, k, v = (F.linear(x, WEIGHTS[one]) for one in "qkv")
    y = F.scaled_dot_product_attention(turned(q, cos, sin), turned(k, cos, sin), v)
    return x + F.linear(F.dropout(y, 0.0), WEIGHTS["o"])


def written_out(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """The same by another author: value, key and query, and attention in five calls."""
    v, k, q = (F.linear(x, WEIGHTS[one]) for one in "vkq")
    k, q = turned(k, cos, sin), turned(q, cos, sin)
    share = torch.softmax(q / WIDTH**0.5 @ k.mT, -1)
    return F.linear(share @ v, WEIGHTS["o"]) + x


def program(
    one: Callable[[Tensor, Tensor, Tensor], Tensor], scaling: Callable[[Tensor], Tensor]
) -> Callable[[], object]:
    def step() -> object:
        x = torch.randn(2, SIZE, WIDTH).requires_grad_()
        cos, sin = tables(scaling)
        y = torch.exp(x)
        for _ in range(LAYERS):
            y = one(y, cos, sin)
        torch.tanh(y).sum().backward()  # type: ignore[no-untyped-call]
        return y

    return step


# What scales the tables of the one author by nothing, once for all layers.
IDLE: dict[str, Callable[[Tensor], Tensor]] = {
    "times one": lambda x: x * 1.0,
    "by one": lambda x: x / 1,
    "plus nothing": lambda x: x + 0.0,
    "no dropout": lambda x: F.dropout(x, 0.0),
    "a view": lambda x: x.view(SIZE, WIDTH),
}


@pytest.mark.parametrize("case", IDLE)
def test_attention_is_known_by_its_flow(case: str, tmp_path: Path) -> None:
    """Query and key are told by the place that takes them in, as where values are recorded."""
    steps = program(layer, IDLE[case]), program(written_out, lambda x: x)
    npu, bench = (
        record(tmp_path / side, step, nn.Module(), task="structure").directory
        for side, step in zip(("npu", "bench"), steps, strict=True)
    )
    left, right, found = matched(npu, bench, DEFAULT_OPTIONS)
    where: list[dict[str, int]] = [{}, {}]
    for place, group in enumerate(found.groups):
        where[0] |= {left.tree.names[node]: place for node in group.npu}
        where[1] |= {right.tree.names[node]: place for node in group.bench}
    names = {name: node for node, name in enumerate(left.tree.names)}
    for number in range(LAYERS):
        kernel = f"Functional.scaled_dot_product_attention.{number}.forward"
        its = where[1][f"Tensor.__matmul__.{2 * number + 1}.forward"]
        assert where[0][kernel] == its
        for place, other in ((3, 3), (0, 2), (1, 1), (2, 0)):  # out, query, key, value
            node = names[f"Functional.linear.{4 * number + place}.forward"]
            partner = int(found.npu[node])
            assert partner < 0 or right.tree.names[partner] == (
                f"Functional.linear.{4 * number + other}.forward"
            )
