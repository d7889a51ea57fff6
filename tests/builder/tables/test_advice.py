"""Advice beside a verdict: it does not call good what the verdict accuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from msprobe_builder.command.main import main
from msprobe_builder.facts.wording import tell
from msprobe_builder.tables.export import TableOptions, export_tables
from tests.builder.small_dumps import forward, tensor, write_dump
from tests.cases import REPEATED, tried_first
from tests.conftest import BuildDatabase


@pytest.mark.parametrize(
    "run", tried_first(["llama_tensor_wrong_attention_scale", "llama_tensor"], 1, REPEATED)
)
def test_advice_agrees_with_the_verdict(
    run: str, dumps: Path, build_database: BuildDatabase, tmp_path: Path
) -> None:
    sides = (dumps / name / "step0" / "rank" for name in (run, "llama_tensor"))
    [table] = export_tables(build_database(*sides), tmp_path, TableOptions(form="csv"))
    advice = table.advice
    assert table.bad == 0  # the documented limits are absolute, and these numbers are small
    is_wrong = "wrong" in run
    assert advice.advice.code == ("advice.no_line" if is_wrong else "advice.all_good")
    told = [tell(one) for one in advice.evidence]
    assert any(one.startswith("Tensor.__mul__.19.forward: ") for one in told) is is_wrong


def test_inputs_that_differ_within_the_limits_are_not_called_equal(
    build_database: BuildDatabase, tmp_path: Path
) -> None:
    name = "Functional.avg_pool2d.0.forward"
    sides = [
        write_dump(tmp_path / side, {name: forward([tensor(given)], [tensor(made)])})
        for side, given, made in (("npu", 1.4, 3.0), ("bench", 1.0, 1.0))
    ]
    [table] = export_tables(build_database(*sides), tmp_path, TableOptions(form="csv"))
    assert table.advice.suspect == f"{name}.output.0"
    assert "whether its inputs differ" in tell(table.advice.advice)
    assert "equal" not in tell(table.advice.advice)


def test_what_is_said_in_a_table_is_in_the_language_spoken(
    build_database: BuildDatabase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "Functional.avg_pool2d.0.forward"
    sides = [
        write_dump(tmp_path / side, {name: forward([tensor(1.0)], [tensor(made, high=made)])})
        for side, made in (("npu", 3.0), ("bench", 1.0))
    ]
    command = ["table", str(build_database(*sides)), "-o", str(tmp_path), "--format", "csv", "-hl"]
    assert main([*command, "--language", "zh"]) == 0
    [sheet] = tmp_path.glob("compare_result_*.csv")
    said = f"{sheet}：2 行，比较了 2 行，1 行未通过，首个为 {name}.output.0"
    assert capsys.readouterr().out.splitlines()[-1] == said
    rows = sheet.read_text("utf-8")
    assert "有一项统计量相差一半以上：请检查这次调用。最大值相差 50 % 以上。" in rows
    [advice] = tmp_path.glob("advisor_*.txt")
    assert "Expert Advice: 它的输入在文档规定的范围内，而它自己不在：" in advice.read_text("utf-8")
    told = json.loads(advice.with_suffix(".json").read_text("utf-8"))
    assert told["advice"].startswith("What it was given is within the documented limits")
    assert told["facts"]["advice"] == [{"code": "advice.call"}]
