"""Calls of MindSpore are checked by what torch computes of their recorded operands."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe_builder.facts.fact import Fact
from msprobe_operators.dump.calls import recorded_calls
from msprobe_operators.dump.check import CheckOptions, check_recorded
from msprobe_operators.dump.run import source_of
from msprobe_operators.dump.script import dump_script

DRAWN = np.random.default_rng(3)
X = DRAWN.normal(size=(4, 6)).astype(np.float32)
Y = DRAWN.normal(size=(4, 6)).astype(np.float32)
W = DRAWN.normal(size=(5, 6)).astype(np.float32)
G = DRAWN.normal(size=(4, 6)).astype(np.float32)
INT, FLOAT, TEXT = ({"type": kind} for kind in ("int", "float", "str"))


def softmax(x: np.ndarray) -> Any:
    e = np.exp(x.astype(np.float64))
    return (e / e.sum(-1, keepdims=True)).astype(np.float32)


def sigmoid(x: np.ndarray) -> Any:
    return np.reciprocal(1 + np.exp(-x.astype(np.float64)))


CALLS: dict[str, tuple[list[Any], dict[str, Any], np.ndarray]] = {
    "Mint.add": ([X, Y], {"alpha": {**INT, "value": 2}}, X + 2 * Y),
    "Mint.transpose": ([X, {**INT, "value": 0}, {**INT, "value": 1}], {}, X.T),
    "MintFunctional.softmax": ([X], {"dim": {**INT, "value": -1}}, softmax(X)),
    "MintFunctional.silu": ([X], {}, (X * sigmoid(X)).astype(np.float32)),
    "Primitive.dense.Dense": ([X, W], {}, (X.astype(np.float64) @ W.T).astype(np.float32)),
    "Functional.sigmoid": ([X], {}, sigmoid(X).astype(np.float32)),
    "Tensor.__mul__": ([X, {**FLOAT, "value": 0.5}], {}, X * np.float32(0.5)),
}


def dump(folder: Path, name: str, *, wrong: bool = False) -> Path:
    """A dump of one call as MindSpore's collector writes it."""
    data = folder / "dump_tensor_data"
    data.mkdir(parents=True)
    args, kwargs, result = CALLS[name]

    def leaf(array: np.ndarray, where: str) -> dict[str, Any]:
        file = f"{name}.0.{where}.npy"
        np.save(data / file, array)
        return {
            "type": "mindspore.Tensor",
            "dtype": "Float32",
            "shape": list(array.shape),
            "Max": float(array.max()),
            "Min": float(array.min()),
            "data_name": file,
        }

    shown = [
        leaf(one, f"forward.input.{n}") if isinstance(one, np.ndarray) else one
        for n, one in enumerate(args)
    ]
    result = result.copy()
    if wrong:
        result[1, 2] *= 1.01
    record = {"input_args": shown, "input_kwargs": kwargs}
    record["output"] = [leaf(result, "forward.output.0")]
    content: dict[str, Any] = {f"{name}.0.forward": record}
    if name == "MintFunctional.silu":
        s = sigmoid(X)
        gradient = (G * (s * (1 + X * (1 - s)))).astype(np.float32)
        content[f"{name}.0.backward"] = {
            "input": [leaf(G, "backward.input.0")],
            "output": [leaf(-gradient if wrong else gradient, "backward.output.0")],
        }
    path = folder / "dump.json"
    path.write_text(json.dumps({"framework": "mindspore", "level": "mix", "data": content}))
    return path


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("wrong", [False, True])
def test_a_call_is_judged_by_what_torch_computes(name: str, wrong: bool, tmp_path: Path) -> None:
    path = dump(tmp_path, name, wrong=wrong)
    [call] = recorded_calls(path)
    rows = check_recorded(call, CheckOptions(source_of(path)))
    assert [row.name for row in rows] == [f"{name}.0"] * len(rows)
    assert len(rows) == (2 if name == "MintFunctional.silu" else 1)
    for row in rows:
        assert (row.status, row.compared) == ("failed" if wrong else "passed", "recorded"), row


def test_a_function_of_ops_with_arguments_of_its_own_is_not_run(tmp_path: Path) -> None:
    path = dump(tmp_path, "Functional.sigmoid")
    path.write_text(
        path.read_text().replace("Functional.sigmoid.0.forward", "Functional.pad.0.forward")
    )
    [call] = recorded_calls(path)
    [row] = check_recorded(call, CheckOptions(source_of(path)))
    assert row.status == "not tested"


def test_a_script_of_a_call_runs_in_torch(tmp_path: Path) -> None:
    path = dump(tmp_path, "MintFunctional.silu")
    [call] = recorded_calls(path)
    text = dump_script(call, source_of(path))
    assert not isinstance(text, Fact)
    script = tmp_path / "call.py"
    script.write_text(text)
    answer = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert "MintFunctional.silu.0" in text


GRADIENTS = {
    "right": (G * Y, G * X),
    "exchanged": (G * X, G * Y),
    "one twice": (G * Y, G * Y),
    "turned": (G * Y, -G * X),
    "exchanged and off": (G * X * 1.01, G * Y),
    "other rows": ((G * Y)[::-1], G * X),
}


@pytest.mark.parametrize("name", GRADIENTS)
@pytest.mark.parametrize("call", ["Primitive.mul.Mul", "Mint.mul", "Torch.mul"])
def test_gradients_in_another_order_are_no_wrong_ones(name: str, call: str, tmp_path: Path) -> None:
    """Recorders of MindSpore number them as the framework brings them; those of torch do not."""
    data = tmp_path / "dump_tensor_data"
    data.mkdir()

    def leaf(array: np.ndarray, where: str) -> dict[str, Any]:
        file = f"{call}.0.{where}.npy"
        np.save(data / file, np.ascontiguousarray(array, np.float32))
        kind: dict[str, Any] = {"type": "mindspore.Tensor", "dtype": "Float32"}
        if call.startswith("Torch"):
            kind = {"type": "torch.Tensor", "dtype": "torch.float32", "requires_grad": True}
        numbers = {"Max": float(array.max()), "Min": float(array.min())}
        return kind | numbers | {"shape": list(array.shape), "data_name": file}

    gradients = [leaf(one, f"backward.output.{n}") for n, one in enumerate(GRADIENTS[name])]
    records = {
        f"{call}.0.forward": {
            "input_args": [leaf(X, "forward.input.0"), leaf(Y, "forward.input.1")],
            "input_kwargs": {},
            "output": [leaf(X * Y, "forward.output.0")],
        },
        f"{call}.0.backward": {"input": [leaf(G, "backward.input.0")], "output": gradients},
    }
    framework = "pytorch" if call.startswith("Torch") else "mindspore"
    path = tmp_path / "dump.json"
    content = {"framework": framework, "task": "tensor", "level": "mix", "data": records}
    path.write_text(json.dumps(content))
    [found] = recorded_calls(path)
    rows = check_recorded(found, CheckOptions(source_of(path)))
    [backward] = [row for row in rows if row.direction == "backward"]
    is_exchanged = name == "exchanged" and not call.startswith("Torch")
    assert backward.compared == "recorded"
    assert backward.status == ("passed" if name == "right" or is_exchanged else "failed")
    assert ("another order" in backward.sentence) == is_exchanged
