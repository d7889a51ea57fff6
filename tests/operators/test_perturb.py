"""Calls of a dump that blow rounding up, found without a benchmark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from msprobe_builder.facts.fact import fact
from msprobe_collector import PrecisionDebugger
from msprobe_operators import CompareWithCPU, NanInfTracker, PerturbOperators
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


def test_where_no_call_could_be_run_the_status_says_so(tmp_path: Path) -> None:
    dump = recorded(tmp_path / "dump", torch.ones(16, 1))
    content = json.loads(dump.read_text("utf-8"))
    [call] = [name for name in content["data"] if name == "Torch.matmul.0.forward"]
    content["data"] = {"Aten.from_file.0.forward": content["data"][call]}
    dump.write_text(json.dumps(content), "utf-8")
    assert main(["perturb", str(dump)]) == 1
    assert main(["check", str(dump), "-o", str(tmp_path / "out")]) == 1


def test_wrong_use_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dump = recorded(tmp_path / "dump", torch.ones(16, 1))
    capsys.readouterr()
    for options in (["--amplification", "0"], ["--amplification", "nan"], ["--call", "Torch.no"]):
        assert main(["perturb", str(dump), *options]) == 2
        assert capsys.readouterr().err.count("\n") == 1


FAR_APART = torch.ones(16)
FAR_APART[0], FAR_APART[1] = 1e12, -1e12  # what is added between the two is lost


def asin_of_nearly_one() -> None:
    torch.asin(torch.full((4,), 1 - 1e-6, requires_grad=True)).sum().backward()


GROWING: dict[str, tuple[str, str, Callable[[], Any]]] = {
    "difference": ("noise", "sub.Tensor", lambda: torch.ones(4) + 1e-6 - torch.ones(4)),
    "zero": ("noise", "sub.Tensor", lambda: torch.ones(4) - torch.ones(4)),
    "logarithm near one": ("noise", "log", lambda: torch.log(torch.full((4,), 1 + 1e-6))),
    "angle": ("noise", "sin", lambda: torch.sin(torch.full((4,), 1e5))),
    "inverse": (
        "noise",
        "linalg_inv_ex",
        lambda: torch.linalg.inv(torch.tensor([[1.0, 1.0], [1.0, 1.00001]])),
    ),
    "variance": ("noise", "var.correction", lambda: torch.linspace(1e3, 1e3 + 0.01, 8).var()),
    "complex": (
        "noise",
        "sub.Tensor",
        lambda: torch.sub(torch.full((4,), 1 + 1j) + 1e-6, torch.full((4,), 1 + 1j)),
    ),
    "backward": ("noise", "backward", asin_of_nearly_one),
    "product": ("order", "mm", lambda: torch.ones(4, 16) @ FAR_APART.reshape(16, 1)),
    "sum": ("order", "sum", lambda: FAR_APART.sum()),
    "mean": ("order", "mean", lambda: FAR_APART.mean()),
    "batch": ("order", "bmm", lambda: FAR_APART.reshape(1, 1, 16) @ torch.ones(1, 16, 1)),
}


@pytest.mark.parametrize("name", GROWING)
def test_rounding_that_grows_in_training_is_called_no_fault(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    perturbation, words, call = GROWING[name]
    with PerturbOperators(perturbation) as found:
        call()
    said = [row.sentence for row in found.results.failures]
    assert any(words in one for one in said)
    assert all("makes more of rounding" in one and "need be no fault" in one for one in said)
    assert all("inf " not in one for one in [*said, capsys.readouterr().out])


@pytest.mark.parametrize(
    ("mode", "call", "said"),
    [
        (PerturbOperators, torch.exp, "keeps rounding small in all 1 calls"),
        (lambda: PerturbOperators("order"), torch.sum, "keeps rounding small in all 1 calls"),
        (lambda: PerturbOperators("precision"), torch.exp, "is right to rounding in all 1 calls"),
        (lambda: PerturbOperators("cpu"), torch.exp, "is right to rounding in all 1 calls"),
        (CompareWithCPU, torch.exp, "is right to rounding in all 1 calls"),
        (NanInfTracker, lambda x: torch.log(x - 2), "makes NaN or infinity of finite operands"),
        (NanInfTracker, lambda x: torch.log(x - 2) + 1, "hands on the NaN or infinity it is given"),
    ],
)
def test_a_call_is_right_only_where_its_result_was_looked_at(
    mode: Callable[[], Any], call: Callable[[Tensor], Tensor], said: str
) -> None:
    with mode() as found:
        call(torch.ones(4))
    sentences = [row.sentence for row in found.results if row.passed or row.failed]
    assert said in sentences[-1]
    assert not any("is wrong" in one for one in sentences)
    assert said.startswith("is right") or not any("is right" in one for one in sentences)


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
