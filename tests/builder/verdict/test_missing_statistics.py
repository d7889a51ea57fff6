"""Tensors whose statistics one side lacks: what nobody compared accuses nobody for certain."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import read_verdict
from tests.conftest import BuildDatabase

WRONG, NEXT = "Tensor.__mul__.19.forward", "Tensor.__add__.13.forward"
STATISTICS = ("Max", "Min", "Mean", "Norm")


def _tensors(value: Any) -> list[dict[str, Any]]:
    """Every tensor in a record."""
    if isinstance(value, dict) and value.get("type") == "torch.Tensor":
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [tensor for part in parts for tensor in _tensors(part)]


def test_who_is_given_what_one_side_has_no_statistics_of_is_no_strong_suspect(
    dumps: Path, build_database: BuildDatabase, tmp_path: Path
) -> None:
    npu, bench = (
        shutil.copytree(dumps / name / "step0" / "rank", tmp_path / name)
        for name in ("llama_statistics_wrong_attention_scale", "llama_statistics")
    )
    data = json.loads((npu / "dump.json").read_text())
    theirs = json.loads((bench / "dump.json").read_text())
    data["data"][WRONG]["input_args"] = theirs["data"][WRONG]["input_args"]  # nothing tells why
    [lost] = _tensors(theirs["data"][WRONG]["output"])
    identity = [lost[one] for one in STATISTICS]
    for tensor in _tensors(theirs["data"]):
        if [tensor[one] for one in STATISTICS] == identity:
            tensor.update(dict.fromkeys(STATISTICS))
    (npu / "dump.json").write_text(json.dumps(data))
    (bench / "dump.json").write_text(json.dumps(theirs))
    with opened(build_database(npu, bench)) as connection:
        verdict = read_verdict(connection)
    assert verdict is not None
    assert not [one for one in verdict.suspects if (one.node, one.strength) == (NEXT, "strong")]
    assert "merging" not in verdict.sentence
