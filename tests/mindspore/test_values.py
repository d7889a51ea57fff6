"""What is written of a step, reckoned again without MindSpore."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mindspore", reason="MindSpore is not installed: make test-mindspore")

import mindspore
from mindspore import Tensor, mint, nn

from msprobe_collector.mindspore import PrecisionDebugger
from tests.mindspore.recording import gradients, read_step, record, tensors
from tests.mindspore.test_twins import step_of
from tests.mindspore.twins import cnn

X = np.array([[1.0, -2.0, 3.0], [0.5, 0.25, -1.0]], np.float32)


class Small(nn.Cell):
    """tanh(x·aᵀ + p)·bᵀ, summed; small enough to be derived by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Dense(3, 4)
        self.b = nn.Dense(4, 2, has_bias=False)

    def construct(self, x: Any) -> Any:
        return self.b(mint.tanh(self.a(x)))


def test_a_step_is_what_numpy_finds(tmp_path: Path) -> None:
    model = Small()
    a, p, b = (q.asnumpy().astype(np.float64) for q in model.trainable_params())
    run = gradients(lambda x: model(x).sum(), model.trainable_params())
    step = record(tmp_path / "d", model, lambda: run(Tensor(X)), task="tensor")
    inner = X @ a.T + p
    hidden = np.tanh(inner)
    to_output = np.ones((2, 2))
    to_hidden = to_output @ b
    to_inner = to_hidden * (1 - hidden**2)
    expected = {
        ("Cell.a.Dense.forward.0", "output", 0): inner,
        ("Mint.tanh.0.forward", "output", 0): hidden,
        ("Cell.b.Dense.forward.0", "output", 0): hidden @ b.T,
        ("Cell.b.Dense.backward.0", "input", 0): to_output,
        ("Cell.b.Dense.backward.0", "output", 0): to_hidden,
        ("Mint.tanh.0.backward", "input", 0): to_hidden,
        ("Mint.tanh.0.backward", "output", 0): to_inner,
        ("Cell.a.Dense.backward.0", "input", 0): to_inner,
        ("Cell.a.Dense.parameters_grad", "weight", 0): to_inner.T @ X,
        ("Cell.a.Dense.parameters_grad", "bias", 0): to_inner.sum(0),
        ("Cell.b.Dense.parameters_grad", "weight", 0): to_output.T @ hidden,
        ("Primitive.matmul.MatMul.1.backward", "input_gradients", 0): to_hidden,
        ("Primitive.matmul.MatMul.1.backward", "input_gradients", 1): to_output.T @ hidden,
        ("Primitive.matmul.MatMul.1.backward", "output", 0): to_output.T @ hidden,
        ("Primitive.matmul.MatMul.1.backward", "output", 1): to_hidden,
    }
    for (name, part, position), right in expected.items():
        found = step.tensor(step.data[name][part][position])
        np.testing.assert_allclose(found, right, rtol=2e-5, atol=2e-6, err_msg=name)


def test_statistics_and_checksums_are_those_of_the_saved_tensors(tmp_path: Path) -> None:
    step = step_of(tmp_path / "d", cnn(), task="tensor", summary_mode="md5")
    items = [item for record in step.data.values() for item in tensors(record)]
    assert len(items) > 300
    for item in items:
        array = step.tensor(item)
        assert list(array.shape) == item["shape"]
        assert item["md5"] == f"{zlib.crc32(array.tobytes()):08x}"
        if array.ndim == 0:
            assert item["Norm"] == abs(float(array))
            continue
        wide = array.astype(np.float64)
        assert (item["Max"], item["Min"]) == (float(array.max()), float(array.min()))
        assert item["Mean"] == pytest.approx(wide.mean(), rel=1e-12, abs=1e-300)
        assert item["Norm"] == pytest.approx(float(np.sqrt((wide**2).sum())), rel=1e-12)


def test_one_file_per_tensor_holds_the_same(tmp_path: Path) -> None:
    run = gradients(lambda x: model(x).sum(), (model := Small()).trainable_params())
    store = record(tmp_path / "one", model, lambda: run(Tensor(X)), task="tensor")
    files = record(tmp_path / "many", model, lambda: run(Tensor(X)), task="tensor", layout="files")
    names = [item["data_name"] for record in files.data.values() for item in tensors(record)]
    assert len(names) > 20
    for name in names:
        array = np.load(files.folder / "dump_tensor_data" / name)
        np.testing.assert_array_equal(array, store.tensor({"data_name": name}))


def test_half_precision_norms_are_finite(tmp_path: Path) -> None:
    large = Tensor(np.full((64, 64), 30000.0, np.float16))
    brain = Tensor(np.array([1.0, 2.0, 1e30], np.float32)).astype(mindspore.bfloat16)

    def run() -> None:
        mint.neg(large)
        mint.reshape(brain, (3, 1))

    step = record(tmp_path / "d", None, run, level="L1")
    assert step.data["Mint.neg.0.forward"]["output"][0]["Norm"] == 30000.0 * 64
    [found] = step.data["Mint.reshape.0.forward"]["output"]
    assert found["dtype"] == "BFloat16"
    assert found["Max"] == pytest.approx(1e30, rel=1e-2)


def test_numbers_that_are_none_are_written_as_they_are(tmp_path: Path) -> None:
    odd = Tensor(np.array([np.nan, np.inf, 1.0], np.float32))
    step = record(tmp_path / "d", None, lambda: mint.neg(odd), level="L1")
    [item] = tensors(step.data["Mint.neg.0.forward"]["output"])
    assert np.isnan(item["Max"])
    assert np.isnan(item["Norm"])


def test_micro_batches_keep_the_gradients_of_each(tmp_path: Path) -> None:
    model = Small()
    run = gradients(lambda x: model(x).sum(), model.trainable_params())
    found: list[Any] = []

    def train() -> None:
        for factor in (1, 2, 3):
            found.append([g.asnumpy().copy() for g in run(Tensor(X * factor))[1]])

    step = record(tmp_path / "d", model, train, task="tensor")
    names = [f"Cell.a.Dense.parameters_grad{end}" for end in (".0", ".1", "")]
    for name, right in zip(names, found, strict=True):
        for key, gradient in zip(("weight", "bias"), right, strict=False):
            [item] = step.data[name][key]
            np.testing.assert_array_equal(step.tensor(item), gradient)


def test_task_structure_reads_no_values(tmp_path: Path) -> None:
    model = Small()
    step = record(tmp_path / "d", model, lambda: model(Tensor(X)), task="structure")
    assert step.parents["Mint.tanh.0.forward"] is None
    assert not [i for r in step.data.values() for i in tensors(r) if "Max" in i or "md5" in i]


def test_steps_lie_side_by_side(tmp_path: Path) -> None:
    from msprobe_collector.mindspore import PrecisionDebugger

    model = Small()
    debugger = PrecisionDebugger(dump_path=tmp_path, level="mix", step=[0, 2])
    for factor in range(4):
        debugger.start(model)
        model(Tensor(X * (factor + 1)))
        debugger.stop()
        debugger.step()
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["step0", "step2"]
    read = [read_step(tmp_path / f"step{n}" / "rank").data for n in (0, 2)]
    assert list(read[0]) == list(read[1])
    first, third = (data["Cell.a.Dense.forward.0"]["input_args"][0]["Max"] for data in read)
    assert third == 3 * first


def test_a_part_of_each_tensor_is_recorded_where_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps(
            {
                "task": "tensor",
                "level": "L1",
                "dump_path": str(tmp_path),
                "tensor": {"slice": [{"begin": 1, "end": 3, "size": 4}]},
            }
        )
    )
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    debugger = PrecisionDebugger(str(tmp_path / "config.json"))
    debugger.start()
    mint.sum(mint.neg(Tensor(x)), dim=0)
    debugger.stop()
    debugger.close()
    data = read_step(tmp_path / "step0" / "rank").data
    [part] = data["Mint.neg.0.forward"]["output"]
    assert part["shape"] == [2, 3]
    assert part["Norm"] == pytest.approx(np.linalg.norm(x[1:3]))
    [whole] = data["Mint.sum.0.forward"]["output"]
    assert whole["shape"] == [3]
