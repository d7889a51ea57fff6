"""Which calls are seen, what they are called and where they stand."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import functools
import json
import linecache
import math
import operator
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from tests.collector.models import MODELS, Decoder, ResNet, loss_of
from tests.collector.recording import record

BATCH = torch.tensor([[1, 2, 3, 4]])


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(_ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return gradients[0] * 2


x = torch.rand(3, 3)
y = torch.rand(3, 3)
image = torch.rand(1, 1, 4, 4)
scale = 3.0
CALLS: dict[str, Callable[[], object]] = {
    "Tensor.__add__": lambda: x + y,
    "Tensor.add": lambda: x.add(y),
    "Torch.add": lambda: torch.add(x, y),
    "Tensor.__radd__": lambda: 1 + x,
    "Tensor.__rmul__": lambda: 2 * (x),
    "Tensor.__mul__": lambda: x * scale,
    "Tensor.__rsub__": lambda: 1 - x,
    "Tensor.__sub__": lambda: x - 1,
    "Tensor.__truediv__": lambda: x / y,
    "Tensor.reciprocal": lambda: 1 / x,
    "Tensor.__matmul__": lambda: x @ y,
    "Torch.matmul": lambda: torch.matmul(x, y),
    "Torch.mm": lambda: torch.mm(x, y),
    "Tensor.__neg__": lambda: -x,
    "Tensor.__pow__": lambda: x**2,
    "Tensor.pow": lambda: x.pow(2),
    "Tensor.__rpow__": lambda: 2**x,
    "Tensor.__gt__": lambda: x > y,
    "Tensor.__eq__": lambda: x == y,
    "Tensor.__getitem__": lambda: x[0],
    "Tensor.T": lambda: x.T,
    "Tensor.item": lambda: x[0, 0].item(),
    "Tensor.clone": lambda: x.clone(),
    "Tensor.contiguous": lambda: x.contiguous(),
    "Tensor.float": lambda: x.float(),
    "Torch.arange": lambda: torch.arange(3),
    "Torch.meshgrid": lambda: torch.meshgrid(x[0], y[0], indexing="ij"),
    "Torch.einsum": lambda: torch.einsum("ij->ji", x),
    "Torch.det": lambda: torch.linalg.det(x),
    "Torch.norm": lambda: torch.norm(x),
    "Torch.fft_fft": lambda: torch.fft.fft(x),
    "Torch.special_expit": lambda: torch.special.expit(x),
    "Functional.linear": lambda: F.linear(x, y),
    "Functional.relu": lambda: F.relu(x),
    "Torch.relu": lambda: torch.relu(x),
    "Functional.gelu": lambda: F.gelu(x),
    "Functional.softmax": lambda: F.softmax(x, dim=0),
    "Functional.rms_norm": lambda: F.rms_norm(x, (3,)),
    "Functional.conv2d": lambda: F.conv2d(image, image),
    "Functional.max_pool2d": lambda: F.max_pool2d(image, 2),
    "Functional.pad": lambda: F.pad(x, (1, 1)),
    "Functional.scaled_dot_product_attention": lambda: F.scaled_dot_product_attention(
        image, image, image
    ),
    "VF.gru": lambda: nn.GRU(3, 3)(x),
    "Torch.Doubled": lambda: Doubled.apply(x),
    "Aten.add": lambda: torch.ops.aten.add(x, y),
}


@pytest.mark.parametrize("label", CALLS)
def test_every_kind_of_call_has_its_name(label: str, tmp_path: Path) -> None:
    dump = record(tmp_path, CALLS[label], level="L1")
    assert f"{label}.0.forward" in dump.data


def through(value: Any) -> Any:
    return value


REFLECTED: dict[str, tuple[Callable[[], object], list[str]]] = {
    "a computed number": (lambda: math.sqrt(2.0) * x, ["Tensor.__rmul__"]),
    "two computed operands": (lambda: through(2) * through(x), ["Tensor.__rmul__"]),
    "the built-in sum": (lambda: sum([x, x]), ["Tensor.__radd__", "Tensor.__add__"]),
    "the operator module": (lambda: operator.mul(x, y), ["Tensor.__mul__"]),
    "a fold": (lambda: functools.reduce(operator.add, [x, y]), ["Tensor.__add__"]),
    "a comparison from the right": (lambda: through(2) > x, ["Tensor.__lt__"]),
    "in place": (lambda: operator.itruediv(x.clone(), 2), ["Tensor.clone", "Tensor.__itruediv__"]),
    "methods inside": (
        lambda: x.add(1) + x.mul(2),
        ["Tensor.add", "Tensor.mul", "Tensor.__add__"],
    ),
}


@pytest.mark.parametrize("case", REFLECTED)
def test_an_operator_has_the_name_of_the_method_that_python_called(
    case: str, tmp_path: Path
) -> None:
    run, wanted = REFLECTED[case]
    dump = record(tmp_path, run, level="L1")
    assert [name.removesuffix(".0.forward") for name in dump.data] == wanted


def test_operators_of_torch_npu_are_seen(tmp_path: Path) -> None:
    library = torch.library.Library("npu", "DEF")
    library.define("npu_swiglu(Tensor x) -> Tensor")
    library.impl("npu_swiglu", lambda x: x * 2, "CompositeImplicitAutograd")
    try:
        dump = record(tmp_path, lambda: torch.ops.npu.npu_swiglu(x), level="L1")
    finally:
        library._destroy()
    assert "NPU.npu_swiglu.0.forward" in dump.data


def test_queries_are_not_calls(tmp_path: Path) -> None:
    def step() -> None:
        assert (x.shape, x.dim(), len(x)) == (x.size(), 2, 3)
        assert (x.device.type, x.dtype, x.requires_grad) == ("cpu", torch.float32, False)
        assert x.is_contiguous()
        with torch.no_grad():
            torch.sum(x)

    assert record(tmp_path, step, level="L1").names() == ["Torch.sum.0.forward"]


@pytest.mark.parametrize("modes", [0, 1, 2])
def test_arguments_are_recorded_as_they_were_written(modes: int, tmp_path: Path) -> None:
    weight = torch.ones(3)
    options: dict[str, Any] = {"eps": 1e-3}

    def step() -> None:
        F.layer_norm(x, (3,), weight, None, 1e-4)
        F.layer_norm(x, normalized_shape=(3,), weight=weight)
        F.layer_norm(
            x,
            (3,),
            eps=float(max(1e-2, 1e-3)),
        )
        F.layer_norm(x, (3,), **options)
        x.split(2, dim=1)

    def shown(name: str) -> tuple[list[Any], dict[str, Any]]:
        entry = dump.data[f"{name}.forward"]
        positional = [
            item.get("value", "tensor") if isinstance(item, dict) else item
            for item in entry["input_args"]
        ]
        named = {
            key: item.get("value", "tensor") if isinstance(item, dict) else item
            for key, item in entry["input_kwargs"].items()
        }
        return positional, named

    def below_modes() -> None:
        """As in a program that names a default device, which hands each call on."""
        with ExitStack() as opened:
            for _ in range(modes):
                opened.enter_context(torch.device("cpu"))
            step()

    dump = record(tmp_path, below_modes, level="L1")
    shape = [{"type": "int", "value": 3}]
    norm = "Functional.layer_norm"
    assert shown(f"{norm}.0") == (["tensor", shape, "tensor", None, 1e-4], {})
    assert shown(f"{norm}.1") == (["tensor"], {"normalized_shape": shape, "weight": "tensor"})
    assert shown(f"{norm}.2") == (["tensor", shape], {"eps": 1e-2})
    assert shown(f"{norm}.3") == (["tensor", shape], {"eps": 1e-3})
    assert shown("Tensor.split.0") == (["tensor", 2], {"dim": 1})


def test_a_custom_function_has_a_backward(tmp_path: Path) -> None:
    z = torch.ones(2, requires_grad=True)
    dump = record(tmp_path, lambda: Doubled.apply(z).sum().backward(), level="L1")
    entry = dump.data["Torch.Doubled.0.backward"]
    assert (entry["input"][0]["Max"], entry["output"][0]["Max"]) == (1, 2)


def test_execution_order_and_hierarchy(tmp_path: Path) -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln = nn.LayerNorm(4)
            self.fc = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.fc(self.ln(x))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.emb = nn.Embedding(5, 4)
            self.block = Block()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.block(self.emb(x)).sum()

    net = Net()
    indices = torch.tensor([1, 2])
    dump = record(tmp_path, lambda: net(indices).backward(), net)
    block = "Module.block.Block.forward.0"
    back = "Module.block.Block.backward.0"
    assert {name: parent for name, parent in dump.parents.items() if "forward" in name} == {
        "Module.emb.Embedding.forward.0": None,
        "Functional.embedding.0.forward": "Module.emb.Embedding.forward.0",
        block: None,
        "Module.block.ln.LayerNorm.forward.0": block,
        "Functional.layer_norm.0.forward": "Module.block.ln.LayerNorm.forward.0",
        "Module.block.fc.Linear.forward.0": block,
        "Functional.linear.0.forward": "Module.block.fc.Linear.forward.0",
        "Tensor.__add__.0.forward": block,
        "Tensor.sum.0.forward": None,
        "Torch.ones_like.0.forward": None,  # where the backward pass begins
    }
    assert {name: parent for name, parent in dump.parents.items() if "backward" in name} == {
        "Tensor.sum.0.backward": None,
        back: None,
        "Tensor.__add__.0.backward": back,
        "Module.block.fc.Linear.backward.0": back,
        "Functional.linear.0.backward": "Module.block.fc.Linear.backward.0",
        "Module.block.ln.LayerNorm.backward.0": back,
        "Functional.layer_norm.0.backward": "Module.block.ln.LayerNorm.backward.0",
        "Module.emb.Embedding.backward.0": None,
        "Functional.embedding.0.backward": "Module.emb.Embedding.backward.0",
    }
    order = [name for name in dump.parents if not name.startswith("Module")]
    forward = [name.split(".")[1] for name in order if name.endswith("forward")]
    backward = [name.split(".")[1] for name in order if name.endswith("backward")]
    assert forward == ["embedding", "layer_norm", "linear", "__add__", "sum", "ones_like"]
    assert backward == forward[-2::-1]
    assert set(dump.parents) == {name for name in dump.data if "parameters_grad" not in name}


@pytest.mark.parametrize("name", MODELS)
def test_every_parent_is_there_and_every_record_is_placed(name: str, tmp_path: Path) -> None:
    build, data = MODELS[name]
    model = build()
    batch = data()
    dump = record(tmp_path, lambda: loss_of(model, batch).backward(), model)
    for child, parent in dump.parents.items():
        assert parent is None or parent in dump.parents, child
    calls = {call for call in dump.data if "parameters_grad" not in call}
    assert calls == set(dump.parents)
    assert {call for call in calls if ".forward" in call} == set(dump.stacks)


def test_levels_differ_in_what_they_hold(tmp_path: Path) -> None:
    model = ResNet()
    data = torch.randn(1, 3, 8, 8)

    def step() -> None:
        loss_of(model, data).backward()

    l0, l1, mix = (
        record(tmp_path / level, step, model, level=level) for level in ("L0", "L1", "mix")
    )
    assert l1.parents == {}
    assert all(name.startswith("Module.") for name in l0.data)
    assert not any(name.startswith("Module.") for name in l1.data)
    assert set(mix.data) == set(l0.data) | set(l1.data)


def test_in_place_modules_have_a_backward(tmp_path: Path) -> None:
    model = ResNet()
    data = torch.randn(1, 3, 8, 8)
    dump = record(tmp_path, lambda: loss_of(model, data).backward(), model, level="L0")
    for number in (0, 1):  # the block calls it twice
        assert dump.data[f"Module.blocks.0.relu.ReLU.backward.{number}"]["output"][0] is not None
    assert dump.data["Module.blocks.0.bn1.BatchNorm2d.backward.0"]["input"][0] is not None


def test_stacks_name_the_callers(tmp_path: Path) -> None:
    model = Decoder(layers=2)
    dump = record(tmp_path, lambda: loss_of(model, BATCH), model)
    lines = dump.stacks["Functional.silu.0.forward"]
    assert lines == dump.stacks["Functional.silu.1.forward"]
    source = Path(__file__)
    assert not any("msprobe_collector" in line and "tests" not in line for line in lines)
    first = next(line for line in lines if "models.py" in line)
    assert "in forward" in first
    assert "return self.down(F.silu(self.gate(x)) * self.up(x))" in first
    own = next(line for line in lines if source.name in line)
    number = int(own.split(", line ")[1].split(",")[0])
    assert linecache.getline(str(source), number).strip() in own


def test_equal_stacks_are_written_once(tmp_path: Path) -> None:
    """Also when Python rewrites the caller's code while it runs, as it does where lines repeat."""

    def sums() -> None:
        for _ in range(30):
            torch.ones(2).sum()

    record(tmp_path, sums, None, level="L1")
    (written,) = tmp_path.rglob("stack.json")
    stacks = [tuple(lines) for _, lines in json.loads(written.read_text()).values()]
    assert len(stacks) == len(set(stacks))


def test_optimizer_and_clipping_are_phases(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> None:
        model(torch.ones(1, 2)).sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    dump = record(tmp_path, step, model)
    assert dump.parents["clip_grad"] is None
    assert dump.parents["optimizer"] is None
    assert dump.parents["Torch._foreach_norm.0.forward"] == "clip_grad"
    assert "optimizer" in dump.parents.values()


def test_several_models_are_told_apart(tmp_path: Path) -> None:
    models: list[nn.Module] = [nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 2))]

    def step() -> None:
        z = torch.ones(1, 2)
        for model in models:
            z = model(z)
        z.sum().backward()

    dump = record(tmp_path, step, models, level="L0")
    assert "Module.0.0.Linear.forward.0" in dump.data
    assert "Module.1.0.Linear.forward.0" in dump.data


def test_a_single_layer_stands_for_itself(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    dump = record(tmp_path, lambda: model(torch.ones(1, 2)), model, level="L0")
    assert dump.names() == ["Module.Linear.forward.0"]
