"""Settings and frozen parameters, which no record shows itself, are told by what it shows."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from msprobe_checks.monitor.compare import compare_monitors
from msprobe_checks.monitor.explain import summary_lines, verdict
from msprobe_collector import PrecisionDebugger

Plant = Callable[[nn.Sequential], object]


def train(
    directory: Path,
    decay: float = 0.5,
    plant: Plant = lambda _: None,
    record: object = None,
    change: Callable[[int, nn.Module], None] = lambda *_: None,
) -> Path:
    """Eight steps of three layers."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Linear(8, 2))
    plant(model)
    config: dict[str, object] = {
        "task": "monitor",
        "dump_path": str(directory),
        "rank": [],
        "step": [],
    }
    config["monitor"] = {"formats": ["csv"], **({"record": record} if record else {})}
    directory.mkdir()
    path = directory / "config.json"
    path.write_text(json.dumps(config))
    debugger = PrecisionDebugger(str(path))
    debugger.monitor(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=decay)
    generator = torch.Generator().manual_seed(1)
    for step in range(8):
        change(step, model)
        model(torch.randn(4, 6, generator=generator)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    PrecisionDebugger.close()
    return directory


def test_weight_decay_that_was_lost_is_the_optimizers_setting(tmp_path: Path) -> None:
    runs = train(tmp_path / "lost", decay=0.0), train(tmp_path / "right")
    for tolerance in (0.001, 0.5):  # within the steps, and beyond all of them
        lines = "\n".join(summary_lines(compare_monitors(*runs, tolerance)))
        assert "look at the optimizer's own settings, such as weight decay" in lines
        assert "before step 1 everything recorded is equal digit by digit" in lines
    assert "the runs agree within 0.5" in lines


def test_nothing_is_said_of_settings_where_gradients_were_not_recorded(tmp_path: Path) -> None:
    kinds = ["weight", "activation"]
    runs = train(tmp_path / "lost", decay=0.0, record=kinds), train(tmp_path / "b", record=kinds)
    assert "weight decay" not in "\n".join(summary_lines(compare_monitors(*runs, 0.001)))


def test_a_frozen_layer_is_named(tmp_path: Path) -> None:
    frozen = train(tmp_path / "frozen", plant=lambda model: model[2].requires_grad_(False))
    right = train(tmp_path / "right")
    said = verdict(compare_monitors(frozen, right, 1e-4))
    assert said.startswith("the first run has no gradients of 2.")
    assert "and 1 more parameter on rank 0 and the second has: look at what is frozen" in said
    assert "optimizer's own settings" not in said
    assert "second run has no gradients of 2." in verdict(compare_monitors(right, frozen, 10.0))


def corrupt(name: str, after: int) -> Callable[[int, nn.Module], None]:
    def change(step: int, model: nn.Module) -> None:
        if step == after:
            with torch.no_grad():
                dict(model.named_parameters())[name].view(-1)[-1] += 0.5

    return change


@pytest.mark.parametrize("name", ["0.weight", "2.weight", "2.bias"])
@pytest.mark.parametrize("tolerance", [1e-3, 10.0])
def test_one_weight_that_differs_alone_is_no_setting(
    tmp_path: Path, name: str, tolerance: float
) -> None:
    """One element was written over between two updates."""
    runs = train(tmp_path / "a", change=corrupt(name, 3)), train(tmp_path / "b")
    said = "\n".join(summary_lines(compare_monitors(*runs, tolerance)))
    assert f"none differs, only {name}" in said
    assert "no setting of the optimizer" in said
    assert "look at the optimizer's own settings" not in said


def test_all_weights_that_differ_are_a_setting(tmp_path: Path) -> None:
    runs = train(tmp_path / "a", decay=0.1), train(tmp_path / "b")
    said = "\n".join(summary_lines(compare_monitors(*runs, 1e-3)))
    assert "look at the optimizer's own settings" in said
