"""Splits of other trainings: recomputation, uneven stages, a pipeline written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from merge_causes import other_cause
from merge_truth import OTHER_SPLITS, Agreement, Split, cause_lines, compare_split, table_lines

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def found(dumps: Path) -> dict[str, list[Agreement]]:
    return {split.name: compare_split(dumps, split) for split in OTHER_SPLITS}


@pytest.fixture(params=OTHER_SPLITS, ids=lambda split: split.name)
def agreement(request: pytest.FixtureRequest, found: dict[str, list[Agreement]]) -> Agreement:
    split = request.param
    assert isinstance(split, Split)
    (one,) = found[split.name]
    return one


def test_every_difference_has_a_known_cause(agreement: Agreement) -> None:
    assert [item for item in agreement.findings if other_cause(item) is None] == []


def test_every_module_is_there_once_in_its_order_and_micro_step(agreement: Agreement) -> None:
    kinds = ("missing", "extra", "micro-step", "missing tensor", "extra tensor", "away")
    wrong = [item for item in agreement.findings if item.kind in kinds]
    assert [item for item in wrong if item.call.startswith("Module.")] == []
    assert [item for item in wrong if item.kind == "micro-step"] == []


def test_ranks_that_agree_raise_no_finding(agreement: Agreement) -> None:
    codes = {found.code for found in agreement.diagnostics}
    assert codes <= {"released_from_backward", "call_without_record"}


def test_the_document_shows_the_current_numbers(found: dict[str, list[Agreement]]) -> None:
    document = (REPOSITORY / "benchmarks" / "results" / "parallel-merge.md").read_text(
        encoding="utf-8"
    )
    assert "\n".join(table_lines(found, other_cause)) in document
    assert "\n".join(cause_lines(found, other_cause)) in document
