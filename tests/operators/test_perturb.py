"""Calls of a dump that blow rounding up, found without a benchmark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from msprobe_builder.facts.fact import fact
from msprobe_collector import PrecisionDebugger
from msprobe_operators import PerturbOperators
from msprobe_operators.command import main
from msprobe_operators.report.results import Row


class Cancelling(nn.Module):
    """A product, and the difference of two numbers that are nearly equal."""

    def forward(self, x: Tensor, weight: Tensor) -> Tensor:
        product = torch.matmul(x, weight)
        return torch.sub(product, product.detach() - 1e-6)


def recorded(folder: Path, weight: Tensor, x: Tensor | None = None) -> Path:
    debugger = PrecisionDebugger(dump_path=str(folder), task="tensor", level="mix")
    model = Cancelling()
    x = torch.linspace(1, 2, 64).reshape(4, 16) if x is None else x
    debugger.start(model)
    model(x.requires_grad_(True), weight).sum().backward()
    debugger.stop()
    debugger.step()
    debugger.close()
    [path] = folder.rglob("dump.json")
    return path


def rows(folder: Path) -> dict[tuple[str, str], dict[str, Any]]:
    found = json.loads((folder / "operator_perturb.json").read_text("utf-8"))
    return {(row["name"], row["direction"]): row for row in found}


def test_noise_names_what_cancels_by_its_condition(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = recorded(tmp_path / "dump", torch.linspace(0.5, 1, 16).reshape(16, 1))
    assert main(["perturb", str(dump), "-o", str(tmp_path / "out")]) == 0
    found = rows(tmp_path / "out")
    difference = found["Torch.sub.0", "forward"]
    assert difference["status"] == "amplifies"
    # (a - b) with a = b + 1e-6 and a about 20: the condition number is (|a| + |b|) / |a - b|.
    assert 1e6 < difference["growth"] < 1e8
    for direction in ("forward", "backward"):
        assert found["Torch.matmul.0", direction]["status"] == "steady"
        assert 0 < found["Torch.matmul.0", direction]["growth"] < 4
    assert "Torch.sub.0.forward blows rounding up" in capsys.readouterr().out
    command = ["perturb", str(dump), "-o", str(tmp_path / "all"), "--amplification", "1e-9"]
    assert main([*command, "--call", "Torch.matmul"]) == 0
    assert {row["status"] for row in rows(tmp_path / "all").values()} == {"amplifies"}


def test_another_order_names_sums_that_depend_on_it(tmp_path: Path) -> None:
    huge = torch.ones(16, 1)
    huge[0], huge[1] = 1e12, -1e12  # what is added between the two is lost
    for weight, status in ((torch.ones(16, 1), "steady"), (huge, "amplifies")):
        folder = tmp_path / status
        dump = recorded(folder / "dump", weight, torch.ones(4, 16))
        assert main(["perturb", str(dump), "--by", "order", "-o", str(folder)]) == 0
        found = rows(folder)
        assert found["Torch.matmul.0", "forward"]["status"] == status
        difference = found["Torch.sub.0", "forward"]
        assert difference["reason"] == "it has no sums whose order can be reversed"


def test_wrong_use_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = recorded(tmp_path / "dump", torch.ones(16, 1))
    capsys.readouterr()
    for options in (["--amplification", "0"], ["--amplification", "nan"], ["--call", "Torch.no"]):
        assert main(["perturb", str(dump), *options]) == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("perturbation", "far_apart", "words"),
    [
        ("noise", False, "aten.sub"),
        ("order", True, "aten.mm"),
    ],
)
def test_rounding_that_grows_in_training_is_called_no_fault(
    perturbation: str, far_apart: bool, words: str
) -> None:
    weight = torch.ones(16, 1)
    if far_apart:
        weight[0], weight[1] = 1e12, -1e12
    with PerturbOperators(perturbation) as found:
        Cancelling()(torch.ones(4, 16), weight)
    [said] = [row.sentence for row in found.results.failures]
    assert words in said
    assert "makes more of rounding" in said
    assert "is wrong" not in said


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize(("failed", "passed"), [(1, 0), (1, 4), (3, 2)])
def test_a_kernel_that_is_wrong_is_still_called_wrong(
    direction: str, failed: int, passed: int
) -> None:
    row = Row(
        "mm", "", "", direction, passed=passed, failed=failed, reason=fact("operator.no_values")
    )
    assert f"is wrong in {failed} of {failed + passed} calls" in row.sentence
    assert "makes more of rounding" not in row.sentence
