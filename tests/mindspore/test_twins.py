"""Recorded here, a model in MindSpore meets its PyTorch twin, recorded by the established tool."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mindspore", reason="MindSpore is not installed: make test-mindspore")

from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import read_verdict
from tests.alignment.score import partners
from tests.conftest import PAIR_ARCHIVES, BuildDatabase
from tests.mindspore.recording import Recorded, gradients, record
from tests.mindspore.twins import MICRO_BATCHES, cnn, llama, micro_batches


def step_of(folder: Path, model: Any, **keys: Any) -> Recorded:
    """One step of two micro-batches, as the twin was recorded."""
    run = gradients(lambda x, y: model(x, y) / MICRO_BATCHES, model.trainable_params())

    def train() -> None:
        for x, y in micro_batches(model):
            run(x, y)

    return record(folder, model, train, **keys)


# The twin was recorded with other class names, which are part of the names of calls.
CLASSES = {
    "RMSNorm": "LlamaRMSNorm",
    "RotaryEmbedding": "LlamaRotaryEmbedding",
    "Attention": "LlamaAttention",
    "MLP": "LlamaMLP",
    "DecoderLayer": "LlamaDecoderLayer",
    "Model": "LlamaModel",
    "Block": "ConvBlock",
}


def established(name: str) -> str:
    return ".".join(CLASSES.get(part, part) for part in name.split("."))


@pytest.mark.parametrize(("name", "make"), [("llama", llama), ("cnn", cnn)])
def test_every_cell_and_call_finds_its_twin(
    tmp_path: Path, pairs: Path, name: str, make: Any
) -> None:
    ours = step_of(tmp_path / "ours", make())
    known = json.loads((PAIR_ARCHIVES / f"ms_{name}_truth.json").read_text("utf-8"))
    there = {established(call): call for call in ours.data}
    truth = {**known["modules"], **known["apis"]}
    # The twin's images were converted in the window, ours need no conversion.
    truth = {call: twin for call, twin in truth.items() if not call.startswith("Tensor.to.")}
    right = {there[call]: twin for call, twin in truth.items() if call in there}
    assert len(right) == len(truth), sorted(set(truth) - set(there))
    found = partners(ours.folder, pairs / f"pt_{name}_mix_stat" / "step0" / "rank")
    assert {call: found.get(call) for call in right} == right


def test_equal_models_show_no_fault_and_a_wrong_scale_does(
    tmp_path: Path, pairs: Path, build_database: BuildDatabase
) -> None:
    twin = pairs / "pt_llama_mix_stat" / "step0" / "rank"
    right = step_of(tmp_path / "right", llama())
    with opened(build_database(right.folder, twin)) as connection:
        worse = connection.execute(
            "SELECT name FROM node_view WHERE side = 'npu' AND kind != 'collection'"
            " AND grade IN ('moderate', 'serious', 'severe')"
        ).fetchall()
    assert worse == []
    wrong = step_of(tmp_path / "wrong", llama(fault=True))
    with opened(build_database(wrong.folder, twin)) as connection:
        verdict = read_verdict(connection)
    assert verdict is not None
    assert verdict.suspects[0].node == "Mint.mul.17.forward"


def test_the_established_recorder_saw_the_same_numbers(tmp_path: Path, pairs: Path) -> None:
    """But for what it misses or puts in another order, which the builder's own tests name."""
    ours = step_of(tmp_path / "ours", llama())
    folder = pairs / "ms_llama_mix_stat" / "step0" / "rank"
    theirs = json.loads((folder / "dump.json").read_text("utf-8"))["data"]
    compared = 0
    for name, mine in ours.data.items():
        other = theirs.get(established(name))
        if other is None or ".forward" not in name:
            continue
        for item, twin in zip(mine["output"], other["output"], strict=True):
            if "Max" in item:
                compared += 1
                for key in ("Max", "Min", "Mean", "Norm"):
                    assert item[key] == pytest.approx(twin[key], rel=1e-5, abs=1e-6), (name, key)
    assert compared > 280
