"""Everything here with tensors of an NVIDIA device; left out where there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from msprobe_operators import (
    CompareWithCPU,
    NanInfTracker,
    OperatorFailedError,
    PerturbOperators,
    close_module_tracker,
    compare_for_single_op,
    open_module_tracker,
)
from msprobe_operators.command import main
from tests.operators.models import MODELS
from tests.operators.test_live import wrong_silu, wrong_silu_backward
from tests.operators.test_planted import recorded

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA device")

MODES: dict[str, Callable[[], Any]] = {
    "cpu": lambda: CompareWithCPU(verbose=False),
    "float64": lambda: CompareWithCPU(verbose=False, reference="float64"),
    "nan": NanInfTracker,
    "noise": PerturbOperators,
    "precision": lambda: PerturbOperators("precision"),
}


@pytest.fixture(autouse=True)
def deterministic(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The same numbers in every run, so that a change by a mode shows."""
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    was = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = was
    torch.use_deterministic_algorithms(False)


@contextmanager
def kernel(name: str, function: Callable[..., Any]) -> Iterator[None]:
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl(name, function, "CUDA")
        yield
    finally:
        library._destroy()


def train(
    name: str, mode: Any = None, dtype: torch.dtype = torch.float32, steps: int = 2
) -> list[Tensor]:
    """Losses, parameters, gradients and the random states of a training on the device."""
    make, give = MODELS[name]
    torch.manual_seed(1)
    model = make().to("cuda", dtype)
    data = give().cuda()
    data = data.to(dtype) if data.is_floating_point() else data
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, eps=1e-4)
    open_module_tracker(model)
    losses = []
    try:
        with mode or nullcontext():
            for _ in range(steps):
                logits = model(data).reshape(-1, 50).float()
                loss = functional.cross_entropy(logits, torch.arange(len(logits)).cuda() % 50)
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                losses.append(loss.detach().clone())
    finally:
        close_module_tracker(model)
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    states = [torch.get_rng_state(), torch.cuda.get_rng_state()]
    return [*losses, *(p.detach().clone() for p in model.parameters()), *gradients, *states]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("mode", MODES)
def test_training_does_not_notice(name: str, mode: str) -> None:
    plain, again = train(name), train(name)
    if not all(torch.equal(one, other) for one, other in zip(plain, again, strict=True)):
        pytest.skip("two plain runs differ already")
    watched = train(name, MODES[mode]())
    assert all(torch.equal(one, other) for one, other in zip(plain, watched, strict=True))


@pytest.mark.parametrize("reference", ["cpu", "float64"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", MODELS)
def test_right_operators_are_not_accused(name: str, dtype: torch.dtype, reference: str) -> None:
    mode = CompareWithCPU(verbose=False, reference=reference)
    train(name, mode, dtype, steps=1)
    assert [row.sentence for row in mode.results.failures] == []
    assert sum(row.passed for row in mode.results) > 20
    # The backward pass runs in threads of the engine.
    assert {"forward", "backward"} <= {row.direction for row in mode.results if row.passed}


@pytest.mark.parametrize("reference", ["cpu", "float64"])
@pytest.mark.parametrize(
    ("operator", "function", "direction"),
    [("silu", wrong_silu, "forward"), ("silu_backward", wrong_silu_backward, "backward")],
)
@pytest.mark.parametrize("name", ["decoder", "mixture"])
def test_a_wrong_kernel_is_found_where_it_is(
    name: str, operator: str, function: Callable[..., Any], direction: str, reference: str
) -> None:
    target = f"torch.ops.aten.{operator}"
    mode = CompareWithCPU(verbose=False, reference=reference, target_list=[target])
    with kernel(operator, function):
        train(name, mode, steps=1)
    assert {(row.operator, row.direction) for row in mode.results.failures} == {(target, direction)}


def test_a_failure_of_the_device_runs_again_there_and_on_the_cpu(tmp_path: Path) -> None:
    mode = CompareWithCPU(verbose=False, dump_error_data=True, output_dir=str(tmp_path))
    with pytest.raises(OperatorFailedError), kernel("silu", wrong_silu), mode:
        functional.silu(torch.linspace(-3, 3, 64, device="cuda"))
    file = tmp_path / "torch.ops.aten.silu_inputs.pkl"
    with kernel("silu", wrong_silu):
        correct, args, _, _ = compare_for_single_op(file, torch.ops.aten.silu, device="cuda")
        assert args[0].is_cuda
        assert not correct
        assert main(["replay", str(file)]) == 0  # the CPU's kernel is right
    # A replay on a device is a new process, which has no kernel of ours.
    assert main(["replay", str(file), "--device", "cuda"]) == 0


def test_a_dump_is_checked_on_the_device(tmp_path: Path) -> None:
    dump = recorded(tmp_path / "dump", "decoder")
    for reference in ("cpu", "float64"):
        out = tmp_path / reference
        command = ["check", str(dump), "-o", str(out), "--reference", reference]
        assert main([*command, "--device", "cuda"]) == 0


def test_fix_keeps_the_better_result_on_the_device() -> None:
    x = torch.linspace(-3, 3, 64, device="cuda")
    for perturbation in ("precision", "cpu"):
        with kernel("silu", wrong_silu), PerturbOperators(perturbation, handler="fix"):
            fixed = functional.silu(x)
        assert fixed.is_cuda
        assert torch.allclose(fixed, x * torch.sigmoid(x), rtol=1e-6)


def test_nan_of_the_device_is_traced_to_where_it_comes_from() -> None:
    mode = NanInfTracker()
    with mode:
        torch.exp(torch.full((3,), 1000.0, device="cuda")) - 1
    assert [row.operator for row in mode.results.failures] == ["torch.ops.aten.exp"]
