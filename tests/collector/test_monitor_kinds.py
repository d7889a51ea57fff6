"""Kinds that the monitor records only where ``record`` names them."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from msprobe_collector import PrecisionDebugger
from tests.collector.test_monitor import configure, read


def test_what_goes_in_comes_back_and_is_updated(tmp_path: Path) -> None:
    """Only where it is named; by hand at the first step, which has one micro-batch."""
    torch.manual_seed(4)
    first, last = nn.Linear(6, 5), nn.Linear(5, 2)
    model = nn.Sequential(first, nn.Tanh(), last)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    debugger = configure(tmp_path, record=["input", "activation_gradient", "updated_weight"])
    debugger.monitor(model)
    x = torch.linspace(-1, 1, 18).reshape(3, 6)
    hidden = first(x)
    hidden.retain_grad()
    model[1:](hidden).square().sum().backward()
    optimizer.step()
    PrecisionDebugger.close()
    found = {(kind, name): float(row["norm"]) for (_, kind, name), row in read(tmp_path).items()}
    assert hidden.grad is not None
    expected = {
        ("input", "0"): x.norm().item(),
        ("input", "1"): hidden.norm().item(),
        ("activation_gradient", "0"): hidden.grad.norm().item(),
        ("updated_weight", "2.weight"): last.weight.norm().item(),
    }
    assert {key: found[key] for key in expected} == pytest.approx(expected, rel=1e-5)
    assert {kind for kind, _ in found} == {"input", "activation_gradient", "updated_weight"}
