"""Calls hang where they belong, however they came about."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_map_only
from torch.utils.checkpoint import checkpoint

from tests.collector.recording import record


@pytest.mark.parametrize("kind", ["SGD", "LBFGS"])
@pytest.mark.parametrize("by_keyword", [False, True])
def test_a_model_in_a_closure_is_no_part_of_the_optimizer(
    kind: str, by_keyword: bool, tmp_path: Path
) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.1)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(torch.ones(1, 2)), torch.zeros(1, 2))
        loss.backward()
        return loss

    def step() -> None:
        if by_keyword:
            optimizer.step(closure=closure)
        else:
            optimizer.step(closure)
        model(torch.ones(1, 2))

    dump = record(tmp_path, step, model)
    calls = [n for n in dump.parents if n.startswith(("Module", "Functional.mse_loss"))]
    assert len(calls) >= 8
    assert {dump.parents[name] for name in calls} == {None}
    assert "optimizer" in dump.parents.values()


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(4, 4)
        self.down = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # ``float`` returns the tensor itself: its node is that of the product.
        return self.down(torch.relu(self.up(x)).float())


class Layer(nn.Module):
    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.mlp = MLP()
        self.reentrant = reentrant

    def inner(self, x: torch.Tensor) -> torch.Tensor:
        return self.mlp(torch.tanh(x)).float()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.inner, x, use_reentrant=self.reentrant)


@pytest.mark.parametrize("reentrant", [False, True])
def test_recomputed_calls_lie_in_the_module_that_checkpoints(
    reentrant: bool, tmp_path: Path
) -> None:
    model = nn.Sequential(Layer(reentrant), Layer(reentrant))
    x = torch.ones(1, 4, requires_grad=True)
    dump = record(tmp_path, lambda: model(x).sum().backward(), model)
    repeated = [n for n, call in dump.data.items() if call.get("is_recompute")]
    modules = {".".join(n.split(".")[:2]) for n in repeated if n.startswith("Module")}
    assert modules == {"Module.0", "Module.1"}
    for name in repeated:
        if name.startswith(("Torch.tanh", "Module.0.mlp.MLP", "Module.1.mlp.MLP")):
            around = dump.parents[name]
            assert around is not None
            assert around.endswith(".Layer.backward.0"), name
        # What runs backward after it was repeated stands where the module's backward does.
        back = name.replace("forward", "backward")
        if back in dump.parents and back.startswith(("Torch.tanh", "Module.")):
            above = dump.parents[back]
            while above is not None and not above.endswith(".Layer.backward.0"):
                above = dump.parents[above]
            assert above is not None, back
    # Each call runs backward once: the first time, or when it is repeated and run again.
    backwards = [n.rpartition(".")[0] for n in dump.names("Tensor.float.") if "backward" in n]
    assert len(backwards) == 4
    numbers = {int(n.split(".")[2]) for n in backwards}
    assert numbers == ({4, 5, 6, 7} if reentrant else {0, 1, 2, 3})


def test_a_scope_that_begins_inside_a_module_has_the_modules_around(tmp_path: Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x)

    model = Net()
    scope = ["Module.body.1.ReLU.forward.0", "Module.body.2.Linear.forward.0"]
    dump = record(tmp_path, lambda: model(torch.ones(1, 3)), model, statistics={"scope": scope})
    assert dump.names("Module.") == [
        "Module.body.1.ReLU.forward.0",
        "Module.body.2.Linear.forward.0",
        "Module.body.Sequential.forward.0",
    ]
    assert set(dump.parents.values()) <= {None, *dump.parents}
    outer = dump.data["Module.body.Sequential.forward.0"]
    assert outer["input_args"] == []
    assert outer["output"][0]["shape"] == [1, 3]


class Wrapped(torch.Tensor):
    """Numbers inside another tensor, as distributed ones are."""

    numbers: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapped:
        made: Any = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.numbers = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        plain = tree_map_only(Wrapped, lambda tensor: tensor.numbers, (args, kwargs or {}))
        return tree_map_only(torch.Tensor, Wrapped, func(*plain[0], **plain[1]))


def test_what_a_kind_of_tensors_does_for_a_call_is_no_call(tmp_path: Path) -> None:
    x = Wrapped(torch.ones(3)).requires_grad_()
    dump = record(tmp_path, lambda: (x * 3).exp().sum().backward(), level="L1")
    assert [name for name in dump.data if name.startswith("Aten.")] == []
    (result,) = dump.data["Tensor.exp.0.forward"]["output"]
    assert (result["shape"], result["Max"]) == ([3], None)  # it holds no numbers itself
    assert "Tensor.exp.0.backward" in dump.data
