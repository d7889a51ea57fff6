"""What the monitor records only where it is asked for: kinds, and each micro-batch."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from msprobe_collector import PrecisionDebugger
from tests.collector.test_measured_numbers import expected
from tests.collector.test_monitor import configure, decoder, read, train


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


def test_each_micro_batch_is_told_where_it_is_asked_for(tmp_path: Path) -> None:
    """Beside the whole; the numbers are those of what the module put out each time."""
    model = decoder()
    put_out: list[torch.Tensor] = []
    model.layers[0].register_forward_hook(lambda _m, _given, made: put_out.append(made.detach()))
    debugger = configure(tmp_path, record=["activation", "weight"], micro_batches=True)
    debugger.monitor(model)
    train(model, steps=2, micro=3)
    PrecisionDebugger.close()
    found = read(tmp_path)
    for step in range(2):
        for at in range(3):
            own = found[(step, "activation", f"layers.0@{at}")]
            assert own == pytest.approx(expected(put_out[3 * step + at]), rel=1e-5, abs=1e-7)
        whole = found[(step, "activation", "layers.0")]
        assert whole["count"] == sum(one.numel() for one in put_out[3 * step : 3 * step + 3])
    assert {name for _, kind, name in found if kind == "weight"} == {
        name for name, _ in model.named_parameters()
    }
