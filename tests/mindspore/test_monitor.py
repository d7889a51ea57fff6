"""Task monitor of MindSpore: what each call of the optimizer uses and leaves."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mindspore", reason="MindSpore is not installed: make test-mindspore")

import mindspore as ms
from mindspore import Tensor, nn

from msprobe_builder.sketch.definition import FLAT, sketch_of
from msprobe_builder.trend.monitor import read_rank
from msprobe_checks.monitor.compare import compare_monitors
from msprobe_checks.monitor.explain import verdict
from msprobe_collector.config.monitor import KINDS
from msprobe_collector.errors import CollectorError
from msprobe_collector.mindspore import PrecisionDebugger
from tests.mindspore.test_gradients import Net

STEPS = 4


def train(folder: Path, **section: Any) -> tuple[list[dict[str, str]], list[dict[str, float]]]:
    """The rows of the record, and the norms of weights and gradients of each step by hand."""
    content = {"task": "monitor", "dump_path": str(folder / "run"), "monitor": section}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(content))
    random = np.random.default_rng(0)
    net = Net()
    for one in net.trainable_params():
        one.set_data(Tensor(random.normal(size=one.shape).astype(np.float32)))
    optimizer = nn.Adam(net.trainable_params(), learning_rate=0.125)
    debugger = PrecisionDebugger(str(folder / "config.json"))
    debugger.monitor(optimizer)
    derive = ms.value_and_grad(lambda x: net(x).square().mean(), None, optimizer.parameters)
    seen = []
    for _ in range(STEPS):
        _, gradients = derive(Tensor(random.normal(size=(3, 4)).astype(np.float32)))
        pairs = list(zip(optimizer.parameters, gradients, strict=True))
        weights = {f"weight {p.name}": float(np.linalg.norm(p.asnumpy())) for p, _ in pairs}
        grads = {f"gradient {p.name}": float(np.linalg.norm(g.asnumpy())) for p, g in pairs}
        seen.append(weights | grads)
        optimizer(gradients)
    debugger.stop()
    [path] = (folder / "run" / "monitor" / "rank0").glob("values_step*.csv")
    return list(csv.DictReader(path.open(encoding="utf-8"))), seen


def test_each_call_of_the_optimizer_is_a_step(tmp_path: Path) -> None:
    rows, seen = train(tmp_path, formats=["csv"])
    assert {int(row["step"]) for row in rows} == set(range(STEPS))
    found = [
        {f"{r['kind']} {r['name']}": float(r["norm"]) for r in rows if int(r["step"]) == step}
        for step in range(STEPS)
    ]
    for own, numbers in zip(seen, found, strict=True):
        assert {name: numbers[name] for name in own} == pytest.approx(own, rel=1e-5)
        assert numbers["learning_rate group0"] == pytest.approx(0.125)
        assert numbers["optimizer_state up.weight:moment1"] > 0
    assert found[0]["weight up.weight"] != found[1]["weight up.weight"]


def test_what_is_chosen_is_recorded(tmp_path: Path) -> None:
    rows, _ = train(tmp_path, formats=["csv"], every=3, record={"gradient": ["down.*"]})
    assert {(row["step"], row["kind"]) for row in rows} == {("0", "gradient"), ("3", "gradient")}
    assert all(row["name"].startswith("down.") for row in rows)


def sketched(folder: Path, *, moved: bool) -> Any:
    """Two steps of two micro-batches; the weight of ``up`` as it was at first."""
    section = {"formats": ["csv"], "sketches": True, "micro_batches": True}
    content = {"task": "monitor", "dump_path": str(folder), "monitor": section}
    config = folder.with_suffix(".json")
    config.write_text(json.dumps(content))
    net, random = Net(), np.random.default_rng(0)
    for one in net.trainable_params():
        one.set_data(Tensor(random.normal(size=one.shape).astype(np.float32)))
    weight = net.up.weight.asnumpy().copy()
    optimizer = nn.SGD(net.trainable_params(), learning_rate=0.0125)
    debugger = PrecisionDebugger(str(config))
    debugger.monitor(optimizer, net)
    derive = ms.value_and_grad(lambda x: net(x).square().mean(), None, optimizer.parameters)
    for step in range(2):
        found = []
        for _ in range(2):
            x = random.normal(size=(3, 4)).astype(np.float32)
            found.append(derive(Tensor(x[::-1].copy() if moved and step else x))[1])
        optimizer(tuple(one + other for one, other in zip(*found, strict=True)))
    debugger.stop()
    debugger.close()
    return weight


@pytest.mark.parametrize("moved", [False, True])
def test_moved_elements_are_named_with_sketches(tmp_path: Path, moved: bool) -> None:
    """Rows that are exchanged keep norm and mean; the sketch is that of the definition."""
    weight = sketched(tmp_path / "a", moved=moved)
    sketched(tmp_path / "b", moved=False)
    values = read_rank(tmp_path / "a" / "monitor" / "rank0")
    assert values.sketch is not None
    row = values.targets.index(("weight", "up.weight"))
    recorded = values.sketch[(values.step == 0) & (values.target == row)]
    assert np.array_equal(recorded[0], sketch_of(weight).numbers[:FLAT])
    names = {name for kind, name in values.targets if kind == "activation"}
    assert {"up", "up@0", "up@1"} <= names
    comparison = compare_monitors(tmp_path / "a", tmp_path / "b")
    if not moved:
        assert comparison.earliest is None
        return
    first = comparison.departures[0]
    assert (first.step, first.kind, first.name) == (1, "activation", "up")
    assert "has the other's norm but other elements" in verdict(comparison)


def test_what_mindspore_does_not_show_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CollectorError, match=r"monitor\.record names communication"):
        train(tmp_path, record=["communication"])
    with pytest.raises(CollectorError, match=r"names activation: call monitor\(optimizer, model\)"):
        train(tmp_path, record=["activation"])


def test_cells_are_measured_where_gradients_are_wanted(tmp_path: Path) -> None:
    """Two micro-batches are one step; what is computed without gradients is not of it."""
    kinds = ["input", "activation", "activation_gradient", "weight", "updated_weight"]
    section = {"formats": ["csv"], "record": kinds}
    content = {"task": "monitor", "dump_path": str(tmp_path / "run"), "monitor": section}
    (tmp_path / "config.json").write_text(json.dumps(content))
    net, random = Net(), np.random.default_rng(0)
    optimizer = nn.SGD(net.trainable_params(), learning_rate=0.125)
    debugger = PrecisionDebugger(str(tmp_path / "config.json"))
    debugger.monitor(optimizer, net)
    derive = ms.value_and_grad(lambda x: net(x).square().mean(), None, optimizer.parameters)
    given = random.normal(size=(2, 3, 4)).astype(np.float32)
    outputs = [net(Tensor(one)).asnumpy() for one in given]
    gradients = [derive(Tensor(one))[1] for one in given]
    optimizer(tuple(one + other for one, other in zip(*gradients, strict=True)))
    after = {one.name: float(np.linalg.norm(one.asnumpy())) for one in optimizer.parameters}
    debugger.stop()
    net(Tensor(given[0]))
    [path] = (tmp_path / "run" / "monitor" / "rank0").glob("values_step*.csv")
    rows = list(csv.DictReader(path.open(encoding="utf-8")))
    assert list(dict.fromkeys(row["kind"] for row in rows)) == [
        one for one in KINDS if one in kinds
    ]
    found = {f"{row['kind']} {row['name']}": float(row["norm"]) for row in rows}
    size = outputs[0].size
    wanted = {
        "input up": np.linalg.norm(given),
        "activation down": np.linalg.norm(outputs),
        "activation_gradient down": np.linalg.norm(outputs) * 2 / size,
        **{f"updated_weight {name}": norm for name, norm in after.items()},
    }
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, rel=1e-5)
