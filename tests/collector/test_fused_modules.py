"""Modules that take a fused path in evaluation take it while they are recorded, too."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

from msprobe_collector import PrecisionDebugger
from tests.collector.recording import record

X = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(5))
PADDING = torch.tensor([[False, False, False, True, True], [False] * 5])


class Wrapped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(16, 3)

    def forward(self, x: torch.Tensor, padding: torch.Tensor | None) -> torch.Tensor:
        return self.head(self.encoder(x, src_key_padding_mask=padding))


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("padding", [None, PADDING], ids=["whole", "padded"])
def test_evaluation_computes_what_it_computes_without_us(
    padding: torch.Tensor | None, level: str, tmp_path: Path
) -> None:
    model = Wrapped().eval()
    seen: list[torch.Tensor] = []
    with torch.no_grad():
        plain = model(X, padding)
        bare = model.encoder(X, src_key_padding_mask=padding)
        dump = record(tmp_path / "a", lambda: seen.append(model(X, padding)), model, level=level)
        debugger = PrecisionDebugger(dump_path=tmp_path / "b", level=level)
        with debugger.start(model.encoder):
            seen.append(model.encoder(X, src_key_padding_mask=padding))
    assert torch.equal(seen[0], plain)
    assert torch.equal(seen[1], bare)
    if level != "L1":
        record_of = dump.data["Module.encoder.TransformerEncoder.forward.0"]
        assert record_of["output"][0]["Max"] == pytest.approx(bare.max().item())
        assert not dump.names("Module.encoder.layers")
    if level != "L0":
        assert "Torch.TransformerEncoder.0.forward" in dump.data
        assert not dump.names("Functional.multi_head")


def test_training_is_seen_to_the_bottom_and_nothing_stays(tmp_path: Path) -> None:
    model = Wrapped()
    copies: list[nn.Module] = []

    def step() -> None:
        model(X, None).sum().backward()
        copies.append(copy.deepcopy(model))

    dump = record(tmp_path, step, model)
    name = "Module.encoder.layers.1.self_attn.MultiheadAttention.forward.0"
    assert dump.parents[name] == "Module.encoder.layers.1.TransformerEncoderLayer.forward.0"
    assert name in dump.data
    assert not [module for module in model.modules() if "forward" in vars(module)]
    with torch.no_grad():
        for parameter in copies[0].parameters():
            parameter.zero_()
        assert copies[0](X, None).abs().max() == 0
