"""Task grad_probe of MindSpore: what an optimizer is given, compared by the same command."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mindspore", reason="MindSpore is not installed: make test-mindspore")

import mindspore as ms
from mindspore import Tensor, mint, nn

from msprobe_checks.gradients.similarity import compare_gradients
from msprobe_checks.gradients.write import summary_lines
from msprobe_collector import SingleSave
from msprobe_collector.errors import CollectorError
from msprobe_collector.mindspore import PrecisionDebugger
from msprobe_collector.mindspore.gradients import sketch

STEPS = 4


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = mint.nn.Linear(4, 8), mint.nn.Linear(8, 2)

    def construct(self, x: Tensor) -> Tensor:
        return self.down(mint.tanh(self.up(x)))


def train(
    folder: Path, kind: str = "SGD", wrong: int | None = None, **section: Any
) -> list[dict[str, np.ndarray]]:
    """The gradients of each step by hand; from step ``wrong`` on one has its sign turned."""
    content = {"task": "grad_probe", "dump_path": str(folder / "dump"), "grad_probe": section}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(content))
    ms.set_seed(0)
    random = np.random.default_rng(0)
    net = Net()
    for one in net.trainable_params():
        one.set_data(Tensor(random.normal(size=one.shape).astype(np.float32)))
    optimizer = getattr(nn, kind)(net.trainable_params(), learning_rate=0.1)
    debugger = PrecisionDebugger(str(folder / "config.json"))
    debugger.monitor(optimizer)
    derive = ms.value_and_grad(lambda x: net(x).square().mean(), None, optimizer.parameters)
    seen = []
    for step in range(STEPS):
        x = Tensor(random.normal(size=(3, 4)).astype(np.float32))
        _, gradients = derive(x)
        if wrong is not None and step >= wrong:
            gradients = (*gradients[:2], -gradients[2], *gradients[3:])
        names = [one.name for one in optimizer.parameters]
        arrays = [one.asnumpy() for one in gradients]
        seen.append(dict(zip(names, arrays, strict=True)))
        optimizer(gradients)
    debugger.stop()
    PrecisionDebugger.close()
    return seen


def rows(folder: Path, step: int) -> dict[str, dict[str, str]]:
    path = folder / "dump" / "rank0" / f"grad_summary_{step}.csv"
    with path.open(encoding="utf-8-sig", newline="") as file:
        return {row["param_name"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_each_row_is_that_of_the_gradient(tmp_path: Path, kind: str) -> None:
    seen = train(tmp_path, kind, grad_level="L2", bounds=[0])
    for step, gradients in enumerate(seen):
        found = rows(tmp_path, step)
        assert list(found) == list(gradients)
        for name, x in gradients.items():
            row = found[name]
            assert float(row["max"]) == float(x.max())
            assert float(row["min"]) == float(x.min())
            assert float(row["norm"]) == pytest.approx(float(np.sqrt((x.astype(float) ** 2).sum())))
            assert row["shape"] == str(list(x.shape))
            assert float(row["(-inf, 0]"]) == float((x <= 0).mean())
            assert float(row["=0"]) == float((x == 0).mean())
            signs = np.load(tmp_path / "dump" / "rank0" / f"step{step}" / f"{name}.npy")
            assert np.array_equal(signs, x > 0)


@pytest.mark.parametrize(
    ("level", "head"),
    [
        ("L0", ["param_name", "MD5", "max", "min", "norm", "shape"]),
        ("L1", ["param_name", "max", "min", "norm", "shape"]),
    ],
)
def test_columns_are_the_documented_ones(tmp_path: Path, level: str, head: list[str]) -> None:
    train(tmp_path, grad_level=level, param_list=["up.weight"])
    found = rows(tmp_path, 0)
    assert list(found) == ["up.weight"]
    assert list(found["up.weight"]) == head


@pytest.mark.parametrize("level", ["L0", "L1"])
def test_a_gradient_that_is_turned_is_named(tmp_path: Path, level: str) -> None:
    for name, wrong in (("a", 2), ("b", None)):
        train(tmp_path / name, wrong=wrong, grad_level=level)
    found = compare_gradients(tmp_path / "a" / "dump", tmp_path / "b" / "dump")
    assert "part at step 2, rank 0, down.weight" in " ".join(summary_lines(found)[-1].split())


def test_sketches_are_those_of_torch(tmp_path: Path) -> None:
    """The sums below were made by the collector of PyTorch."""
    numbers = np.arange(1, 13, dtype=np.float32)
    assert sketch(numbers, 5).tolist() == [-6, -7, -1, 5, 11]
    table = (np.arange(3000, dtype=np.float32) % 7 - 3).reshape(30, 100)
    assert sketch(table, 4).tolist() == [43, 24, 41, 6]
    seen = train(tmp_path, grad_level="L1", sketch=64)
    for step, gradients in enumerate(seen):
        for name, one in gradients.items():
            path = tmp_path / "dump" / "rank0" / f"step{step}" / f"{name}.sketch.npy"
            assert np.array_equal(np.load(path), sketch(one, 64))


def test_the_training_is_unchanged(tmp_path: Path) -> None:
    first = train(tmp_path / "a", grad_level="L1")
    again = train(tmp_path / "b", grad_level="L1", param_list=["nothing"])
    for one, other in zip(first, again, strict=True):
        assert all(np.array_equal(one[name], other[name]) for name in one)


def test_single_save_takes_tensors_of_mindspore(tmp_path: Path) -> None:
    SingleSave._instance = None
    SingleSave(tmp_path, fmk="mindspore")
    SingleSave.save({"x": Tensor([1.0, 2.0], ms.bfloat16)})
    SingleSave._instance = None
    [path] = tmp_path.rglob("x.npy")
    assert np.load(path).tolist() == [1.0, 2.0]


def test_what_is_no_optimizer_is_refused(tmp_path: Path) -> None:
    debugger = PrecisionDebugger(task="grad_probe", dump_path=str(tmp_path))
    with pytest.raises(CollectorError, match=r"takes a mindspore.nn.Optimizer"):
        debugger.monitor(Net())


def test_another_task_is_told(tmp_path: Path) -> None:
    debugger = PrecisionDebugger(task="statistics", level="L1", dump_path=str(tmp_path))
    with pytest.raises(CollectorError, match="task grad_probe"):
        debugger.monitor(nn.SGD(Net().trainable_params()))
