"""Values that were saved one by one: debug.json."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import msprobe_builder
from msprobe_builder.base.errors import BuildError
from msprobe_builder.command.main import main
from tests.builder.small_dumps import forward, number, tensor, write_dump


def save(directory: Path, data: dict[str, Any]) -> Path:
    """A debug.json as ``PrecisionDebugger.save`` writes it."""
    directory.mkdir(parents=True, exist_ok=True)
    content = {"task": "statistics", "level": "debug", "framework": "pytorch", "data": data}
    (directory / "debug.json").write_text(json.dumps(content | {"dump_data_dir": None}))
    return directory / "debug.json"


def values(norm: float) -> dict[str, Any]:
    one = tensor(norm, high=norm)
    return {
        "y.0.debug": one,
        "y_grad.0.debug": None,
        "pair.0.debug": [one, tensor(1.0)],
        "single.0.debug": [tensor(1.0)],
        "tree.0.debug": {"a": tensor(1.0), "b": [tensor(1.0), number(3.5)], "c": {"d": one}},
        "scale.0.debug": number(2.5),
    }


NAMES = [
    *("y.0.debug", "y_grad.0.debug", "pair.0.debug.0", "pair.0.debug.1", "single.0.debug.0"),
    *("tree.0.debug.a", "tree.0.debug.b.0", "tree.0.debug.b.1", "tree.0.debug.c.d"),
    "scale.0.debug",
]  # as msprobe 8.3.3 names them


def test_saved_values_compare_like_calls(tmp_path: Path) -> None:
    params = {
        "npu_path": save(tmp_path / "npu", values(4.0)),
        "bench_path": save(tmp_path / "bench", values(1.0)),
    }
    table = msprobe_builder.compare(params, tmp_path / "out")
    assert table["NPU Name"].tolist() == table["Bench Name"].tolist() == NAMES
    bad = table["NPU Name"][table["Result"] == "Warning"].tolist()
    assert bad == ["y.0.debug", "pair.0.debug.0", "tree.0.debug.c.d"]
    by_name = table.set_index("NPU Name")
    assert by_name["Max diff"]["y.0.debug"] == 3.0
    assert by_name["NPU max"]["scale.0.debug"] == 2.5
    assert by_name["NPU Dtype"]["y_grad.0.debug"] == "None"
    assert list((tmp_path / "out").glob("debug_compare_result_*.xlsx"))
    [advice] = (tmp_path / "out").glob("debug_advisor_*.txt")
    assert "Suspect Nodes: y.0.debug\n" in advice.read_text()


def test_ranks_with_both_kinds_have_both_tables(tmp_path: Path) -> None:
    for side, norm in (("npu", 4.0), ("bench", 1.0)):
        for rank in (0, 1):
            save(tmp_path / side / f"rank{rank}", values(norm))
        call = {"Torch.add.0.forward": forward([tensor(1.0)], [tensor(1.0)])}
        write_dump(tmp_path / side / "rank1", call)
        write_dump(tmp_path / side / "rank0", call)
    compare = tmp_path / "compare.json"
    compare.write_text(json.dumps({f"{s}_path": str(tmp_path / s) for s in ("npu", "bench")}))
    out = tmp_path / "out"
    arguments = ["-i", str(compare), "-o", str(out), "--format", "csv", "-c", "--quiet"]
    assert main(["table", *arguments]) == 0
    found = sorted(path.name.rpartition("_")[0] for path in out.iterdir())
    assert found == [
        *("compare_result_rank0", "compare_result_rank1"),
        *("debug_compare_result_rank0", "debug_compare_result_rank1"),
    ]
    [path] = out.glob("debug_compare_result_rank1_*")
    with path.open(newline="", encoding="utf-8") as stream:
        assert [row["NPU Name"] for row in csv.DictReader(stream)] == NAMES


def test_calls_are_not_compared_with_saved_values(tmp_path: Path) -> None:
    saved = save(tmp_path / "npu", values(1.0))
    calls = write_dump(tmp_path / "bench", {"Torch.add.0.forward": forward([], [tensor(1.0)])})
    params = {"npu_path": saved, "bench_path": calls / "dump.json"}
    with pytest.raises(BuildError, match=r"has debug\.json and .* has dump\.json"):
        msprobe_builder.compare(params, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "cut off"), ("[]", "no object 'data'"), ('{"data": {}}', "the key 'task' is missing")],
)
def test_a_damaged_file_is_said_in_a_sentence(tmp_path: Path, text: str, words: str) -> None:
    saved = save(tmp_path / "bench", values(1.0))
    broken = save(tmp_path / "npu", values(1.0))
    broken.write_text(text)
    with pytest.raises(BuildError, match=words):
        msprobe_builder.compare({"npu_path": broken, "bench_path": saved}, tmp_path / "out")
