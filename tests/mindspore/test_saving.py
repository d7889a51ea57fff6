"""Single values: level debug, ``save`` and ``save_grad``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mindspore", reason="MindSpore is not installed: make test-mindspore")

import mindspore
from mindspore import Tensor, grad, mint, nn

from msprobe_collector.errors import CollectorError
from msprobe_collector.mindspore import PrecisionDebugger, save, save_grad, saving, step


@pytest.fixture(autouse=True)
def first_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are counted for the whole process."""
    monkeypatch.setattr(saving, "_counted", saving._Counted(0))


class Product(nn.Cell):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def construct(self, x: Any, y: Any, z: Any) -> Any:
        save(self.folder, "x", x)
        z = save_grad(self.folder, "z", z)
        return x * y * z


def files(folder: Path) -> dict[str, list[float]]:
    return {
        str(path.relative_to(folder)): np.load(path).tolist()
        for path in sorted(folder.rglob("*.npy"))
    }


def test_values_and_gradients_by_step_rank_and_number(tmp_path: Path) -> None:
    net = Product(tmp_path)
    x, y, z = (Tensor(np.array(v, np.float32)) for v in ([1, 2], [-2, 3], [0, 3]))
    run = grad(net, grad_position=(1, 2))
    right = [g.asnumpy().tolist() for g in run(x, y, z)]
    assert right == [[0, 6], [-2, 6]]
    run(x, y, z)
    step()
    run(x, y, z)
    assert files(tmp_path) == {
        "step0/rank0/x_float32_0.npy": [1, 2],
        "step0/rank0/x_float32_1.npy": [1, 2],
        "step0/rank0/z_grad_float32_0.npy": [-2, 6],
        "step0/rank0/z_grad_float32_1.npy": [-2, 6],
        "step1/rank0/x_float32_0.npy": [1, 2],
        "step1/rank0/z_grad_float32_0.npy": [-2, 6],
    }


def test_nested_values_carry_their_place(tmp_path: Path) -> None:
    one = Tensor(np.array([1.0], np.float32)).astype(mindspore.bfloat16)
    save(tmp_path, "x", {"a": one, "b": [Tensor(np.array([2], np.int64))]})
    assert files(tmp_path) == {
        "step0/rank0/x.a_bfloat16_0.npy": [1],
        "step0/rank0/x.b.0_int64_0.npy": [2],
    }


@pytest.mark.parametrize("name", ["../x", "a/b", "", "..", "a\\b", "x" * 300, None])
def test_names_cannot_leave_the_folder(tmp_path: Path, name: Any) -> None:
    tensor = Tensor(np.array([1.0], np.float32))
    folder = tmp_path / "in"
    for call in (
        lambda: save(folder, name, tensor),
        lambda: save_grad(folder, name, tensor),
        lambda: save(folder, "x", {"x" if name is None else name: {name or "": tensor}}),
    ):
        with pytest.raises(CollectorError, match="file name"):
            call()
    assert not list(tmp_path.rglob("*"))


def test_what_is_no_tensor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CollectorError, match="takes tensors"):
        save(tmp_path, "x", 3)
    with pytest.raises(CollectorError, match="takes a tensor"):
        save_grad(tmp_path, "x", [3])


def test_graph_mode_is_refused(tmp_path: Path) -> None:
    mindspore.set_context(mode=mindspore.GRAPH_MODE)
    with pytest.raises(CollectorError, match="PyNative"):
        save(tmp_path, "x", Tensor(np.array([1.0], np.float32)))


def test_level_debug_saves_values_and_their_gradients(tmp_path: Path) -> None:
    debugger = PrecisionDebugger(dump_path=tmp_path, level="debug", task="tensor")
    weight = mindspore.Parameter(Tensor(np.array([1.0, 2.0], np.float32)), name="w")

    def run(x: Any) -> Any:
        product = x * weight
        PrecisionDebugger.save({"p": product, "l": [x, 3]}, "values")
        PrecisionDebugger.save(weight, "weight")
        return mint.sum(product * product)

    x = Tensor(np.array([3.0, -1.0], np.float32))
    mindspore.value_and_grad(run, 0, [weight])(x)
    debugger.step()
    folder = tmp_path / "step0" / "rank"
    content = json.loads((folder / "debug.json").read_text("utf-8"))
    assert content["framework"] == "mindspore"
    data = content["data"]

    def array(item: Any) -> list[float]:
        found: list[float] = np.load(folder / "dump_tensor_data" / item["data_name"]).tolist()
        return found

    assert array(data["values.0.debug"]["p"]) == [3, -2]
    assert data["values.0.debug"]["l"][1] == {"type": "int", "value": 3}
    assert array(data["values_grad.0.debug"]["p"]) == [6, -4]
    assert array(data["values_grad.0.debug"]["l"][0]) == [6, -8]
    assert array(data["weight_grad.0.debug"]) == [18, 4]
