"""Recording changes nothing: not a bit of the training, not a trace in the process."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from msprobe_collector import PrecisionDebugger
from tests.collector.models import MODELS, loss_of
from tests.collector.recording import write_config

STEPS = 3
KINDS = [
    ("L0", "statistics", {}),
    ("L1", "statistics", {}),
    ("mix", "statistics", {}),
    ("mix", "statistics", {"summary_mode": "md5"}),
    ("mix", "tensor", {}),
    ("mix", "structure", {}),
    ("mix", "overflow_check", {}),
]


def train(name: str, debugger: PrecisionDebugger | None) -> dict[str, Any]:
    """Three steps with dropout, clipping and AdamW; everything they leave behind."""
    torch.manual_seed(7)
    random.seed(7)
    np.random.seed(7)
    build, data = MODELS[name]
    model = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    gradients: list[torch.Tensor] = []
    for _ in range(STEPS):
        if debugger is not None:
            debugger.start(model)
        for _ in range(2):  # micro-steps
            loss = loss_of(model, data())
            loss.backward()
            losses.append(loss.detach().clone())
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        gradients += [p.grad.clone() for p in model.parameters() if p.grad is not None]
        optimizer.step()
        optimizer.zero_grad()
        if debugger is not None:
            debugger.stop()
            debugger.step()
    return {
        "losses": losses,
        "gradients": gradients,
        "parameters": [p.detach().clone() for p in model.parameters()],
        "buffers": [b.clone() for b in model.buffers()],
        "random": [torch.get_rng_state(), torch.tensor(random.getstate()[1])],
        "numpy": [torch.tensor(np.random.get_state(legacy=False)["state"]["key"].astype(np.int64))],
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_training_is_bit_identical(name: str, tmp_path: Path) -> None:
    plain = train(name, None)
    for number, (level, task, section) in enumerate(KINDS):
        config = write_config(tmp_path / str(number), level=level, task=task, **{task: section})
        debugger = PrecisionDebugger(config_path=config)
        recorded = train(name, debugger)
        debugger.close()
        for what, values in plain.items():
            same = [torch.equal(a, b) for a, b in zip(values, recorded[what], strict=True)]
            assert all(same), f"{what} differ with {level} {task} {section}"


def entry_of_custom_functions() -> tuple[Any, Any]:
    """A Python function up to torch 2.13, made in C from 2.14 on."""
    entry = torch.autograd.Function.__dict__["apply"]
    return entry, getattr(getattr(entry, "__func__", None), "__code__", None)


def test_nothing_stays_installed(tmp_path: Path) -> None:
    build, data = MODELS["llama"]
    model = build()
    watched: dict[str, Any] = {
        "apply": entry_of_custom_functions(),
        "clip": nn.utils.clip_grad_norm_.__code__,
        "add": torch.Tensor.__add__,
        "linear": torch.nn.functional.linear,
        "hooks": [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()],
    }
    debugger = PrecisionDebugger(dump_path=tmp_path, level="mix")
    assert torch._C._len_torch_function_stack() == 0
    debugger.start(model)
    assert torch._C._len_torch_function_stack() == 1
    loss = loss_of(model, data())
    debugger.stop()
    after = {
        "apply": entry_of_custom_functions(),
        "clip": nn.utils.clip_grad_norm_.__code__,
        "add": torch.Tensor.__add__,
        "linear": torch.nn.functional.linear,
        "hooks": [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()],
    }
    assert torch._C._len_torch_function_stack() == 0
    assert after == watched
    debugger.step()  # until then the gradients of what was recorded may still come
    assert all(not parameter._backward_hooks for parameter in model.parameters())
    loss.backward()  # the hooks in the graph are inert now
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_a_mode_that_was_entered_in_between_stays(tmp_path: Path) -> None:
    debugger = PrecisionDebugger(dump_path=tmp_path, level="L1")
    debugger.start()
    with torch.device("meta"):
        debugger.stop()
        assert torch.ones(2).is_meta
    assert not torch.ones(2).is_meta


def test_a_copy_of_the_model_is_not_recorded(tmp_path: Path) -> None:
    import copy
    import pickle

    model = nn.Sequential(nn.Linear(2, 2))
    debugger = PrecisionDebugger(dump_path=tmp_path, level="L0")
    debugger.start(model)
    copied = copy.deepcopy(model)
    thawed = pickle.loads(pickle.dumps(model))  # noqa: S301
    copied(torch.ones(1, 2))
    thawed(torch.ones(1, 2))
    model(torch.ones(1, 2))
    debugger.stop()
    text = (tmp_path / "step0" / "rank" / "dump.json").read_text()
    assert "Module.0.Linear.forward.0" in text
    assert "Module.0.Linear.forward.1" not in text
