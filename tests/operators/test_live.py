"""The modes that look at operators while a model trains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from msprobe_operators import CompareWithCPU, NanInfTracker, PerturbOperators, open_module_tracker
from tests.cases import by_turns, tried_first
from tests.operators.models import MODELS, train

MODES: dict[str, Callable[[], Any]] = {
    "cpu": lambda: CompareWithCPU(reference="cpu", verbose=False),
    "float64": lambda: CompareWithCPU(verbose=False),
    "nan": NanInfTracker,
    "noise": PerturbOperators,
    "order": lambda: PerturbOperators("order"),
    "precision": lambda: PerturbOperators("precision"),
}


@contextmanager
def kernel(name: str, function: Callable[..., Any]) -> Iterator[None]:
    """While it lasts the CPU's kernel of an ATen operator is another one."""
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl(name, function, "CPU")
        yield
    finally:
        library._destroy()


def wrong_silu(x: Tensor) -> Tensor:
    """Off by one in a thousand in float32, right in float64."""
    right = x * torch.sigmoid(x)
    return right * 1.001 if x.dtype is torch.float32 else right


def always_wrong_silu(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x) * 1.001


def wrong_silu_backward(grad: Tensor, x: Tensor) -> Tensor:
    s = torch.sigmoid(x)
    right = grad * s * (1 + x * (1 - s))
    return right * 1.001 if x.dtype is torch.float32 else right


@pytest.mark.parametrize("name", tried_first(MODELS))
@pytest.mark.parametrize("mode", MODES)
def test_training_does_not_notice(name: str, mode: str) -> None:
    plain, watched = train(name), train(name, MODES[mode]())
    assert all(torch.equal(one, other) for one, other in zip(plain, watched, strict=True))


@pytest.mark.parametrize(
    ("name", "dtype"), by_turns(MODELS, [torch.float32, torch.bfloat16, torch.float16])
)
def test_right_operators_are_not_accused(name: str, dtype: torch.dtype) -> None:
    mode = CompareWithCPU(verbose=False)
    train(name, mode, dtype=dtype, steps=1)
    assert [row.sentence for row in mode.results.failures] == []
    assert sum(row.passed for row in mode.results) > 50
    assert {row.direction for row in mode.results if row.passed} == {
        "forward",
        "backward",
        "optimizer",
    }


@pytest.mark.parametrize(
    ("operator", "function", "direction"),
    [
        ("silu", wrong_silu, "forward"),
        ("silu", always_wrong_silu, "forward"),
        ("silu_backward", wrong_silu_backward, "backward"),
    ],
)
def test_a_wrong_kernel_is_found_where_it_is(
    operator: str, function: Callable[..., Any], direction: str
) -> None:
    mode = CompareWithCPU(verbose=False, target_list=[f"torch.ops.aten.{operator}"])
    with kernel(operator, function):
        train("decoder", mode, steps=1)
    found = {(row.operator, row.module, row.direction) for row in mode.results.failures}
    name = f"torch.ops.aten.{operator}"
    assert found == {(name, f"layers.{layer}.1", direction) for layer in (0, 1)}


def test_a_wrong_operator_of_a_library_is_found() -> None:
    library = torch.library.Library("msprobe_test", "DEF")
    library.define("double(Tensor x) -> Tensor")
    library.impl("double", lambda x: x * 2.002, "CPU")
    library.impl("double", lambda x: x * 2, "CompositeExplicitAutograd")
    mode = CompareWithCPU(verbose=False)
    with mode:
        torch.ops.msprobe_test.double(torch.linspace(0, 1, 8))
    library._destroy()
    assert [row.operator for row in mode.results.failures] == ["torch.ops.msprobe_test.double"]


def test_what_is_written_in_place_is_judged_by_what_was_there_before() -> None:
    def wrong_add(x: Tensor, y: Tensor, *, alpha: float = 1) -> Tensor:
        extra = 0.01 if x.dtype is torch.float32 else 0.0
        return x.copy_(torch.sub(x, y, alpha=-alpha) + extra)

    for function, wrong in ((None, []), (wrong_add, ["torch.ops.aten.add_.Tensor"])):
        mode = CompareWithCPU(verbose=False)
        x = torch.linspace(0, 1, 8)
        if function is None:
            with mode:
                x.add_(x)
        else:
            with kernel("add_.Tensor", function), mode:
                x.add_(x)
        assert [row.operator for row in mode.results.failures] == wrong


def test_lists_and_windows_choose_what_is_looked_at(tmp_path: Path) -> None:
    x = torch.ones(4)

    def run(**options: Any) -> tuple[set[str], str]:
        mode = CompareWithCPU(should_log_to_file=True, output_dir=str(tmp_path / "log"), **options)
        with mode:
            for _ in range(3):
                torch.exp(x) * 2
                mode.step()
        text = (tmp_path / "log" / "compare_result.txt").read_text("utf-8")
        return {row.operator for row in mode.results}, text

    both = {"torch.ops.aten.exp", "torch.ops.aten.mul.Tensor"}
    assert run()[0] == both
    found, text = run(target_op=["torch.ops.aten.exp"])
    assert found == {"torch.ops.aten.exp"}
    assert "torch.ops.aten.mul.Tensor(forward) is not in target_list, pass" in text
    assert "torch.ops.aten.exp(forward) succeeds to pass CompareWithCPU test" in text
    found, text = run(white_list=["torch.ops.aten.mul"])
    assert found == {"torch.ops.aten.exp"}
    assert "torch.ops.aten.mul.Tensor(forward) is in white_list, pass" in text
    assert text.count("step = ") == 3
    mode = CompareWithCPU(verbose=False, start_step=1, end_step=2)
    with mode:
        for _ in range(3):
            torch.exp(x)
            mode.step()
    assert [row.passed for row in mode.results] == [1]
    assert run(enabled=False)[0] == set() if (tmp_path / "log").exists() else True
    with pytest.raises(ValueError, match="same list"):
        CompareWithCPU(target_list=["a"], target_op=["b"])


def test_each_signature_is_run_again_once() -> None:
    mode = CompareWithCPU(verbose=False, sample="signature")
    with mode:
        for size in (2, 3, 2, 3):
            torch.exp(torch.ones(size))
    [row] = [row for row in mode.results if row.operator.endswith("exp")]
    assert row.passed == 2


def test_nan_is_traced_to_where_it_comes_from() -> None:
    class Overflowing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.nan_to_num(torch.exp(x * 1000.0) - 1)

    model = Overflowing()
    open_module_tracker(model)
    mode = NanInfTracker()
    with mode:
        model(torch.ones(3))
    assert [(row.operator, row.classes) for row in mode.results.failures] == [
        ("torch.ops.aten.exp", "Overflowing")
    ]
    handed = {row.operator for row in mode.results if row.passed}
    assert handed == {"torch.ops.aten.sub.Tensor"}  # its result is infinite like its operand


def test_a_call_that_blows_rounding_up_is_named() -> None:
    mode = PerturbOperators("noise")
    with mode:
        torch.sub(torch.tensor([1.0 + 2**-20]), torch.tensor([1.0]))
        torch.add(torch.tensor([1.0]), torch.tensor([1.0]))
    assert [row.operator for row in mode.results.failures] == ["torch.ops.aten.sub.Tensor"]


def test_fix_goes_on_with_the_better_result() -> None:
    x = torch.linspace(-3, 3, 64)
    with kernel("silu", wrong_silu), PerturbOperators("precision", handler="fix"):
        fixed = nn.functional.silu(x)
    assert torch.allclose(fixed, x * torch.sigmoid(x), rtol=1e-6)
    with pytest.raises(ValueError, match="better result"):
        PerturbOperators("noise", handler="fix")
