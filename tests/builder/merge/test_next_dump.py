"""What to record next of a merged run: on the ranks that hold a suspect, by names they have."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from msprobe_builder import BuildConfig, build
from msprobe_builder.merge.ranks.layout import parse_layout
from tests.worded import worded

# As the ranks of the second stage call it: it is the fourth layer of the model.
CULPRIT = "Module.0.decoder.layers.1.mlp.linear_fc2.RowParallelLinear.forward.0"
MERGED = "Module.0.decoder.layers.3.mlp.linear_fc2 → Tensor.view_as.8.forward"


def _larger(record: Any) -> None:
    if isinstance(record, dict):
        for key in ("Max", "Min", "Mean", "Norm"):
            if isinstance(record.get(key), float):
                record[key] *= 1.3
        record = [one for key, one in record.items() if key != "parameters"]  # which are right
    if isinstance(record, list):
        for one in record:
            _larger(one)


def _takes_tensors(record: dict[str, Any]) -> bool:
    given = [*(record.get("input_args") or ()), *(record.get("input") or ())]
    return any(isinstance(one, dict) and "dtype" in one for one in given)


@pytest.fixture(scope="module")
def second_stage_is_off(dumps: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four ranks whose last two put out more, from the second layer of theirs on."""
    folder = tmp_path_factory.mktemp("stage") / "step0"
    shutil.copytree(dumps / "megatron_tp2pp2" / "step0", folder)
    for rank in (2, 3):
        path = folder / f"rank{rank}" / "dump.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        names = [*content["data"]]
        place = names.index(CULPRIT)
        last = max(at for at, name in enumerate(names) if name.startswith("Module."))
        behind = names[last + 1 :]
        for name in names[place - 1 : place + 1]:  # the last call inside is recorded before it
            _larger(content["data"][name]["output"])
        for name in names[place + 1 :]:
            record = content["data"][name]
            if not _takes_tensors(record) or name in behind:
                continue  # it makes numbers of nothing, or norms that would follow from nothing
            module = name.partition(".forward.")[0].rpartition(".")[0]
            _larger(record.get("output") if CULPRIT.startswith(f"{module}.") else record)
        path.unlink()
        path.write_text(json.dumps(content), encoding="utf-8")
    return folder


def test_a_suspect_of_a_stage_is_recorded_on_its_ranks_under_their_names(
    second_stage_is_off: Path, dumps: Path, tmp_path: Path
) -> None:
    result = build(
        BuildConfig(
            second_stage_is_off,
            dumps / "megatron_tp1pp1" / "step0",
            npu_layout=parse_layout({"rank_size": 4, "tp": 2, "pp": 2}, ""),
            bench_layout=parse_layout({"rank_size": 1, "tp": 1, "pp": 1}, ""),
        ),
        tmp_path,
        workers=1,
    )
    with closing(sqlite3.connect(result.path)) as connection:
        [(sentence, text)] = worded(
            connection.execute(
                "SELECT sentence, next_dump FROM verdict WHERE next_dump IS NOT NULL"
            )
        )
    assert MERGED in sentence.partition(": ")[0]
    config = json.loads(text)["config"]
    assert config["rank"] == [2, 3]
    for rank in (2, 3):
        path = second_stage_is_off / f"rank{rank}" / "dump.json"
        names = json.loads(path.read_text(encoding="utf-8"))["data"]
        for listed in config["tensor"]["list"]:
            assert any(listed in name for name in names)
        assert any(listed in CULPRIT for listed in config["tensor"]["list"])
