"""What the verdict says to record next is recorded, holds the culprit, and is as large as told."""

# mypy: disable-error-code="no-untyped-call"
# torch is typed in part only.

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from msprobe_collector import PrecisionDebugger
from tests.cases import REPEATED, tried_first
from tests.faults.case import Case
from tests.faults.planting import fault
from tests.faults.record import prepared
from tests.faults.scoring import score

# What the size may be off by, as docs/design/verdict.md tells: what modules call is a guess at L0.
FACTOR = 1.6
OF_MODULES = 2.5


@pytest.mark.parametrize(
    "case",
    tried_first(
        [
            Case("llama", "attention_scale", 1),
            Case("gpt2", "loss_summed", level="L0"),
            Case("tied", "inner_overflows", 1, summary="md5"),
            Case("vit", "norm_skipped", 1, level="L0"),
            Case("gpt2", "bias_missing", 1, level="L0"),
            Case("resnet", "slope_leaks", 1),
            Case("unet", "group_count", 1),
            Case("vit", "norm_skipped", 1),
        ],
        4,
        REPEATED,
    ),
    ids=lambda case: case.name,
)
def test_the_next_dump_is_accepted_and_as_large_as_told(case: Case, tmp_path: Path) -> None:
    found = score(case, tmp_path)
    following = found.verdict.next_dump
    assert following is not None
    first = found.verdict.suspects[0]
    for is_npu in (True, False):
        path = tmp_path / ("next" if is_npu else "next_bench")
        size, names = _record(case, following["config"], path, is_npu)
        assert names
        assert first.node in names or is_npu != (first.side == "npu")
        if is_npu:
            factor = OF_MODULES if case.level == "L0" else FACTOR
            assert size / factor < following["expected_bytes"] < size * factor
    torch.manual_seed(0)  # leave no seed of the case behind


def _record(case: Case, config: dict[str, Any], path: Path, is_npu: bool) -> tuple[int, list[str]]:
    """Bytes that the configuration made of one side, and the calls that it holds."""
    path.mkdir()
    file = path / "config.json"
    file.write_text(json.dumps(config | {"dump_path": str(path / "dump")}), encoding="utf-8")
    with fault(case.fault if is_npu else None, case.layer):
        model, step = prepared(replace(case, level="mix"), is_npu=is_npu)
        debugger = PrecisionDebugger(config_path=file)
        try:
            debugger.start(model)
            step()
            debugger.stop()
        finally:
            debugger.close()
    [directory] = (path / "dump").glob("step*/rank*")
    names = json.loads((directory / "dump.json").read_text(encoding="utf-8"))["data"]
    return sum(one.stat().st_size for one in directory.rglob("*") if one.is_file()), list(names)
