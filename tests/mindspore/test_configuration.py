"""``ConfigChecker``: weights and inputs of the first calls, compared by the usual command."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mindspore", reason="MindSpore is not installed: make test-mindspore")

import mindspore as ms
from mindspore import Tensor, mint, nn, ops

from msprobe_builder.configuration.compare import compare_packs
from msprobe_builder.configuration.pack import read_pack
from msprobe_collector.errors import CollectorError
from msprobe_collector.mindspore import ConfigChecker

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.up = mint.nn.Linear(4, 2)

    def construct(self, x: Tensor, scale: float = 1.0) -> Tensor:
        return self.up(x) * scale


def collected(path: Path, last: float = 0.5) -> Path:
    net = Net()
    net.up.weight.set_data(Tensor(np.full((2, 4), 0.5, dtype=np.float32)))
    net.up.bias.set_data(Tensor(np.array([0.25, last], dtype=np.float32)))
    ConfigChecker(net, output_zip_path=path, fmk="mindspore")
    for _ in range(3):
        net(Tensor(X), scale=2.0)
    return path


def test_weights_and_inputs_are_what_numpy_finds(tmp_path: Path) -> None:
    with zipfile.ZipFile(collected(tmp_path / "pack.zip")) as pack:
        names = pack.namelist()
        weights = json.loads(pack.read("weights/step0/rank0/weight.json"))
        given = json.loads(pack.read("dataset/step1/rank0/dataset.json"))
    assert [name for name in names if name.startswith("weights")] == [
        f"weights/step{step}/rank0/weight.json" for step in (0, 1)
    ]
    assert weights["up.bias"] == {
        "max": 0.5,
        "min": 0.25,
        "mean": 0.375,
        "shape": [2],
        "norm": pytest.approx(np.hypot(0.25, 0.5)),
    }
    assert given["kwargs"] == {"scale": 2.0}
    assert given["args"][0]["norm"] == pytest.approx(np.linalg.norm(X.astype(np.float64)))


def test_a_weight_that_differs_is_named(tmp_path: Path) -> None:
    packs = [read_pack(collected(tmp_path / f"{last}.zip", last)) for last in (0.5, 0.6)]
    named = {one.name for sheet in compare_packs(*packs).sheets for one in sheet.differences}
    assert named == {f"up.bias of micro-step {step}, rank 0" for step in (0, 1)}


def drawn(path: Path, draws: int) -> Path:
    """A pack of a program that seeds by and draws as often as ``draws``."""
    functions = (ops.randn, ms.Tensor.multinomial, ms.set_seed)
    ConfigChecker.apply_patches("mindspore")
    ms.set_seed(draws)
    for _ in range(draws):
        ops.randn(2)
    Tensor(np.abs(X)).multinomial(2)
    np.random.rand(2)
    net = Net()
    ConfigChecker(net, output_zip_path=path, fmk="mindspore")
    ops.dropout(Tensor(X), 0.5)
    net(Tensor(X))
    assert (ops.randn, ms.Tensor.multinomial, ms.set_seed) == functions
    return path


def test_calls_that_draw_or_seed_are_counted_until_the_first_forward(tmp_path: Path) -> None:
    packs = [drawn(tmp_path / f"{count}.zip", count) for count in (2, 3)]
    with zipfile.ZipFile(packs[0]) as pack:
        found = json.loads(pack.read("random/rank0.json"))
    counts = {name: sum(one["count"] for one in places) for name, places in found.items()}
    wanted = {"ops.randn": 2, "Tensor.multinomial": 1, "numpy.random.rand": 1}
    wanted |= {"mindspore.set_seed(2)": 1, "ops.dropout": 1}
    assert {name: counts.get(name) for name in wanted} == wanted
    assert Path(__file__).name in found["ops.randn"][0]["stack"][0]
    [sheet] = [one for one in compare_packs(*map(read_pack, packs)).sheets if one.name == "random"]
    named = {one.name for one in sheet.differences}
    seeds = {f"mindspore.set_seed({count}) of rank 0" for count in (2, 3)}
    assert {"ops.randn of rank 0", *seeds} <= named


def test_other_models_and_frameworks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CollectorError, match=r"takes a mindspore\.nn\.Cell or None"):
        ConfigChecker(3, output_zip_path=tmp_path / "pack.zip")
    with pytest.raises(CollectorError, match="this ConfigChecker collects mindspore"):
        ConfigChecker(None, output_zip_path=tmp_path / "pack.zip", fmk="pytorch")
