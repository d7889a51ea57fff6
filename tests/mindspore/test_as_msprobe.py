"""Scripts of msprobe for MindSpore run as they stand: ``msprobe-run --as-msprobe``."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mindspore", reason="MindSpore is not installed: make test-mindspore")

import mindspore
from mindspore import Tensor, mint, nn, ops

from msprobe_collector.errors import CollectorError
from msprobe_collector.mindspore import PrecisionDebugger, seed_all
from tests.mindspore.recording import read_step

TRAIN = """
import mindspore as ms
import numpy as np
from mindspore import Tensor, mint, nn
from msprobe.mindspore import MsprobeInitStep, MsprobeStep, PrecisionDebugger, TrainerMon, seed_all
from msprobe.core.config_check import ConfigChecker

ms.set_device("CPU")
ms.set_context(mode=ms.PYNATIVE_MODE)
seed_all(seed=1234, mode=True, rm_dropout=True)
seed_all(seed=1234, mode=True)


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.up, self.down = mint.nn.Linear(4, 4), mint.nn.Linear(4, 2)
        self.drop = nn.Dropout(p=0.5)

    def construct(self, x):
        return self.down(self.drop(self.up(x)))


model = Net()
optimizer = nn.Adam(model.trainable_params(), 0.1)
debugger = PrecisionDebugger(config_path="config.json")
ConfigChecker(model=model, shell_path=[], output_zip_path="pack.zip", fmk="mindspore")
monitor = TrainerMon(config_file_path="monitor.json", params_have_main_grad=False)
monitor.set_monitor(model, grad_acc_steps=1, optimizer=optimizer, dp_group=None, tp_group=None)
data = ms.dataset.NumpySlicesDataset(
    {"x": np.ones((8, 4), np.float32), "y": np.zeros((8, 2), np.float32)}, shuffle=False
).batch(2)
trained = ms.Model(model, loss_fn=nn.MSELoss(), optimizer=optimizer)
callbacks = [MsprobeInitStep(), MsprobeStep(debugger)]
trained.train(1, data, callbacks=callbacks, dataset_sink_mode=False)
"""


def test_a_script_of_msprobe_records_itself(tmp_path: Path) -> None:
    config = {"task": "statistics", "dump_path": "dump", "rank": [], "step": [0, 2], "level": "mix"}
    watched = {"targets": {}, "format": "csv", "ops": ["norm"], "module_ranks": []}
    kinds = {"wg_distribution": True, "xy_distribution": True, "param_distribution": True}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "monitor.json").write_text(json.dumps(watched | kinds))
    (tmp_path / "train.py").write_text(TRAIN)
    program = "from msprobe_collector.run.command import main; raise SystemExit(main())"
    run = [sys.executable, "-c", program, "--as-msprobe"]
    place = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    answer = subprocess.run(
        [*run, "--", sys.executable, "train.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": place},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr
    assert sorted(path.name for path in (tmp_path / "dump").iterdir()) == ["step0", "step2"]
    for step in (0, 2):
        data = read_step(tmp_path / "dump" / f"step{step}" / "rank").data
        up, drop = data["Cell.up.Linear.forward.0"], data["Cell.drop.Dropout.forward.0"]
        assert drop["output"][0]["Norm"] == up["output"][0]["Norm"]  # it was removed
        assert "Cell.down.Linear.parameters_grad" in data
    assert (tmp_path / "pack.zip").exists()
    [values] = (tmp_path / "monitor_output" / "monitor" / "rank0").glob("values_step*.csv")
    rows = list(csv.DictReader(values.open(encoding="utf-8")))
    assert {row["step"] for row in rows} == {"0", "1", "2", "3"}
    assert {row["kind"] for row in rows} == {"weight", "activation", "gradient"}


def drawn() -> list[bytes]:
    ones = Tensor(np.ones(64, np.float32))
    found = [ops.standard_normal((4,)), ops.dropout(ones, 0.5), nn.Dropout(p=0.5)(ones)]
    return [*(tensor.asnumpy().tobytes() for tensor in found), np.random.rand(2).tobytes()]


def test_what_is_drawn_is_drawn_again_after_the_same_seed() -> None:
    seed_all(7)
    first = drawn()
    assert first != drawn()
    seed_all(7, mode=True)
    assert first == drawn()
    seed_all(8)
    assert first != drawn()


@pytest.mark.parametrize("seed", [-1, 2**32, "1", 1.5, True, None])
def test_a_wrong_seed_is_refused(seed: Any) -> None:
    with pytest.raises(CollectorError, match="choose a whole number"):
        seed_all(seed)


@pytest.mark.parametrize("rank", [-1, "1", True, 1.5])
def test_a_wrong_rank_is_refused(rank: Any, tmp_path: Path) -> None:
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="L1")
    with pytest.raises(CollectorError, match="rank_id"):
        debugger.start(rank_id=rank)


def test_a_rank_may_be_said(tmp_path: Path) -> None:
    debugger = PrecisionDebugger(dump_path=str(tmp_path), level="L1")
    debugger.start(rank_id=3)
    mint.tanh(Tensor(np.ones(2, np.float32)))
    debugger.stop()
    debugger.step()
    debugger.close()
    assert list(read_step(tmp_path / "step0" / "rank3").data) == ["Mint.tanh.0.forward"]
    assert mindspore.get_context("mode") == mindspore.PYNATIVE_MODE
