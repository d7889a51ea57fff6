"""Of two tensors one is zero throughout, as where a layer was never loaded."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from msprobe_builder.command.main import main


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ([0.0] * 4, [1.0, 2.0, 3.0, 4.0], "first layers.1.bias: the first is 0 throughout"),
        ([1.0, 2.0, 3.0, 4.0], [0.0] * 4, "first layers.1.bias: the second is 0 throughout"),
        ([0.0], [1.0], "the first is 0 throughout"),
        ([0.0] * 4, [0.0] * 3 + [1e-3], "the first is 0 throughout"),
        ([0.0] * 4, [float("nan")] * 4, "NaN"),
        ([0.0] * 4, [0.0] * 4, "agree"),
    ],
)
def test_one_side_that_is_zero_is_told(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    first: list[float],
    second: list[float],
    words: str,
) -> None:
    for name, content in (("a", first), ("b", second)):
        torch.save({"layers.1.bias": torch.tensor(content)}, tmp_path / f"{name}.pt")
    main(["checkpoint", f"{tmp_path}/a.pt", f"{tmp_path}/b.pt", "-o", f"{tmp_path}/r.json"])
    assert words in " ".join(capsys.readouterr().out.split())
