"""What docs/mindspore.md shows runs as it stands, and each name in its table is one of a dump."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mindspore", reason="MindSpore is not installed: make test-mindspore")

import mindspore
from mindspore import Tensor, mint, nn, ops

from msprobe_collector.errors import CollectorError
from msprobe_collector.mindspore import PrecisionDebugger, saving
from tests.mindspore.recording import read_step

TEXTS = [
    (Path(__file__).parents[2] / "docs" / name).read_text("utf-8")
    for name in ("mindspore.md", "mindspore.zh.md")
]
RECORD, FOLLOW, SAVE = (
    [re.findall(r"```python\n(.*?)```", text, re.DOTALL)[number] for text in TEXTS]
    for number in range(3)
)
X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


class MLP(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = mint.nn.Linear(4, 8), mint.nn.Linear(8, 2)
        self.batch_matmul = ops.BatchMatMul()

    def construct(self, x: Tensor) -> Tensor:
        x = self.down(mint.tanh(self.up(x)))
        x = self.batch_matmul(x[None], x[None].swapaxes(1, 2)).view(-1, 3)
        return x + mint.add(mint.nn.functional.softmax(x, dim=-1), x)


class Layer(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.mlp = MLP()

    def construct(self, x: Tensor) -> Tensor:
        return self.mlp(x)


class Model(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.CellList([Layer()])

    def construct(self, x: Tensor) -> Tensor:
        return self.layers[0](x)


def training() -> dict[str, Any]:
    """The names that the document takes as given."""
    mindspore.set_seed(3)
    model = Model()

    def forward(x: Tensor, y: Tensor) -> Tensor:
        return ops.cross_entropy(model(x), y)

    batches = [(Tensor(X * number), Tensor([0, 1, 2], mindspore.int32)) for number in (1, 2)]
    optimizer = nn.SGD(model.trainable_params(), learning_rate=0.1)
    return {"model": model, "optimizer": optimizer, "forward": forward, "batches": batches}


def train(model: Any, optimizer: Any, forward: Any, batches: Any) -> list[bytes]:
    derive = mindspore.value_and_grad(forward, None, model.trainable_params())
    found = []
    for x, y in batches:
        loss, found = derive(x, y)
        optimizer(found)
    return [tensor.asnumpy().tobytes() for tensor in (loss, *found, *model.trainable_params())]


@pytest.mark.parametrize("text", RECORD)
def test_the_first_example_records_each_step_and_changes_nothing(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = training()
    exec(text, given)  # noqa: S102
    PrecisionDebugger.close()
    results = (given["loss"], *given["gradients"], *given["model"].trainable_params())
    assert [tensor.asnumpy().tobytes() for tensor in results] == train(**training())
    steps = [read_step(tmp_path / "dump" / f"step{number}" / "rank") for number in (0, 1)]
    assert len({tuple(step.data) for step in steps}) == 1


@pytest.mark.parametrize("text", TEXTS)
def test_each_documented_name_is_one_of_a_dump(text: str, tmp_path: Path) -> None:
    table = text.partition("| |")[2].partition("\n\n")[0]
    names = set(re.findall(r"`([A-Z]\w*\.[^`]+\.(?:forward|forward\.0))`", table))
    assert len(names) == 8
    given = training()
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="mix")
    debugger.start(given["model"])
    given["forward"](*given["batches"][0])
    debugger.stop()
    debugger.step()
    debugger.close()
    assert names <= set(read_step(tmp_path / "step0" / "rank").data)


@pytest.mark.parametrize("text", FOLLOW)
@pytest.mark.parametrize("task", ["grad_probe", "monitor"])
def test_the_second_example_follows_the_optimizer(
    text: str, task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    keys = {"task": task, "dump_path": "out", "monitor": {"formats": ["csv"]}}
    Path("config.json").write_text(json.dumps(keys), "utf-8")
    given = training()
    before, _, after = text.partition("...")
    given["PrecisionDebugger"] = PrecisionDebugger
    exec(before, given)  # noqa: S102
    followed = train(*(given[name] for name in ("model", "optimizer", "forward", "batches")))
    exec(after.partition("\n")[2], given)  # noqa: S102
    PrecisionDebugger.close()
    assert followed == train(**training())
    tables = [path.name for path in Path("out").rglob("*.csv")]
    stem = "grad_summary_{}.csv" if task == "grad_probe" else "values_step{}.csv"
    assert stem.format(0) in tables


@pytest.mark.parametrize("text", SAVE)
def test_the_third_example_saves_what_it_says(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(saving, "_counted", saving._Counted(0))  # as in a program of its own
    given: dict[str, Any] = {"nn": nn}
    exec(text, given)  # noqa: S102
    x, y, z = (Tensor(numbers, mindspore.float32) for numbers in ([1, 2], [-2, 3], [0, 3]))
    mindspore.grad(given["Net"](), grad_position=(1, 2))(x, y, z)
    given["step"]()
    for file in re.findall(r"out/\S+\.npy", text):
        saved = np.load(file)
        assert np.array_equal(saved, [-2, 6] if "grad" in file else [1, 2])
    assert len(re.findall(r"out/\S+\.npy", text)) == 2


@pytest.mark.parametrize("key", ["enable_dataloader", "flow", "inside_compiled", "watch"])
def test_what_follows_pytorch_alone_is_refused_in_a_sentence(key: str, tmp_path: Path) -> None:
    value = str(tmp_path) if key == "watch" else True
    section = {"statistics": {key: value}} if key == "flow" else {key: value}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"dump_path": str(tmp_path / "out"), "level": "mix"} | section))
    with pytest.raises(CollectorError, match=f"^{key} .*PyTorch.*MindSpore"):
        PrecisionDebugger(path)
