"""Experts that other data give other numbers of tokens: equal sizes are chance then."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.alignment.respell import Recording, recording
from tests.alignment.score import partners
from tests.collector.recording import record

WIDTH, INNER = 8, 12


class Experts(nn.Module):
    """Each token goes to the expert of its number; weights as modules or all in one tensor."""

    def __init__(self, number: int, *, is_fused: bool) -> None:
        super().__init__()
        self.words, self.is_fused = nn.Embedding(9, WIDTH), is_fused
        self.up: Any
        self.down: Any
        if is_fused:
            self.up = nn.Parameter(torch.randn(number, INNER, WIDTH))
            self.down = nn.Parameter(torch.randn(number, WIDTH, INNER))
        else:
            sizes = (WIDTH, INNER), (INNER, WIDTH)
            self.up, self.down = (
                nn.ModuleList(nn.Linear(*size, bias=False) for _ in range(number)) for size in sizes
            )

    def forward(self, x: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        flat = self.words(x)
        result = torch.zeros_like(flat)
        for expert in range(len(self.up)):
            if self.is_fused:
                (rows,) = torch.where(chosen == expert)
                up = functional.linear(flat[rows], self.up[expert])
                down = functional.linear(functional.silu(up), self.down[expert])
            else:
                (rows,) = (chosen == expert).nonzero(as_tuple=True)
                down = self.down[expert](functional.silu(self.up[expert](flat[rows])))
            result = result.index_add(0, rows, down)
        return functional.layer_norm(result + flat, (WIDTH,))


def recorded(folder: Path, counts: list[int], *, is_fused: bool) -> Recording:
    torch.manual_seed(sum(place * count for place, count in enumerate(counts)))
    model = Experts(len(counts), is_fused=is_fused)
    chosen = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    x = torch.randint(0, 9, chosen.shape)

    def step() -> None:
        model(x, chosen).square().mean().backward()

    return recording(record(folder, step, model).directory)


@pytest.mark.parametrize(
    ("counts", "others"),
    [
        ([2, 6], [6, 2]),
        ([3, 5, 7], [5, 7, 3]),
        ([4, 5, 6], [5, 4, 6]),
        ([2, 3, 4, 5], [5, 4, 3, 2]),
    ],
)
def test_no_expert_is_taken_for_another_that_gets_as_many_tokens(
    tmp_path: Path, counts: list[int], others: list[int]
) -> None:
    npu = recorded(tmp_path / "npu", counts, is_fused=False)
    bench = recorded(tmp_path / "bench", others, is_fused=True)
    found = partners(npu.source(), bench.source())
    stems = [("Functional.linear", 2), ("Functional.silu", 1), ("Tensor.index_add", 1)]
    for stem, each in stems:
        for number in range(each * len(counts)):
            for direction in ("forward", "backward"):
                name = f"{stem}.{number}.{direction}"
                assert found.get(name, name) == name
    last = "Functional.layer_norm.0.forward"
    assert found[last] == last
