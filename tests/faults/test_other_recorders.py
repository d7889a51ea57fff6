"""Two dumps of one training, by recorders that measure some tensors otherwise."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from msprobe_builder import BuildConfig, build
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import Verdict, read_verdict
from tests.collector.recording import record
from tests.conftest import REPOSITORY, unpacked
from tests.faults.judging import verdict_on

Records = dict[str, Any]


class Tagger(nn.Module):
    """A residual whose branch is left out by ``nn.Identity``, as configurable blocks do."""

    def __init__(self, *, scale: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.words = nn.Embedding(20, 8)
        self.norm = nn.LayerNorm(8)
        self.skip = nn.Identity()
        self.head = nn.Linear(8, 5)
        self.scale = scale

    def forward(self, words: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.words(words)
        x = self.norm(x).tanh() * self.scale + self.skip(x)
        scores = self.head(x).flatten(0, 1)
        loss: torch.Tensor = nn.functional.cross_entropy(scores, labels.flatten())
        return loss


def _train(model: nn.Module) -> None:
    words, labels = torch.arange(15).reshape(3, 5), torch.arange(15).reshape(3, 5) * 7 % 5
    model(words, labels).backward()


def _judged(folder: Path, model: nn.Module, change: Callable[[Records], None]) -> Verdict:
    """The verdict on a model, beside one whose records another recorder has made."""
    for side, one in (("npu", model), ("bench", Tagger())):
        record(folder / side, partial(_train, one), one)
    (path,) = (folder / "bench").rglob("dump.json")
    dump = json.loads(path.read_text())
    del dump["argument_gradients"]
    change(dump["data"])
    path.write_text(json.dumps(dump))
    return verdict_on(folder / "npu" / "dump", folder / "bench" / "dump", folder / "out")


def _give_the_share(records: Records) -> None:
    """The gradient of what ``nn.Identity`` hands on: of its use there, not of all who use it."""
    share = records["Tensor.__add__.0.backward"]["output"][1]
    identity = records["Module.skip.Identity.backward.0"]
    assert identity["input"][0]["Norm"] != share["Norm"]
    identity["input"] = identity["output"] = [share]


def _sum_in_single(records: Records) -> None:
    """Mean and norm of whole numbers, off by two steps of float32."""
    for one in records.values():
        for tensor in (*one.get("input_args", ()), *one.get("output", ())):
            if isinstance(tensor, dict) and tensor.get("dtype") == "torch.int64":
                for name in ("Mean", "Norm"):
                    off = np.nextafter(np.nextafter(np.float32(tensor[name]), np.inf), np.inf)
                    tensor[name] = float(off)


def test_a_share_of_a_gradient_is_no_other_tensor(tmp_path: Path) -> None:
    verdict = _judged(tmp_path, Tagger(), _give_the_share)
    assert verdict.conclusion != "fault"
    assert not [one for one in verdict.suspects if one.strength == "strong"]


def test_counts_that_were_summed_in_single_precision_are_no_other_choice(tmp_path: Path) -> None:
    verdict = _judged(tmp_path, Tagger(), _sum_in_single)
    assert (verdict.conclusion, verdict.suspects) == ("clean", ())


def test_a_fault_is_named_all_the_same(tmp_path: Path) -> None:
    def change(records: Records) -> None:
        _give_the_share(records)
        _sum_in_single(records)

    first = _judged(tmp_path, Tagger(scale=1.5), change).suspects[0]
    assert (first.node, first.strength) == ("Tensor.__mul__.1.forward", "strong")


def test_gradients_that_one_recorder_adds_up_are_no_partners(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    runs = unpacked(tmp_path_factory, "recorders", REPOSITORY / "tests" / "data" / "recorders")
    npu, bench = runs / "accumulated" / "npu", runs / "accumulated" / "bench"
    path = build(BuildConfig(npu, bench), tmp_path, workers=1).path
    with opened(path) as connection:
        verdict = read_verdict(connection)
        pairs = dict(
            connection.execute(
                "SELECT npu.name, bench.name FROM match"
                " JOIN node_name AS npu ON npu.node_id = npu_node"
                " JOIN node_name AS bench ON bench.node_id = bench_node"
            )
        )
        errors = connection.execute("SELECT max(error) FROM node").fetchone()
    assert verdict is not None
    assert (verdict.conclusion, verdict.suspects) == ("clean", ())
    # A norm of the mask left the range of float32 in one of the records alone.
    assert errors[0] < 1e-3
    gradients = {name: other for name, other in pairs.items() if "parameters_grad" in name}
    assert len(gradients) == 21  # those of the first pass
    assert all(name == other and name.endswith(".0") for name, other in gradients.items())
    with (bench / "dump.json").open(encoding="utf-8") as file:
        calls = {one for one in json.load(file)["data"] if not one.endswith("parameters_grad.1")}
    assert calls <= set(pairs.values())
