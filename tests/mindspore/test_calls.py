"""Which calls are seen, under which names, and that nothing is left behind."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mindspore", reason="MindSpore is not installed: make test-mindspore")

import mindspore
from mindspore import Tensor, mint, nn, ops
from mindspore.mint import exp
from mindspore.mint.nn.functional import relu
from mindspore.ops import primitive

from msprobe_collector.errors import CollectorError
from msprobe_collector.mindspore import PrecisionDebugger
from msprobe_collector.mindspore.names import public_functions, tensor_methods
from tests.mindspore.recording import gradients, read_step, record
from tests.mindspore.test_values import Small, X
from tests.mindspore.twins import cnn, llama, micro_batches

KEPT = {"square": mint.square}


class Nested(nn.Cell):
    """A call and a Cell behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.tail = mint.nn.ReLU()

    def construct(self, x: Tensor) -> Tensor:
        return self.tail(mint.tanh(x))


def filled(number: float) -> Tensor:
    return Tensor(np.full((1, 2), number, np.float32))


def names_of(folder: Path, run: Any) -> list[str]:
    return list(record(folder, None, run, level="L1").data)


def test_calls_are_named_as_they_are_written(tmp_path: Path) -> None:
    x = Tensor(X)
    absolute = ops.Abs()

    def run() -> None:
        mint.cos(x)
        ops.cos(x)
        mint.nn.functional.silu(x)
        x.sum()
        x + 1
        2 - x
        x[0, 1:]
        x @ x.T
        absolute(x)
        x.shape  # noqa: B018 - no call of interest
        x.asnumpy()

    assert names_of(tmp_path / "d", run) == [
        "Mint.cos.0.forward",
        "Functional.cos.0.forward",
        "MintFunctional.silu.0.forward",
        "Tensor.sum.0.forward",
        "Tensor.__add__.0.forward",
        "Tensor.__rsub__.0.forward",
        "Tensor.__getitem__.0.forward",
        "Tensor.permute.0.forward",
        "Tensor.__matmul__.0.forward",
        "Primitive.Abs.Abs.0.forward",
    ]


def test_names_bound_before_the_window_do_not_escape(tmp_path: Path) -> None:
    x = Tensor(X)
    found = names_of(tmp_path / "d", lambda: (exp(x), relu(x), KEPT["square"](x)))
    assert [name.split(".")[1] for name in found] == ["exp", "relu", "square"]


def test_what_a_call_makes_itself_is_part_of_it(tmp_path: Path) -> None:
    labels = Tensor(np.array([1, 0], np.int32))
    found = names_of(tmp_path / "d", lambda: ops.cross_entropy(Tensor(X), labels))
    assert found == ["Functional.cross_entropy.0.forward"]


def test_nothing_stays_installed(tmp_path: Path) -> None:
    def installed() -> tuple[Any, ...]:
        functions = [function.__code__ for function in public_functions()]
        methods = [mindspore.Tensor.__dict__.get(name) for name, _ in tensor_methods()]
        return (
            functions,
            methods,
            nn.Cell.__call__.__code__,
            primitive.Primitive.__call__.__code__,
        )

    before = installed()
    model = Small()
    run = gradients(lambda x: model(x).sum(), model.trainable_params())
    record(tmp_path / "d", model, lambda: run(Tensor(X)))
    assert installed() == before
    assert not model.a._forward_hook
    assert not model.a._backward_hook


@pytest.mark.parametrize(
    ("make", "level", "task"),
    [
        (llama, "mix", "tensor"),
        (cnn, "mix", "statistics"),
        (cnn, "mix", "structure"),
        (cnn, "L0", "statistics"),
        (cnn, "L1", "md5"),
    ],
)
def test_the_training_is_unchanged_bit_for_bit(
    tmp_path: Path, make: Any, level: str, task: str
) -> None:
    """The optimizer, which MindSpore compiles, runs within the window."""

    def train(debugger: Any) -> list[bytes]:
        model = make()
        weights = model.trainable_params()
        run = gradients(model, weights)
        optimizer = nn.Momentum(weights, 0.1, 0.9)
        seen = []
        for x, y in micro_batches(model):
            if debugger is not None:
                debugger.start(model)
            loss, found = run(x, y)
            optimizer(found)
            if debugger is not None:
                debugger.stop()
                debugger.step()
            seen += [tensor.asnumpy().tobytes() for tensor in (loss, *found)]
        return seen + [weight.asnumpy().tobytes() for weight in model.get_parameters()]

    alone = train(None)
    assert alone == train(None)
    debugger = PrecisionDebugger(dump_path=tmp_path, level=level, task=task)
    assert train(debugger) == alone
    assert (tmp_path / "step1" / "rank" / "dump.json").exists()


def test_cells_stand_below_those_that_call_them(tmp_path: Path) -> None:
    """Also where the input holds integers, which have no gradient."""
    model = llama()
    run = gradients(model, model.trainable_params())
    x, y = next(micro_batches(model))
    step = record(tmp_path / "d", model, lambda: run(x, y))
    embedding = "Cell.model.embed_tokens.Embedding"
    for direction in ("forward", "backward"):
        assert step.parents[f"{embedding}.{direction}.0"] == f"Cell.model.Model.{direction}.0"
        call = f"Primitive.gather.Gather.0.{direction}"
        assert step.parents[call] == f"{embedding}.{direction}.0"
    assert "twins.py" in step.stacks["Mint.mul.4.forward"][0]
    assert "mint.mul(" in step.stacks["Mint.mul.4.forward"][0]
    lines = step.stacks["Mint.mul.4.forward"]
    assert not [line for line in lines if "msprobe_collector" in line or "<recorded>" in line]


class Recomputed(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.small = Small()
        self.small.recompute()

    def construct(self, x: Any) -> Any:
        return self.small(x)


def test_what_is_recomputed_is_recorded_below_its_backward(tmp_path: Path) -> None:
    model = Recomputed()
    run = gradients(lambda x: model(x).sum(), model.trainable_params())
    right = [g.asnumpy() for g in run(Tensor(X))[1]]
    found: list[Any] = []
    step = record(tmp_path / "d", model, lambda: found.extend(run(Tensor(X))[1]))
    for gradient, expected in zip(found, right, strict=True):
        np.testing.assert_array_equal(gradient.asnumpy(), expected)
    again = "Cell.small.a.Dense.forward.1"
    assert step.data[again]["is_recompute"] is True
    assert step.parents[again] == "Cell.small.Small.backward.0"
    assert step.data["Cell.small.a.Dense.forward.0"]["is_recompute"] is False
    assert "Cell.small.a.Dense.backward.1" in step.data
    assert not [name for name in step.data if "Recompute" in name or "StopGradient" in name]


class Part(nn.Cell):
    def construct(self, x: Any) -> Any:
        raise KeyError(str(mint.exp(x).shape))


class Raising(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.part = Part()

    def construct(self, x: Any) -> Any:
        with contextlib.suppress(KeyError):
            self.part(x)
        return mint.neg(x)


def test_an_exception_closes_the_cells_it_passes(tmp_path: Path) -> None:
    model = Raising()
    step = record(tmp_path / "d", [model], lambda: model(Tensor(X)))
    part = "Cell.0.part.Part.forward.0"
    assert step.parents["Mint.exp.0.forward"] == part
    assert step.data[part]["output"] == []
    assert step.parents["Mint.neg.0.forward"] is None


def test_list_selects_calls(tmp_path: Path) -> None:
    model = Small()
    run = gradients(lambda x: model(x).sum(), model.trainable_params())
    step = record(tmp_path / "d", model, lambda: run(Tensor(X)), list=["tanh"])
    assert list(step.data) == ["Mint.tanh.0.forward", "Mint.tanh.0.backward"]


def test_an_overflow_is_found_where_it_begins(tmp_path: Path) -> None:
    large = Tensor(np.full((2, 2), 60000.0, np.float16))

    def run() -> None:
        twice = large * 2
        mint.neg(twice)

    step = record(tmp_path / "d", None, run, level="L1", task="overflow_check")
    assert list(step.data) == ["Tensor.__mul__.0.forward"]


def test_graph_mode_is_refused_with_a_remedy(tmp_path: Path) -> None:
    debugger = PrecisionDebugger(dump_path=tmp_path, level="L1")
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    with pytest.raises(CollectorError, match="set_context"):
        debugger.start()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"watch": "dump"}, "watch follows PyTorch only"),
        ({"inside_compiled": True}, "inside_compiled is for PyTorch only"),
        ({"enable_dataloader": True}, "enable_dataloader follows PyTorch only"),
        ({"statistics": {"flow": True}}, "flow follows PyTorch only"),
        ({"level": "mix"}, "call start"),
        ({}, r"nn\.Cell"),
    ],
)
def test_what_cannot_be_recorded_is_refused(tmp_path: Path, keys: Any, said: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"dump_path": str(tmp_path), **keys}))
    with pytest.raises(CollectorError, match=said):
        PrecisionDebugger(tmp_path / "config.json").start(3 if not keys else None)


def test_torch_is_not_needed(tmp_path: Path) -> None:
    """Nor touched where it is installed: the collector for MindSpore does not import it."""
    program = """
import sys, numpy, mindspore
from msprobe_collector.mindspore import PrecisionDebugger
mindspore.set_device("CPU")
mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
debugger = PrecisionDebugger(dump_path=sys.argv[1], level="L1")
debugger.start()
mindspore.mint.neg(mindspore.Tensor(numpy.ones(2, numpy.float32)))
debugger.stop()
debugger.step()
print("torch" in sys.modules)
"""
    run = [sys.executable, "-c", program, str(tmp_path)]
    answer = subprocess.run(run, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False"]
    assert "Mint.neg.0.forward" in read_step(tmp_path / "step0" / "rank").data


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_a_token_range_counts_calls_of_the_model(tmp_path: Path, level: str) -> None:
    model = Nested()
    plain = [model(filled(token)).asnumpy() for token in range(5)]
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level=level)
    debugger.start(model, token_range=[1, 2])
    watched = [model(filled(token)).asnumpy() for token in range(5)]
    debugger.stop()
    model(filled(9))
    debugger.step()
    debugger.close()
    assert all(np.array_equal(*pair) for pair in zip(plain, watched, strict=True))
    step = read_step(tmp_path / "step0" / "rank")
    first = [call["input_args"][0]["Max"] for name, call in step.data.items() if "tail" in name]
    calls = [call["input_args"][0]["Max"] for name, call in step.data.items() if "tanh" in name]
    expected = [float(np.tanh(token)) for token in (1, 2)]
    assert level == "L1" or np.allclose(first, expected)
    assert level == "L0" or calls == [1.0, 2.0]
    for lines in step.stacks.values():
        assert any("test_calls.py" in line for line in lines)
        assert not any("msprobe_collector" in line for line in lines)


@pytest.mark.parametrize("wrong", [[2, 1], [-1, 2], [1], "12", [True, 2]])
def test_a_wrong_token_range_is_refused(wrong: Any, tmp_path: Path) -> None:
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="mix")
    with pytest.raises(CollectorError, match="token_range"):
        debugger.start(Nested(), token_range=wrong)


def test_a_function_of_ones_own_can_be_registered(tmp_path: Path) -> None:
    kernels = types.ModuleType("company.kernels")

    def fused(x: Tensor) -> Tensor:
        return ops.relu(x) * 2

    kernels.fused = fused  # type: ignore[attr-defined]
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="L1")
    debugger.register_custom_api(kernels, "fused")
    debugger.register_custom_api(kernels, "fused")
    debugger.start()
    mindspore.grad(lambda x: kernels.fused(x).sum())(filled(1))
    debugger.stop()
    debugger.restore_custom_api(kernels, "fused")
    assert kernels.fused is fused
    with pytest.raises(CollectorError, match="was not registered"):
        debugger.restore_custom_api(kernels, "fused")
    with pytest.raises(CollectorError, match="has no function 'none'"):
        debugger.register_custom_api(kernels, "none")
    debugger.register_custom_api(kernels, "fused", "Ours")
    debugger.start()
    kernels.fused(filled(1))
    debugger.stop()
    kernels.fused(filled(1))
    debugger.step()
    debugger.close()
    assert kernels.fused is fused
    data = read_step(tmp_path / "step0" / "rank").data
    assert data["kernels.fused.0.backward"]["output"][0]["Max"] == 2
    assert "Ours.fused.0.forward" in data
    assert "Ours.fused.1.forward" not in data
    assert not [name for name in data if "relu" in name]
