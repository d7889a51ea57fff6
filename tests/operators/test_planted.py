"""Kernels that are wrong on purpose, forward and backward, found by every way there is.

The planted kernel of the CPU multiplies the first result of an operator by 1.001 in float32; the
composition of other operators that torch has for it gives the right one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._decomp import decomposition_table
from torch._ops import OpOverload
from torch.nn import functional

from msprobe_collector import PrecisionDebugger
from msprobe_operators import CompareWithCPU, PerturbOperators
from msprobe_operators.command import main
from tests.cases import tried_first
from tests.operators.models import MODELS, train
from tests.operators.test_live import kernel

aten = torch.ops.aten
# Of each model: an operator of the forward pass, what dumps call it, and one of the backward pass.
PLANTED: dict[str, tuple[OpOverload, str, OpOverload]] = {
    "decoder": (aten.silu.default, "Functional.silu", aten.silu_backward.default),
    "mixture": (
        aten._softmax.default, "Functional.softmax", aten._softmax_backward_data.default,
    ),
    "vision": (aten.gelu.default, "Functional.gelu", aten.gelu_backward.default),
    "residual": (
        aten.native_batch_norm.default,
        "Functional.batch_norm",
        aten.threshold_backward.default,
    ),
    "custom": (aten._log_softmax.default, "Functional.cross_entropy", aten.tanh_backward.default),
}  # fmt: skip


def wrong(operator: OpOverload) -> Callable[..., Any]:
    right = decomposition_table[operator]

    def planted(*args: Any, **kwargs: Any) -> Any:
        result = right(*args, **kwargs)
        is_tuple = isinstance(result, tuple)
        first = result[0] if is_tuple else result
        first = first * 1.001 if first.dtype is torch.float32 else first
        return (first, *result[1:]) if is_tuple else first

    return planted


def kernel_name(operator: OpOverload) -> str:
    return str(operator.name()).removeprefix("aten::")


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.parametrize("way", ["live", "perturbed"])
def test_a_running_training_shows_it(way: str, name: str, direction: str) -> None:
    forward, _, backward = PLANTED[name]
    operator = forward if direction == "forward" else backward
    called = str(operator).removesuffix(".default")
    target = [f"torch.ops.{called}"]
    mode: Any = (
        CompareWithCPU(verbose=False, target_list=target)
        if way == "live"
        else PerturbOperators("precision", target_list=target)
    )
    with kernel(kernel_name(operator), wrong(operator)):
        train(name, mode, steps=1)
    found = {(row.operator, row.direction) for row in mode.results.failures}
    assert found == {(target[0], direction)}


def recorded(folder: Path, name: str) -> Path:
    """A dump of real tensors of one step."""
    make, give = MODELS[name]
    torch.manual_seed(1)
    model, data = make().eval(), give()
    debugger = PrecisionDebugger(dump_path=str(folder), task="tensor", level="mix")
    debugger.start(model)
    logits = model(data).reshape(-1, 50)
    functional.cross_entropy(logits, torch.arange(len(logits)) % 50).backward()
    debugger.stop()
    debugger.step()
    debugger.close()
    [path] = folder.rglob("dump.json")
    return path


# What dumps call the operator of the backward pass.
BACKWARD = {
    "decoder": "Functional.silu",
    "mixture": "Functional.softmax",
    "vision": "Functional.gelu",
    "residual": "Functional.relu",
    "custom": "Torch.tanh",
}


@pytest.mark.parametrize("name", tried_first(PLANTED))
def test_a_dump_shows_it_and_one_without_it_shows_nothing(tmp_path: Path, name: str) -> None:
    clean = recorded(tmp_path / "clean", name)
    assert main(["check", str(clean), "-o", str(tmp_path / "clean_out")]) == 0
    forward, called, backward = PLANTED[name]
    for operator, direction, stem in (
        (forward, "forward", called),
        (backward, "backward", BACKWARD[name]),
    ):
        with kernel(kernel_name(operator), wrong(operator)):
            planted = recorded(tmp_path / direction, name)
        out = tmp_path / f"{direction}_out"
        assert main(["check", str(planted), "-o", str(out)]) == 4
        rows = json.loads((out / "operator_check.json").read_text("utf-8"))
        failed = {
            (row["name"].rpartition(".")[0], row["direction"])
            for row in rows
            if row["status"] == "failed"
        }
        assert (stem, direction) in failed
        # Attention has a softmax inside, and a wrong result that is kept for it spoils a backward.
        suspects = (
            {stem, "Functional.scaled_dot_product_attention"} if name == "mixture" else {stem}
        )
        assert {found for found, _ in failed} <= suspects
        assert direction == "forward" or {one for _, one in failed} == {"backward"}


def test_one_call_of_a_dump_is_checked_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = recorded(tmp_path / "dump", "custom")
    command = ["check", str(dump), "-o", str(tmp_path / "out")]
    assert main([*command, "--call", "Torch.tanh.0.forward"]) == 0
    rows = json.loads((tmp_path / "out" / "operator_check.json").read_text("utf-8"))
    assert {row["name"] for row in rows} == {"Torch.tanh.0"}
    assert main([*command, "--call", "Torch.tan"]) == 2
    assert "has no call Torch.tan" in capsys.readouterr().err


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.ops.msprobe_planted.cube(x)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        [x] = ctx.saved_tensors
        return torch.ops.msprobe_planted.cube_backward(grads[0], x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("way", ["live", "perturbed"])
@pytest.mark.parametrize("fault", ["cube", "cube_backward"])
def test_a_wrong_operator_of_a_library_inside_an_autograd_function(way: str, fault: str) -> None:
    library = torch.library.Library("msprobe_planted", "DEF")
    library.define("cube(Tensor x) -> Tensor")
    library.define("cube_backward(Tensor grad, Tensor x) -> Tensor")
    right: dict[str, Callable[..., Tensor]] = {
        "cube": lambda x: x**3,
        "cube_backward": lambda grad, x: 3 * x**2 * grad,
    }
    for name, function in right.items():
        library.impl(name, function, "CompositeExplicitAutograd")

    def planted(*args: Tensor) -> Tensor:
        result: Tensor = right[fault](*args)
        return result * 1.001 if result.dtype is torch.float32 else result

    library.impl(fault, planted, "CPU")
    mode: Any = CompareWithCPU(verbose=False) if way == "live" else PerturbOperators("precision")
    try:
        torch.manual_seed(0)
        first = nn.Linear(8, 8)
        with mode:
            Cube.apply(first(torch.linspace(-1, 1, 32).reshape(4, 8))).sum().backward()
    finally:
        library._destroy()
    assert {row.operator for row in mode.results.failures} == {f"torch.ops.msprobe_planted.{fault}"}
