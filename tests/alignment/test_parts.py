"""A norm folded into the convolution before it: one convolution does what two calls do."""

# mypy: disable-error-code="no-untyped-call, no-any-return, operator, union-attr, arg-type"

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from msprobe_builder.align.settled import align_rest
from msprobe_builder.base.options import DEFAULT_OPTIONS
from msprobe_builder.base.texts import Texts
from msprobe_builder.match.choose import match_nodes
from msprobe_builder.pipeline.compare import read_rank
from tests.alignment.respell import Recording, recording, without_statistics
from tests.collector.recording import record

CHANNELS = ((3, 8), (8, 8), (8, 16))


class Part(nn.Module):
    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inner, outer, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(outer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(x)))


class Whole(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = [Part(*sizes) for sizes in CHANNELS]
        self.stages = nn.ModuleList(self.parts)
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for stage in self.parts:
            x = stage(x)
        return self.head(x.mean((2, 3)))


class Folded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolutions = [nn.Conv2d(*sizes, 3, padding=1) for sizes in CHANNELS]
        self.body = nn.ModuleList(self.convolutions)
        self.classify = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for convolution in self.convolutions:
            x = torch.relu(convolution(x))
        return self.classify(x.mean((2, 3)))


def folded(whole: Whole) -> Folded:
    """The same function with each norm in the convolution before it."""
    result = Folded()
    with torch.no_grad():
        for part, convolution in zip(whole.parts, result.convolutions, strict=True):
            factor = part.norm.weight / (part.norm.running_var + part.norm.eps).sqrt()
            convolution.weight.copy_(part.conv.weight * factor[:, None, None, None])
            convolution.bias.copy_(part.norm.bias - part.norm.running_mean * factor)
    result.classify.load_state_dict(whole.head.state_dict())
    return result


def whole(seed: int) -> Whole:
    torch.manual_seed(seed)
    result = Whole()
    for part in result.parts:
        nn.init.uniform_(part.norm.weight, 0.5, 1.5)
        nn.init.uniform_(part.norm.running_var, 0.5, 1.5)
        nn.init.normal_(part.norm.running_mean)
        nn.init.normal_(part.norm.bias)
    return result.eval()


def recorded(folder: Path, model: nn.Module, seed: int) -> Recording:
    torch.manual_seed(seed)
    x = torch.randn(2, 3, 6, 6)

    def step() -> None:
        model(x).square().mean().backward()

    return recording(record(folder, step, model).directory)


@pytest.mark.parametrize("kind", ["statistics", "other weights", "structure"])
@pytest.mark.parametrize("is_turned", [False, True])
def test_a_folded_norm_is_a_group(tmp_path: Path, kind: str, is_turned: bool) -> None:
    seed = 1 if kind == "other weights" else 0
    sides = [
        recorded(tmp_path / "whole", whole(0), 0),
        recorded(tmp_path / "folded", folded(whole(seed)), seed),
    ]
    if kind == "structure":
        sides = [without_statistics(side) for side in sides]
    texts = Texts()
    (left, _), (right, _) = map(
        partial(read_rank, texts=texts),
        (side.source() for side in sides[:: -1 if is_turned else 1]),
    )
    matching, _ = match_nodes(left, right, DEFAULT_OPTIONS, texts, align=align_rest)
    names, other_names = left.tree.names, right.tree.names
    found = {names[i]: other_names[j] for i, j in enumerate(matching.npu.tolist()) if j >= 0}
    assert not [name for name in found if "onv2d" in name or "atch_norm" in name]
    for number in range(3):
        for direction in ("forward", "backward"):
            assert found[f"Torch.relu.{number}.{direction}"] == f"Torch.relu.{number}.{direction}"
            group = next(
                group
                for group in matching.groups
                if f"Functional.conv2d.{number}.{direction}" in [names[i] for i in group.npu]
            )
            members = [names[i] for i in group.npu], [other_names[j] for j in group.bench]
            assert f"Functional.conv2d.{number}.{direction}" in members[1]
            assert f"Functional.batch_norm.{number}.{direction}" in members[is_turned]
    assert found["Functional.linear.0.forward"] == "Functional.linear.0.forward"
