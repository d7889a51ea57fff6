"""Advice beside a verdict: it does not call good what the verdict accuses."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    assert ("meets the requirements" in advice.advice) is not is_wrong
    assert ("the verdict on this run names a suspect" in advice.advice) is is_wrong
    assert any(one.startswith("Tensor.__mul__.19.forward: ") for one in advice.evidence) is is_wrong


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
    assert "whether its inputs differ" in table.advice.advice
    assert "equal" not in table.advice.advice
