"""What the verdict says to record next is recorded, holds the culprit, and is as large as told."""

# mypy: disable-error-code="no-untyped-call"
# torch is typed in part only.

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from msprobe_collector import PrecisionDebugger
from tests.faults.case import Case
from tests.faults.planting import fault
from tests.faults.record import prepared
from tests.faults.scoring import score

FACTOR = 2.0  # what the size may be off by, as docs/verdict.md tells


@pytest.mark.parametrize(
    "case",
    [
        Case("llama", "attention_scale", 1),
        Case("gpt2", "bias_missing", 1, level="L0"),
        Case("gpt2", "loss_summed", level="L0"),
        Case("resnet", "slope_leaks", 1),
        Case("tied", "inner_overflows", 1, summary="md5"),
    ],
    ids=lambda case: case.name,
)
def test_the_next_dump_is_accepted_and_as_large_as_told(case: Case, tmp_path: Path) -> None:
    found = score(case, tmp_path)
    following = found.verdict.next_dump
    assert following is not None
    config = following["config"] | {"dump_path": str(tmp_path / "next")}
    path = tmp_path / "next.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    with fault(case.fault, case.layer):
        model, step = prepared(replace(case, level="mix"), is_npu=True)
        debugger = PrecisionDebugger(config_path=path)
        try:
            debugger.start(model)
            step()
            debugger.stop()
        finally:
            debugger.close()
    [directory] = (tmp_path / "next").glob("step*/rank*")
    names = json.loads((directory / "dump.json").read_text(encoding="utf-8"))["data"]
    assert found.verdict.suspects[0].node in names
    size = sum(one.stat().st_size for one in directory.rglob("*") if one.is_file())
    print(case.name, size, following["expected_bytes"])
    assert size / FACTOR < following["expected_bytes"] < size * FACTOR
    torch.manual_seed(0)  # leave no seed of the case behind
