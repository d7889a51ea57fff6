"""The numbers in a dump, checked against hooks and gradients taken independently."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from msprobe_collector.record.statistics import Measured, measure
from msprobe_collector.unseen import unseen
from tests.collector.models import MODELS, Decoder, loss_of
from tests.collector.recording import Dump, input_gradients, output_gradients, record, tensors


def expect(item: dict[str, Any] | None, tensor: torch.Tensor, where: str) -> None:
    """Compare a record with statistics computed in float64 by numpy."""
    assert item is not None, f"{where} has no record"
    values = tensor.detach().double().numpy()
    assert item["shape"] == list(values.shape), where
    assert item["dtype"] == str(tensor.dtype), where
    wanted = (values.max(), values.min(), values.mean(), math.sqrt((values**2).sum()))
    found = [item[key] for key in ("Max", "Min", "Mean", "Norm")]
    assert found == pytest.approx(wanted, rel=2e-5, abs=1e-7, nan_ok=True), where


def flat(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from flat(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from flat(part)


class ModuleOracle:
    """What plain PyTorch hooks on the same model see in a run of their own."""

    def __init__(self, model: nn.Module) -> None:
        self.inputs: dict[str, list[torch.Tensor]] = {}
        self.outputs: dict[str, list[torch.Tensor]] = {}
        self.output_gradients: dict[str, list[torch.Tensor | None]] = {}
        for path, module in model.named_modules():
            if module is not model:
                stem = f"Module.{path}.{type(module).__name__}"
                module.register_forward_pre_hook(self._before(stem), with_kwargs=True)
                module.register_forward_hook(self._after(stem), prepend=True)

    def _before(self, stem: str) -> Any:
        def hook(_module: nn.Module, args: Any, kwargs: Any) -> None:
            number = sum(name.startswith(f"{stem}.") for name in self.inputs)
            copies = [tensor.detach().clone() for tensor in flat((args, kwargs))]
            self.inputs[f"{stem}.{number}"] = copies

        return hook

    def _after(self, stem: str) -> Any:
        def hook(_module: nn.Module, _args: Any, output: Any) -> None:
            name = f"{stem}.{sum(name.startswith(f'{stem}.') for name in self.outputs)}"
            found = list(flat(output))
            self.outputs[name] = [tensor.detach().clone() for tensor in found]
            gradients: list[torch.Tensor | None] = [None] * len(found)
            self.output_gradients[name] = gradients
            for position, tensor in enumerate(found):
                if tensor.requires_grad:

                    def keep(
                        gradient: torch.Tensor,
                        position: int = position,
                        gradients: list[torch.Tensor | None] = gradients,
                    ) -> None:
                        gradients[position] = gradient.clone()

                    tensor.register_hook(keep)

        return hook


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("level", ["L0", "mix"])
def test_module_values_agree_with_hooks(name: str, level: str, tmp_path: Path) -> None:
    build, data = MODELS[name]
    model = build()
    batch = data()
    state = {key: value.clone() for key, value in model.state_dict().items()}
    torch.manual_seed(3)
    dump = record(tmp_path, lambda: loss_of(model, batch).backward(), model, level=level)
    recorded_gradients = {
        n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None
    }

    twin = build()
    twin.load_state_dict(state)
    oracle = ModuleOracle(twin)
    torch.manual_seed(3)
    loss_of(twin, batch).backward()

    checked = 0
    for name_of_call, inputs in oracle.inputs.items():
        stem, _, number = name_of_call.rpartition(".")
        forward = dump.data[f"{stem}.forward.{number}"]
        items = [item for _, item in tensors([forward["input_args"], forward["input_kwargs"]])]
        assert len(items) == len(inputs)
        for item, tensor in zip(items, inputs, strict=True):
            expect(item, tensor, name_of_call)
        outputs = [item for _, item in tensors(forward["output"])]
        for item, tensor in zip(outputs, oracle.outputs[name_of_call], strict=True):
            expect(item, tensor, name_of_call)
            checked += 1
        gradients = oracle.output_gradients[name_of_call]
        if any(gradient is not None for gradient in gradients):
            backward = dump.data[f"{stem}.backward.{number}"]
            for item, gradient in zip(backward["input"], gradients, strict=True):
                if gradient is not None:
                    expect(item, gradient, f"{name_of_call} gradient")
                    checked += 1
    assert checked > 5
    for path, module in twin.named_modules():
        own = dict(module.named_parameters(recurse=False))
        stem = f"Module.{path}.{type(module).__name__}"
        called = f"{stem}.0" in oracle.inputs
        if not called or not any(p.grad is not None for p in own.values()):
            continue
        entry = dump.data[f"{stem}.parameters_grad"]
        for key, parameter in own.items():
            expect(entry[key][0], parameter.grad, f"{path}.{key}")
            full = f"{path}.{key}"
            assert torch.equal(recorded_gradients[full], parameter.grad)


def shared_input(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """``x`` is used twice: each call sends its own share of the gradient."""
    y = torch.nn.functional.linear(x, w, b)
    z = torch.nn.functional.layer_norm(x, (x.shape[-1],))
    return (y * z).sum()


def test_every_input_gets_the_share_of_its_own_call(tmp_path: Path) -> None:
    x = torch.randn(2, 3, 4, requires_grad=True)
    w = torch.randn(4, 4, requires_grad=True)
    b = torch.randn(4, requires_grad=True)
    dump = record(tmp_path, lambda: shared_input(x, w, b).backward(), level="L1")

    in_linear, in_norm = (x.detach().clone().requires_grad_() for _ in range(2))
    y = torch.nn.functional.linear(in_linear, w, b)
    z = torch.nn.functional.layer_norm(in_norm, (4,))
    wanted = torch.autograd.grad((y * z).sum(), [in_linear, w, b, in_norm, y, z])
    linear = dump.data["Functional.linear.0.backward"]
    for item, gradient in zip(input_gradients(linear), wanted[:3], strict=True):
        expect(item, gradient, "linear")
    expect(output_gradients(linear)[0], wanted[4], "output of linear")
    norm = dump.data["Functional.layer_norm.0.backward"]
    expect(input_gradients(norm)[0], wanted[3], "layer_norm")
    expect(output_gradients(norm)[0], wanted[5], "output of layer_norm")


nnf = torch.nn.functional
CASES: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "Functional.cross_entropy": lambda x, y: nnf.cross_entropy(x, y),
    "Tensor.__mul__": lambda x, y: x * y,
    "Tensor.mul": lambda x, y: x.mul(y),
    "Torch.cat": lambda x, y: torch.cat([x, y], dim=1),
    "Torch.where": lambda x, y: torch.where(torch.tensor([True, False, True, False]), x, y),
    "Torch.einsum": lambda x, y: torch.einsum("ij,kj->ik", x, y),
    "Torch.solve": lambda x, y: torch.linalg.solve(x[:, :3] + torch.eye(3), y),
    "Torch.fft_fft": lambda x, y: torch.fft.fft(x),  # noqa: ARG005
    "Torch.special_expit": lambda x, y: torch.special.expit(x),  # noqa: ARG005
    "Tensor.__getitem__": lambda x, y: x[:, 1:],  # noqa: ARG005
    "Tensor.chunk": lambda x, y: x.chunk(2, dim=1),  # noqa: ARG005
    "Functional.gelu": lambda x, y: nnf.gelu(x),  # noqa: ARG005
    "Functional.kl_div": lambda x, y: nnf.kl_div(x, y),
    "Functional.cosine_similarity": lambda x, y: nnf.cosine_similarity(x, y),
    "Functional.scaled_dot_product_attention": (
        lambda x, y: nnf.scaled_dot_product_attention(x, y, y.detach())
    ),
}


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("label", CASES)
def test_gradients_agree_with_autograd_grad(label: str, tmp_path: Path) -> None:
    """The call is the only one that takes ``x`` and ``y``, so their gradients are its own."""
    x, y = (torch.rand(3, 4, requires_grad=True) for _ in range(2))

    def loss() -> torch.Tensor:
        outputs = list(flat(CASES[label](x, y)))
        return sum((out.abs() * (n + 1) ** 2).sum() for n, out in enumerate(outputs))  # type: ignore[return-value]

    wanted = torch.autograd.grad(loss(), [x, y], allow_unused=True)
    dump = record(tmp_path, lambda: loss().backward(), level="L1")
    entry = dump.data[f"{label}.0.backward"]
    if label == "Torch.solve":
        expect(input_gradients(entry)[1], wanted[1], label)
        return
    found = [item for item in input_gradients(entry) if item is not None]
    used: list[torch.Tensor] = list(filter(torch.is_tensor, wanted))
    assert len(found) == len(used)
    for item, gradient in zip(found, used, strict=True):
        expect(item, gradient, label)


def test_the_same_tensor_twice_keeps_its_two_gradients(tmp_path: Path) -> None:
    x = torch.randn(3, 3, requires_grad=True)
    dump = record(tmp_path, lambda: torch.matmul(x, x).sum().backward(), level="L1")
    left, right = (x.detach().clone().requires_grad_() for _ in range(2))
    wanted = torch.autograd.grad(torch.matmul(left, right).sum(), [left, right])
    entry = dump.data["Torch.matmul.0.backward"]
    expect(input_gradients(entry)[0], wanted[0], "left")
    expect(input_gradients(entry)[1], wanted[1], "right")


def test_backward_shows_what_the_last_node_sends(tmp_path: Path) -> None:
    """The established keys hold what a hook on the output's node sees, in its order."""
    x = torch.randn(2, 3, 4, requires_grad=True)
    w = torch.randn(5, 4, requires_grad=True)
    seen: dict[str, Any] = {}

    def step(watch: bool = False) -> None:
        flat_x = x[0]
        y = torch.addmm(torch.ones(3, 5, requires_grad=True), flat_x, w.t())
        z = torch.matmul(x, w.t())
        if watch:
            for name, tensor in (("addmm", y), ("matmul", z)):

                def keep(sent: Any, received: Any, name: str = name) -> None:
                    seen[name] = sent, received

                node: Any = tensor.grad_fn
                node.register_hook(keep)
        ((y**2).sum() + (z**2).sum()).backward()

    step(watch=True)
    dump = record(tmp_path, step, level="L1")
    for name, (sent, received) in seen.items():
        entry = dump.data[f"Torch.{name}.0.backward"]
        for side, gradients in (("output", sent), ("input", received)):
            assert len(entry[side]) == len(gradients)
            for item, gradient in zip(entry[side], gradients, strict=True):
                assert (item is None) == (gradient is None)
                if gradient is not None:
                    expect(item, gradient, name)
    wanted = torch.autograd.grad((torch.matmul(x, w.t()) ** 2).sum(), [x])
    expect(dump.data["Torch.matmul.0.backward"]["input_gradients"][0], wanted[0], "x")


def test_in_place_calls_show_before_and_after(tmp_path: Path) -> None:
    x = torch.tensor([-1.0, 2.0])

    def step() -> None:
        x.add_(1)
        x.relu_()
        x[0] = 7

    dump = record(tmp_path, step, level="L1")
    first, second, third = (dump.data[name] for name in dump.names("Tensor."))
    assert first["input_args"][0]["Min"] == -1
    assert first["output"][0]["Min"] == 0
    assert second["input_args"][0]["Max"] == 3
    assert third["input_args"][0]["Max"] == 3


def test_memory_that_changes_behind_the_version_counter_is_measured_again(tmp_path: Path) -> None:
    x = torch.zeros(4)

    def step() -> None:
        torch.sum(x)
        x.data.fill_(3)
        torch.sum(x)
        x.numpy()[0] = 9
        torch.sum(x)

    dump = record(tmp_path, step, level="L1")
    seen = [dump.data[f"Torch.sum.{n}.forward"]["input_args"][0]["Max"] for n in range(3)]
    assert seen == [0, 3, 9]


def test_micro_steps_keep_the_gradients_of_every_pass(tmp_path: Path) -> None:
    model = Decoder(layers=1).eval()
    batches = [torch.randint(0, 48, (1, 4)) for _ in range(2)]

    def step() -> None:
        for batch in batches:
            loss_of(model, batch).backward()

    dump = record(tmp_path, step, model)
    parameter = model.head.weight
    total = parameter.grad
    assert total is not None
    model.zero_grad()
    loss_of(model, batches[0]).backward()
    first = parameter.grad
    assert first is not None
    expect(dump.data["Module.head.Linear.parameters_grad.0"]["weight"][0], first, "first")
    expect(dump.data["Module.head.Linear.parameters_grad"]["weight"][0], total - first, "second")
    assert "Module.head.Linear.backward.1" in dump.data


@pytest.mark.parametrize(
    ("tensor", "wanted"),
    [
        (torch.full((1000,), 60000.0, dtype=torch.float16), (60000, 60000, 60000, 1897366.6)),
        (torch.full((4,), 1e300, dtype=torch.float64), (1e300, 1e300, 1e300, math.inf)),
        (torch.tensor(-3.0), (-3, -3, -3, 3)),
        (torch.tensor([True, False]), (True, False, None, None)),
        (torch.tensor([]), (None, None, None, None)),
        (torch.tensor([2**60 + 1, 0]), (2**60 + 1, 0, 2.0**59, 2.0**60)),
        (torch.tensor([3 + 4j, 0]), (5, 0, 2.5, None)),
        (torch.tensor([1.0, math.nan]), (math.nan, math.nan, math.nan, math.nan)),
        (torch.tensor([1.0, -math.inf]), (1, -math.inf, -math.inf, math.inf)),
        (torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn), (2, 1, 1.5, 5**0.5)),
        (torch.tensor([1, 255], dtype=torch.uint8), (255, 1, 128, 65026**0.5)),
    ],
)
def test_statistics_of_every_kind(tensor: torch.Tensor, wanted: tuple[Any, ...]) -> None:
    with unseen():
        found = measure(tensor)
    assert isinstance(found, Measured)
    for number, want in zip(found.values, wanted, strict=True):
        assert number is want if want is None else number == pytest.approx(want, nan_ok=True)


@given(st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=40))
def test_statistics_agree_with_exact_sums(values: list[float]) -> None:
    with unseen():
        measured = measure(torch.tensor(values))
    assert isinstance(measured, Measured)
    high, low, mean, norm = measured.values
    assert (high, low) == (max(values), min(values))
    scale = max(map(abs, values)) + 1e-30
    assert mean == pytest.approx(math.fsum(values) / len(values), abs=1e-5 * scale, rel=1e-5)
    assert norm == pytest.approx(math.hypot(*values), rel=1e-5, abs=1e-30)


def test_bool_and_slices_and_sizes_are_described(tmp_path: Path) -> None:
    x = torch.arange(6.0).reshape(2, 3)

    def step() -> None:
        x[0, 1:, ...]
        x.to(torch.float64, memory_format=torch.contiguous_format)
        x.reshape(torch.Size([3, 2]))

    dump: Dump = record(tmp_path, step, level="L1")
    assert dump.data["Tensor.__getitem__.0.forward"]["input_args"][1] == [
        {"type": "int", "value": 0},
        {"type": "slice", "value": [1, None, None]},
        {"type": "ellipsis", "value": "..."},
    ]
    to = dump.data["Tensor.to.0.forward"]
    assert to["input_args"][1] == {"type": "torch.dtype", "value": "torch.float64"}
    assert to["input_kwargs"]["memory_format"] == {
        "type": "torch.memory_format",
        "format": "contiguous_format",
    }
    assert dump.data["Tensor.reshape.0.forward"]["input_args"][1] == {
        "type": "torch.Size",
        "value": [3, 2],
    }
