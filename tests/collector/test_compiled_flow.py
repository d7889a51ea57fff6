"""The compiled module tells the makers of tensors and gradients that Python tells."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from msprobe_builder.dump.flow_layout import Mark
from msprobe_collector.one_pass import loaded
from tests.collector.recorded_flow import At, Makers, flow_of
from tests.collector.recording import record

pytestmark = pytest.mark.skipif(loaded.compiled is None, reason="it is not there")


class Own(torch.Tensor):
    """A tensor of a class that nobody knows."""


def _views(x: torch.Tensor) -> torch.Tensor:
    twins = x.view(64), x.view(64)  # at the same places, told apart by themselves
    upper, lower = x.clone().chunk(2)
    upper.add_(1)
    turned = (twins[0] * 2).view(8, 8)
    turned.t_()
    turned = turned + 1
    turned.data = turned.data.reshape(64)  # elsewhere, and nothing counts it
    moved = x * 3
    for places in (lambda: moved.data.view(64), lambda: moved.data.view(8, 8).t()):
        moved.sum()
        moved.data = places()  # where it was, as another layout
    return (
        moved.sum()
        + turned.sum()
        + twins[1].sum()
        + lower.sum()
        + x.contiguous().sum()
        + (x @ x).sum()
    )


def _memories() -> None:
    empty = torch.empty(4, 4)
    empty[:2] = 1
    (empty + 1).mul_(2)
    whole = torch.empty(6).fill_(2)
    part = whole[1:3]
    whole.add_(part.sum())
    part.add_(1)
    own = torch.ones(3).as_subclass(Own)
    own.add_(own)
    with torch.inference_mode():
        unseen = torch.ones(3) + 1
        unseen.mul_(2)
        (unseen.view(3, 1) * 2).sum()


def _gradients(x: torch.Tensor, net: nn.Module) -> torch.Tensor:
    weight = torch.randn(8, 8, requires_grad=True)
    inner = x @ weight
    inner.register_hook(lambda gradient: gradient * 2)
    parts = torch.stack([inner, inner.exp(), checkpoint(torch.tanh, inner, use_reentrant=False)])
    first, *_ = torch.std_mean(parts)
    outside: Any = torch.utils.dlpack.from_dlpack(torch.ones(8, 8))
    return net(parts[0] * outside).sum() + first + weight.norm()


def _recorded(path: Path) -> dict[At, Makers]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Identity(), nn.ReLU(inplace=True))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, foreach=False)

    def step() -> None:
        x = torch.randn(8, 8)
        _memories()
        loss = _gradients(x, net) + _views(x)
        loss.backward(retain_graph=True)
        (loss * 2).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    return flow_of(record(path, step, net, statistics={"flow": True}))


def test_all_makers_are_those_that_python_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = _recorded(tmp_path / "compiled")
    monkeypatch.setattr(loaded, "compiled", None)
    plain = _recorded(tmp_path / "plain")
    assert compiled == plain
    assert len(plain) > 150
    marks = {mark for makers in plain.values() for mark in Mark if makers.marks & mark}
    assert marks == set(Mark)


@pytest.mark.parametrize(
    "function",
    [
        "look_all",
        "put_out_all",
        "changed",
        "watch_nodes",
        "makers_of",
        "visit_edges",
        "number_rows",
    ],
)
def test_arguments_of_another_kind_are_refused(function: str) -> None:
    for count in range(10):
        with pytest.raises(TypeError):
            getattr(loaded.compiled, function)(*[7] * count)
