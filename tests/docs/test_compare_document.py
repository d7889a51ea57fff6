"""The examples of msprobe's guide to comparing run as they stand: one card, many, communication."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from msprobe_builder import compare
from msprobe_builder.base.errors import BuildError
from tests.builder.small_dumps import write_dump
from tests.collector.recording import read_dump
from tests.collector.run.test_command import recorded

TRAIN = """
import os, sys
import torch
from torch import nn
from msprobe.pytorch import PrecisionDebugger
if "RANK" in os.environ:
    torch.distributed.init_process_group("gloo")
debugger = PrecisionDebugger(config_path="./config.json", dump_path=sys.argv[1])
torch.manual_seed(0)
model = nn.Linear(4, 4)
debugger.start()
hidden = torch.nn.functional.gelu(model(torch.ones(2, 4)))
debugger.stop()
debugger.start()
result = torch.softmax(hidden * (0.5 if "npu" in sys.argv[1] else 0.25), dim=-1)
if "RANK" in os.environ:
    torch.distributed.all_reduce(result)
debugger.stop()
debugger.step()
if "RANK" in os.environ:  # else threads of gloo abort some ranks at their end
    torch.distributed.destroy_process_group()
"""
COMPARE = """
from msprobe.pytorch import compare
input_param={
"npu_json_path": "./npu_dump/dump.json",
"bench_json_path": "./bench_dump/dump.json",
"stack_json_path": "./npu_dump/stack.json",
"is_print_compare_log": True
}
compare(input_param, output_path="./output", stack_mode=True)
"""
COMPARE_DISTRIBUTED = """
from msprobe.pytorch import *
compare_distributed('./npu_dump/step0', './bench_dump/step0', './output')
"""
IN_TWO = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def config(wanted: list[str]) -> dict[str, Any]:
    section = {"scope": [], "list": wanted, "data_mode": ["all"], "summary_mode": "statistics"}
    return {
        "task": "tensor",
        "dump_path": "./npu_dump",
        "rank": [],
        "step": [],
        "level": "L1",
        "seed": 1234,
        "is_deterministic": False,
        "tensor": section,
    }


def dump_both(here: Path, wanted: list[str], *launcher: str) -> None:
    (here / "config.json").write_text(json.dumps(config(wanted)))
    (here / "train.py").write_text(TRAIN)
    for side in ("./npu_dump", "./bench_dump"):
        run(here, *launcher, "train.py", side)


def run(here: Path, *words: str) -> str:
    answer = recorded("--as-msprobe", "--", sys.executable, *words, folder=here)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout + answer.stderr


def rows_of(path: Path) -> dict[str, dict[str, Any]]:
    """The rows of a table by name."""
    sheet = openpyxl.load_workbook(path, read_only=True).active
    assert sheet is not None
    head, *rows = sheet.iter_rows(values_only=True)
    return {str(row[0]): dict(zip(map(str, head), row, strict=True)) for row in rows}


@pytest.mark.parametrize("place", ["", "step0/rank/"], ids=["as documented", "where it lies"])
def test_one_card_is_compared_and_advised_on(tmp_path: Path, place: str) -> None:
    dump_both(tmp_path, [])
    (tmp_path / "compare.py").write_text(COMPARE.replace("dump/", f"dump/{place}"))
    run(tmp_path, "compare.py")
    [table] = (tmp_path / "output").glob("compare_result_*.xlsx")
    [advice] = (tmp_path / "output").glob("advisor_*.txt")
    rows = rows_of(table)
    assert rows["Functional.gelu.0.forward.output.0"]["Accuracy Reached or Not"] == "Yes"
    assert rows["Tensor.__mul__.0.forward.output.0"]["MaxAbsErr"] != 0
    assert rows["Torch.softmax.0.forward.output.0"]["MaxAbsErr"] != 0
    assert "train.py" in str(rows["Torch.softmax.0.forward.input.0"])  # the stacks were asked for
    assert "Suspect Nodes" in advice.read_text()


def test_of_several_dumps_one_has_to_be_named(tmp_path: Path) -> None:
    ranks = [tmp_path / "npu_dump" / "step0" / f"rank{rank}" for rank in (0, 1)]
    for folder in (*ranks, tmp_path / "bench_dump" / "step0" / "rank"):
        write_dump(folder, {})
    given = {f"{side}_json_path": tmp_path / f"{side}_dump/dump.json" for side in ("npu", "bench")}
    with pytest.raises(BuildError, match="name one of the 2 below it"):
        compare(given, tmp_path / "output")
    given["npu_json_path"] = tmp_path / "none" / "dump.json"
    with pytest.raises(BuildError, match="does not exist; correct the path"):
        compare(given, tmp_path / "output")


@pytest.mark.parametrize("wanted", [[], ["distributed"]], ids=["all", "communication"])
def test_ranks_are_compared_each_with_its_own(tmp_path: Path, wanted: list[str]) -> None:
    dump_both(tmp_path, wanted, *IN_TWO)
    names = set(read_dump(tmp_path / "npu_dump" / "step0" / "rank1").data)
    assert "Distributed.all_reduce.0.forward" in names
    assert ("Functional.gelu.0.forward" in names) == (not wanted)
    (tmp_path / "compare_distributed.py").write_text(COMPARE_DISTRIBUTED)
    run(tmp_path, "compare_distributed.py")
    for rank in (0, 1):
        [table] = (tmp_path / "output").glob(f"compare_result_rank{rank}*.xlsx")
        [reduced] = [
            row for name, row in rows_of(table).items() if "all_reduce" in name and "output" in name
        ]
        assert reduced["MaxAbsErr"] != 0
