"""What a rank did not record of a tensor is not compared, and accuses nobody."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder import BuildConfig, build
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import read_verdict
from msprobe_builder.merge.detect import AutoLayout

STATISTICS = ("Max", "Min", "Mean", "Norm")
SPLITS = (
    ("megatron_tp2pp1", "megatron_tp1pp1"),
    ("megatron_tp1pp2", "megatron_tp1pp1"),
    ("context_cp2", "context_cp1"),
)


def tensors(value: Any) -> Iterator[dict[str, Any]]:
    """The records of all tensors within a record."""
    if isinstance(value, dict) and "Max" in value:
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from tensors(one)
    elif isinstance(value, list):
        for one in value:
            yield from tensors(one)


@pytest.mark.parametrize("lacking", [STATISTICS, ("Norm",), ("Max", "Min")], ids=" ".join)
@pytest.mark.parametrize("split", SPLITS, ids=lambda split: split[0])
def test_statistics_that_one_rank_lacks_accuse_nobody(
    dumps: Path, tmp_path: Path, split: tuple[str, str], lacking: tuple[str, ...]
) -> None:
    npu = tmp_path / "npu"
    shutil.copytree(dumps / split[0] / "step0", npu)
    path = npu / "rank1" / "dump.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    chosen = random.Random(3)  # noqa: S311 - no secret
    for one in tensors(content["data"]):
        if chosen.random() < 1 / 30:
            one.update(dict.fromkeys(lacking))
    path.write_text(json.dumps(content), encoding="utf-8")
    auto = AutoLayout()
    config = BuildConfig(npu, dumps / split[1] / "step0")
    config = replace(config, npu_layout=auto, bench_layout=auto)
    result = build(config, tmp_path / "out", workers=1)
    with opened(result.path) as connection:
        verdict = read_verdict(connection)
    assert verdict is not None
    assert [one.node for one in verdict.suspects if one.strength == "strong"] == []
    assert "replicas_disagree" not in {one.code for one in result.diagnostics}
    assert not any("nan" in one.evidence for one in verdict.suspects)
