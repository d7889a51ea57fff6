"""What modules alone tell: permutations by their bits, and calls outside of all modules."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from msprobe_builder.database.read.verdict import Verdict
from msprobe_builder.export.verdict import verdict_json
from tests.collector.recording import record
from tests.faults.optimizers import judged
from tests.faults.planting import fault, planted


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = self.scores(x)
        return scores.roll(1, 1) if planted("rolled", False, True) else scores


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.gate = Gate()
        self.values = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for one in self.before:
            x = torch.tanh(one(x))
        return torch.softmax(4 * self.gate(x), -1) * self.values(x) * 3.0


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.experts = Experts()
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.experts(x)
        return self.head(self.norm(x + planted("moved", 0.5, 1.0) * x.square()))


def _judged(folder: Path, name: str, **config: Any) -> Verdict:
    dumps: list[Path] = []
    for side, wrong in (("npu", name), ("bench", None)):
        torch.manual_seed(4)
        model = Model()
        data = torch.randn(6, 16, generator=torch.Generator().manual_seed(5))
        with fault(wrong):
            data = data * planted("other_data", 1.0, 1.5)
            model.experts.values.weight.requires_grad_(planted("frozen", True, False))
            record(folder / side, lambda: model(data).square().mean().backward(), model, **config)  # noqa: B023
        dumps.append(folder / side / "dump")
    return judged(dumps[0], dumps[1], folder / "out")


def test_what_is_made_outside_of_modules_is_said_to_be(tmp_path: Path) -> None:
    verdict = _judged(tmp_path, "moved", level="L0")
    assert verdict.suspects[0].node == "Module.norm.LayerNorm.forward.0"
    assert verdict.sentence.startswith("What runs before Module.norm.LayerNorm.forward.0 (")
    assert "a dump of modules alone does not show" in verdict.sentence
    assert "behind Module.experts.Experts.forward.0 and outside of all modules" in verdict.sentence
    assert verdict.suspects[0].cause == "unrecorded"
    # Whoever reads the JSON must not take what shows the fault for what has made it.
    first = verdict_json(verdict, None)["suspects"][0]
    assert (first["node"], first["fault"]) == ("Module.norm.LayerNorm.forward.0", "before")
    others = verdict_json(_judged(tmp_path / "data", "other_data", level="L0"), None)["suspects"]
    assert (others[0]["node"], others[0]["fault"]) == ("Module.experts.Experts.forward.0", "in")
